"""What a person sees of a run, as lines of a terminal of a width."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console, Group
from rich.text import Text

from codeact_kernel.agent import Run
from codeact_kernel.blocks import (
    AgentBlock,
    BlockResult,
    ClearOutput,
    CodeBlock,
    DisplayOutput,
    ErrorOutput,
    Fault,
    Outcome,
    Prose,
    ResultOutput,
    StreamOutput,
)
from codeact_kernel.cli.progress import PROSE_LINES, Progress
from codeact_kernel.cli.told import told_block, told_end, told_live, told_record, told_result, told_usage
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockQueued,
    GoalChecked,
    GoalMet,
    Knowledge,
    ModelRetry,
    NoteReceived,
    Reply,
    ReplyDelta,
    RunEnded,
    RunStarted,
    ToolCalled,
    TurnStarted,
    WakeUpEnded,
    WakeUpSet,
)
from codeact_kernel.messages import Usage
from codeact_kernel.supervisor import LiveBlock

EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b5A\u202e"


def drawn(*what, width=60):
    """The lines that a terminal of this width would show."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False, highlight=False)
    console.print(Group(*what))
    return console.file.getvalue()


def result(*outputs, status="ok", error=None, id="b1", took=0.4):
    outcome = Outcome(status, error)
    return BlockResult(id, CodeBlock("x"), outcome, outputs, queued=0.0, started=100.0, ended=100.0 + took)


def out(text):
    return StreamOutput("stdout", text)


class Watching:
    """Shows a run to a person who remembers every line."""

    def __init__(self, protocol="tags"):
        self.shown = []
        self.now = 1000.0
        self.progress = Progress(self.shown.append, protocol, lambda: self.now)
        self.progress.agent = Alive([])

    def tell(self, *events):
        for event in events:
            self.progress(event)

    def reply(self, text, turn=1, chunk=5):
        self.tell(TurnStarted(turn, self.now))
        self.tell(*(ReplyDelta(turn, text[at : at + chunk]) for at in range(0, len(text), chunk)))

    @property
    def stays(self):
        return drawn(*self.shown, width=60)

    def changes(self, width=60, height=20):
        console = Console(file=io.StringIO(), width=width, highlight=False)
        return drawn(self.progress.changing(console, height), width=width)


@dataclass
class Alive:
    live: list[LiveBlock]
    wake_ups: list[WakeUpSet] = field(default_factory=list)


def live(id, *, started=None, last="", timeout=None):
    state = "running" if started else "waiting"
    block = CodeBlock("x", id=id, timeout=timeout)
    return LiveBlock(id, block, 1, state, 990.0, started, "main", None, last)


def test_a_block_is_its_id_and_its_first_lines():
    code = "\n".join(f"line_{n} = {n}" for n in range(14))
    assert drawn(told_block("load", CodeBlock(code))).splitlines() == [
        "▸ load",
        *(f"  line_{n} = {n}" for n in range(10)),
        "  … 4 more lines",
    ]
    assert "more line" not in drawn(told_block("load", CodeBlock("\n".join("x" * 10))))
    assert drawn(told_block("scout", AgentBlock("Read\nit."))) == "▸ scout\n  Read\n  it.\n"


@pytest.mark.parametrize("width", [20, 60, 200])
def test_long_lines_are_cut_and_never_wrapped(width):
    long = "x" * 500
    shown = drawn(
        told_block("a", CodeBlock(f"{long}\n日本{long}")), told_result(result(out(long))), width=width
    )
    lines = shown.splitlines()
    assert len(lines) == 4
    assert all(Text(line).cell_len <= width for line in lines)
    assert all(line.endswith("…") for line in lines[1:])


def test_a_result_of_one_line_stands_beside_its_block():
    assert drawn(told_result(result(out("1,204\n")))) == "✓ b1  0.4s  1,204\n"
    assert drawn(told_result(result())) == "✓ b1  0.4s\n"
    assert drawn(told_result(result(), 1)) == "✓ b1  0.4s, 1 tool call\n"
    assert drawn(told_result(result(), 2000)) == "✓ b1  0.4s, 2,000 tool calls\n"


def test_what_was_cleared_is_not_shown_as_the_end():
    assert drawn(told_result(result(out("loading\n"), ClearOutput(), out("done\n")))) == "✓ b1  0.4s  done\n"
    assert drawn(told_result(result(out("stays\n"), ClearOutput(wait=True)))) == "✓ b1  0.4s  stays\n"


def test_of_a_long_result_the_end_is_shown_with_an_exact_count_of_the_rest():
    text = "".join(f"{n}\n" for n in range(1, 41))
    assert drawn(told_result(result(out(text)))).splitlines() == [
        "✓ b1  0.4s",
        "  … 34 more lines",
        *(f"  {n}" for n in range(35, 41)),
    ]
    huge = out(("y" * 100 + "\n") * 200_000)
    assert "… 199,994 more lines" in drawn(told_result(result(huge)))


