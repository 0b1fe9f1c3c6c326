"""What stands at the top of a notebook."""

from stories import DL, T0, opened, ran, story, told, valid

from codeact_kernel.blocks import BlockResult, CodeBlock, LeftOut, Outcome, StreamOutput
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockQueued,
    Knowledge,
    Reply,
    RunEnded,
    RunResumed,
    RunStarted,
)
from codeact_kernel.messages import Usage


def row(transcript):
    """The cells of the table, by their heads."""
    (cell,) = [cell for cell in valid(transcript).cells if cell.metadata.codeact.kind == "summary"]
    head, _, cells = cell.source.split("\n")[:3]
    return dict(zip(head.strip("| ").split(" | "), cells.strip("| ").split(" | "), strict=True))


def test_a_run_is_summed_up_in_a_table():
    assert row(told(*story())) == {
        "state": "answered",
        "turns": "2",
        "blocks": "1",
        "sub-agents": "1",
        "tokens": "300 in (50 cached), 25 out",
        "cost": "$0.0300",
        "time": "3m20s",
    }


def test_there_is_none_before_there_is_anything_to_sum_up():
    cells = valid(opened(*ran(DL))).cells
    assert [cell.metadata.codeact.kind for cell in cells] == ["task", "run_code"]


def test_while_it_goes_on_it_says_so_and_counts_what_failed():
    failed = ran(CodeBlock("1 / 0"), name="b2", status="error")
    shown = row(opened(*ran(DL), *failed, Appended(1, Reply(1, "x", usage=Usage(5, 0, 1, 1, None)))))
    assert (shown["state"], shown["blocks"], shown["cost"]) == ("running", "2, 1 not ok", "unknown")
    assert shown["time"] == "3.5s"


def test_a_chat_has_one_and_counts_the_time_of_all_its_runs_without_what_lies_between():
    end = RunEnded("answered", "x", Usage(), 1, T0 + 5)
    again = RunStarted("run-2", "And?", "m", "s", T0 + 1000)
    assert row(opened(end, again, RunEnded("limit", None, Usage(), 2, T0 + 1010)))["time"] == "15s"
    resumed = RunResumed("run-1", T0 + 500, "m", worked=5.0)
    assert row(opened(end, resumed, RunEnded("limit", None, Usage(), 3, T0 + 501)))["time"] == "6.0s"


def test_a_notebook_leads_to_the_file_of_a_long_output():
    gone = LeftOut(9, file="outputs/dl x.txt")
    result = BlockResult("dl", DL, Outcome(), (StreamOutput("stdout", "a"), gone), T0, T0, T0 + 1)
    transcript = opened(BlockQueued(1, "dl", DL, T0), BlockFinished(result))
    assert valid(transcript).cells[2].source == (
        "All of the text that this block put out: [outputs/dl x.txt](outputs/dl%20x.txt)"
    )


def test_a_compaction_stands_folded_where_it_happened():
    transcript = opened(*ran(DL), Appended(1, Knowledge("I *know* that.", "dl runs")))
    cell = valid(transcript).cells[-1]
    assert cell.metadata.codeact.kind == "compaction"
    assert cell.source.startswith("<details><summary>")
    assert "I *know* that.\n\ndl runs" in cell.source
