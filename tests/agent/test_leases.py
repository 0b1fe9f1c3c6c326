"""Kernels that outlive a host that was killed: real hosts, as processes of their own, and what the next one finds."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from talk import block

from codeact_kernel import Agent
from codeact_kernel.events import Appended, BlockFinished, BlockOutput
from codeact_kernel.kernels.janitor import descendants
from codeact_kernel.testing import ScriptedModel

pytestmark = pytest.mark.kernel

HOST = """
import asyncio, json, sys
from pathlib import Path
from codeact_kernel import Agent
from codeact_kernel.testing import ScriptedModel

async def send(text: str) -> str:
    "Send a letter."
    Path("sent").open("a").write(text)
    await asyncio.Event().wait()

def heard(event):
    print(type(event).__name__, getattr(event, "id", ""), flush=True)

async def main(place, task, lease, sandbox, *replies):
    model, options = ScriptedModel(replies), {"tools": [send], "observers": [heard]}
    run = Path(place) / "run"
    if not task:
        async with Agent.resume(run, model=model, **options) as agent:
            await agent.go_on()
    else:
        async with Agent(model, workspace=place, run_dir=run, lease=lease, sandbox=sandbox, **options) as agent:
            await agent.run(task)

asyncio.run(main(*sys.argv[1:]))
"""

PRINTS = """
import pathlib, time
number = 0
while not pathlib.Path("enough").exists():
    print("line", number)
    number += 1
    pathlib.Path("count").write_text(str(number))
    time.sleep(0.001)
"""

LATE = """
import pathlib, time
def late():
    number = 0
    while not pathlib.Path("enough").exists():
        print("late", number)
        number += 1
        time.sleep(0.01)
self.background(late);
"""


@asynccontextmanager
async def host(place, *replies, task="Do it.", lease="60s", sandbox="auto"):
    """A host at work; it is killed at the end, at the latest."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HOST,
        str(place),
        task,
        lease,
        sandbox,
        *replies,
        cwd=place,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def until_said(process, *words, times=1):
    """Wait until a host has told of an event, so many times."""
    while times:
        line = (await process.stdout.readline()).decode()
        assert line, "the host ended"
        times -= line.split() == [*words]


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def count(place):
    with suppress(OSError, ValueError):
        return int((place / "count").read_text())
    return 0


def leased(place):
    events = map(json.loads, (place / "run" / "journal.jsonl").read_text().splitlines())
    return [event for event in events if event["type"] == "KernelLeased"][-1]


async def resumed(place, *replies, **options):
    """Go on with the run here; gives what the model was told, and the events."""
    model, events = ScriptedModel([*replies]), []
    observers = [events.append, *options.pop("observers", ())]
    async with Agent.resume(place / "run", model=model, observers=observers, **options) as agent:
        await agent.go_on()
        told = "\n".join(message.content for message in model.requests[-1].messages[1:])
        return told, events, agent


async def test_each_line_is_there_once_though_two_hosts_were_killed_while_it_was_printed(tmp_path):
    async with host(tmp_path, f"{block(LATE, id='t')}\n{block(PRINTS, id='p')}", "I wait.") as first:
        await until_said(first, "BlockOutput", "p", times=3)
    at = count(tmp_path)
    await until(lambda: count(tmp_path) > at + 50)
    async with host(tmp_path, "I wait.", task="") as second:
        await until_said(second, "BlockOutput", "p", times=3)
    at = count(tmp_path)
    await until(lambda: count(tmp_path) > at + 50)

    # Who does not come to go on lets go of it again.
    async with Agent.resume(tmp_path / "run", model=ScriptedModel([])) as agent:
        assert not agent._working.parts.kernel.lived_on.fault

    def enough(event):
        if isinstance(event, Appended):
            (tmp_path / "enough").touch()

    told, events, agent = await resumed(tmp_path, "I wait.", "done", observers=[enough])
    assert "Your kernel lived on" in told
    assert "Still running: p." in told
    [end] = [event.result for event in events if isinstance(event, BlockFinished)]
    lines, late = (agent._working.parts.supervisor.output(name).splitlines() for name in "pt")
    assert end.status == "ok"
    assert lines == [f"line {number}" for number in range(count(tmp_path))]
    assert late == [f"late {number}" for number in range(len(late))]
    assert len(late) > 20
    assert any(isinstance(event, BlockOutput) for event in events)


