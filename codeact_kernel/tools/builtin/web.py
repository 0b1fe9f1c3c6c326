"""Pages and files of the web, as a tool.

Comes in: an address from a block. Goes out: what is there, as text, data or bytes.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.builtin.exchange import check_status, exchange
from codeact_kernel.tools.builtin.readable import readable

TIMEOUT = 30.0
"""Seconds for all of it. Ours: slower servers exist, and the block can say so."""
FORMS = ("auto", "text", "json", "bytes")
_TEXTS = re.compile(r"text/|.*[/+](xml|javascript|yaml|toml|x-sh|csv)$")
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset=["']?([\w-]+)""", re.IGNORECASE)
_SNIFFED = 1024
"""Bytes of a page in which its encoding stands; the HTML standard's own number."""


async def fetch(
    url: str, form: str = "auto", headers: dict[str, str] | None = None, timeout: float = TIMEOUT
) -> Any:
    """Get a page as readable text, JSON as data, other text as a string, else bytes.

    Redirects are followed. Readable text is Markdown, with the links.

    Args:
        url: The address.
        form: "auto" goes by the content type; "text" gives the text as it is (HTML with its tags), "json" data,
            "bytes" bytes.
        headers: More headers of the request.
        timeout: Seconds for all of it.

    Raises:
        ToolError: If the server cannot be reached, answers with an error (400 or above), or sends more than 10 MiB.
    """
    if form not in FORMS:
        raise ToolError(f"form={form!r}: it is one of {', '.join(FORMS)}")
    try:
        async with asyncio.timeout(timeout):
            response, data = await exchange(url, headers or {})
            check_status(url, response, data)
            return await _content(response, data, form)
    except TimeoutError as error:
        raise ToolError(
            f"{url} took longer than {timeout:g} s; pass a longer timeout, or try later"
        ) from error


async def _content(response: httpx.Response, data: bytes, form: str) -> Any:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    html = kind in ("text/html", "application/xhtml+xml")
    if form == "bytes":
        return data
    if form == "json" or (form == "auto" and re.fullmatch(r".*[/+]json", kind)):
        return _json(response, data)
    text = _text(response, data, html)
    if form == "auto" and html:
        try:
            return await asyncio.to_thread(readable, text, str(response.url))
        except TimeoutError as error:
            raise ToolError(
                f"{response.url} is too tangled to be read; form='text' gives its source"
            ) from error
    return text if form == "text" or _TEXTS.match(kind) else data


def _json(response: httpx.Response, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{response.url} sends no JSON ({error}); form='text' gives what it sends") from error


def _text(response: httpx.Response, data: bytes, html: bool) -> str:
    """In the encoding that the server names, else in the page's own, else in UTF-8."""
    named = response.charset_encoding
    if named is None and html and (found := _CHARSET.search(data[:_SNIFFED])):
        named = found[1].decode("ascii", "replace")
    try:
        return data.decode(named or "utf-8", "replace")
    except LookupError:
        return data.decode("utf-8", "replace")
