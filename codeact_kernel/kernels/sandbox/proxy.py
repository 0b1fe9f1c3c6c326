"""Lets a kernel that has no network reach some hosts, over HTTP and HTTPS.

Comes in: requests of an HTTP proxy's clients, on a unix socket in the kernel's folder. Goes out: connections to hosts
that are listed, at addresses that were looked at after the name was resolved; for all others an answer that says why
not. It stops unlisted hosts; what is sent to a listed one may go anywhere from there.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import h11

PORTS = (80, 443)
"""What is open of a host that is listed without a port."""
CONNECT = 10.0
"""Seconds that a host may take to be found and to answer."""
HEAD = 64 * 1024
"""Bytes that the head of a request may have."""
PIECE = 64 * 1024
CLIENTS = 256
"""Connections at once; ours, so that a block cannot use up the host's descriptors."""
ADDRESS = ("127.0.0.1", 3128)
"""Where clients inside find it: something in the sandbox passes on what comes there."""

Told = Callable[[str, int, str], None]
"""Told of each decision: (host, port, why it was refused; empty where it was not)."""


class Refused(Exception):
    """A request is not made; the text says why."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A host that may be reached."""

    host: str
    """In lower case, without a dot at its end."""
    below: bool
    """Whether it stands for all hosts below it, and not for itself."""
    ports: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Rule:
        """Read a rule: `HOST`, `HOST:PORT` or `*.HOST`.

        Raises:
            ValueError: If it is none.
        """
        parts = urlsplit(f"//{text.strip()}")
        host, port = _plain(parts.hostname or ""), parts.port
        below = host.startswith("*.")
        if not (name := host.removeprefix("*.")) or "*" in name or parts.path or parts.username is not None:
            raise ValueError(f"{text!r} is no host; write example.org, example.org:8443 or *.example.org")
        return cls(name, below, PORTS if port is None else (port,))

    def holds(self, host: str, port: int) -> bool:
        """Whether it lets somebody reach a port of a host."""
        is_it = host.endswith(f".{self.host}") if self.below else host == self.host
        return is_it and port in self.ports


class Proxy:
    """A proxy on a unix socket, from `start` to `aclose`.

    Args:
        hosts: Rules, as `Rule.of` reads them.
        told: Told of each decision.
        resolve: Finds the addresses of a host; the system's way, unless told otherwise.

    Raises:
        ValueError: If a rule is none.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        told: Told = lambda host, port, why: None,
        resolve: Callable[[str, int], list[str]] | None = None,
    ) -> None:
        self._rules = [Rule.of(host) for host in hosts]
        self.told = told
        self._resolve = resolve or _resolved
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def start(self, path: Path) -> None:
        """Listen.

        Args:
            path: Where the socket is made.

        Raises:
            OSError: If it cannot be made.
        """
        self._server = await asyncio.start_unix_server(self._serve, path, limit=HEAD)

    async def aclose(self) -> None:
        """Stop, and break off what goes on."""
        if self._server is not None:
            self._server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            if len(self._clients) <= CLIENTS:
                await self._answer(reader, writer)
        except (OSError, EOFError, TimeoutError, h11.ProtocolError):
            # The client, or the host, broke it off.
            pass
        finally:
            self._clients.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD)
        request = await _head(parser, reader)
        method, target = request.method.decode(), request.target.decode("latin-1")
        host, port, path = _where(method, target)
        try:
            address = await self._checked(host, port)
            async with asyncio.timeout(CONNECT):
                there, to_there = await asyncio.open_connection(address, port)
        except (Refused, OSError, TimeoutError) as error:
            why = str(error) if isinstance(error, Refused) else f"{host}:{port} does not answer: {error}"
            writer.write(_told(403 if isinstance(error, Refused) else 502, why))
            await writer.drain()
            return
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                to_there.write(_forwarded(request, host, port, path))
            to_there.write(parser.trailing_data[0])
            await _both(reader, writer, there, to_there)
        finally:
            to_there.close()

    async def _checked(self, host: str, port: int) -> str:
        """The address of a host that may be reached.

        Raises:
            Refused: If it may not, or if it lies in a network that is nobody's or this machine's own.
        """
        try:
            if not any(rule.holds(host, port) for rule in self._rules):
                listed = ", ".join(f"{'*.' * rule.below}{rule.host}" for rule in self._rules)
                raise Refused(f"{host}:{port} may not be reached from this sandbox; only {listed}")
            async with asyncio.timeout(CONNECT):
                found = await asyncio.to_thread(self._resolve, host, port)
            for address in found:
                if not is_public(address):
                    raise Refused(f"{host} leads to {address}, which is no address of the public network")
            if not found:
                raise Refused(f"{host} has no address")
        except Refused as refused:
            self.told(host, port, str(refused))
            raise
        self.told(host, port, "")
        return found[0]


def is_public(address: str) -> bool:
    """Whether an address belongs to the public network: not to this machine, its neighbours, or a cloud's own services.

    Args:
        address: In the usual form.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None)
    if (teredo := getattr(found, "teredo", None)) is not None:
        mapped = teredo[1]
    if isinstance(found, ipaddress.IPv6Address) and found in _NAT64:
        mapped = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    return found.is_global and not found.is_multicast and (mapped is None or is_public(str(mapped)))


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""Addresses of the old network inside the new one (RFC 6052)."""


def _resolved(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Refused(f"{host} cannot be found: {error.strerror or error}") from error
    return [str(entry[4][0]) for entry in found]


async def _head(parser: h11.Connection, reader: asyncio.StreamReader) -> h11.Request:
    while True:
        event = parser.next_event()
        if isinstance(event, h11.Request):
            return event
        if event is not h11.NEED_DATA:
            raise EOFError
        parser.receive_data(await reader.read(PIECE))


def _where(method: str, target: str) -> tuple[str, int, str]:
    """Host, port and path of what a client wants."""
    parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
    try:
        port = parts.port or (443 if method == "CONNECT" else 80)
    except ValueError:
        port = 0
    known = method == "CONNECT" or parts.scheme == "http"
    host = _plain(parts.hostname or "") if known and parts.username is None else ""
    return host, port, f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"


def _plain(host: str) -> str:
    """A host's name as it is compared: names of other alphabets as the network has them."""
    host = host.lower().rstrip(".")
    with suppress(UnicodeError):
        return host.encode("idna").decode("ascii") if not host.isascii() else host
    return ""


def _forwarded(request: h11.Request, host: str, port: int, path: str) -> bytes:
    """The head of a request as the host gets it: for it and nobody else, and the connection ends with the answer."""
    dropped = {
        b"connection",
        b"proxy-connection",
        b"proxy-authorization",
        b"keep-alive",
        b"te",
        b"upgrade",
        b"host",
    }
    head = [request.method + b" " + path.encode("latin-1") + b" HTTP/1.1"]
    head.append(f"Host: {host}{'' if port == PORTS[0] else f':{port}'}".encode())
    head += [name + b": " + value for name, value in request.headers if name.lower() not in dropped]
    return b"\r\n".join([*head, b"Connection: close", b"", b""])


def _told(code: int, why: str) -> bytes:
    text = f"{why}\n".encode()
    reason = "Forbidden" if code == 403 else "Bad Gateway"
    head = f"HTTP/1.1 {code} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close"
    return head.encode() + b"\r\n\r\n" + text


async def _both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    there: asyncio.StreamReader,
    to_there: asyncio.StreamWriter,
) -> None:
    """Pass on what comes from either side, until both have ended."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_pass(reader, to_there))
        group.create_task(_pass(there, writer))


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(PIECE):
            sink.write(piece)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