def test_values_pictures_and_errors_are_told():
    outputs = [
        out("begun\n"),
        DisplayOutput({"image/png": "iVBO"}),
        ResultOutput({"text/plain": "42"}),
        ErrorOutput("ValueError", "no", ("\x1b[31mTraceback\x1b[0m", "many", "frames", "ValueError: no")),
    ]
    failed = result(*outputs, status="error", error="block b1, line 3\n    f()\nValueError: no")
    assert drawn(told_result(failed)).splitlines() == [
        "✗ b1  error, 0.4s",
        "  begun",
        "  <image/png>",
        "  42",
        "  block b1, line 3",
        "      f()",
        "  ValueError: no",
    ]
    assert drawn(told_result(result(status="rejected", error="It was refused."))) == (
        "✗ b1  rejected, 0.4s  It was refused.\n"
    )


def test_nothing_that_a_block_or_a_model_writes_is_obeyed():
    watching = Watching()
    watching.progress.agent = Alive([live(EVIL + "id", started=999.0, last=EVIL + "last")])
    watching.tell(RunStarted("r", "t", EVIL + "model", "s", 1.0, EVIL + "kernel"))
    watching.reply(f"{EVIL}prose\n<run_code>\n{EVIL}code\n</run_code>\n{EVIL}more")
    changes = watching.changes()
    watching.tell(
        BlockQueued(1, EVIL + "id", CodeBlock("code" + EVIL), 1.0),
        BlockFinished(result(out(EVIL + "out\n"), status="error", error=EVIL + "error", id=EVIL + "id")),
        Appended(1, Reply(1, "x", (CodeBlock("c"),), (Fault("cut", EVIL + "fault"),))),
        ModelRetry(1, EVIL + "reason", 2.0),
        NoteReceived(EVIL + "who", EVIL + "note"),
    )
    for word in (
        "model",
        "kernel",
        "prose",
        "more",
        "code",
        "id",
        "out",
        "error",
        "fault",
        "reason",
        "who",
        "note",
    ):
        assert word in watching.stays
    assert "last" in changes
    # Of the code, which runs as it is, nothing is left out.
    (code,) = (line for line in watching.stays.split("\n") if "owned" in line)
    assert code.startswith("  code⟨U+001B⟩]0;owned⟨U+0007⟩")
    assert "owned" not in changes
    for text in (watching.stays, changes):
        assert not set("\x1b\x07\x9b\u202e") & set(text)


def test_a_run_is_told_in_the_order_in_which_it_happens():
    watching = Watching()
    watching.tell(RunStarted("r", "t", "m", "s", 1.0, "Python 3.11.7"))
    text = "First I look.\n<run_code id=a>\nlook()\n</run_code>\nThen I see.\n<run_code id=b>\nsee()\n</run_code>\nSo."
    blocks = CodeBlock("look()", id="a"), CodeBlock("see()", id="b")
    watching.reply(text, chunk=len(text))
    watching.tell(*(BlockQueued(1, block.id, block, 1.0) for block in blocks))
    parts = Prose("First I look.\n"), blocks[0], Prose("Then I see.\n"), blocks[1], Prose("So.")
    watching.tell(Appended(1, Reply(1, text, parts)), BlockFinished(result(out("42"), id="a")))
    watching.tell(Appended(1, Knowledge("k")))
    assert watching.stays.split("\n") == [
        "m · Python 3.11.7", "", "First I look.", "▸ a", "  look()", "", "Then I see.", "▸ b", "  see()", "", "So.",
        "✓ a  0.4s  42", "The context was compacted.", "",
    ]  # fmt: skip


@pytest.mark.parametrize("protocol", ["json", "tools"])
def test_blocks_are_no_prose_whatever_the_protocol(protocol):
    watching = Watching(protocol)
    block = CodeBlock("look()", id="a")
    call = '{"name": "run_code", "arguments": {"id": "a", "code": "look()"}}\n' if protocol == "json" else ""
    watching.reply("First I look.\n" + call)
    watching.tell(
        BlockQueued(1, "a", block, 1.0), Appended(1, Reply(1, "", (Prose("First I look.\n"), block)))
    )
    assert watching.stays == "\nFirst I look.\n▸ a\n  look()\n"


def test_an_answer_is_shown_while_it_is_written_and_left_to_stdout_when_it_is_one():
    watching = Watching()
    watching.reply("It is 42.")
    assert "It is 42." in watching.changes()
    watching.tell(Appended(1, Reply(1, "It is 42.", (Prose("It is 42."),))))
    watching.tell(RunEnded("answered", "It is 42.", Usage(), 1, 1.0))
    assert watching.stays == ""
    assert watching.changes().strip() == ""


@pytest.mark.parametrize("then", [TurnStarted(2, 1.0), RunEnded("limit", None, Usage(), 1, 1.0, "1 turn")])
def test_what_was_no_answer_after_all_is_told_when_that_is_clear(then):
    watching = Watching()
    watching.reply("I wait for it.")
    watching.tell(Appended(1, Reply(1, "I wait for it.", (Prose("I wait for it."),))))
    assert watching.stays == ""
    watching.tell(then)
    assert watching.stays == "\nI wait for it.\n"


