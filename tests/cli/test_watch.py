"""`codeact watch`, beside a run that goes on, at a terminal and without one."""

from __future__ import annotations

import json
import termios

import pytest

from codeact_kernel.agent import WatchedRun
from codeact_kernel.blocks import AgentBlock, CodeBlock, StreamOutput
from codeact_kernel.cli.console import TerminalConsole
from codeact_kernel.cli.watched import told_run
from codeact_kernel.events import (
    BlockOutput,
    BlockQueued,
    BlockStarted,
    ModelRetry,
    RunEnded,
    RunStarted,
    Spent,
    TurnStarted,
    WakeUpSet,
    to_json,
)
from codeact_kernel.messages import Usage
from codeact_kernel.record import slug

EVIL = "\x1b]0;owned\x07\x1b[2J\n\x9b2Jevil\u202e"
NOW = 160.0


def told(folder, *events):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "journal.jsonl", "a") as file:
        file.writelines(json.dumps(to_json(event)) + "\n" for event in events)


def drawn(folder, height=100, over=True):
    run = WatchedRun(folder, wall=lambda: NOW)
    while run.poll():
        pass
    run.is_over = over
    console = TerminalConsole(width=120, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(told_run(run, NOW, height))
    return capture.get().splitlines()


def story(*more):
    return (
        RunStarted("r", "Count the rows.", "gpt", "s", 100.0),
        TurnStarted(3, 150.0, 3200, 128_000),
        Spent(Usage(12_000, 8_000, 345, 5, cost=0.0123), 7),
        *more,
    )


def test_the_picture_has_agents_blocks_figures_and_the_last_lines(tmp_path):
    block, scout = CodeBlock("x", id="dl", timeout=120.0), AgentBlock("Look.", id="scout")
    told(
        tmp_path / "run",
        *story(
            BlockQueued(3, "dl", block, 151.0),
            BlockStarted("dl", "main", 152.0),
            BlockOutput("dl", StreamOutput("stdout", "downloaded 12/40\n")),
            BlockQueued(3, "scout", scout, 151.0),
            BlockStarted("scout", "agent", 152.0),
        ),
    )
    told(
        tmp_path / "run" / "agents" / "scout",
        RunStarted("a", "x", "gpt", "s", 152.0),
        TurnStarted(2, 153.0, 900),
    )
    told(tmp_path / "run" / "agents" / "done", RunEnded("answered", "x", Usage(), 1, 153.0))
    _, task, state, *lines = drawn(tmp_path / "run", over=False)
    assert task == "Count the rows."
    assert state == "running · gpt · 60s · 7 turns · 12,345 tokens (8,000 cached) · $0.0123"
    assert lines == [
        "the agent  turn 3 · context 3,200 of 128,000 tokens (2%) · the model thinks, 10s",
        "  ⠋ dl  8.0s of 2m  downloaded 12/40",
        "  scout  turn 2 · context 900 tokens · 0 tokens · free · the model thinks, 7.0s",
        "  1 sub-agent has ended",
    ]


def test_a_crash_is_named_with_what_goes_on(tmp_path):
    told(tmp_path / "run", *story())
    lines = drawn(tmp_path / "run")
    assert lines[2].startswith("crashed · gpt")
    assert "codeact resume" in " ".join(lines[3:])


def test_an_end_is_shown_with_its_answer_or_its_reason(tmp_path):
    told(tmp_path / "run", *story(RunEnded("limit", None, Usage(), 7, 159.0, "out of turns")))
    assert "out of turns" in drawn(tmp_path / "run")
    answer = "\n".join(map(str, range(30)))
    told(tmp_path / "run", *story(RunEnded("answered", answer, Usage(), 7, 159.0)))
    assert drawn(tmp_path / "run")[-2:] == ["9", "… 20 more lines"]


def test_a_sleeping_run_says_how_long(tmp_path):
    told(tmp_path / "run", *story(WakeUpSet("w1", "check the build", 220.0, 150.0)))
    assert "  · sleeps, 60s to go  check the build" in drawn(tmp_path / "run", over=False)


def test_a_picture_is_no_higher_than_its_room(tmp_path):
    blocks = [BlockQueued(3, f"b{n}", CodeBlock("x"), 151.0) for n in range(50)]
    told(tmp_path / "run", *story(*blocks))
    lines = drawn(tmp_path / "run", height=10, over=False)
    assert len(lines) == 10
    assert lines[-1] == "… 45 more lines"


def test_nothing_of_a_strangers_record_commands_the_terminal_or_makes_lines_of_its_own(tmp_path):
    folder = tmp_path / "run"
    told(
        folder,
        RunStarted("r", EVIL, EVIL, "s", 100.0),
        TurnStarted(1, float("-inf"), 5, 10),
        ModelRetry(1, EVIL, 1.0),
        BlockQueued(1, EVIL, CodeBlock("x"), 1.0),
        BlockStarted(EVIL, "main", float("-inf")),
        BlockOutput(EVIL, StreamOutput("stdout", EVIL * 100)),
    )
    told(folder, BlockQueued(1, "a\n" + EVIL, AgentBlock("x"), 1.0))
    told(folder / "agents" / slug("a\n" + EVIL), RunStarted("a", EVIL, EVIL, "s", float("inf")))
    lines = drawn(folder, over=False)
    assert len(lines) == 7
    told(folder, RunEnded("failed", EVIL, Usage(cost=float("nan")), 1, float("inf"), EVIL))
    lines += drawn(folder)
    assert "".join(lines).isprintable()


def test_without_a_run_it_says_so(place, codeact):
    said = codeact("watch")
    assert (said.code, said.out) == (2, "")
    assert "there is no run" in said.line


def test_without_a_terminal_one_picture_is_printed(place, codeact):
    told(place / ".codeact" / "runs" / "one", *story(RunEnded("answered", "42", Usage(), 7, 159.0)))
    for arguments in ((), ("--once",), (".codeact/runs/one/run.ipynb",)):
        said = codeact("watch", *arguments)
        assert (said.code, said.err) == (0, "")
        assert "answered · gpt · 59s · 7 turns · 0 tokens · free\n" in said.out
        assert said.out.endswith("42\n")
        assert "\x1b" not in said.out


def files(folder):
    """What is there, but for the notebook, which may come at any moment."""
    return {path.name for path in folder.rglob("*") if "run.ipynb" not in path.name}


@pytest.mark.kernel
def test_a_run_is_watched_left_watched_again_and_seen_to_its_end(place, scripted, piped, terminal, block):
    code = "import pathlib, time\nprint('begun')\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)"
    script = [block(code, id="slow"), "It is 42."]
    run = piped("run", *scripted(script), "--json", "--sandbox", "limits", "Sleep.")
    assert any('"begun' in line for line in run.process.stdout)
    (folder,) = place.glob(".codeact/runs/*")
    there = files(folder)
    first = terminal("watch", width=100)
    first.until(f"running, process {run.process.pid} · scripted")
    first.until("slow")
    first.until("begun")
    before = termios.tcgetattr(first._fd)
    assert not before[3] & termios.ICANON
    first.type("q")
    assert first.end() == 0
    second = terminal("watch", folder, width=100)
    second.until("begun")
    second.interrupt()
    assert second.end() == 0
    assert "stopped" not in second.text
    assert files(folder) == there
    third = terminal("watch", folder / "run.ipynb", width=100)
    third.until("begun")
    (place / "go").touch()
    third.until("It is 42.")
    assert third.end() == 0
    assert "answered · scripted" in third.text
    run.end()
    assert run.process.returncode == 0
