"""`codeact mcp --http`: who may come, and that each session has a kernel of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")
import httpx
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult
from processes import COMMAND, LIFE, PATIENCE, Life

from codeact_kernel.errors import ConfigError
from codeact_kernel.mcpserver import HttpServer, Sessions, read_address
from codeact_kernel.mcpserver.http import IDLE, Watch
from codeact_kernel.testing import jumping

WAYS = {"accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8000", ("127.0.0.1", 8000)),
        (":8000", ("127.0.0.1", 8000)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:80", ("::1", 80)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
    ],
)
def test_an_address_is_read(text, address):
    assert read_address(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", "host:x", "host:-1", "host:65536", "1:²"])
def test_what_is_no_address_is_said(text):
    with pytest.raises(ConfigError, match=r"write HOST:PORT, such as 127\.0\.0\.1:8000"):
        read_address(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", "127.0.0.1.example.org"])
@pytest.mark.parametrize("token", [None, ""])
def test_where_others_come_a_token_is_needed(host, token):
    with pytest.raises(ConfigError, match="give --token or CODEACT_MCP_TOKEN"):
        HttpServer(host, 0, token)


def test_a_port_that_is_taken_is_said_at_once():
    first = HttpServer("127.0.0.1", 0, None)
    port = int(first.url.rpartition(":")[2].partition("/")[0])
    with pytest.raises(ConfigError, match=f"--http 127.0.0.1:{port}: Address already in use"):
        HttpServer("127.0.0.1", port, None)
    first.close()


# -- what ends a session's kernel ----------------------------------------------------------------------------


class App:
    """Answers with a status once it may."""

    def __init__(self):
        self.status = 200
        self.may = asyncio.Event()
        self.may.set()

    async def __call__(self, scope, receive, send):
        await self.may.wait()
        await send({"type": "http.response.start", "status": self.status, "headers": []})


class Watched:
    """A session that is open, and requests of its client."""

    def __init__(self, stage, sessions):
        self.app, self.sessions, self.stage = App(), sessions, stage
        self.it = Watch(self.app, sessions)

    async def request(self, method="POST", key="s1"):
        async def send(message):
            pass

        headers = [(b"mcp-session-id", key.encode())] if key else []
        await self.it({"type": "http", "method": method, "headers": headers}, None, send)

    async def is_over(self):
        """Whether the session is over, once all that is to happen now has happened."""
        await asyncio.sleep(1)
        return bool(self.stage.closed)


@asynccontextmanager
async def watched(stage):
    async with Sessions(stage.open_session) as sessions:
        await sessions.get("s1", "a client")
        yield Watched(stage, sessions)


@jumping
async def test_a_session_that_its_client_deletes_is_ended(stage):
    async with watched(stage) as it:
        await it.request()
        assert not await it.is_over()
        await it.request("DELETE")
        assert await it.is_over()


@jumping
async def test_a_session_that_is_unknown_by_now_is_ended(stage):
    async with watched(stage) as it:
        it.app.status = 404
        await it.request()
        assert await it.is_over()


@jumping
async def test_a_session_of_which_nothing_is_heard_is_ended_and_its_client_told(stage):
    async with watched(stage) as it:
        await it.request()
        await asyncio.sleep(IDLE - 10)
        assert not await it.is_over()
        await asyncio.sleep(10)
        assert await it.is_over()
        answer = await (await it.sessions.get("s1")).wait(None)
        assert "This is a fresh kernel: nothing was heard of this session for an hour" in answer.text


@jumping
async def test_a_stream_that_is_open_keeps_a_session(stage):
    async with watched(stage) as it:
        await it.request()
        it.app.may.clear()
        going = asyncio.create_task(it.request("GET"))
        await asyncio.sleep(3 * IDLE)
        assert not await it.is_over()
        it.app.may.set()
        await going
        await asyncio.sleep(IDLE)
        assert await it.is_over()


@jumping
async def test_a_block_that_runs_keeps_a_session(stage):
    async with watched(stage) as it:
        await (await it.sessions.get("s1")).run_code(None, f"sleep({1.5 * IDLE})", 3 * IDLE, wait=0)
        await it.request()
        await asyncio.sleep(1.2 * IDLE)
        assert not await it.is_over()
        await asyncio.sleep(IDLE)
        assert await it.is_over()


@jumping
async def test_a_request_without_a_session_is_passed_on(stage):
    async with watched(stage) as it:
        await it.request(key=None)
        await asyncio.sleep(2 * IDLE)
        assert not await it.is_over()


# -- with real kernels ---------------------------------------------------------------------------------------


class Server:
    """A server on HTTP."""

    def __init__(self, folder, *options, **env):
        self.process = subprocess.Popen(
            [sys.executable, *COMMAND, "--workspace", str(folder), "--http", "0", *options],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        walls, line = self.process.stderr.readline(), self.process.stderr.readline()
        assert walls.startswith("codeact: sandbox: ")
        assert line.startswith("codeact: serving at http://127.0.0.1:")
        self.url = line.split()[-1]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


@pytest.fixture
def server(tmp_path):
    started = []

    def start(*options, **env):
        started.append(Server(tmp_path, *options, **env))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


@pytest.mark.kernel
async def test_each_session_has_a_kernel_of_its_own_which_ends_with_it(server, caller):
    one = server()
    async with Client(one.url) as a, Client(one.url) as b:
        first, second = caller(a), caller(b)
        life = Life(await first("run_code", code=LIFE + "\nx = 'of a'"))
        assert "NameError" in await second("run_code", code="x")
        texts = await asyncio.gather(
            first("run_code", code="import time\ntime.sleep(0.5)\nprint(x)"),
            second("run_code", code="print('of b')"),
        )
        assert "of a" in texts[0]
        assert "of b" in texts[1]
    life.check_gone()
    assert one.end() == (143, "", "codeact: it was stopped\n")


@pytest.mark.kernel
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_person_of_the_client_that_calls_is_asked_and_no_other(server, caller, mode):
    forms = {"a": [], "b": []}

    def person(name, said):
        async def fill(context, params):
            forms[name].append(params.message)
            return ElicitResult(action="accept", content=said)

        return fill

    def client(name, said):
        return Client(one.url, mode=mode, elicitation_callback=person(name, said))

    one = server("--approve", "ask")
    async with client("a", {"decision": "yes"}) as a, client("b", {"decision": "no", "reason": "mine"}) as b:
        first, second = caller(a), caller(b)
        texts = await asyncio.gather(
            first("run_code", code="print('of a')"), second("run_code", code="print('of b')")
        )
        assert "\nof a\n" in texts[0]
        assert 'status="rejected"' in texts[1]
        assert "mine" in texts[1]
        await first("run_code", code="print('later')", wait=0)
        assert "\nlater\n" in await first("wait")
    assert [len(forms[name]) for name in "ab"] == [2, 1]
    assert "print('of a')" in forms["a"][0]
    assert "print('of b')" in forms["b"][0]


@pytest.mark.kernel
async def test_over_http_too_who_cannot_be_asked_gets_a_no(server, caller):
    one = server("--approve", "ask")
    async with Client(one.url) as client:
        assert "nobody is here to be asked" in await caller(client)("run_code", code="print(1)")


@pytest.mark.kernel
async def test_a_signal_ends_the_kernels_of_clients_that_are_there(server, caller):
    one = server()
    try:
        async with Client(one.url) as client:
            life = Life(await caller(client)("run_code", code=LIFE))
            assert one.end() == (143, "", "codeact: it was stopped\n")
            life.check_gone()
    except (httpx.HTTPError, MCPError, ExceptionGroup):
        pass  # what a client says whose server is gone


@pytest.mark.kernel
def test_whoever_has_not_the_token_is_refused(server):
    one = server(CODEACT_MCP_TOKEN="secret")
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}):
        refused = httpx.post(one.url, json=LIST, headers=WAYS | headers)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer ")
    right = httpx.post(one.url, json=LIST, headers=WAYS | {"authorization": "Bearer secret"})
    assert "Missing session ID" in right.text


@pytest.mark.kernel
def test_a_page_of_another_site_is_refused(server):
    one = server()
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
        assert httpx.post(one.url, json=LIST, headers=WAYS | headers).status_code in (403, 421)


@pytest.mark.kernel
async def test_a_client_without_a_session_is_told_that_a_namespace_needs_one(server):
    one = server()
    async with Client(one.url, mode="2026-07-28") as client:
        with pytest.raises(MCPError, match="begin with `initialize`"):
            await client.call_tool("run_code", {"code": "print(1)"})
