"""`codeact resume`, after a process that was killed, stopped or out of turns."""

from __future__ import annotations

import json
import time

import pytest

pytestmark = pytest.mark.kernel


def folder(place):
    (run,) = place.glob(".codeact/runs/*/")
    return run


def wait_for(path, words):
    end = time.monotonic() + 60
    while not (path.exists() and words in path.read_text()):
        assert time.monotonic() < end, f"{words!r} never came"
        time.sleep(0.02)


def test_a_killed_run_goes_on_with_nothing_said_again(place, scripted, piped, codeact, block):
    (place / "my_tools.py").write_text(
        'def append(text: str) -> None:\n    """Append."""\n    open("log", "a").write(text)\n'
    )
    slow = block("append('a')\nprint('begun', flush=True)\nimport time; time.sleep(60)", id="dl")
    options = scripted([slow, "It was appended."])
    command = piped(
        "run", *options, "--tools", "my_tools.py", "--max-turns", "9", "--sandbox", "limits", "Append."
    )
    wait_for(place / "log", "a")
    journal = folder(place) / "journal.jsonl"
    wait_for(journal, "begun")
    busy = codeact("resume", folder(place))
    assert (busy.code, busy.line) == (2, busy.line)
    assert f"is being worked on by process {command.process.pid}" in busy.err
    command.process.kill()
    command.end()
    said = codeact("resume", folder(place))
    assert (said.code, said.out) == (0, "It was appended.\n")
    assert (place / "log").read_text() == "a"
    again = codeact("resume", folder(place) / "run.ipynb")
    assert (again.code, again.out) == (0, "It was appended.\n")
    assert "this run is answered" in again.err
    (resumed,) = [e for e in map(json.loads, journal.read_text().splitlines()) if e["type"] == "RunResumed"]
    assert resumed["options"]["limits"]["turns"] == 9
    assert resumed["options"]["kept"] == {"tools": ["my_tools.py"]}


def test_a_run_out_of_turns_goes_on_with_more_and_then_takes_a_further_task(place, scripted, codeact, block):
    options = scripted([block("x = 1"), "one", "two"])
    assert codeact("run", *options, "--max-turns", "1", "First.").code == 3
    stopped = codeact("resume", folder(place))
    assert (stopped.code, stopped.out) == (3, "")
    assert codeact("resume", folder(place), "--max-turns", "2").out == "one\n"
    assert codeact("resume", folder(place), "Second.", "--max-turns", "5").out == "two\n"
    assert codeact("audit", "verify", folder(place)).code == 0


def test_a_record_that_was_changed_is_refused_in_one_line(place, scripted, codeact):
    options = scripted(["one"])
    assert codeact("run", *options, "First.").code == 0
    journal = folder(place) / "journal.jsonl"
    journal.write_text(journal.read_text().replace("First.", "Worst."))
    said = codeact("resume", folder(place), "More.")
    assert said.code == 2
    assert "--trust-record" in said.line


def test_what_is_no_run_is_said_in_one_line(place, codeact):
    said = codeact("resume", place / "nothing")
    assert said.code == 2
    assert "there is no run" in said.line
