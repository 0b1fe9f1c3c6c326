"""`codeact runs`: what there is, and what can go."""

from __future__ import annotations

import json
import os
import time

import pytest

from codeact_kernel.agent.runlock import RunLock
from codeact_kernel.record import Summary
from codeact_kernel.runfiles import Folder

DAY = 86_400


@pytest.fixture
def make_run(place):
    """Makes the folder of a run that was last touched some days ago."""

    def make(name, days=0, **summary):
        folder = place / ".codeact" / "runs" / name
        folder.mkdir(parents=True)
        (folder / "journal.jsonl").write_text("{}\n")
        (folder / "summary.json").write_text(json.dumps({"state": "answered", "task": "Count.", **summary}))
        then = time.time() - days * DAY
        os.utime(folder / "journal.jsonl", (then, then))
        return folder

    return make


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files of its own: nothing of anybody else's is looked at."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_runs_are_listed_with_what_they_have_come_to(codeact, make_run):
    make_run(
        "a-old",
        days=3,
        turns=7,
        tokens={"input": 1000, "output": 234},
        cost=0.5,
        task="Count\x1b[2J the\nrows.",
    )
    make_run("b-crashed", state="running")
    busy = make_run("c-busy", state="running", days=1)
    lock = RunLock(Folder.make(busy))
    first, second, third = codeact("runs").out.splitlines()
    lock.release()
    assert "crashed" in first
    assert f"running ({os.getpid()})" in second
    for words in ("answered", "7 turns", "1,234 tokens", "$0.50", "a-old", "the rows."):
        assert words in third
    assert "\x1b" not in third


def test_runs_are_json_for_programs(codeact, make_run):
    make_run("a", turns=2, cost=None)
    (line,) = codeact("runs", "--json").out.splitlines()
    told = json.loads(line)
    assert (told["state"], told["turns"], told["cost"], told["pid"]) == ("answered", 2, None, None)


def test_what_is_no_summary_is_no_hindrance(codeact, make_run):
    for name, text in (("a", "[]"), ("b", "{"), ("c", "\x00")):
        (make_run(name) / "summary.json").write_text(text)
    assert codeact("runs").out.count("crashed") == 3
    assert codeact("runs", "--workspace", "/").out == ""


def test_old_runs_are_removed_and_those_that_somebody_works_on_stay(codeact, make_run, temporary):
    old, busy, kept = make_run("old", days=40), make_run("busy", days=50), make_run("kept", days=1)
    (kept / ".run.ipynb.part").write_text("half")
    left, new = temporary / "ck-parcels-1", temporary / "ck-2"
    for folder in (left, new):
        folder.mkdir()
    os.utime(left, (0, 0))
    lock = RunLock(Folder.make(busy))
    refused = codeact("runs", "prune", "--older-than", "30d")
    assert (refused.code, old.exists()) == (2, True)
    assert "--yes" in refused.err.splitlines()[-1]
    said = codeact("runs", "prune", "--older-than", "30d", "--yes")
    lock.release()
    assert said.code == 0
    assert [p.exists() for p in (old, busy, kept, left, new)] == [False, True, True, False, True]
    assert not (kept / ".run.ipynb.part").exists()
    assert (
        codeact("runs", "prune", "--older-than", "30d", "--yes", "--keep", "9").err == "nothing to remove\n"
    )


def test_a_folder_that_a_process_uses_is_no_leftover(codeact, make_run, temporary, monkeypatch):
    used = temporary / "ck-used"
    used.mkdir()
    os.utime(used, (0, 0))
    monkeypatch.chdir(used)
    assert codeact("runs", "prune", "--older-than", "1d", "--yes").err == "nothing to remove\n"
    assert used.exists()


@pytest.mark.parametrize("age", ["soon", "", "d", "-3d"])
def test_what_is_no_age_is_said(codeact, age):
    assert codeact("runs", "prune", f"--older-than={age}").code == 2


def test_runs_behind_a_link_are_not_followed(codeact, place, make_run, tmp_path):
    elsewhere = make_run("real")
    (place / ".codeact" / "runs" / "link").symlink_to(elsewhere)
    assert len(codeact("runs").out.splitlines()) == 1


def test_a_summary_says_what_a_run_has_come_to(tmp_path):
    from codeact_kernel.blocks import AgentBlock, BlockResult, CodeBlock, Outcome
    from codeact_kernel.events import (
        Appended,
        BlockFinished,
        BlockQueued,
        Reply,
        RunEnded,
        RunResumed,
        RunStarted,
        TurnStarted,
    )
    from codeact_kernel.messages import Usage
    from codeact_kernel.transcript import Transcript

    transcript = Transcript()
    summary = Summary(transcript)
    used = Usage(100, 40, 7, 1, None)
    for event in (
        RunStarted("r", "Count.", "m", "", 1.0),
        TurnStarted(1, 2.0),
        BlockQueued(1, "a", CodeBlock("1/0"), 3.0),
        BlockQueued(1, "b", AgentBlock("Look."), 3.0),
        Appended(1, Reply(1, "x", usage=used)),
        BlockFinished(BlockResult("a", CodeBlock("1/0"), Outcome("error"), ended=11.0)),
        RunResumed("r", 1000.0, "m", worked=10.0),
        TurnStarted(2, 1001.0),
        RunEnded("answered", "42", used, 2, 1005.0),
    ):
        transcript.apply(event)
        summary.apply(event)
    told = summary.told()
    assert told["tokens"] == {"input": 100, "cached": 40, "output": 7}
    assert (told["cost"], told["seconds"], told["turns"]) == (None, 15.0, 2)
    assert (told["blocks"], told["failed_blocks"], told["agents"]) == (1, 1, 1)
    assert (told["state"], told["answer"], told["task"]) == ("answered", "42", "Count.")
