"""Both doors of the gate, with a real kernel behind them."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest
from talk import block, delegate, heard, when

from codeact_kernel import Agent
from codeact_kernel.approval import ALWAYS, Answer
from codeact_kernel.events import ApprovalAsked, BlockChanged, Decided
from codeact_kernel.testing import Cast, ScriptedModel
from codeact_kernel.tools import tool, workspace_tools

pytestmark = pytest.mark.kernel


@tool(kind="write")
def send(to: str, text: str = "") -> str:
    """Send something."""
    return f"sent {text} to {to}"


@tool(kind="read")
def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


def mine(n: int) -> int:
    """Do something, nobody says what."""
    return n


class Person:
    """Says yes, unless a test says something else."""

    def __init__(self, say=lambda request: True):
        self.say = say
        self.asked = []

    async def __call__(self, request):
        self.asked.append(request)
        said = self.say(request)
        return await said if asyncio.iscoroutine(said) else said

    def names(self):
        return [request.name for request in self.asked]


def last(model):
    return model.requests[-1].messages[-1].content


def blocks_pass(say):
    return lambda request: True if request.door == "block" else say(request)


async def run(tmp_path, person, *replies, **options):
    """Play a run. Blocks of one reply may end one by one, and the model is then asked once more for each."""
    model, events = ScriptedModel([*replies, "Done."]), []
    options = {"tools": [send, look, mine], "approve": "ask", **options}
    async with Agent(
        model, workspace=tmp_path, approver=person, observers=[events.append], **options
    ) as agent:
        done = await agent.run("Go.")
    assert done.answer == "Done."
    return model, events, done


async def test_a_block_and_its_calls_are_asked_about_and_reading_is_not(tmp_path):
    person = Person()
    code = "print(look('x'), send('a', text='b'), mine(3))"
    model, events, _ = await run(tmp_path, person, block(code, id="one"))
    assert "saw x sent b to a 3" in last(model)
    assert person.names() == ["run_code", "send", "mine"]
    assert [request.block_id for request in person.asked] == ["one"] * 3
    assert person.asked[0].block.code == code
    assert person.asked[1].arguments == {"to": "a", "text": "b"}
    assert person.asked[2].classes == ("write", "network")
    decided = [(e.name, e.allowed, e.by) for e in events if isinstance(e, Decided)]
    assert decided == [
        ("run_code", True, "person"),
        ("look", True, "rule"),
        ("send", True, "person"),
        ("mine", True, "person"),
    ]
    assert len([e for e in events if isinstance(e, ApprovalAsked)]) == 3


async def test_a_refused_block_is_rejected_and_the_model_reads_why(tmp_path):
    person = Person(lambda request: Answer(False, "too early"))
    model, _, done = await run(tmp_path, person, block("open('made', 'w')", id="one"))
    assert '<run_code_result id="one" status="rejected"' in last(model)
    assert "It did not run, because the person said no: too early." in last(model)
    assert not (tmp_path / "made").exists()
    cell = next(c for c in json.loads(done.record.read_text())["cells"] if c["cell_type"] == "code")
    assert cell["metadata"]["codeact"]["status"] == "rejected"
    assert cell["metadata"]["tags"] == ["skip-execution"]


async def test_a_refused_call_is_an_error_in_the_block_and_nothing_is_called(tmp_path):
    called = []

    @tool(kind="write")
    def burn(what: str) -> None:
        called.append(what)

    person = Person(blocks_pass(lambda request: Answer(False, "not that")))
    code = "try:\n    burn('x')\nexcept ToolError as error:\n    print('caught', error)\nprint(burn.try_('y').ok)"
    model, _, _ = await run(tmp_path, person, block(code), tools=[burn])
    assert "caught burn was not called, because the person said no: not that." in last(model)
    assert "\nFalse\n" in last(model)
    assert called == []


async def test_an_edited_block_runs_and_the_model_and_the_record_know(tmp_path):
    person = Person(lambda request: Answer(True, code="print('edited')"))
    model, events, done = await run(tmp_path, person, block("print('written')", id="one"))
    assert "edited\n" in last(model)
    assert "it was changed by a person before it ran; this is what ran:\nprint('edited')" in last(model)
    assert [e.block.code for e in events if isinstance(e, BlockChanged)] == ["print('edited')"]
    cell = next(c for c in json.loads(done.record.read_text())["cells"] if c["cell_type"] == "code")
    assert "".join(cell["source"]) == "print('edited')"


async def test_an_edited_call_is_what_is_made(tmp_path):
    person = Person(blocks_pass(lambda request: Answer(True, arguments={"to": "b", "text": "better"})))
    model, _, _ = await run(tmp_path, person, block("print(send('a', 'x'))"))
    assert "sent better to b" in last(model)


async def test_a_later_block_of_the_reply_that_needs_its_names_waits_for_approval_too_and_others_do_not(
    tmp_path,
):
    free = asyncio.Event()

    async def decide(request):
        if request.block_id == "makes":
            await free.wait()
        return True

    def on_event(event):
        if type(event).__name__ == "BlockFinished" and event.result.id == "free":
            free.set()

    reply = "\n".join(
        [
            block("import time\nx = time.time()", id="makes"),
            block("print('x is', x > 0)", id="needs"),
            block("print('free')", id="free"),
        ]
    )
    model, events = ScriptedModel([reply, "I wait.", "I wait.", "Done.", "Done."]), []
    rules = "[rules]\nallow = [{tool = 'run_code', arguments = {code = 'print*'}}]\n"
    (tmp_path / "codeact.toml").write_text(rules)
    async with Agent(
        model,
        workspace=tmp_path,
        approve="ask",
        approver=decide,
        trust_workspace=True,
        observers=[events.append, on_event],
    ) as agent:
        await agent.run("Go.")
    ended = {e.result.id: e.result for e in events if type(e).__name__ == "BlockFinished"}
    assert list(ended) == ["free", "makes", "needs"]
    assert {result.status for result in ended.values()} == {"ok"}
    assert ended["needs"].outputs[0].text == "x is True\n"


async def test_blocks_that_need_what_a_refused_one_makes_are_skipped(tmp_path):
    person = Person(lambda request: request.block_id != "makes")
    reply = "\n".join(
        [block("x = 1", id="makes"), block("print(x)", id="needs"), block("print(2)", id="free")]
    )
    _, events, _ = await run(tmp_path, person, block("x = 0"), reply, "Done.", "Done.")
    ended = {e.result.id: e.result.status for e in events if type(e).__name__ == "BlockFinished"}
    assert ended == {"b1": "ok", "makes": "rejected", "needs": "skipped", "free": "ok"}


async def test_nobody_is_asked_about_a_block_that_needs_what_was_refused_meanwhile(tmp_path):
    person = Person(lambda request: request.block_id != "makes")
    reply = "\n".join([block("x = 1", id="makes"), block("y = x", id="needs"), block("print(y)", id="last")])
    _, events, _ = await run(tmp_path, person, reply, "Done.", "Done.")
    ended = {e.result.id: e.result.status for e in events if type(e).__name__ == "BlockFinished"}
    assert ended == {"makes": "rejected", "needs": "skipped", "last": "skipped"}
    assert [request.block_id for request in person.asked][:1] == ["makes"]


async def test_a_block_can_be_cancelled_while_somebody_thinks_about_it(tmp_path):
    asked = asyncio.Event()

    async def think(request):
        asked.set()
        await asyncio.Event().wait()

    model = ScriptedModel([block("print(1)", id="one"), "Done."])
    async with Agent(model, workspace=tmp_path, approve="ask", approver=think) as agent:
        running = asyncio.create_task(agent.run("Go."))
        await asked.wait()
        assert [live.state for live in agent.live] == ["waiting for approval"]
        assert agent.cancel("one")
        done = await running
    assert done.answer == "Done."
    assert "it still waited for approval and has not run" in last(model)


async def test_the_deadline_of_a_block_stands_still_while_its_call_is_decided_about(tmp_path):
    async def slowly(request):
        await asyncio.sleep(1.5)
        return True

    person = Person(blocks_pass(slowly))
    model, _, _ = await run(tmp_path, person, block("print(send('a'))", timeout="1s"))
    assert "sent  to a" in last(model)


async def test_a_sub_agent_passes_the_same_gate_and_what_was_always_allowed_counts_for_it(tmp_path):
    person = Person(lambda request: ALWAYS)
    model = Cast(
        {
            "ROOT": when(
                block("print(send('a'))") + "\n" + delegate("SCOUT: send.", name="scout", namespace="send"),
                ("agent_result", "Done."),
            ),
            "SCOUT": [block("print(send('a'), send.try_('b').ok)"), "I sent."],
        }
    )
    async with Agent(model, tools=[send], workspace=tmp_path, approve="ask", approver=person) as agent:
        run = await agent.run("ROOT")
    assert run.answer == "Done."
    assert "sent  to a True" in heard(model, "SCOUT")
    assert sorted(person.names()) == ["run_agent", "run_code", "send", "send"]
    assert next(r for r in person.asked if r.name == "run_agent").arguments["task"] == "SCOUT: send."
    assert {r.arguments["to"]: r.agent for r in person.asked if r.name == "send"}["b"] == "scout"


async def test_every_way_of_calling_a_tool_goes_through_the_gate(tmp_path):
    person = Person(blocks_pass(lambda request: False))
    code = """
    import threading, asyncio
    said = []
    def call(how):
        try:
            how()
            said.append("made")
        except ToolError as error:
            said.append("refused" if "said no" in str(error) else str(error))
    call(lambda: send('a'))
    call(lambda: send(to='a', text='b'))
    thread = threading.Thread(target=call, args=[lambda: send('a')])
    thread.start(); thread.join()
    result = tools.call("send", {"to": "a"})
    said.append("refused" if "said no" in result.error else result)
    result = tools.call(send, ["a"])
    said.append("refused" if "said no" in result.error else result)
    try:
        await send.aio('a')
    except ToolError as error:
        said.append("refused")
    import functools
    call(functools.partial(get_ipython().user_ns['send'], 'a'))
    print(said)
    """
    import textwrap

    model, _, _ = await run(tmp_path, person, block(textwrap.dedent(code).strip()))
    assert str(["refused"] * 7) in last(model)


async def test_a_thousand_gathered_calls_are_each_decided_about(tmp_path):
    person = Person(blocks_pass(lambda request: request.arguments["to"] != "500"))
    code = (
        "import asyncio\n"
        "done = await asyncio.gather(*(send.aio(str(n)) for n in range(1000)), return_exceptions=True)\n"
        "print(sum(isinstance(d, ToolError) for d in done), len(done), done[500])"
    )
    model, _, _ = await run(tmp_path, person, block(code))
    assert "1 1000 send was not called, because the person said no" in last(model)
    assert len(person.asked) == 1001


async def test_unattended_what_would_be_asked_is_denied_and_the_run_goes_on(tmp_path):
    model, _, _ = await run(tmp_path, None, block("print(send('a'))", id="one"))
    assert '<run_code_result id="one" status="rejected"' in last(model)
    assert "nobody is here to be asked" in last(model)


async def test_the_built_in_tools_show_a_diff_and_an_edit_that_was_approved_is_made(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    person = Person()
    code = "edit_file('a.py', 'x = 1', 'x = 2')\nwrite_file('new.py', 'y = 1\\n')\nprint(read_file('a.py'), end='')"
    model, _, _ = await run(tmp_path, person, block(code), tools=workspace_tools(tmp_path, "files"))
    assert "x = 2" in last(model)
    edit, write = person.asked[1:]
    assert edit.preview == "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2"
    assert "+y = 1" in write.preview
    assert person.names() == ["run_code", "edit_file", "write_file"]


async def test_a_path_that_was_swapped_after_it_was_judged_is_not_opened(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "closed").mkdir()
    (tmp_path / "at").symlink_to("open")

    def swap(request):
        (tmp_path / "at").unlink()
        (tmp_path / "at").symlink_to("closed")
        return True

    person = Person(blocks_pass(swap))
    tools = workspace_tools(tmp_path, "files")
    model, _, _ = await run(tmp_path, person, block("print(write_file.try_('at/x', 'y').error)"), tools=tools)
    assert "'at/x' leads to another place than a moment ago" in last(model)
    assert not (tmp_path / "closed" / "x").exists()


SERVER = """
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
app = MCPServer("s")
@app.tool(annotations=ToolAnnotations(readOnlyHint=True, openWorldHint=False))
def peek() -> str:
    return "peeked"
@app.tool(annotations=ToolAnnotations(destructiveHint=True))
def wipe() -> str:
    return "wiped"
@app.tool()
def odd() -> str:
    return "odd"
app.run()
"""


async def test_the_tools_of_an_mcp_server_have_the_kinds_that_it_hints_at(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "server.py").write_text(SERVER)
    servers = {"mcpServers": {"s": {"command": sys.executable, "args": [str(tmp_path / "server.py")]}}}
    person = Person(blocks_pass(lambda request: request.name != "mcp:s:wipe"))
    code = "print(mcp.s.peek(), mcp.s.odd(), mcp.s.wipe.try_().ok, tools.call('mcp.s.wipe').ok)"
    model, _, _ = await run(tmp_path, person, block(code), mcp=servers)
    assert "peeked odd False False" in last(model)
    assert {request.name: request.classes for request in person.asked if request.door == "call"} == {
        "mcp:s:odd": ("write", "network"),
        "mcp:s:wipe": ("write", "destructive", "network"),
    }
