"""`codeact export`: runs in other forms."""

from __future__ import annotations

import json

import nbformat
import pytest
from schema import misfits

from codeact_kernel.agent import RecordedRun
from codeact_kernel.blocks import BlockResult, CodeBlock, ErrorOutput, LeftOut, Outcome, Prose, StreamOutput
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    GoalMet,
    Knowledge,
    Observation,
    Reply,
    Report,
    RunEnded,
    RunStarted,
    Task,
    TurnStarted,
)
from codeact_kernel.messages import ToolCall, Usage
from codeact_kernel.record import write_journal
from codeact_kernel.runfiles import Folder


@pytest.fixture
def keep(place):
    """Makes the folder of a run of one block, with a compaction in it or not."""

    def make(name, *, stop="answered", met=False, compacted=False, protocol="tags", said="Done."):
        block, call = CodeBlock("print(1)", "b1"), ToolCall("c1", "run_code", '{"code": "print(1)"}')
        calls = (call,) if protocol == "tools" else ()
        text = "" if calls else "<run_code>\nprint(1)\n</run_code>"
        events = [
            RunStarted(name, "Count.", "m", "You count.", 1.0, options={"protocol": protocol}),
            Appended(0, Task("Count.")),
            TurnStarted(1, 1.0),
            BlockQueued(1, "b1", block, 1.0),
            BlockOutput("b1", StreamOutput("stdout", "1\n")),
            Appended(1, Reply(1, text, (block,), (), calls, ("b1",) if calls else ())),
            BlockFinished(BlockResult("b1", block, Outcome(), (), 1.0, 1.5, 2.0)),
            Appended(1, Observation((Report("run_code_result", "1", "b1"),))),
            *([Appended(1, Knowledge("It is 1."))] if compacted else []),
            TurnStarted(2, 2.0),
            Appended(2, Reply(2, said, (Prose(said),))),
            *([GoalMet("it prints 1")] if met else []),
            RunEnded(stop, said, Usage(), 2, 3.0),
        ]
        folder = Folder.make(place / name)
        write_journal(folder, "journal.jsonl", events, None)
        folder.close()
        return place / name

    return make


def lines(said):
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


