"""Servers at an address: a real one on this machine, and ones that misbehave."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
from contextlib import asynccontextmanager

import pytest
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import LATEST_PROTOCOL_VERSION

from codeact_kernel.errors import ToolError
from codeact_kernel.tools.mcp.config import Server
from codeact_kernel.tools.mcp.log import ServerLog
from codeact_kernel.tools.mcp.names import Secrets

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
TOKEN = "Bearer s3cr3t-token"


@asynccontextmanager
async def serving(app, port=0):
    """An ASGI application at an address of this machine."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        config = uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1, ws="none")
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None
        task = asyncio.create_task(server.serve([listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await task


@pytest.fixture
def at(opened):
    """Makes a toolset of an address."""

    def make(url, *, headers=(), notice=lambda text: None, elicit=None, **settings):
        secrets = Secrets(dict(headers).values())
        server = Server(name="far", url=url, headers=dict(headers), key="far", secrets=secrets, **settings)
        return opened(server, log=ServerLog("far", lambda: None, secrets), notice=notice, elicit=elicit)

    return make


def demo():
    server = MCPServer("demo")

    @server.tool()
    def echo(text: str) -> str:
        return text

    @server.tool()
    def big(size: int) -> str:
        return "x" * size

    @server.tool()
    async def works(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        await ctx.info("working")
        return "done"

    @server.tool()
    async def sleeps(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "slept"

    @server.tool()
    def token(ctx: Context) -> str:
        return ctx.headers["authorization"]

    return server


async def failure(awaitable):
    with pytest.raises(ToolError) as caught:
        await awaitable
    return str(caught.value)


@pytest.mark.parametrize("options", [{}, {"json_response": True}, {"stateless_http": True}])
async def test_a_server_at_an_address_answers(at, call, options):
    told = []
    async with serving(demo().streamable_http_app(**options)) as url:
        far = at(url, headers={"Authorization": TOKEN}, notice=told.append)
        assert await call(far, "echo", text="ä") == "ä"
        assert await call(far, "token") == TOKEN
        assert await call(far, "works") == "done"
        assert await asyncio.gather(*(call(far, "echo", text=str(n)) for n in range(20))) == [
            *map(str, range(20))
        ]
        await far.aclose()
    if not options:
        assert told == ["mcp.far.works: 1/2 half", "mcp.far: working"]


@pytest.mark.parametrize("options", [{}, {"json_response": True}])
async def test_an_answer_of_20_mb_is_an_error_of_this_call_and_no_other(at, call, options):
    async with serving(demo().streamable_http_app(**options)) as url:
        far = at(url)
        other = asyncio.create_task(call(far, "sleeps", seconds=0.3))
        text = await failure(call(far, "big", size=20_000_000))
        assert text.startswith("mcp.far.big: ")
        assert "10 MB" in text or "10485760" in text
        assert await other == "slept"
        assert len(await call(far, "big", size=3_000_000)) == 3_000_000
        await far.aclose()


async def test_a_slow_answer_is_an_error(at, call):
    async with serving(demo().streamable_http_app()) as url:
        far = at(url, timeout=0.3)
        assert "no answer within 0.3 s" in await failure(call(far, "sleeps", seconds=60))
        assert await call(far, "echo", text="x") == "x"
        await far.aclose()


async def test_where_nothing_listens_the_error_says_so(at):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/mcp"
    text = await failure(at(url).tools())
    assert text.startswith("mcp.far does not start: ConnectError")


async def test_a_server_that_went_away_and_came_back_is_connected_to_anew(at, call):
    async with serving(demo().streamable_http_app()) as url:
        far = at(url)
        assert await call(far, "echo", text="x") == "x"
    assert (await failure(call(far, "echo", text="x"))).startswith("mcp.far.echo: the server ended")
    async with serving(demo().streamable_http_app(), port=int(url.split(":")[2].split("/")[0])) as again:
        assert again == url
        assert await call(far, "echo", text="y") == "y"
        await far.aclose()


async def test_a_session_that_the_server_has_forgotten_is_begun_anew(at, call):
    async with serving(demo().streamable_http_app()) as url:
        far = at(url)
        assert await call(far, "echo", text="x") == "x"
    async with serving(demo().streamable_http_app(), port=int(url.split(":")[2].split("/")[0])):
        assert await failure(call(far, "echo", text="y")) == (
            "mcp.far.echo: the server has forgotten this session, and the call with it; the next call begins another"
        )
        assert await call(far, "echo", text="y") == "y"
        await far.aclose()


def fixed(status, body=b"", content_type="application/json", **headers):
    """A server that always says the same."""

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        while (await receive()).get("more_body"):
            pass
        sent = {
            "content-type": content_type,
            **{key.replace("_", "-"): value for key, value in headers.items()},
        }
        pairs = [(key.encode(), value.encode()) for key, value in sent.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": body})

    return app


async def mute(scope, receive, send):
    """A server that takes everything and says nothing."""
    if scope["type"] == "lifespan":
        await fixed(200)(scope, receive, send)
        return
    while (await receive())["type"] != "http.disconnect":
        pass


async def test_a_server_that_says_nothing_is_given_up(at):
    async with serving(mute) as url:
        far = at(url, start_timeout=0.3)
        assert await failure(far.tools()) == "mcp.far was not ready within 0.3 s and is ended."


@pytest.mark.kernel
async def test_a_server_that_falls_silent_does_not_hold_up_the_end(at, call):
    silent = []
    app = demo().streamable_http_app()

    async def sometimes(scope, receive, send):
        await (mute if silent and scope["type"] == "http" else app)(scope, receive, send)

    async with serving(sometimes) as url:
        far = at(url, timeout=0.3)
        assert await call(far, "echo", text="x") == "x"
        silent.append(True)
        assert "no answer within 0.3 s" in await failure(call(far, "echo", text="x"))
        begun = time.monotonic()
        await far.aclose()
        assert time.monotonic() - begun < 5


HELLO = {
    "protocolVersion": LATEST_PROTOCOL_VERSION,
    "capabilities": {},
    "serverInfo": {"name": "x", "version": "1", "description": "y" * 200_000},
}


@pytest.mark.parametrize(
    ("app", "words"),
    [
        (fixed(401), "HTTP status 401"),
        (fixed(500, b"<html>", "text/html"), "HTTP status 500"),
        (fixed(200, b"<html>", "text/html"), "Unexpected content type"),
        (fixed(200, b"{", "application/json"), "Failed to parse JSON"),
        (fixed(200, b"x" * 200_000, "application/json"), "the answer has more than the 100 kB that are taken"),
        (fixed(200, b"", "text/event-stream"), "ended without a response"),
        (fixed(200, b"data: " + b"x" * 200_000, "text/event-stream"), "SSE stream failed"),
        (fixed(302, location="http://elsewhere.invalid/"), "Redirect to http://elsewhere.invalid/ not followed"),
        (
            fixed(200, gzip.compress(json.dumps(HELLO).encode()), "application/json", content_encoding="gzip"),
            "the answer is compressed, which was not asked for",
        ),
    ],
)  # fmt: skip
async def test_what_is_no_server_is_an_error_with_its_reason(at, app, words):
    async with serving(app) as url:
        text = await failure(
            at(url, headers={"Authorization": TOKEN}, max_result=100_000, start_timeout=10).tools()
        )
    assert text.startswith("mcp.far does not start: ")
    assert words in text
    assert "s3cr3t" not in text
