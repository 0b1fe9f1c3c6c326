"""Agents with a real kernel and a scripted model."""

from __future__ import annotations

import asyncio
import json
import re
import sys

import nbformat
import pytest

from codeact_kernel import Agent
from codeact_kernel.errors import ConfigError, ModelUnreachable
from codeact_kernel.events import (
    BlockFinished,
    BlockOutput,
    BlockStarted,
    Observation,
    ReplyDelta,
    RunEnded,
    RunStarted,
)
from codeact_kernel.testing import ScriptedEndpoint, ScriptedModel

pytestmark = pytest.mark.kernel


def block(code, **attributes):
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<run_code{written}>\n{code}\n</run_code>"


def last(model, call=-1):
    return model.requests[call].messages[-1].content


async def test_a_task_runs_end_to_end_and_leaves_a_notebook(tmp_path):
    model = ScriptedModel(["Let me see.\n" + block("x = 6 * 7\nprint(x)", id="a"), "It is 42."])
    async with Agent(model, workspace=tmp_path) as agent:
        run = await agent.run("What is 6 times 7?")
    assert (run.stop, run.answer, run.turns) == ("answered", "It is 42.", 2)
    assert last(model).endswith("\n42\n</run_code_result>")
    assert run.record.parent.parent == tmp_path.resolve() / ".codeact" / "runs" or run.record.exists()
    notebook = nbformat.read(run.record, as_version=4)
    nbformat.validate(notebook)
    (cell,) = [c for c in notebook.cells if c.cell_type == "code"]
    assert cell.outputs[0].text == "42\n"
    assert (run.record.parent / "journal.jsonl").exists()


async def test_the_same_against_an_endpoint_that_streams(tmp_path):
    async with ScriptedEndpoint([block("print(2**20)"), "1048576"]) as endpoint:
        async with Agent("gpt-test", base_url=endpoint.base_url, workspace=tmp_path) as agent:
            run = await agent.run("2**20?")
        assert run.answer == "1048576"
        assert len(endpoint.requests) == 2


async def test_an_unreachable_endpoint_is_an_error_and_the_record_is_whole(tmp_path):
    async with Agent(
        "m", base_url="http://127.0.0.1:9/v1", workspace=tmp_path, run_dir=tmp_path / "r"
    ) as agent:
        with pytest.raises(ModelUnreachable):
            await agent.run("x")
    notebook = nbformat.read(tmp_path / "r" / "run.ipynb", as_version=4)
    assert '"failed"' in json.dumps(notebook.metadata.codeact)


async def test_functions_of_the_user_are_tools(tmp_path):
    calls = []

    def search(query: str, limit: int = 3) -> list[str]:
        """Search the pages."""
        calls.append((query, limit))
        return [f"{query} {i}" for i in range(limit)]

    async def fetch(url: str) -> str:
        """Fetch a page."""
        return f"<p>{url}</p>"

    code = "hits = search('cats', limit=2)\nprint(hits)\nprint(await fetch(hits[0]))"
    model = ScriptedModel([block(code), "done"])
    async with Agent(model, tools=[search, fetch], workspace=tmp_path) as agent:
        await agent.run("x")
    assert calls == [("cats", 2)]
    assert "['cats 0', 'cats 1']\n<p>cats 0</p>" in last(model)
    system = model.requests[0].messages[0].content
    assert "- search(query: str, limit: int = 3) -> list[str]: Search the pages." in system
    assert "- await fetch(url: str) -> str: Fetch a page." in system


async def test_a_tool_that_fails_is_an_error_of_the_block(tmp_path):
    def broken() -> None:
        """Fail."""
        raise ValueError("no luck")

    model = ScriptedModel([block("broken()"), "done"])
    async with Agent(model, tools=[broken], workspace=tmp_path) as agent:
        await agent.run("x")
    assert "ToolError: broken failed: ValueError: no luck" in last(model)


async def test_values_and_files_are_seeded(tmp_path):
    code = "print(sum(df), shout('hi'), open('notes/a.txt').read())"
    model = ScriptedModel([block(code), "done"])
    namespace = {"df": [1, 2, 3], "shout": lambda text: text.upper() + "!"}
    files = {"notes/a.txt": "from a file"}
    async with Agent(model, namespace=namespace, files=files, workspace=tmp_path) as agent:
        await agent.run("x")
    assert "6 HI! from a file" in last(model)
    assert "- df: list of length 3" in model.requests[0].messages[0].content


