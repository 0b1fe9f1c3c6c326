"""Two records of the same blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from records import told

from codeact_kernel.agent import RecordedRun, compare, divergence
from codeact_kernel.blocks import BlockResult, CodeBlock, DisplayOutput, ErrorOutput, Outcome, StreamOutput
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    Observation,
    Reply,
    Report,
    RunStarted,
    Task,
    TurnStarted,
)


def run(*turns):
    """A run of turns, each a list of blocks, each its id, its status and its outputs."""
    events = [RunStarted("r", "Do it.", "m", "s", 1.0)]
    for number, blocks in enumerate(turns, 1):
        events.append(TurnStarted(number, 1.0))
        for name, status, *outputs in blocks:
            block = CodeBlock("x", name)
            events.append(BlockQueued(number, name, block, 1.0))
            events += [
                BlockOutput(name, StreamOutput("stdout", o) if isinstance(o, str) else o) for o in outputs
            ]
            events.append(BlockFinished(BlockResult(name, block, Outcome(status), (), 1.0, 1.0, 2.0)))
    return RecordedRun(Path("run.ipynb"), told(events))


def verdicts(before, after, *volatile):
    return [(found.turn, found.id, found.verdict) for found in compare(before, after, volatile)]


def test_what_is_the_same_differs_or_is_missing_is_told_for_each_block():
    before = run([("a", "ok", "1\n"), ("b", "ok", "2\n")], [("c", "ok")], [("d", "ok")])
    after = run([("a", "ok", "1\n"), ("b", "error", "2\n")], [("c", "ok"), ("e", "ok")])
    assert verdicts(before, after) == [
        (1, "a", "same"),
        (1, "b", "differs"),
        (2, "c", "same"),
        (2, "e", "new"),
        (3, "d", "missing"),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<object at 0x7f00aa11bb22>", "<object at 0x7f11aa11bb33>"),
        ("2026-12-01T17:20:11.123Z done", "2026-12-02T08:00:00Z done"),
        ("took 1.25 s", "took 830 ms"),
        ("5.1 µs ± 20 ns per loop (mean)", "6 µs ± 1 ns per loop (mean)"),
        ("1764600000.5", "1764700001.25"),
        ("pid 17", "pid 4711"),
        ("In [3]", "In [12]"),
        ("/tmp/tmpab12/x.csv", "/tmp/tmpcd/y.csv"),
        ("a1b2c3d4-0000-4000-8000-00000000000a", "ffffffff-0000-4000-8000-00000000000b"),
    ],
)
def test_times_addresses_and_the_like_are_volatile(one, other):
    assert verdicts(run([("a", "ok", one)]), run([("a", "ok", other)])) == [(1, "a", "volatile")]


@pytest.mark.parametrize(
    ("one", "other"), [("12 rows", "13 rows"), ("0x1", "0x2"), ("3 months", "4 months"), ("v1.2", "v1.3")]
)
def test_other_figures_are_not(one, other):
    assert verdicts(run([("a", "ok", one)]), run([("a", "ok", other)])) == [(1, "a", "differs")]


def test_a_user_says_what_else_is_volatile():
    before, after = run([("a", "ok", "job-17")]), run([("a", "ok", "job-4")])
    assert verdicts(before, after, r"job-\d+") == [(1, "a", "volatile")]
    with pytest.raises(ValueError, match="no regular expression"):
        compare(before, after, ["("])


def test_displays_and_errors_are_compared_and_tracebacks_are_not():
    error = ErrorOutput("ValueError", "no", ("File x, line 1", "ValueError: no"))
    picture = DisplayOutput({"image/png": "iVBORw0=", "text/plain": "<Figure>"})
    before = run([("a", "error", error), ("b", "ok", picture)])
    other = DisplayOutput({"image/png": "AAAA", "text/plain": "<Figure>"})
    after = run([("a", "error", replace(error, traceback=("elsewhere",))), ("b", "ok", other)])
    assert verdicts(before, after) == [(1, "a", "same"), (1, "b", "differs")]


def test_of_a_long_difference_the_first_lines_are_shown():
    before, after = run([("a", "ok", "x\n" * 100)]), run([("a", "ok", "y\n" * 100)])
    (found,) = compare(before, after)
    shown = found.difference(5)
    assert len(shown) == 6
    assert shown[-1].startswith("… ")


def conversation(*bodies):
    """A run whose model has read these before its replies."""
    events = [RunStarted("r", "Do it.", "m", "s", 1.0), Appended(0, Task("Do it."))]
    for number, body in enumerate(bodies, 1):
        events += [TurnStarted(number, 1.0), Appended(number, Reply(number, "x"))]
        reports = Report("run_code_result", body, "a"), Report("running", f"{number}", "b")
        events.append(Appended(number, Observation(reports)))
    events += [TurnStarted(len(bodies) + 1, 1.0), Appended(len(bodies) + 1, Reply(len(bodies) + 1, "Done."))]
    return RecordedRun(Path("run.ipynb"), told(events))


def test_conversations_part_at_the_first_turn_that_had_read_something_else():
    before = conversation("1", "took 1.5 s", "3")
    assert divergence(before, conversation("1", "took 2.5 s", "3")) is None
    parted = divergence(before, conversation("1", "took 2.5 s", "4"))
    assert (parted.turn, parted.before) == (4, "run_code_result a\n3")
    assert divergence(before, conversation("1")) is None


def test_the_order_of_results_in_one_message_is_no_divergence():
    def both(*reports):
        events = [RunStarted("r", "x", "m", "s", 1.0), TurnStarted(1, 1.0), Appended(1, Observation(reports))]
        return RecordedRun(Path("run.ipynb"), told([*events, Appended(1, Reply(1, "x"))]))

    a, b = Report("run_code_result", "1", "a"), Report("run_code_result", "2", "b")
    assert divergence(both(a, b), both(b, a)) is None


def test_when_a_result_is_read_is_no_divergence_and_what_it_says_is():
    def read(*observations):
        events = [RunStarted("r", "x", "m", "s", 1.0)]
        for turn, bodies in enumerate(observations, 1):
            reports = tuple(Report(kind, body, body[0]) for kind, body in bodies)
            events += [
                Appended(turn, Observation(reports)),
                TurnStarted(turn, 1.0),
                Appended(turn, Reply(turn, "x")),
            ]
        return RecordedRun(Path("run.ipynb"), told(events))

    a, b = ("run_code_result", "a 1"), ("run_code_result", "b 2")
    waited = ("run_code_result", "b 2\n[it waited for x, which block a makes]")
    before = read([a], [b], [])
    assert divergence(before, read([a, b], [], [])) is None
    assert divergence(before, read([a], [], [waited])) is None
    assert divergence(before, read([a], [], [])).turn == 2
    assert divergence(before, read([a, ("run_code_result", "b 3")], [], [])).turn == 2
    assert divergence(before, read([a, ("reminder", "c")], [b], [])).turn == 1
