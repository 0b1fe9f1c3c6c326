"""`codeact mcp`: our kernel as a tool for other agents.

Comes in: options, and an MCP client on stdin or on HTTP. Goes out: the protocol on stdout, and nothing else there.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from collections.abc import Coroutine
from functools import partial
from io import FileIO
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from codeact_kernel.cli.choices import Choices, choosing
from codeact_kernel.cli.streams import complain, is_terminal
from codeact_kernel.errors import ConfigError

if TYPE_CHECKING:
    from codeact_kernel.cli.loop import Signals
    from codeact_kernel.mcpserver.sessions import Open

TOKEN = "CODEACT_MCP_TOKEN"
Http = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Serve streamable HTTP there, at /mcp, instead of stdin and stdout; a PORT alone is on this machine. "
        "Each client's session has a kernel of its own.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        metavar="T",
        help="What HTTP clients have to send as a bearer token; without one only this machine is served. Else "
        f"{TOKEN}.",
    ),
]
_OF_A_MODEL = (
    *("model", "then", "base_url", "protocol", "vision_model", "fallback_model", "patience"),
    *("run_dir", "max_turns", "max_time", "max_tokens", "max_cost", "lease", "otel"),
)
"""The options of who has a model and makes runs."""


@choosing(*_OF_A_MODEL)
def mcp(
    *,
    http: Http = None,
    token: Token = None,
    chosen: Choices,
) -> int:
    """Serve a live Python namespace to another agent, over MCP.

    An MCP client (Claude Code, Codex, and others) starts this, and gets the tools run_code, wait, cancel, variables,
    restart and save_notebook. Blocks run side by side, and only what they print or display comes back. The kernel ends
    with the client.
    """
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError('this needs the extra: pip install "codeact-kernel[mcp]"')
    from codeact_kernel.cli.loop import in_loop
    from codeact_kernel.cli.streams import own_stdout

    with own_stdout() as out:
        if http is None:
            return _on_stdio(chosen, out)
        from codeact_kernel.mcpserver import HttpServer, read_address

        address = read_address(http)

        async def serve(signals: Signals) -> int:
            opening, walls = await _opening(chosen)
            server = HttpServer(*address, token or os.environ.get(TOKEN))
            complain(walls)
            complain(f"serving at {server.url}")
            await _until_stopped(server.serve(opening), signals)
            return 0

        return in_loop(serve)


def _on_stdio(chosen: Choices, out: TextIO) -> int:
    from codeact_kernel.cli.loop import in_loop
    from codeact_kernel.cli.stdin import StdinLines, own_stdin
    from codeact_kernel.mcpserver import serve_stdio

    if is_terminal(sys.stdin):
        complain(
            "an MCP client speaks here; docs/mcp-server.md tells how it is given this command. Ctrl-D ends it"
        )

    async def serve(signals: Signals) -> int:
        opening, walls = await _opening(chosen)
        complain(walls)
        with own_stdin() as fd:
            unbuffered = FileIO(out.fileno(), "wb", closefd=False)
            await _until_stopped(serve_stdio(opening, StdinLines(fd).read, unbuffered), signals)
        return 0

    return in_loop(serve)


async def _opening(chosen: Choices) -> tuple[Open, str]:
    """Check what can be checked before a client comes.

    Returns:
        What opens a namespace for one, and what there is to say of its sandbox.

    Raises:
        ConfigError: If something is wrong.
    """
    from codeact_kernel.agent import Options, house, plan
    from codeact_kernel.kernels import describe_sandbox
    from codeact_kernel.mcpserver import open_session

    options = Options(**chosen.agent_fields() | {"person": None})
    launch, sandbox = await house(options, plan(options))
    return partial(open_session, options), describe_sandbox(sandbox, launch.provisioner)


async def _until_stopped(serving: Coroutine[Any, Any, None], signals: Signals) -> None:
    """Serve until the client is gone or a signal comes; further ones do not break off what is ended then."""
    task, stopped = asyncio.ensure_future(serving), False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        signals.rest()
        task.cancel()

    signals.on_interrupt = signals.on_end = stop
    try:
        await task
    except Exception as error:
        if not stopped:
            raise
        # Streams of the SDK that are in use break while it is cancelled, and it says so instead.
        raise asyncio.CancelledError from error