def test_of_a_long_answer_only_the_last_lines_change_and_never_more_than_fit():
    watching = Watching()
    watching.progress.agent = Alive([live(f"b{n}", started=999.0) for n in range(30)])
    watching.reply("".join(f"Sentence number {n} of this answer. " for n in range(100)))
    assert len(watching.changes(height=10).splitlines()) == 10
    assert "… 22 more" in watching.changes(height=10)
    watching.progress.agent = Alive([])
    lines = watching.changes().splitlines()
    assert len(lines) == PROSE_LINES + 1
    assert lines[-2].strip().endswith("number 99 of this answer.")
    for height in (-1, 0, 1, 2, 3):
        assert len(watching.changes(height=height).splitlines()) == max(1, height)


def test_blocks_that_run_show_their_clock_their_limit_and_their_last_line():
    watching = Watching()
    blocks = [
        live("load", started=996.8, last="downloaded 12/40", timeout=120.0),
        live("next"),
    ]
    watching.progress.agent = Alive(blocks)
    mark = watching.changes()[0]
    assert watching.changes() == f"{mark} load  3.2s of 2m  downloaded 12/40\n· next  waits\n"
    watching.now += 0.2
    assert watching.changes()[0] != mark
    assert drawn(told_live(blocks[0], "*", 1000.0), width=20) == "* load  3.2s of 2m …\n"


def test_what_the_model_does_is_shown_while_it_is_asked():
    watching = Watching()
    watching.progress.agent = None
    assert watching.changes()[2:] == "starting a kernel\n"
    watching.progress.agent = Alive([])
    assert watching.changes().strip() == ""
    watching.tell(TurnStarted(3, 990.0))
    assert watching.changes()[2:] == "turn 3: the model thinks, 10s\n"
    watching.tell(ReplyDelta(3, "<run_code>\nx = 1"))
    assert watching.changes()[2:] == "turn 3: the model writes, 16 characters, 10s\n"
    watching.tell(Appended(3, Reply(3, "", (CodeBlock("x = 1"),))))
    assert watching.changes().strip() == ""


def test_a_run_that_sleeps_says_for_how_long_and_what_for():
    watching = Watching()
    watching.progress.agent = Alive([], [WakeUpSet("wake-1", EVIL + "look", 8_200.0, 1_000.0)])
    (line,) = watching.changes(width=200).splitlines()
    assert line.startswith("· sleeps, 2h to go  ")
    assert "\x1b" not in line
    watching.tell(TurnStarted(3, 1_000.0))
    assert "sleeps" not in watching.changes()


def test_what_came_of_a_goal_is_shown():
    watching = Watching()
    watching.tell(
        GoalChecked("pytest -q" + EVIL, 1, "2 failed", 3.0),
        GoalMet("12 passed" + EVIL),
        WakeUpEnded("wake-1", True, 1.0),
    )
    assert "The goal is not met: pytest -q" in watching.stays
    assert "The goal is met: 12 passed" in watching.stays
    assert "It is time: wake-1" in watching.stays
    assert "\x1b" not in watching.stays


def test_tool_calls_are_counted_by_block():
    watching = Watching()
    watching.tell(
        *(ToolCalled(str(n), "search", "a", "") for n in range(3)), ToolCalled("9", "search", None, "")
    )
    watching.tell(BlockFinished(result(id="a")), BlockFinished(result(id="b")))
    assert watching.stays == "✓ a  0.4s, 3 tool calls\n✓ b  0.4s\n"


def test_model_and_kernel_are_told_once_in_a_conversation():
    watching = Watching()
    for number in range(3):
        watching.tell(RunStarted(str(number), "t", "m", "s", 1.0, "k"))
    assert watching.stays == "m · k\n"


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (Usage(1200, 0, 300, 2, 0.0123), ["1,500 tokens", "$0.0123"]),
        (Usage(1200, 600, 300, 2, None), ["1,500 tokens (600 cached)", "cost unknown"]),
        (Usage(1200, 0, 300, 2, 0.0, estimated=True), ["about 1,500 tokens", "free"]),
    ],
)
def test_tokens_and_money_are_told_and_what_is_not_known_is_told_so(usage, told):
    assert told_usage(usage) == told


def test_the_end_says_why_and_what_it_took():
    run = Run("i", "t", "limit", None, None, Usage(10, 0, 5, 1, None), 1, 73.2, "1 turn is used up")
    assert drawn(*told_end(run)) == "1 turn is used up\n1 turn · 15 tokens · cost unknown · 73s\n"


def test_a_record_is_named_as_one_would_type_it(place):
    assert drawn(told_record(place / "runs" / "a" / "run.ipynb")) == "record: runs/a/run.ipynb\n"
    elsewhere = Path("/elsewhere") / ("x" * 80) / "run.ipynb"
    assert drawn(told_record(elsewhere)).replace("\n", "") == f"record: {elsewhere}"
