"""Servers of the SDK in memory: their tools as Python, and what they say and ask meanwhile."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Literal

import pytest
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, ToolAnnotations
from pydantic import BaseModel

from codeact_kernel.errors import ConfigError, ToolError
from codeact_kernel.inkernel.wire import Picture
from codeact_kernel.tools.mcp import calls as calls_module
from codeact_kernel.tools.toolset import Toolset

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


class Issue(BaseModel):
    number: int
    title: str


class Answer(BaseModel):
    name: str


block = contextvars.ContextVar("block", default="")


@pytest.fixture
def told():
    """What each block has been told; `notice` of it is passed to servers."""

    class Told(dict):
        def notice(self, text):
            self.setdefault(block.get(), []).append(text)

    return Told()


def demo():
    server = MCPServer("demo", instructions="# Demonstrates things.\nAnd more.")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def search(query: str, page: int = 1, state: Literal["open", "closed"] = "open") -> list[Issue]:
        """Search issues."""
        return [Issue(number=page, title=f"{query} {state}")]

    @server.tool()
    def first(query: str) -> Issue:
        return Issue(number=1, title=query)

    @server.tool()
    def fails() -> str:
        raise ValueError("no such thing")

    @server.tool(name="dashed-name")
    def dashed() -> str:
        return "dashed"

    @server.tool()
    def picture() -> Image:
        return Image(data=b"png", format="png")

    @server.tool()
    async def works(steps: int, ctx: Context) -> str:
        for n in range(steps):
            await ctx.report_progress(n, steps, f"step {n}")
            await asyncio.sleep(0)
        return "done"

    @server.tool()
    async def says(lines: list[str], ctx: Context) -> str:
        await ctx.debug("not shown")
        for line in lines:
            await ctx.info(line)
        await ctx.warning({"level": 7})
        return "said"

    @server.tool()
    async def asks(ctx: Context) -> str:
        result = await ctx.elicit("What is your \u202ename?", Answer)
        return f"{result.action} {result.data.name if result.action == 'accept' else ''}"

    @server.tool()
    async def sends(ctx: Context, url: str = "https://example.org/login") -> str:
        return (await ctx.elicit_url("Log in", url, "e1")).action

    @server.tool()
    async def roots(ctx: Context) -> list[str]:
        return [str(root.uri) for root in (await ctx.session.list_roots()).roots]

    @server.resource("note://today", mime_type="text/plain")
    def today() -> str:
        return "A note."

    @server.resource("pixel://{name}", mime_type="image/png")
    def pixel(name: str) -> bytes:
        return name.encode()

    @server.prompt()
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Say hello to {name}."

    return server


async def failure(awaitable):
    with pytest.raises(ToolError) as caught:
        await awaitable
    return str(caught.value)


async def test_it_is_a_toolset_that_starts_nothing_by_itself(in_memory):
    toolset = in_memory(demo())
    assert isinstance(toolset, Toolset)
    assert (toolset.name, toolset.about, toolset.known()) == ("mcp.demo", "", None)
    await toolset.tools()
    assert toolset.about == "Demonstrates things."
    assert toolset.known() is await toolset.tools()


async def test_a_tool_as_the_kernel_and_the_prompt_see_it(in_memory):
    tools = await in_memory(demo(), name="my-server").tools()
    search = tools["search"]
    assert search.group == "mcp.my_server"
    assert search.called == "mcp:my_server:search"
    assert search.signature == (
        "(*, query: str, page: int = 1, state: Literal['open', 'closed'] = 'open') -> list[dict]"
    )
    assert search.doc == "Search issues."
    assert search.definition.startswith(
        "class Issue(TypedDict):\n    number: int\n    title: str\n\ndef search("
    )
    assert "-> list[Issue]:" in search.definition
    assert not search.is_async
    assert not search.writes
    assert tools["first"].writes
    assert tools["dashed_name"].called == "mcp:my_server:dashed_name"


async def test_results_are_objects(in_memory, call):
    toolset = in_memory(demo())
    assert await call(toolset, "search", query="q", state="closed") == [{"number": 1, "title": "q closed"}]
    assert await call(toolset, "first", query="q") == {"number": 1, "title": "q"}
    assert await call(toolset, "dashed_name") == "dashed"
    assert await call(toolset, "picture") == Picture(b"png", "image/png")


async def test_an_ellipsis_leaves_a_parameter_to_the_server(in_memory, call):
    assert await call(in_memory(demo()), "search", query="q", page=...) == [{"number": 1, "title": "q open"}]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "mcp.demo.search needs query"),
        ({"query": "q", "pages": 1}, "mcp.demo.search has no parameter 'pages'; did you mean page?"),
        ({"query": "q", "x": 1}, "mcp.demo.search has no parameter 'x'; it has query, page, state"),
        ({"query": {1}}, "mcp.demo.search takes plain data only"),
        ({"query": float("nan")}, "mcp.demo.search takes plain data only"),
        ({"query": "q", "page": "x"}, "mcp.demo.search: Error executing tool search: 1 validation error"),
    ],
)
async def test_wrong_arguments_are_named(in_memory, call, arguments, text):
    assert (await failure(call(in_memory(demo()), "search", **arguments))).startswith(text)


async def test_an_error_of_a_tool_is_its_text(in_memory, call):
    assert "mcp.demo.fails: Error executing tool fails" in await failure(call(in_memory(demo()), "fails"))


async def test_resources_and_prompts(in_memory, call):
    toolset = in_memory(demo())
    listed = await call(toolset, "resources")
    assert [r.get("uri") or r["uriTemplate"] for r in listed] == ["note://today", "pixel://{name}"]
    assert await call(toolset, "read_resource", uri="note://today") == "A note."
    assert await call(toolset, "read_resource", uri="pixel://red") == Picture(b"red", "image/png")
    assert "mcp.demo.read_resource" in await failure(call(toolset, "read_resource", uri="note://never"))
    (prompt,) = await call(toolset, "prompts")
    assert prompt["arguments"] == [{"name": "name", "required": True}]


async def test_a_prompt_is_its_messages(in_memory):
    tools = await in_memory(demo()).tools()
    messages = await tools["get_prompt"].function("greet", name="May")
    assert messages == [{"role": "user", "content": "Say hello to May."}]
    assert "mcp.demo.get_prompt" in await failure(tools["get_prompt"].function("greet"))


async def test_our_own_names_give_way_to_the_servers(in_memory, call):
    server = demo()
    server.add_tool(lambda: "mine", name="resources", structured_output=False)
    toolset = in_memory(server)
    assert await call(toolset, "resources") == "mine"
    assert len(await call(toolset, "mcp_resources")) == 2


async def test_two_servers_with_the_same_tools_do_not_meet(in_memory, call):
    one, two = in_memory(demo(), name="one"), in_memory(MCPServer("two"), name="two")
    assert (await call(one, "search", query="q"))[0]["title"] == "q open"
    assert list(await two.tools()) == ["resources", "read_resource", "prompts", "get_prompt"]


async def test_progress_comes_to_the_call_that_it_is_of(in_memory, call, told, monkeypatch):
    monkeypatch.setattr(calls_module, "PROGRESS", 0.0)
    toolset = in_memory(demo(), notice=told.notice)

    async def run(name, steps):
        block.set(name)
        return await call(toolset, "works", steps=steps)

    await asyncio.gather(run("a", 2), run("b", 3))
    assert told == {
        "a": [f"mcp.demo.works: {n}/2 step {n}" for n in range(2)],
        "b": [f"mcp.demo.works: {n}/3 step {n}" for n in range(3)],
    }


async def test_progress_is_a_line_a_second(in_memory, call, told):
    await call(in_memory(demo(), notice=told.notice), "works", steps=1000)
    assert told == {"": ["mcp.demo.works: 0/1000 step 0"]}


async def test_log_messages_come_to_the_block_that_calls(in_memory, call, told):
    toolset = in_memory(demo(), notice=told.notice)
    block.set("a")
    await call(toolset, "says", lines=["one", "two\nlines \x1b[2J"])
    assert told == {"a": ["mcp.demo: one", "mcp.demo: two lines [2J", 'mcp.demo (warning): {"level": 7}']}


async def test_a_flood_of_log_messages_is_cut(in_memory, call, told):
    await call(in_memory(demo(), notice=told.notice), "says", lines=["x"] * 500)
    assert len(told[""]) == calls_module.MESSAGES + 1
    assert told[""][-1] == "mcp.demo: it says more, which is not shown here"


async def test_a_question_is_answered_in_the_context_of_its_call(in_memory, call, told):
    asked = []

    async def elicit(elicitation):
        asked.append((block.get(), elicitation))
        return {"name": "May"}

    block.set("a")
    assert await call(in_memory(demo(), notice=told.notice, elicit=elicit), "asks") == "accept May"
    ((where, question),) = asked
    assert (where, question.server, question.message, question.url) == ("a", "demo", "What is your name?", "")
    assert question.schema["properties"]["name"]["type"] == "string"


async def test_a_page_to_visit_is_consented_to_or_not(in_memory, call):
    asked = []

    async def elicit(elicitation):
        asked.append(elicitation.url)
        return {} if len(asked) == 1 else None

    toolset = in_memory(demo(), elicit=elicit)
    assert [await call(toolset, "sends"), await call(toolset, "sends")] == ["accept", "decline"]
    assert await call(toolset, "sends", url="file:///etc/passwd") == "decline"
    assert asked == ["https://example.org/login"] * 2


async def test_without_a_person_a_question_is_declined_and_the_block_is_told(in_memory, call, told):
    assert await call(in_memory(demo(), notice=told.notice), "asks") == "decline "
    assert told == {"": ["mcp.demo.asks asks a person, and there is none: What is your name?"]}


async def test_a_person_that_cannot_be_asked_has_declined(in_memory, call, told):
    async def elicit(elicitation):
        raise ConfigError("nobody is there")

    assert await call(in_memory(demo(), notice=told.notice, elicit=elicit), "asks") == "decline "
    assert told == {"": ["mcp.demo: its question was not answered: nobody is there"]}


async def test_a_question_of_a_call_that_is_given_up_is_taken_back(in_memory, call):
    asked, taken_back = asyncio.Event(), asyncio.Event()

    async def elicit(elicitation):
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            taken_back.set()

    toolset = in_memory(demo(), elicit=elicit)
    task = asyncio.create_task(call(toolset, "asks"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(10):
        await taken_back.wait()
    assert await call(toolset, "first", query="q") == {"number": 1, "title": "q"}


async def test_a_question_out_of_the_blue_is_declined(in_memory, call):
    answered = asyncio.get_running_loop().create_future()
    server = demo()

    @server.tool()
    async def later(ctx: Context) -> str:
        async def ask():
            await over.wait()
            result = await ctx.session.send_request(
                ElicitRequest(
                    params=ElicitRequestFormParams(
                        message="?", requested_schema={"type": "object", "properties": {}}
                    )
                ),
                ElicitResult,
            )
            answered.set_result(result.action)

        tasks.append(asyncio.create_task(ask()))
        return "ok"

    tasks, over = [], asyncio.Event()

    async def elicit(elicitation):
        raise AssertionError("asked")

    toolset = in_memory(server, elicit=elicit)
    assert await call(toolset, "later") == "ok"
    over.set()
    async with asyncio.timeout(10):
        assert await answered == "decline"


async def test_the_time_in_which_a_person_is_asked_does_not_count(in_memory, call):
    loop = asyncio.get_running_loop()

    async def elicit(elicitation):
        end = loop.time() + 0.5
        while loop.time() < end:
            await asyncio.sleep(0.01)
        return {"name": "slow"}

    assert await call(in_memory(demo(), elicit=elicit, timeout=0.3), "asks") == "accept slow"


async def test_its_root_is_the_workspace(in_memory, call, tmp_path):
    assert await call(in_memory(demo(), workspace=tmp_path), "roots") == [tmp_path.as_uri()]


async def test_a_later_run_knows_the_tools_without_starting_anything(in_memory, call, cache):
    before = in_memory(demo(), cache=cache)
    await before.tools()
    later = in_memory(demo(), cache=cache)
    known = later.known()
    assert later.about == "Demonstrates things."
    assert known.keys() == before.known().keys()
    assert known["search"].definition == before.known()["search"].definition
    assert await known["first"].function(query="q") == {"number": 1, "title": "q"}


async def test_a_tool_that_is_gone_is_told_and_the_cache_renewed(in_memory, cache):
    await in_memory(demo(), cache=cache).tools()
    server = demo()
    server.remove_tool("search")
    server.add_tool(lambda: 1, name="search_all")
    later = in_memory(server, cache=cache)
    text = await failure(later.known()["search"].function(query="q"))
    assert text == "mcp.demo.search: the server does not have this tool any more; it has search_all"
    assert "search" not in later.known()
    assert "search" not in in_memory(server, cache=cache).known()


async def test_a_change_of_its_tools_is_seen(in_memory, call):
    server = demo()

    @server.tool()
    async def grow(ctx: Context) -> str:
        server.add_tool(lambda: "new", name="grown", structured_output=False)
        await ctx.session.send_tool_list_changed()
        return "grown"

    toolset = in_memory(server)
    assert "grown" not in await toolset.tools()
    await call(toolset, "grow")
    assert await call(toolset, "grown") == "new"


async def test_fifty_calls_at_once_each_get_their_own(in_memory, call):
    toolset = in_memory(demo())
    found = await asyncio.gather(*(call(toolset, "first", query=str(n)) for n in range(50)))
    assert [issue["title"] for issue in found] == [str(n) for n in range(50)]


async def test_the_expressions_of_a_schema_of_a_stranger_are_not_run(in_memory, call):
    text = "a" * 60 + "!"
    server = MCPServer("lies")

    @server.tool()
    def slow() -> str:
        return text

    for_ever = {"type": "string", "pattern": "^(a+)+$"}
    metadata = server._tool_manager.get_tool("slow").fn_metadata
    metadata.output_schema = {"type": "object", "properties": {"result": for_ever}, "required": ["result"]}
    assert await call(in_memory(server), "slow") == text
