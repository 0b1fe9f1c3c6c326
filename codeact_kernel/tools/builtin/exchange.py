"""One request over HTTP and its answer, bounded.

Comes in: an address and what is sent there. Goes out: the answer and its bytes. What goes wrong is a `ToolError`.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Mapping
from typing import Any

import httpx

from codeact_kernel._version import __version__
from codeact_kernel.errors import ToolError
from codeact_kernel.tools.passage import check_reach

LARGEST = 10 * 2**20
"""Bytes of one answer, unpacked. Ours: what is larger is a file to be downloaded by the block, not to be read."""
REDIRECTS = 20
"""Redirects in a row; the Fetch standard's limit (HTTP-redirect fetch)."""


class Refused(ToolError):
    """A server has answered with an error.

    Args:
        message: What it said.
        status: The status, 400 or above, or a redirect's.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


async def exchange(
    url: str, headers: Mapping[str, str], *, body: Any = None, redirects: bool = True
) -> tuple[httpx.Response, bytes]:
    """Send a request and read the answer.

    Args:
        url: The address.
        headers: More headers; they count over ours.
        body: Sent as JSON, by POST; None for GET.
        redirects: Whether redirects are followed; else one is an error.

    Returns:
        The answer, also one that tells of an error, and its content.

    Raises:
        ToolError: If the server cannot be reached, or sends more than `LARGEST`.
    """
    try:
        return await _exchange(url, headers, body, redirects)
    except httpx.TooManyRedirects as error:
        raise ToolError(f"{url} redirects more than {REDIRECTS} times") from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TypeError, ValueError) as error:
        raise ToolError(f"{url} cannot be fetched: {error or type(error).__name__}") from error


async def _exchange(
    url: str, headers: Mapping[str, str], body: Any, redirects: bool
) -> tuple[httpx.Response, bytes]:
    asked: set[str] = set()

    async def check(request: httpx.Request) -> None:
        """See that a redirect leads where this call may go; the first address was judged with the call."""
        if asked and request.url.host not in asked:
            await check_reach(str(request.url))
        asked.add(request.url.host)

    ours = {"user-agent": f"codeact-kernel/{__version__}"}
    async with (
        httpx.AsyncClient(
            headers={**ours, **headers},
            follow_redirects=redirects,
            max_redirects=REDIRECTS,
            timeout=None,
            verify=_certificates(),
            event_hooks={"request": [check]},
        ) as client,
        client.stream("GET" if body is None else "POST", url, json=body) as response,
    ):
        data = bytearray()
        async for piece in response.aiter_bytes():
            data += piece
            if len(data) > LARGEST:
                raise ToolError(
                    f"{url} sends more than {LARGEST} bytes; download it in the block, piece by piece, into a file"
                )
    return response, bytes(data)


def check_status(url: str, response: httpx.Response, data: bytes) -> None:
    """See that an answer is what was asked for.

    Args:
        url: Where it is from.
        response: The answer.
        data: Its content.

    Raises:
        Refused: If it tells of an error (400 or above), or is a redirect that was not followed.
    """
    if response.status_code >= 400 or response.has_redirect_location:
        said = " ".join(data[:2000].decode("utf-8", "replace").split())[:300]
        text = f"{url} answered {response.status_code} {response.reason_phrase}: {said}"
        raise Refused(text, response.status_code)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes as long as a request to a near server."""
    return httpx.create_ssl_context()
