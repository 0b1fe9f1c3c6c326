"""Hosts as rules see them: one spelling of each.

Comes in: addresses and names as a model writes them. Goes out: the host, in lower case, without a user, a port or a dot
at its end, other scripts as punycode, and an IP address in its usual form however it was spelt.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket

_NUMBERS = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}")
"""What inet_aton may take for an IPv4 address: decimal, octal and hexadecimal parts, one to four of them."""

_NAME = re.compile(r"[a-z0-9._-]*")


def host_of(url: str) -> str:
    """The host of an address, read as httpx reads it, which also goes there.

    Args:
        url: The address; one without a scheme may become one of http.

    Returns:
        The host; empty where it has none, as a file has.

    Raises:
        ValueError: If it cannot be read.
    """
    import httpx  # loaded by those who judge an address

    try:
        read = httpx.URL(url)
        if not read.raw_host and ":" not in url.partition("/")[0].partition(".")[0]:
            read = httpx.URL(f"http://{url.lstrip('/')}")
        return canonical(read.raw_host.decode("ascii"))
    except (httpx.InvalidURL, UnicodeError, TypeError, ValueError) as error:
        if "://" not in url:  # a word of any kind
            return ""
        raise ValueError(f"{url!r} is no address") from error


def canonical(host: str) -> str:
    """One spelling of a host.

    Args:
        host: A name in ASCII, or an IP address in any spelling; empty for none.

    Raises:
        ValueError: If it is neither.
    """
    plain = host.lower().rstrip(".")
    if plain.startswith("[") or ":" in plain:
        plain = plain.strip("[]").partition("%")[0]  # without the zone
    if _NUMBERS.fullmatch(plain):
        with contextlib.suppress(OSError):
            return str(ipaddress.IPv4Address(socket.inet_aton(plain)))
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(plain)
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return str(mapped or address)
    if not _NAME.fullmatch(plain):
        raise ValueError(f"{host!r} is no host")
    return plain


def read_pattern(pattern: str) -> str:
    """Read a pattern of hosts: a name, `*.name` for all below it, `*`, an IP address, or a network as 10.0.0.0/8.

    Args:
        pattern: The pattern.

    Returns:
        One spelling of it.

    Raises:
        ValueError: If it is none.
    """
    if pattern == "*":
        return pattern
    if "/" in pattern:
        return str(ipaddress.ip_network(pattern.strip(), strict=False))
    prefix, name = ("*.", pattern[2:]) if pattern.startswith("*.") else ("", pattern)
    if not name or any(sign in name for sign in "*@?#\\ "):
        raise ValueError(
            f"{pattern!r} is no host: write a name, *.name, an IP address or a network (10.0.0.0/8)"
        )
    bare = ":" in name and not name.startswith("[")
    host = host_of(f"http://[{name}]/" if bare else f"http://{name}/")
    if not host:
        raise ValueError(f"{pattern!r} is no host")
    return prefix + host


def matches(pattern: str, host: str) -> bool:
    """Whether a host is among those of a pattern.

    Args:
        pattern: As `read_pattern` gives it.
        host: As `host_of` gives it.
    """
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    if "/" in pattern:
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(pattern)
        except ValueError:
            return False
    return host == pattern
