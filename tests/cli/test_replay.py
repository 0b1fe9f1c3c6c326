"""`codeact replay`: a run shown again, and its blocks executed again."""

from __future__ import annotations

import json

import pytest

from codeact_kernel.agent import RecordedRun, moments
from codeact_kernel.cli.replay import show

TOOLS = """
from pathlib import Path


def weather(city: str, days: int = 1) -> dict:
    \"\"\"The weather.\"\"\"
    with Path("called.txt").open("a") as file:
        file.write(city)
    return {"city": city, "degrees": [21.5] * days}


async def odd() -> set:
    \"\"\"What no record holds.\"\"\"
    return {1}


def fails() -> str:
    \"\"\"Never works.\"\"\"
    raise RuntimeError("no line")
"""


@pytest.fixture
def recorded(codeact, scripted, block, place):
    """A run with blocks at once, calls of tools, an error, and what is never the same."""
    (place / "my_tools.py").write_text(TOOLS)
    first = [
        block("import time, asyncio\nx = 41\nprint(weather('Bern', days=2))", id="a"),
        block("await asyncio.sleep(0.2)\nprint('slow', x)", id="b"),
        block("print(object(), time.time(), 'took 1.25 s')\nx + 1", id="c"),
    ]
    second = [
        block("print(await odd())", id="d"),
        block("try:\n    fails()\nexcept Exception as e:\n    print(e)\n1/0", id="e"),
        block("import os\nprint(os.environ.get('OTHER', 'unset'))", id="f"),
    ]

    def script(request):
        """Waits until all blocks of a reply have ended, however many turns that takes."""
        ended = "".join(message["content"] for message in request.body["messages"][2:]).count(
            "<run_code_result"
        )
        return {0: "\n".join(first), 3: "\n".join(second), 6: "It is 42."}.get(ended, "Wait.")

    options = scripted(script)
    said = codeact("run", *options, "--tools", "my_tools.py", "--run-dir", "seen", "What is it?")
    assert (said.code, said.out) == (0, "It is 42.\n"), said.err
    (place / "called.txt").unlink()
    return place / "seen"


@pytest.mark.kernel
def test_blocks_are_executed_again_with_what_tools_gave_and_compared(codeact, recorded, place):
    said = codeact("replay", recorded, "--execute", "--tools", "my_tools.py")
    assert said.code == 1
    assert "from here on its model would have read something else\n    " in said.out
    assert "4 the same\n1 the same but for what is volatile\n1 other than recorded\n" in said.out
    assert ", d: differs\n    @@ -1,2 +1,2 @@\n    -[ok]\n    -{1}\n    +[error]\n" in said.out
    assert "the record does not hold what odd gave" in said.out
    assert not (place / "called.txt").exists()

    said = codeact("replay", recorded, "--execute", "--tools", "my_tools.py", "--live-tools")
    assert (said.code, said.out) == (0, "5 the same\n1 the same but for what is volatile\n")
    assert (place / "called.txt").read_text() == "Bern"


@pytest.mark.kernel
def test_tools_need_not_be_there_and_what_differs_is_shown(codeact, recorded, place):
    notebook = json.loads((recorded / "run.ipynb").read_text())
    for cell in notebook["cells"]:
        if cell["metadata"]["codeact"].get("id") == "f":
            cell["outputs"][0]["text"] = ["set\n"]
    changed = place / "changed.ipynb"
    changed.write_text(json.dumps(notebook))
    assert "say --trust-record" in codeact("replay", changed, "--execute").line
    said = codeact("replay", changed, "--execute", "--trust-record", "--run-dir", "again")
    assert said.code == 1
    assert ", f: differs\n    @@ -1,2 +1,2 @@\n     [ok]\n    -set\n    +unset\n" in said.out
    assert "name 'weather' is not defined" in said.out  # a notebook alone knows of no calls
    said = codeact("replay", recorded / "journal.jsonl", "--execute")
    assert "4 the same\n1 the same but for what is volatile\n1 other than recorded\n" in said.out
    assert (place / "again" / "run.ipynb").is_file()


@pytest.mark.kernel
def test_a_run_is_shown_again_at_its_speed_or_another_and_step_by_step(codeact, recorded, capsys):
    said = codeact("replay", recorded, "--speed", "0")
    assert (said.code, said.err) == (0, "")
    for words in ("task: What is it?", "▸ a", "✓ a", "slow 41", "✗ e", "ZeroDivisionError", "It is 42."):
        assert words in said.out
    assert said.out.index("▸ b") < said.out.index("✓ a") or said.out.index("▸ b") < said.out.index("✓ b")
    for path in (recorded, recorded / "run.ipynb"):
        run, slept, steps = RecordedRun.load(path), [], iter("1234567")
        turns = len(run.turns)
        took = moments(run)[-1][0] - moments(run)[0][0]
        show(run, 1.0, sleep=slept.append)
        assert sum(slept) == pytest.approx(took)
        show(run, 10.0, sleep=slept.append)
        assert sum(slept) == pytest.approx(1.1 * took)
        show(run, 1.0, steps.__next__, sleep=slept.append)
        assert sum(slept) == pytest.approx(1.1 * took)
        assert next(steps) == str(turns)
    assert codeact("replay", recorded, "--play", "--execute").code == 2
    assert "there is no record" in codeact("replay", "none").line


@pytest.mark.kernel
def test_a_fork_says_again_what_was_said_before_a_turn_and_then_another_model_goes_on(
    codeact, recorded, scripted, block, place
):
    turns = len(RecordedRun.load(recorded).turns)
    asked = []

    def script(request):
        asked.append(request.body["messages"])
        return "It is 43." if len(asked) > 1 else block("print(x + 2, weather('Basel', days=1)['city'])")

    options = (*scripted(script), "--tools", "my_tools.py", "--run-dir", "other")
    said = codeact("replay", recorded, "--fork-at", turns, *options)
    assert (said.code, said.out) == (0, "It is 43.\n"), said.err
    assert len(asked) == 2
    assert "43 Basel" in asked[1][-1]["content"]
    assert (place / "called.txt").read_text() == "Basel"  # by the new turn; the ones before it were answered
    forked, before = RecordedRun.load(place / "other"), RecordedRun.load(recorded)
    replies = [turn.reply.text for turn in before.turns[:-1]]
    assert [turn.reply.text for turn in forked.turns[: turns - 1]] == replies
    assert [block.id for block in forked.blocks] == ["a", "b", "c", "d", "e", "f", "b1"]
    assert forked.answer == "It is 43."
    assert "can be forked at turn 2 to" in codeact("replay", recorded, "--fork-at", 1, *options[:4]).line
