"""Sub-agents with real kernels, and a model that plays all of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from pathlib import Path

import psutil
import pytest
from talk import block, delegate, told, when

from codeact_kernel import Agent
from codeact_kernel.agent import Settings
from codeact_kernel.errors import ModelUnreachable
from codeact_kernel.testing import Cast, ScriptedEndpoint

pytestmark = pytest.mark.kernel


def children_of_kernels():
    """The processes of kernels, and what those have started, that live."""
    return [p for p in psutil.Process().children(recursive=True) if p.name() != "janitor" and is_ours(p)]


def is_ours(process):
    with contextlib.suppress(psutil.Error):
        return "sleep" in process.cmdline() or any("inkernel" in word for word in process.cmdline())
    return False


async def test_a_sub_agent_works_with_a_kernel_of_its_own_and_its_answer_comes_back(tmp_path):
    model = Cast(
        {
            "ROOT": when(
                block("x = 1") + "\n" + delegate("SCOUT: count.", name="scout"), ("agent_result", "It is 42.")
            ),
            "SCOUT": [block("print('x' in globals(), 6 * 7)"), "I counted: 42."],
        }
    )
    async with Agent(model, workspace=tmp_path) as agent:
        run = await agent.run("ROOT")
    assert run.answer == "It is 42."
    assert "False 42" in told(model, "SCOUT")
    said = told(model, "ROOT")
    assert '<agent_result name="scout" duration="' in said
    assert "I counted: 42.\n</agent_result>" in said
    record = run.record.parent / "agents" / "scout" / "run.ipynb"
    assert "I counted" in json.dumps(json.loads(record.read_text()))


NAMESPACE = """
import math
urls, limit = ['a', 'b'], 2
class Parser:
    def parse(self, text):
        return helper(text) + [limit]
def helper(text):
    return [text.upper(), math.floor(2.5)]
def fetch(url):
    seen.append(url)
    return Parser().parse(url)
seen = []
"""


async def test_functions_are_seeded_with_what_they_need_and_work_on_the_live_namespace(tmp_path):
    model = Cast(
        {
            "ROOT": when(
                block(NAMESPACE)
                + "\n"
                + delegate("SCOUT", name="scout", namespace="urls, fetch, Parser, seen"),
                (
                    "agent_result",
                    block("print(seen, limit, scout, type(scout) is Parser, scout.parse('q'))", id="look"),
                ),
                ('id="look"', "Done."),
            ),
            "SCOUT": [
                block("print(fetch(urls[0]), seen)\nlimit = 9\nprint(fetch('z'), seen, Parser().parse('y'))"),
                block("p = Parser(); p.note = 'mine'\nself.return_value(p)"),
                "Handed back.",
            ],
        }
    )
    async with Agent(model, workspace=tmp_path) as agent:
        await agent.run("ROOT")
    scout = told(model, "SCOUT")
    assert "['A', 2, 2] ['a']\n['Z', 2, 9] ['a', 'z'] ['Y', 2, 9]" in scout
    assert "- urls: list of length 2" in scout
    root = told(model, "ROOT")
    assert "it handed back a __main__.Parser: scout]" in root
    assert "[] 2 <__main__.Parser object at" in root
    assert "True ['Q', 2, 2]" in root


async def test_what_cannot_be_passed_is_one_line_and_the_agent_is_not_started(tmp_path):
    code = "import threading\nlock = threading.Lock()\ngen = (i for i in 'ab')\ndef f():\n    return lock\nok = 1"
    model = Cast(
        {
            "ROOT": when(
                block(code)
                + "\n"
                + delegate("SCOUT", name="a", namespace="ok, gen, f")
                + "\n"
                + delegate("SCOUT", name="b", namespace="nothing"),
                ('agent_result name="a"&agent_result name="b"', "Done."),
            )
        }
    )
    async with Agent(model, workspace=tmp_path) as agent:
        await agent.run("ROOT")
    said = told(model, "ROOT")
    assert 'status="rejected"' in said
    assert "gen: a builtins.generator, TypeError: cannot pickle 'generator' object" in said
    assert "lock, which f needs: a _thread.lock, TypeError: cannot pickle '_thread.lock' object" in said
    assert "NameError: name 'nothing' is not defined" in said
    assert not any("SCOUT" in r.messages[1].content for r in model.requests if len(r.messages) == 2)


async def test_forty_agents_from_code_of_which_five_fail_in_different_ways(tmp_path):
    fan_out = """
