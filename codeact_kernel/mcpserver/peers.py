"""Whose process is at the other end of a connection that comes from this machine.

Comes in: requests over HTTP. Goes out: those of processes of the same user, and a refusal for others: a port has no
owner, and whoever reaches this one can run code. Linux says who has which socket; elsewhere nobody is refused here.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""The TCP sockets of this network namespace, with their owners (proc_pid_net(5))."""
_ROOT = 0
"""It can do anything in any case."""


class SameUser:
    """Passes on what comes from processes of this process's user, or of root's.

    Args:
        app: What answers.
        port: Where it listens.
        tables: Files in which the system says who has which socket.
    """

    def __init__(self, app: ASGIApp, port: int, tables: tuple[Path, ...] = TABLES) -> None:
        self._app = app
        self._port = port
        self._tables = tables

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        client = scope.get("client")
        if scope["type"] == "http" and not self._may(client):
            text = "this server is another user's; with a token (CODEACT_MCP_TOKEN) it could be used by you, too\n"
            await PlainTextResponse(text, 403)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _may(self, client: tuple[str, int] | None) -> bool:
        tables = [table for table in self._tables if table.exists()]
        if not tables:
            return True
        if client is None:
            return False
        owners = {
            uid for table in tables for end, uid in _owners(table, self._port) if end == _plain(*client)
        }
        return bool(owners) and owners <= {os.geteuid(), _ROOT}


def _owners(table: Path, port: int) -> Iterator[tuple[tuple[str, int], int]]:
    """Of each connection to a port its own end, and its owner."""
    for line in table.read_text("ascii").splitlines()[1:]:
        fields = line.split()
        # One that its process has closed already belongs to nobody, and is told as root's.
        if int(fields[2].rpartition(":")[2], 16) == port and fields[9] != "0":
            address, _, own = fields[1].rpartition(":")
            words = bytes.fromhex(address)
            # Words of four bytes, each as the machine has it.
            way = -1 if sys.byteorder == "little" else 1
            turned = b"".join(words[at : at + 4][::way] for at in range(0, len(words), 4))
            yield _plain(str(ipaddress.ip_address(turned)), int(own, 16)), int(fields[7])


def _plain(host: str, port: int) -> tuple[str, int]:
    """An address as it is always written; one of IPv4 is the same within IPv6."""
    address = ipaddress.ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), port
