"""A web search through the service that the user has configured, and no key anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
import traceback

import pytest

from codeact_kernel.agent import Settings, load_settings
from codeact_kernel.agent.options import Options
from codeact_kernel.agent.planning import plan
from codeact_kernel.errors import ConfigError, ToolError
from codeact_kernel.tools import Caller, Catalogue, ToolServer, as_tools, load_tools, workspace_tools
from codeact_kernel.tools.builtin.websearch import SearchTool

KEY = "s3cret/+key&more"
HITS = [{"title": f"T{n}", "url": f"http://{n}", "content": f"text {n}"} for n in range(30)]


def answer(body, status="200 OK", more=""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (
        f"HTTP/1.1 {status}\r\ncontent-length: {len(data)}\r\nconnection: close\r\n{more}\r\n".encode() + data
    )


@pytest.fixture
async def service(monkeypatch):
    """A search service on this machine: its address, what it was asked, and what it answers to anybody."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    asked, answers, tasks = [], [answer({"results": HITS})], set()

    async def serve(reader, writer):
        tasks.add(asyncio.current_task())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            (int(line.split(":")[1]) for line in head.lower().split("\r\n") if "content-length" in line), 0
        )
        asked.append((head, (await reader.readexactly(length)).decode()))
        writer.write(answers[-1])
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked, answers
        await asyncio.gather(*tasks, return_exceptions=True)


def searching(base, **more):
    table = {"api": "tavily", "url": base + "/search?token={key}", **more}
    return SearchTool(table, {"TAVILY_API_KEY": KEY + "\n"}).web_search


async def test_a_search_asks_the_service_and_gives_its_results(service):
    base, asked, _ = service
    results = await searching(base)("cats & dogs")
    assert results[0] == {"title": "T0", "url": "http://0", "text": "text 0"}
    assert len(results) == 10
    head, body = asked[0]
    assert head.startswith("POST /search?token=s3cret%2F%2Bkey%26more ")
    assert f"authorization: bearer {KEY}\r\n" in head.lower()
    assert json.loads(body) == {"query": "cats & dogs", "max_results": 10}
    assert len(await searching(base)("cats", 25)) == 25
    assert json.loads(asked[1][1])["max_results"] == 20


async def test_a_service_without_a_key_is_asked_by_get(service):
    base, asked, _ = service
    search = SearchTool({"api": "searxng", "url": base + "/search?q={query}&format=json"}, {}).web_search
    assert [result["title"] for result in await search("ä b", 2)] == ["T0", "T1"]
    assert asked[0][0].startswith("GET /search?q=%C3%A4%20b&format=json ")
    assert asked[0][1] == ""


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (
            answer({"detail": "no"}, "401 Unauthorized"),
            "401 .*; the user has to check the key in TAVILY_API_KEY",
        ),
        (answer({}, "429 Too Many Requests"), "; too many searches at once: wait before the next one"),
        (
            answer({}, "302 Found", "location: /other\r\n"),
            "answered 302 Found.*; the user has to give the new address",
        ),
        (answer(b"<html>"), "the service sends no JSON"),
        (answer(b"[" * 200_000), "the service sends no JSON"),
        (answer({"error": "x"}), "the answer has no 'results', only 'error'"),
        (answer(b"x" * (10 * 2**20 + 1)), "sends more than"),
        (b"nonsense\r\n\r\n", "cannot be fetched"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx", "cannot be fetched"),
    ],
)
async def test_what_goes_wrong_is_a_tool_error_without_the_key(service, sent, message):
    base, _, answers = service
    answers.append(sent)
    with pytest.raises(ToolError, match=message) as error:
        await searching(base)("cats")
    shown = "".join(traceback.format_exception(error.value))
    for form in (KEY, "s3cret"):
        assert form not in shown


async def test_searxng_s_refusal_says_where_to_allow_json(service):
    base, _, answers = service
    answers.append(answer(b"", "403 Forbidden"))
    search = SearchTool({"api": "searxng", "url": base + "/search?q={query}&format=json"}, {}).web_search
    with pytest.raises(ToolError, match=r"settings do not list json under search\.formats"):
        await search("cats")


