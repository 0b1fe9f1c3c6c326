"""The server with a fake kernel, for the SDK's own client in this process."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from codeact_kernel.agent import Bookkeeping
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.events import RunStarted
from codeact_kernel.policy import Doors, Gate
from codeact_kernel.supervisor import Supervisor
from codeact_kernel.testing import FakeRunner, wall
from codeact_kernel.transcript import Transcript


class FakePlace:
    """What a session asks of its kernel."""

    def __init__(self):
        self.ours, self.note, self.description = True, "", "Python 3.11.7, ipykernel 7.4.0"
        self.names = {"x": ("int", "", "1"), "rows": ("list", "2", "[1, 2]")}
        self.death = None
        self.reasons = []

    async def meanwhile(self):
        """What happens during a restart."""

    async def restart(self, reason):
        self.reasons.append(reason)
        await self.meanwhile()
        gone, self.names = tuple(self.names), {}
        return gone

    async def revive(self):
        death, self.death = self.death, None
        return death

    async def variables(self):
        keys = ("type", "size", "value")
        return [{"name": name, **dict(zip(keys, about, strict=True))} for name, about in self.names.items()]


class Stage:
    """A fake kernel for each session, and the sessions."""

    def __init__(self, folder):
        self.folder = folder
        self.runner = FakeRunner()
        self.place = FakePlace()
        self.limit = 2000
        self.mode = "auto"
        self.opened = []
        self.closed = []
        self.refusal = None

    @asynccontextmanager
    async def open_session(self, client, asks=False):
        from codeact_kernel.mcpserver.asking import Asking
        from codeact_kernel.mcpserver.saving import Saver
        from codeact_kernel.mcpserver.session import Session

        if self.refusal is not None:
            raise self.refusal
        self.opened.append(client)
        books = Bookkeeping(Transcript(), lambda error: None, lambda: session.break_off())
        books.audit.leave()
        asking = Asking(books.mask)
        session = Session(
            self.place,
            books,
            lambda text: len(text.split()),
            self.limit,
            Saver(self.folder),
            asking,
            wall,
        )
        session.emit(RunStarted("mcp", "Blocks run over MCP", client, "", wall()))
        gate = Gate(self.folder, self.mode, approver=asking if asks else None)
        admit = Doors(gate, "the client", session.emit).block
        async with Supervisor(
            {CodeBlock: self.runner}, session.emit, wall=wall, admit=admit
        ) as session.supervisor:
            yield session
        self.closed.append(client)

    @asynccontextmanager
    async def client(self, mode="auto", **options):
        from mcp import Client

        from codeact_kernel.mcpserver import Sessions, make_server

        async with Sessions(self.open_session) as sessions:
            self.sessions = sessions
            async with Client(make_server(sessions), mode=mode, **options) as client:
                yield Caller(client)


class Caller:
    """Calls tools, and keeps what came back."""

    def __init__(self, client):
        self.it = client
        self.ended = set()
        """The blocks whose end was told."""

    async def __call__(self, tool, **arguments):
        progress = arguments.pop("progress_callback", None)
        self.result = await self.it.call_tool(tool, arguments, progress_callback=progress)
        for block in (self.result.meta or {}).get("codeact-kernel/blocks", ()):
            if block["status"] not in ("running", "waiting"):
                self.ended.add(block["id"])
        return "\n".join(part.text for part in self.result.content if part.type == "text")

    @property
    def images(self):
        return [part for part in self.result.content if part.type == "image"]

    @property
    def blocks(self):
        return [(block["id"], block["status"]) for block in self.result.meta["codeact-kernel/blocks"]]


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


@pytest.fixture
def caller():
    """Makes a caller of a client."""
    return Caller