import asyncio
free = asyncio.Semaphore(6)
async def one(i):
    kind = {3: 'RAISES', 9: 'SLEEPS', 17: 'SILENT', 25: 'WORK', 33: 'WORK'}.get(i, 'WORK')
    more = {9: {'timeout': '1s'}, 25: {'namespace': {'g': (x for x in [])}}, 33: {'model': 'flash9'}}.get(i, {})
    async with free:
        return await self.run_agent(f'{kind} {i}', **({'namespace': {'i': i}} | more))
done = await asyncio.gather(*map(one, range(40)), return_exceptions=True)
print(sum(isinstance(d, str) for d in done), [d.value for d in done[:3]], done[0], done[0].name)
for d in done:
    if not isinstance(d, str):
        print(type(d).__name__, getattr(d, 'status', None), str(d)[:90])
"""
    work = [block("self.return_value(i * i)\nprint('ok')"), "It is done."]
    model = Cast(
        {
            "ROOT": [block(fan_out), "Done."],
            "WORK": work,
            "RAISES": [ModelUnreachable("the endpoint is gone", model="m", endpoint="e", status=None)],
            "SLEEPS": [block("import time\ntime.sleep(60)"), "I wait.", "I wait."],
            "SILENT": ["", "", ""],
        }
    )
    async with Agent(model, workspace=tmp_path, settings=Settings()) as agent:
        run = await agent.run("ROOT")
    assert run.answer == "Done."
    said = told(model, "ROOT")
    assert "35 [0, 1, 4] It is done. b2\n" in said
    for line in (
        "AgentError error b5: error: the endpoint is gone\n",
        "AgentError timeout b11: timeout: stopped at its deadline, 1.0s after it began\n",
        "AgentError error b19: error: the model replied nothing at all, three times in a row\n",
        "AgentError rejected a sub-agent: rejected: g: a builtins.generator, TypeError: cannot pickle",
        "AgentError error b34: error: it could not be started: no API key for",
    ):
        assert line in said


async def test_a_tree_that_is_cancelled_in_the_middle_leaves_nothing(tmp_path, monkeypatch):
    sleep = "import subprocess, time\nsubprocess.Popen(['sleep', '600'])\nprint('deep')\ntime.sleep(600)"
    model = Cast(
        {
            "ROOT": [delegate("ONE", name="one"), "I wait.", "I wait."],
            "ONE": [delegate("TWO", name="two"), "I wait.", "I wait."],
            "TWO": [delegate("THREE", name="three"), "I wait.", "I wait."],
            "THREE": [block(sleep, heartbeat="0.2s"), lambda request: deep.set() or "I wait.", "I wait."],
        }
    )
    deep, before = asyncio.Event(), children_of_kernels()
    folder = Path(tempfile.mkdtemp())
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    async with Agent(model, workspace=tmp_path) as agent:
        running = asyncio.create_task(agent.run("ROOT"))
        await deep.wait()
        agent.stop()
        run = await running
        assert run.stop == "cancelled"
        assert not [process for process in children_of_kernels() if "sleep" in process.cmdline()]
    assert list(folder.rglob("*")) == []
    assert children_of_kernels() == before
    for path in ("agents/one", "agents/one/agents/two", "agents/one/agents/two/agents/three"):
        record = json.loads((run.record.parent / path / "run.ipynb").read_text())["metadata"]["codeact"]
        assert (record["stop_reason"], record["message"]) == ("cancelled", "it was stopped"), path
    deepest = (run.record.parent / path / "run.ipynb").read_text()
    assert "the kernel was ended with its agent" in deepest


async def test_an_alias_names_another_model_and_none_is_the_parent_s(tmp_path):
    big = [delegate("SCOUT", name="a", model="flash"), delegate("SCOUT", name="b"), "From big.", "Done."]
    with ScriptedEndpoint(big) as strong, ScriptedEndpoint(["From small."]) as flash:
        models = {"flash": {"model": "small", "base_url": flash.base_url}, "big": {"model": "big"}}
        async with Agent(
            "big", base_url=strong.base_url, workspace=tmp_path, settings=Settings(models=models)
        ) as agent:
            run = await agent.run("ROOT")
        assert (len(strong.requests), len(flash.requests)) == (4, 1)
        assert flash.requests[0].body["model"] == "small"
    assert run.usage.calls == 5
    said = json.dumps([report.body for e in agent.transcript.entries for report in getattr(e, "reports", ())])
    assert "From small." in said
    assert "From big." in said


async def test_a_sub_agent_s_run_is_replayed_with_its_parent_s(tmp_path):
    model = Cast(
        {
            "ROOT": [delegate("SCOUT", name="scout"), "It is done."],
            "SCOUT": [block("print(6 * 7)"), "I counted."],
        }
    )
    async with Agent(model, workspace=tmp_path, run_dir=tmp_path / "first") as agent:
        await agent.run("ROOT")
    async with Agent(
        f"replay:{tmp_path / 'first'}", workspace=tmp_path, run_dir=tmp_path / "second"
    ) as agent:
        run = await agent.run("ROOT")
    assert run.answer == "It is done."
    replayed = (tmp_path / "second" / "agents" / "scout" / "run.ipynb").read_text()
    assert "I counted." in replayed
    assert '"42\\n"' in replayed


HELPERS = """
import asyncio, threading
async def ask(n):
    return await self.run_agent(f'SCOUT {n}')