def test_samples_are_conversations_that_end_with_a_reply_and_each_comes_once(codeact, keep):
    one, again, other = keep("a"), keep("b"), keep("c", said="One.")
    said = codeact("export", one, again, other, "--format", "messages")
    first, second = lines(said)
    assert [message["role"] for message in first["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert first["messages"][0]["content"] == "You count."
    assert second["messages"][-1]["content"] == "One."
    assert said.err.startswith("codeact: for training 2 samples, ")
    (bare,) = lines(codeact("export", one, "--format", "messages", "--no-system"))
    assert bare["messages"] == first["messages"][1:]


def test_a_compaction_parts_samples(codeact, keep):
    before, after = lines(codeact("export", keep("a", compacted=True), "--format", "messages", "--no-system"))
    assert [message["role"] for message in before["messages"]] == ["user", "assistant"]
    assert "It is 1." in after["messages"][0]["content"]


def test_calls_of_tools_are_written_as_each_format_has_them(codeact, keep):
    run = keep("a", protocol="tools")
    (sample,) = lines(codeact("export", run, "--format", "messages", "--no-system"))
    _, asked, answered, _ = sample["messages"]
    assert asked["tool_calls"][0]["function"] == {"name": "run_code", "arguments": '{"code": "print(1)"}'}
    assert (answered["role"], answered["tool_call_id"]) == ("tool", "c1")
    (sample,) = lines(codeact("export", run, "--format", "sharegpt"))
    assert [turn["from"] for turn in sample["conversations"]] == [
        "system",
        "human",
        "function_call",
        "observation",
        "gpt",
    ]


def test_of_which_runs_there_are_samples_can_be_said(codeact, keep):
    runs = [keep("a", said="a"), keep("b", met=True, said="b"), keep("c", stop="limit", said="c")]
    for where, answers in (("all", "abc"), ("answered", "ab"), ("passed", "b")):
        made = lines(codeact("export", *runs, "--format", "messages", "--where", where))
        assert [sample["messages"][-1]["content"] for sample in made] == list(answers)


def test_a_part_of_the_runs_is_held_back_for_validation_the_same_each_time(codeact, keep, place):
    runs = [keep(f"run{n}", said=str(n)) for n in range(40)]
    for _ in range(2):
        said = codeact("export", *runs, "--format", "messages", "--validation", "0.3", "-o", "train.jsonl")
        assert said.code == 0
        sizes = [
            len((place / name).read_text().splitlines()) for name in ("train.jsonl", "train.validation.jsonl")
        ]
        assert sum(sizes) == 40
        assert 4 <= sizes[1] <= 20
    assert codeact("export", *runs, "--format", "messages", "--validation", "0.3").code == 2


def test_what_a_trainer_would_refuse_is_left_out_and_told(codeact, keep):
    said = codeact("export", keep("a", said=""), keep("b"), "--format", "messages")
    assert len(lines(said)) == 1
    assert "left out 1, which a trainer would refuse: it does not end with a reply" in said.err


def test_pages_and_programs_are_of_one_run(codeact, keep, place):
    run = keep("a")
    assert "print(1)\n" in codeact("export", run, "--format", "script").out
    assert "```text\n1\n```" in codeact("export", run, "--format", "markdown").out
    assert "```text" not in codeact("export", run, "--format", "markdown", "--no-outputs").out
    assert codeact("export", run, "--format", "html", "--output", "a.html").out == ""
    assert (place / "a.html").read_text().startswith("<!doctype html>")
    assert codeact("export", run, run, "--format", "html").code == 2
    assert "choose messages" in codeact("export", run, "--format", "pdf").line
    assert "choose all" in codeact("export", run, "--format", "messages", "--where", "x").line
    assert codeact("export", run, "--format", "html", "--output", "no/such/a.html").code == 1


def test_a_notebook_without_outputs_holds_nothing_that_a_block_has_put_out(codeact, keep, place):
    block = CodeBlock("1/0", "b1")
    result = BlockResult(
        "b1", block, Outcome("error", "ZeroDivisionError: 4711", execution_count=1), (), 1.0, 1.5, 2.0
    )
    events = [
        RunStarted("r", "Count.", "m", "You count.", 1.0),
        Appended(0, Task("Count.")),
        TurnStarted(1, 1.0),
        BlockQueued(1, "b1", block, 1.0),
        Appended(1, Reply(1, "<run_code>\n1/0\n</run_code>", (block,))),
        BlockOutput("b1", StreamOutput("stdout", "4711\n")),
        BlockOutput("b1", LeftOut(7, file="outputs/b1-4711.txt")),
        BlockOutput("b1", ErrorOutput("ZeroDivisionError", "4711", ("4711",))),
        BlockFinished(result),
        Appended(1, Observation((Report("run_code_result", "4711", "b1"), Report("note", "Go on.")))),
        TurnStarted(2, 2.0),
        Appended(2, Reply(2, "No.", (Prose("No."),))),
        RunEnded("answered", "No.", Usage(), 2, 3.0),
    ]
    folder = Folder.make(place / "odd")
    write_journal(folder, "journal.jsonl", events, None)
    folder.close()
    assert "4711" in codeact("export", "odd", "--format", "ipynb").out
    assert codeact("export", "odd", "--format", "ipynb", "--no-outputs", "-o", "bare.ipynb").code == 0
    text = (place / "bare.ipynb").read_text()
    assert "4711" not in text
    assert "Go on." in text
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert misfits(json.loads(text)) == []
    run = RecordedRun.load(place / "bare.ipynb")
    assert (run.answer, [b.block.code for b in run.blocks]) == ("No.", ["1/0"])