async def test_output_cancel_and_compaction_are_reached_through_self(tmp_path):
    model = ScriptedModel(
        [
            "old words\n"
            + block("print('the output')", id="a")
            + "\n"
            + block("import asyncio\nawait asyncio.sleep(60)", id="slow"),
            block("print('again:', self.output('a'))\nprint(self.cancel('slow'))", id="b"),
            "I wait.",
            block("self.compact_knowledge('x is 3')\nprint('compacted')", id="c"),
            "done",
        ]
    )
    async with Agent(model, workspace=tmp_path) as agent:
        run = await agent.run("x")
    everything = "\n".join(m.content for r in model.requests for m in r.messages)
    assert "again: the output" in everything
    assert 'id="slow" status="cancelled"' in everything
    final = "\n".join(m.content for m in model.requests[-1].messages)
    assert "x is 3" in final
    assert "old words" not in final
    assert run.answer == "done"


async def test_a_conversation_goes_on_in_one_namespace_and_one_record(tmp_path):
    model = ScriptedModel([block("x = 5"), "ok", block("print(x)"), "5"])
    async with Agent(model, workspace=tmp_path, run_dir=tmp_path / "r") as agent:
        await agent.run("set x")
        run = await agent.run("print x")
    assert (run.answer, run.turns) == ("5", 2)
    text = (tmp_path / "r" / "run.ipynb").read_text()
    assert "set x" in text
    assert "print x" in text


async def test_events_are_streamed_in_order(tmp_path):
    model = ScriptedModel([block("print('x')", id="a"), "done"], chunk=5)
    async with Agent(model, workspace=tmp_path, run_dir=False) as agent:
        events = [event async for event in agent.stream("go")]
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunEnded)
    assert "".join(e.text for e in events if isinstance(e, ReplyDelta)).endswith("done")
    kinds = [type(e) for e in events]
    assert kinds.index(BlockOutput) < kinds.index(BlockFinished)


async def test_leaving_a_stream_stops_the_run(tmp_path):
    model = ScriptedModel([block("import time\ntime.sleep(60)"), "never"])
    async with Agent(model, workspace=tmp_path, run_dir=False) as agent:
        async with asyncio.timeout(15):
            events = agent.stream("go")
            async for event in events:
                if type(event).__name__ == "BlockStarted":
                    break
            await events.aclose()
            assert agent.live == []


async def test_a_person_steers_cancels_and_stops(tmp_path):
    model = ScriptedModel(
        [
            block("import time\nprint('on', flush=True)\ntime.sleep(60)", id="a"),
            "I wait.",
            block("import time\ntime.sleep(60)", id="b"),
        ]
    )
    began = asyncio.Event()

    def see(event):
        if isinstance(event, BlockStarted):
            began.set()

    async with Agent(model, workspace=tmp_path, run_dir=tmp_path / "r", observers=[see]) as agent:
        task = asyncio.ensure_future(agent.run("go"))
        async with asyncio.timeout(20):
            await began.wait()
            agent.steer("skip page 7")
            while model.calls < 2:
                await asyncio.sleep(0.01)
            assert "skip page 7" in last(model)
            began.clear()
            assert agent.cancel("a")
            await began.wait()
            agent.stop()
            run = await task
    assert run.stop == "cancelled"
    text = (tmp_path / "r" / "run.ipynb").read_text()
    assert "skip page 7" in text
    assert "cancelled" in text


async def test_a_limit_ends_blocks_and_is_no_exception(tmp_path):
    model = ScriptedModel([block("import time\ntime.sleep(60)", id="a")])
    async with Agent(model, workspace=tmp_path) as agent:
        run = await agent.run("go", max_time=1.0)
        assert run.stop == "limit"
        assert "time" in run.message
        assert agent.live == []


async def test_a_person_can_be_asked(tmp_path):
    model = ScriptedModel([block("print(await ask_person('Which year?'))"), "done"])
    async with Agent(model, workspace=tmp_path, person=lambda q: f"{q} 1999") as agent:
        await agent.run("x")
    assert "Which year? 1999" in last(model)


async def test_pictures_and_tables_leave_a_line_for_the_model_and_all_of_it_in_the_record(tmp_path):
    code = (
        "import matplotlib.pyplot as plt, pandas as pd\nplt.plot([1, 2]);\nplt.show()\n"
        "display(pd.DataFrame({'a': [1, 2]}))"
    )
    model = ScriptedModel([block(code), "done"])
    async with Agent(model, workspace=tmp_path) as agent:
        run = await agent.run("x")
    assert "image/png" in last(model)
    assert len(last(model)) < 600
    (cell,) = [c for c in nbformat.read(run.record, as_version=4).cells if c.cell_type == "code"]
    mimes = {mime for output in cell.outputs for mime in output.get("data", {})}
    assert {"image/png", "text/html"} <= mimes