def ask_in_thread(n, said):
    thread = threading.Thread(target=lambda: said.append(asyncio.run(ask(n))))
    thread.start()
    return thread
"""


async def test_agents_are_started_from_functions_of_earlier_blocks_and_from_threads(tmp_path):
    use = (
        "said = []\nt = ask_in_thread(1, said)\nprint(await ask(2), self.blocks[-1]['id'])\n"
        "await asyncio.to_thread(t.join)\nprint(said, self.agents)"
    )
    model = Cast(
        {
            "ROOT": when(
                block(HELPERS)
                + "\n"
                + block("import time\ntime.sleep(2)\nprint('beside')", id="busy")
                + "\n"
                + block(use, id="use"),
                ('result id="use"&result id="busy"', "Done."),
            ),
            "SCOUT": ["Seen."],
        }
    )
    async with Agent(model, workspace=tmp_path) as agent:
        await agent.run("ROOT")
    said = told(model, "ROOT")
    assert "Seen. " in said
    assert "['Seen.'] []" in said


async def test_tools_are_given_by_name_and_no_others(tmp_path):
    calls = []

    def search(word: str) -> list[str]:
        """Search."""
        calls.append(word)
        return [word, word]

    def delete(word: str) -> None:
        """Delete."""

    use = "def twice(word):\n    return len(search(word))"
    model = Cast(
        {
            "ROOT": when(
                block(use)
                + "\n"
                + delegate("NAMED", name="a", namespace="search")
                + "\n"
                + delegate("NEEDED", name="b", namespace="twice"),
                ('agent_result name="a"&agent_result name="b"', "Done."),
            ),
            "NAMED": [block("print(search('x'), 'delete' in globals())"), "Done."],
            "NEEDED": [block("print(twice('y'), 'delete' in globals())"), "Done."],
        }
    )
    async with Agent(model, workspace=tmp_path, tools=[search, delete]) as agent:
        await agent.run("ROOT")
    assert "['x', 'x'] False" in told(model, "NAMED")
    assert "search(word: str) -> list[str]: Search." in told(model, "NAMED")
    assert "2 False" in told(model, "NEEDED")
    assert sorted(calls) == ["x", "y"]
