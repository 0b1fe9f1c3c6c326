"""Puts a session together: the stations that an agent has, but for a model.

Comes in: options. Goes out: a `Session`, alive inside an `async with`.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from codeact_kernel.agent import (
    OUTPUTS,
    Bookkeeping,
    HookChain,
    Options,
    Plan,
    answering,
    block_methods,
    house,
    make_gate,
    make_run_dir,
    make_server,
    plan,
    wanted_kernel,
)
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.context import Counter
from codeact_kernel.errors import ConfigError, KernelError, RecordError, ToolError
from codeact_kernel.events import Event, HostReached, KernelEnded, RunEnded, RunStarted
from codeact_kernel.kernels import (
    Kernel,
    KernelRunner,
    Workshop,
    describe_sandbox,
    make_folder,
    name_sandbox,
    remove_folder,
)
from codeact_kernel.mcpserver.asking import Asking
from codeact_kernel.mcpserver.saving import Saver
from codeact_kernel.mcpserver.session import Session
from codeact_kernel.messages import Usage
from codeact_kernel.model.catalogue import VOCABULARY_FOLDER
from codeact_kernel.model.weights import models_dir
from codeact_kernel.policy import Doors
from codeact_kernel.supervisor import Supervisor, SupervisorSettings
from codeact_kernel.tools import CallCount, Catalogue
from codeact_kernel.transcript import Transcript

log = logging.getLogger(__name__)

TASK = "Blocks run over MCP"
ENCODING = "o200k_base"
"""Whose tokens are counted: no client says which model it has, and vocabularies differ by a tenth or so."""
GRACE = 1.0
"""Seconds in which blocks may end by themselves when their client is gone; a client's SDK waits two."""
CLIENT = "the client"
"""Whose blocks and calls are decided about."""
_AGENTS = (
    "agents",
    "ask_parent",
    "compact_knowledge",
    "parcel",
    "proxy",
    "return_value",
    "run_agent",
    "steer",
)


@asynccontextmanager
async def open_session(options: Options, client: str, asks: bool = False) -> AsyncIterator[Session]:
    """Start a session's kernel.

    Args:
        options: What the caller wants of it.
        client: Who it is for.
        asks: Whether the client can ask its person something.

    Yields:
        The session. Its kernel ends with it, with all that runs there, in about two seconds.

    Raises:
        ConfigError: If something of the options is wrong.
        KernelError: If the kernel does not start.
        RecordError: If what is done cannot be audited, and has to be.
    """
    books = Bookkeeping(Transcript(), _not_kept, lambda: session.break_off())
    wanted, asking = plan(options, mask=books.mask), Asking(books.mask)
    if options.approver is None and asks:
        options = replace(options, approver=asking)
    gate = make_gate(options, wanted.settings, wanted.workspace)

    def emit(event: Event) -> None:
        session.emit(event)

    doors = Doors(gate, CLIENT, emit, lambda block_id: session.supervisor.standing(block_id))
    catalogue = Catalogue(wanted.tools, wanted.sets)
    methods = {f"self.{name}": _no_agent for name in _AGENTS} | catalogue.methods
    audited = books.audit.settled
    server = make_server(
        catalogue, methods, options, wanted.settings, HookChain(()), CallCount(), emit, doors, audited
    )
    launch, sandbox = await house(options, wanted)
    workshop = Workshop(sandbox)
    kernel = Kernel(
        wanted_kernel(options, wanted, sandbox),
        answering(server, lambda: runner, books.mask, workshop),
        catalogue.describe_all(),
        lambda text: session.remind(text),
    )
    kernel.on_death = lambda death: emit(KernelEnded(death.message, death.returncode, time.time()))
    kernel.on_reached = lambda host, port, why: emit(HostReached(host, port, why, time.time()))
    session = _session(kernel, books, wanted, asking)
    async with AsyncExitStack() as stack:
        stack.callback(workshop.close)
        for of_set in wanted.sets:
            stack.push_async_callback(of_set.aclose)
        await _open_books(books, options, wanted, client, stack)
        await kernel.start(launch)
        runner = KernelRunner(await stack.enter_async_context(kernel))
        if not kernel.ours and (options.tools or wanted.sets):
            raise ConfigError(f"tools cannot be called from this kernel: {kernel.note}")
        walls = name_sandbox(sandbox, launch.provisioner), describe_sandbox(sandbox, launch.provisioner)
        emit(RunStarted(_name(), TASK, client, "", time.time(), kernel.description, gate.mode, *walls))
        stack.callback(lambda: emit(RunEnded("answered", None, Usage(), 0, time.time())))
        supervising = SupervisorSettings(default_timeout=wanted.settings.block_timeout)
        supervisor = Supervisor(
            {CodeBlock: runner}, emit, settings=supervising, mask=books.mask, admit=doors.block
        )
        _shelve(supervisor, books, stack)
        session.supervisor = await stack.enter_async_context(supervisor)
        methods |= block_methods(supervisor, kernel)
        stack.push_async_callback(_end, supervisor, kernel)
        yield session


def _session(kernel: Kernel, books: Bookkeeping, wanted: Plan, asking: Asking) -> Session:
    count = Counter("", ENCODING, models_dir() / VOCABULARY_FOLDER).count
    saver = Saver(wanted.workspace)
    return Session(kernel, books, count, wanted.settings.result_tokens, saver, asking)


async def _open_books(
    books: Bookkeeping, options: Options, wanted: Plan, client: str, stack: AsyncExitStack
) -> None:
    """Begin the record and the audit, before the kernel starts: what is there then a sandbox protects."""
    stack.push_async_callback(books.aclose)
    if options.run_dir is not False:
        chosen = Path(options.run_dir) if isinstance(options.run_dir, str | Path) else None
        await books.open_record(make_run_dir(wanted.workspace, f"mcp {client}", chosen))
    books.open_audit(wanted.settings, options.audit)


def _name() -> str:
    return uuid.uuid4().hex[:12]


def _shelve(supervisor: Supervisor, books: Bookkeeping, stack: AsyncExitStack) -> None:
    """Long outputs lie beside the record; where there is none, in a folder that goes with the session."""
    shelf, folder = supervisor.shelf, books.folder
    if folder is not None:
        shelf.folder, shelf.opens = folder.path / OUTPUTS, lambda: folder.sub(OUTPUTS)
    else:
        shelf.folder, shelf.stays = make_folder("ck-outputs-"), False
        stack.callback(remove_folder, shelf.folder)


def _not_kept(error: RecordError) -> None:
    log.warning("%s", error.message)


async def _end(supervisor: Supervisor, kernel: Kernel) -> None:
    """End what runs: by itself in a moment, or with its kernel."""
    for live in supervisor.live:
        supervisor.cancel(live.id, "its client is gone")
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            await supervisor.settled()
            return
    with suppress(KernelError):
        await kernel.kill("was ended, because its client is gone")


def _no_agent(*_: Any, **__: Any) -> None:
    raise ToolError("there is no agent behind this kernel: a client uses it over MCP")
