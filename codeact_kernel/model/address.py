"""Where a model is asked and with which key, and how both may be shown.

Comes in: URLs and keys as a person wrote them. Goes out: checked ones, and forms that give nothing away.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit, urlunsplit

from codeact_kernel.errors import ConfigError


class Key:
    """An API key. It shows itself in no text, error or log; `reveal` is called where a request is made.

    Args:
        value: The key.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself."""
        return self._value

    def __repr__(self) -> str:
        return "Key(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


def read_key(variable: str, value: str) -> Key | None:
    """Take a key from an environment variable.

    Args:
        variable: The variable's name, for an error.
        value: What it holds; white space round a key does not count.

    Returns:
        The key, or None where the variable holds nothing.

    Raises:
        ConfigError: If it holds what cannot travel in a request's header.
    """
    value = value.strip()
    if not value:
        return None
    if not re.fullmatch(r"[!-~]+", value):
        raise ConfigError(f"what {variable} holds is no API key: it has spaces or other odd characters")
    return Key(value)


def check_url(url: str) -> str:
    """Check an endpoint's base URL.

    Returns:
        The URL without a slash at its end.

    Raises:
        ConfigError: If no request can be sent there.
    """
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        right = False
    if not right or re.search(r"\s", url):
        shown = re.sub(r"//[^/]*@", "//…@", url)
        raise ConfigError(f"{shown!r} is no endpoint: write a URL such as http://localhost:8000/v1")
    return url.rstrip("/")


def public_url(url: str) -> str:
    """A URL as it may be shown: without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
