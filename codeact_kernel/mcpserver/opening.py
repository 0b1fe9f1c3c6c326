"""Puts a session together: the stations that an agent has, but for a model.

Comes in: options. Goes out: a `Session`, alive inside an `async with`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from codeact_kernel.agent import (
    HookChain,
    Options,
    answering,
    block_methods,
    host_mask,
    house,
    make_gate,
    make_server,
    plan,
    wanted_kernel,
)
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.context import Counter
from codeact_kernel.errors import ConfigError, KernelError, ToolError
from codeact_kernel.kernels import Kernel, KernelRunner, Workshop, make_folder, remove_folder
from codeact_kernel.mcpserver.saving import Saver
from codeact_kernel.mcpserver.session import Session
from codeact_kernel.model.catalogue import VOCABULARY_FOLDER
from codeact_kernel.model.weights import models_dir
from codeact_kernel.policy import Doors
from codeact_kernel.supervisor import Supervisor, SupervisorSettings
from codeact_kernel.tools import CallCount, Catalogue

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
async def open_session(options: Options, client: str) -> AsyncIterator[Session]:
    """Start a session's kernel.

    Args:
        options: What the caller wants of it.
        client: Who it is for.

    Yields:
        The session. Its kernel ends with it, with all that runs there, in about two seconds.

    Raises:
        ConfigError: If something of the options is wrong.
        KernelError: If the kernel does not start.
    """
    mask = host_mask()
    wanted = plan(options, mask=mask)
    settings = wanted.settings
    methods: dict[str, Callable[..., Any]] = {f"self.{name}": _no_agent for name in _AGENTS}
    catalogue = Catalogue(wanted.tools, wanted.sets)
    methods |= catalogue.methods
    doors = Doors(
        make_gate(options, settings, wanted.workspace),
        CLIENT,
        lambda event: session.emit(event),
        lambda block_id: session.supervisor.standing(block_id),
    )
    server = make_server(
        catalogue,
        methods,
        options,
        settings,
        HookChain(()),
        CallCount(),
        lambda event: session.emit(event),
        doors,
    )
    launch, sandbox = await house(options, wanted)
    workshop = Workshop(sandbox)
    serve = answering(server, lambda: runner, mask, workshop)
    kernel = Kernel(
        wanted_kernel(options, wanted, sandbox),
        serve,
        catalogue.describe_all(),
        lambda text: session.remind(text),
    )
    count = Counter("", ENCODING, models_dir() / VOCABULARY_FOLDER).count
    session = Session(kernel, count, settings.result_tokens, Saver(wanted.workspace), client, mask=mask)
    async with AsyncExitStack() as stack:
        stack.callback(workshop.close)
        for of_set in wanted.sets:
            stack.push_async_callback(of_set.aclose)
        await kernel.start(launch)
        runner = KernelRunner(await stack.enter_async_context(kernel))
        if not kernel.ours and (options.tools or wanted.sets):
            raise ConfigError(f"tools cannot be called from this kernel: {kernel.note}")
        supervising = SupervisorSettings(default_timeout=settings.block_timeout)
        supervisor = Supervisor(
            {CodeBlock: runner},
            lambda event: session.emit(mask.of(event)),
            settings=supervising,
            mask=mask,
            admit=doors.block,
        )
        supervisor.shelf.folder, supervisor.shelf.stays = make_folder("ck-outputs-"), False
        stack.callback(remove_folder, supervisor.shelf.folder)
        session.supervisor = await stack.enter_async_context(supervisor)
        methods |= block_methods(supervisor, kernel)
        stack.push_async_callback(_end, supervisor, kernel)
        yield session


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