@pytest.mark.parametrize("wrapped", ["{}", "x" * 290 + "{}", "x" * 55 + "{}"])
@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
async def test_a_key_that_the_service_repeats_is_taken_out_before_anything_is_cut(service, wrapped, status):
    base, _, answers = service
    for body in (wrapped.format(KEY), {wrapped.format(KEY): 1}, wrapped.format("s3cret%2F%2Bkey%26more")):
        answers.append(answer(body, status))
        with pytest.raises(ToolError) as error:
            await searching(base)("cats")
        assert "s3cret" not in "".join(traceback.format_exception(error.value))
    escaped = json.dumps({"results": [{"title": KEY, "url": KEY, "content": f"a{KEY}b"}]})
    answers.append(answer(escaped.replace("s3", "\\u0073\\u0033").encode()))
    assert await searching(base)("cats") == [{"title": "[key]", "url": "[key]", "text": "a[key]b"}]


async def test_neither_an_event_nor_the_tool_shows_the_key(service):
    base, _, answers = service
    answers.append(answer({"error": KEY}, "400 Bad Request"))
    events, search = [], searching(base)
    server = ToolServer(Catalogue(as_tools([search])), {}, events.append)
    with pytest.raises(ToolError):
        await server.call("web_search", ("cats",), {}, Caller("b1"))
    assert len(events) == 2
    assert KEY not in f"{events} {as_tools([search])} {search.__self__!r}"


async def test_a_redirect_does_not_carry_the_key_along(service):
    base, asked, answers = service
    answers.append(answer(b"", "307 Temporary Redirect", f"location: {base}/elsewhere?{KEY}\r\n"))
    with pytest.raises(ToolError):
        await searching(base)("cats")
    assert len(asked) == 1


async def test_a_service_that_is_not_there_is_an_error():
    with pytest.raises(ToolError, match=r"the web search failed: .* cannot be fetched"):
        await searching("http://127.0.0.1:1")("cats")


@pytest.mark.parametrize(("query", "limit"), [("", 1), (" \n", 1), ("cats", 0), ("cats", -1)])
async def test_nothing_is_not_looked_for(query, limit):
    with pytest.raises(ToolError, match="query is a text with words in it"):
        await searching("http://127.0.0.1:1")(query, limit)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({}, "the variable TAVILY_API_KEY, which shall hold the key, is not set here"),
        ({"TAVILY_API_KEY": " "}, "is not set here"),
        ({"TAVILY_API_KEY": "secrét"}, "is no key"),
        ({"TAVILY_API_KEY": "a\nb"}, "is no key"),
    ],
)
def test_without_a_key_nothing_begins(env, message):
    with pytest.raises(ConfigError, match=message) as error:
        SearchTool({"api": "tavily"}, env)
    assert "secr" not in error.value.message


def test_the_tool_is_there_where_it_is_configured(tmp_path, monkeypatch):
    monkeypatch.setenv("BRAVE_API_KEY", "k")
    table, both = {"api": "brave"}, ["fetch", "web_search"]
    assert list(as_tools(workspace_tools(tmp_path, "web", search=table))) == both
    assert list(as_tools(workspace_tools(tmp_path, "web"))) == ["fetch"]
    assert "web_search" not in as_tools(workspace_tools(tmp_path, "files", search={"api": "nosuch"}))
    assert list(as_tools(load_tools("builtin:web", tmp_path, search=table))) == both
    settings = Settings(tools=("builtin:web",), search=table)
    assert list(plan(Options(workspace=tmp_path, settings=settings)).tools) == both


def test_the_settings_file_has_a_table_for_it(tmp_path):
    (tmp_path / "codeact.toml").write_text(
        '[search]\napi = "brave"\nheaders = { Cache-Control = "no-cache" }\n'
    )
    assert load_settings(tmp_path, tmp_path / "none", trusted=True).search["api"] == "brave"
    (tmp_path / "codeact.toml").write_text('[search]\napi = "brav"\n')
    with pytest.raises(ConfigError, match=r"codeact\.toml: search: api is 'brav'; it is one of"):
        load_settings(tmp_path, tmp_path / "none")