async def test_a_dead_kernel_is_told_and_the_run_goes_on(tmp_path):
    model = ScriptedModel(
        [block("import os\nkept = 1\nos._exit(3)"), block("print('kept' in globals())"), "done"]
    )
    async with Agent(model, workspace=tmp_path) as agent:
        run = await agent.run("x")
    assert 'status="died"' in last(model, 1)
    assert "False" in last(model, 2)
    assert run.answer == "done"


def iter_rows():
    yield 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workspace": "nowhere"}, "nowhere is no folder"),
        ({"protocol": "smoke"}, "no protocol"),
        ({"files": {"../x": "y"}}, "outside the workspace"),
        ({"namespace": {"rows": iter_rows()}}, "rows (builtins.generator) cannot be passed"),
        ({"kernel": "nosuch"}, "no kernel named 'nosuch'"),
    ],
)
async def test_wrong_options_are_said_in_one_line(tmp_path, options, words):
    options = {"workspace": tmp_path, **options}
    with pytest.raises(ConfigError) as error:
        async with Agent(ScriptedModel([]), **options):
            pass
    assert words in error.value.message
    assert "\n" not in error.value.message


async def test_a_missing_key_is_said_before_anything_is_started(tmp_path, monkeypatch):
    for name in ("LLM_API_KEY", "OPENAI_API_KEY", "LLM_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="LLM_API_KEY"):
        async with Agent("gpt-5-mini", workspace=tmp_path):
            pass


async def test_tools_and_a_kernel_that_cannot_call_them_are_refused_together(tmp_path, monkeypatch):
    folder = tmp_path / "share" / "kernels" / "foreign"
    folder.mkdir(parents=True)
    script = tmp_path / "stock.py"
    script.write_text("from ipykernel.kernelapp import launch_new_instance\nlaunch_new_instance()\n")
    spec = {
        "argv": [sys.executable, str(script), "-f", "{connection_file}"],
        "display_name": "F",
        "language": "python",
    }
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))

    def search(text: str) -> str:
        """Search."""
        return text

    with pytest.raises(
        ConfigError, match="tools cannot be called from this kernel: foreign is no IPython kernel"
    ):
        async with Agent(ScriptedModel([]), workspace=tmp_path, kernel="foreign", tools=[search]):
            pass
    model = ScriptedModel([block("print(6 * 7)"), "done"])
    async with Agent(model, workspace=tmp_path, kernel="foreign", person=lambda q: q) as agent:
        await agent.run("x")
    assert "42" in last(model)
    assert "ask_person" not in model.requests[0].messages[0].content
    assert "one at a time" in model.requests[0].messages[0].content


async def test_blocks_are_ordered_by_after(tmp_path):
    slow = block("import time\ntime.sleep(0.3)\nprint('first', time.time())", id="one")
    model = ScriptedModel(
        [
            slow + "\n" + block("import time\nprint('second', time.time())", id="two", after="one"),
            "wait",
            "done",
        ]
    )
    async with Agent(model, workspace=tmp_path) as agent:
        await agent.run("x")
        one, two = (agent.transcript.blocks[name].result for name in ("one", "two"))
    assert two.started >= one.ended - 0.05


FILL = """
import psutil, time
size = int({share} * 350e6) - psutil.Process().memory_info().rss
big = b"x" * size
time.sleep(60)
"""


async def test_a_block_that_runs_towards_the_limit_of_memory_wakes_the_model_before(tmp_path):
    model = ScriptedModel([block(FILL.format(share=0.88), id="fill"), '<cancel id="fill"/>', "done"])
    async with Agent(model, workspace=tmp_path, max_memory="350MB") as agent:
        run = await agent.run("x")
        assert max(size for _, size in agent.memory) > 0.8 * 350e6
    assert run.answer == "done"
    assert re.search(r"<reminder>Memory runs short: .* hold \d+ MB, and max_memory is 350 MB", last(model, 1))
    assert 'status="cancelled"' in last(model)


async def test_past_max_memory_the_model_is_told_that_the_kernel_was_ended_and_what_is_lost(tmp_path):
    replies = [block("rows = [1]"), block(FILL.format(share=1.1), id="fill"), "done", "done", "done"]
    async with Agent(ScriptedModel(replies), workspace=tmp_path, max_memory=350_000_000) as agent:
        await agent.run("x")
        told = [entry for entry in agent.transcript.entries if isinstance(entry, Observation)]
    (died,) = [report for entry in told for report in entry.reports if report.id == "fill"]
    assert ("status", "died") in died.attrs
    assert re.search(
        r"ended at \d+ MB of memory, more than the 350 MB of max_memory.* names .*: rows",
        died.body,
    )


async def test_a_wrong_size_is_said_before_anything_starts(tmp_path):
    with pytest.raises(ConfigError, match="max_memory: 'much' is no size: write 500MB"):
        async with Agent(ScriptedModel([]), workspace=tmp_path, max_memory="much"):
            pass