async def test_what_came_meanwhile_is_told_and_nothing_is_done_twice(tmp_path):
    """A block that ended, one whose deadline passed, one that called a tool, and the namespace of all of them."""
    ends = "import pathlib\nwhile not pathlib.Path('go').exists(): pass\nx = [1]\ny = x\nprint('it ended')"
    late = "import time\nprint('begun')\ntime.sleep(100)"
    calls = "try:\n    await send('letter')\nexcept Exception as error:\n    print('it failed:', error)\n"
    script = "\n".join(
        [block(ends, id="a"), block(late, id="b", timeout="1.5s"), block(calls, id="c", after="")]
    )
    async with host(tmp_path, script) as first:
        await until_said(first, "BlockOutput", "b")
        begun = time.time()
        await until(lambda: (tmp_path / "sent").exists())
    (tmp_path / "go").touch()
    await until(lambda: time.time() > begun + 1.6)
    told, events, _ = await resumed(
        tmp_path, block("y.append(2)\nprint(x)", id="d"), "I wait.", "done", tools=[], max_calls=5
    )
    ended = {event.result.id: event.result for event in events if isinstance(event, BlockFinished)}
    assert {name: result.status for name, result in ended.items()} == {
        "a": "ok",
        "b": "timeout",
        "c": "ok",
        "d": "ok",
    }
    assert "Ended meanwhile: a, c." in told
    assert "Past the deadline, and being stopped: b." in told
    assert 'It is unknown whether this call happened: send(text="letter")' in told
    assert "it failed: the agent's host ended during this call: whether it happened is unknown" in told
    assert "[1, 2]" in told
    assert told.count("\nit ended\n") == 1
    assert ended["a"].duration < ended["b"].duration
    assert (tmp_path / "sent").read_text() == "letter"


async def test_a_lease_that_has_run_out_leaves_nothing_and_the_model_is_told(tmp_path):
    script = block(
        "import subprocess, time\nx = 1\nsubprocess.Popen(['sleep', '300'])\ntime.sleep(100)", id="a"
    )
    async with host(tmp_path, script, lease="0.5s", sandbox="none") as first:
        await until_said(first, "BlockStarted", "a")
        about = leased(tmp_path)
        await until(lambda: any(_name(pid) == "sleep" for pid in descendants(about["pid"])))
        family = [about["pid"], *descendants(about["pid"])]
    await until(lambda: not any(map(_lives, family)))
    folders = [Path(about["folder"]), Path(about["socket"]).parent]
    await until(lambda: not any(folder.exists() for folder in folders))
    await nobody_is_believed_who_says_where_it_is(tmp_path)
    told, _, _ = await resumed(tmp_path, "done", lease="none")
    assert "Your kernel, which may outlive it for a while, has ended meanwhile." in told


async def nobody_is_believed_who_says_where_it_is(place):
    """A record that somebody has added a line to leads nowhere, also where its user trusts it."""
    journal, socket, came = place / "run" / "journal.jsonl", place / "private" / "keeper", []
    whole = journal.read_bytes()
    socket.parent.mkdir(mode=0o700)
    forged = leased(place) | {"socket": str(socket), "mac": "0" * 64}
    journal.write_bytes(whole + json.dumps(forged).encode() + b"\n")
    listening = await asyncio.start_unix_server(lambda *_: came.append(1), socket)
    agent = Agent.resume(place / "run", model=ScriptedModel([]), trust_record=True)
    async with listening, agent:
        assert agent._working.parts.kernel.lived_on is None
    assert not came
    journal.write_bytes(whole)


def _name(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _lives(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
