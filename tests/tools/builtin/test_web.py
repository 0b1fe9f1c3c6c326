"""What a server sends, as text, data or bytes."""

from __future__ import annotations

import asyncio
import contextlib
import gzip

import pytest

from codeact_kernel.approval import Passed
from codeact_kernel.errors import ToolError
from codeact_kernel.tools import Caller, Catalogue, ToolServer, as_tools, tool
from codeact_kernel.tools.builtin.exchange import LARGEST
from codeact_kernel.tools.builtin.web import fetch

HTML = b"<html><body><h1>Hi</h1><a href='/next'>on</a></body></html>"


def answer(kind, body, status="200 OK", more=""):
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n{more}"
    return f"{head}{f'content-type: {kind}' if kind else 'x-no: type'}\r\n\r\n".encode() + body


PAGES = {
    "/html": answer("text/html; charset=utf-8", HTML),
    "/latin": answer("text/html", b"<meta charset='latin-1'><p>caf\xe9"),
    "/odd": answer("text/plain; charset=nonsense", "é".encode()),
    "/text": answer("text/plain", "é".encode()),
    "/xml": answer("application/xml", b"<a/>"),
    "/json": answer("application/json", b'{"a": [1, null]}'),
    "/problem": answer("application/problem+json", b"[1]"),
    "/broken": answer("application/json", b"{"),
    "/deep": answer("application/json", b"[" * 200_000),
    "/bytes": answer("image/png", b"\x89PNG"),
    "/untyped": answer(None, b"abc"),
    "/gone": answer("text/plain", b"no such page", "404 Not Found"),
    "/moved": answer("text/plain", b"", "302 Found", "location: /html\r\n"),
    "/circle": answer("text/plain", b"", "302 Found", "location: /circle\r\n"),
    "/file": answer("text/plain", b"", "302 Found", "location: file:///etc/passwd\r\n"),
    "/large": answer("text/plain", b"x" * (LARGEST + 1)),
    "/bomb": answer("text/plain", gzip.compress(b"x" * (LARGEST + 1)), more="content-encoding: gzip\r\n"),
    "/cut": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx",
    "/nonsense": b"hello\r\n\r\n",
}


@pytest.fixture
async def server(monkeypatch):
    """A server on this machine; gives its address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    seen, tasks = [], set()

    async def serve(reader, writer):
        tasks.add(asyncio.current_task())
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        seen.append(request)
        path = request.split()[1]
        if path == "/never":
            await reader.read()
        else:
            writer.write(PAGES[path])
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("path", "form", "content"),
    [
        ("/html", "auto", "# Hi\n\n[on](BASE/next)"),
        ("/html", "text", HTML.decode()),
        ("/html", "bytes", HTML),
        ("/moved", "auto", "# Hi\n\n[on](BASE/next)"),
        ("/latin", "auto", "café"),
        ("/odd", "auto", "é"),
        ("/text", "auto", "é"),
        ("/xml", "auto", "<a/>"),
        ("/json", "auto", {"a": [1, None]}),
        ("/json", "text", '{"a": [1, null]}'),
        ("/problem", "auto", [1]),
        ("/bytes", "auto", b"\x89PNG"),
        ("/untyped", "auto", b"abc"),
        ("/untyped", "text", "abc"),
    ],
)
async def test_what_comes_back_goes_by_the_content_type_or_the_form(server, path, form, content):
    base, _ = server
    expected = content.replace("BASE", base) if isinstance(content, str) else content
    assert await fetch(base + path, form) == expected


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/gone", "answered 404 Not Found: no such page"),
        ("/circle", "redirects more than 20 times"),
        ("/file", "cannot be fetched"),
        ("/large", f"sends more than {LARGEST} bytes"),
        ("/bomb", f"sends more than {LARGEST} bytes"),
        ("/broken", "sends no JSON"),
        ("/deep", "sends no JSON"),
        ("/cut", "cannot be fetched"),
        ("/nonsense", "cannot be fetched"),
    ],
)
async def test_what_cannot_be_had_is_an_error(server, path, message):
    with pytest.raises(ToolError, match=message):
        await fetch(server[0] + path)


async def test_a_server_that_never_answers_is_left(server):
    with pytest.raises(ToolError, match=r"took longer than 0\.1 s"):
        await fetch(server[0] + "/never", timeout=0.1)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "nothing", "", "ftp://host/x", "http://[", "http://127.0.0.1:1/"]
)
async def test_what_is_no_address_is_an_error(url, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(ToolError, match="cannot be fetched"):
        await fetch(url)


async def test_headers_are_sent_and_ours_can_be_replaced(server):
    base, seen = server
    await fetch(base + "/text")
    await fetch(base + "/text", headers={"X-Mine": "1", "User-Agent": "me"})
    assert "user-agent: codeact-kernel/" in seen[0].lower()
    assert "x-mine: 1" in seen[1].lower()
    assert "user-agent: me" in seen[1].lower()


async def test_many_at_once(server):
    base, _ = server
    assert await asyncio.gather(*[fetch(base + "/text") for _ in range(50)]) == ["é"] * 50


async def test_an_unknown_form_is_an_error():
    with pytest.raises(ToolError, match="it is one of auto, text, json, bytes"):
        await fetch("http://127.0.0.1/", form="html")


async def test_each_other_host_of_a_redirect_is_judged_and_the_same_one_is_not_twice(server, monkeypatch):
    base, seen = server
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    port = base.rpartition(":")[2]
    PAGES["/away"] = answer("text/plain", b"", "302 Found", f"location: http://localhost:{port}/html\r\n")
    judged, allowed = [], True

    def gate(call):
        judged.append(call.arguments["url"])
        if "localhost" in call.arguments["url"] and not allowed:
            raise ToolError("not there")
        return Passed()

    it = ToolServer(Catalogue(as_tools([tool(fetch, kind="network")])), {}, lambda event: None, gate=gate)
    assert "# Hi" in await it.call("fetch", (f"{base}/moved",), {}, Caller("b"))
    assert judged == [f"{base}/moved"]
    assert "# Hi" in await it.call("fetch", (f"{base}/away",), {}, Caller("b"))
    assert judged[1:] == [f"{base}/away", f"http://localhost:{port}/html"]
    allowed, before = False, len(seen)
    with pytest.raises(ToolError, match="not there"):
        await it.call("fetch", (f"{base}/away",), {}, Caller("b"))
    assert len(seen) == before + 1
    assert "# Hi" in await fetch(f"{base}/away")
