"""Random programs of blocks, against a simple model of what must come out of each.

All programs run in one kernel, the blocks of each at the same time. A block that is cancelled on the way must have
printed a beginning of its text, and nothing else. A program that fails is made small, and printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import re

import pytest
from hypothesis import Phase, given, settings
from random_programs import PROGRAMS
from stage import Stage

from codeact_kernel.blocks import DisplayOutput, ResultOutput, StreamOutput

pytestmark = pytest.mark.stress

BY_A_BLOCK = re.compile(r"p\d+b\d+-")


def shown_of(watched):
    """What was shown in order, texts joined: ("text" or "display", what); and how many pictures."""
    shown, pictures = [], 0
    for output in watched.outputs:
        if isinstance(output, StreamOutput) and output.name == "stdout":
            shown.append(("text", output.text))
        elif isinstance(output, DisplayOutput) and output.data["text/plain"].startswith("<Figure"):
            pictures += 1
        elif isinstance(output, DisplayOutput):
            shown.append(("display", output.data["text/plain"]))
    return joined(shown), pictures


def joined(shown):
    """One text where there are several in a row."""
    kept = []
    for kind, what in shown:
        if kind == "text" and kept and kept[-1][0] == "text":
            kept[-1] = (kind, kept[-1][1] + what)
        else:
            kept.append((kind, what))
    return kept


def begins(whole, part):
    """Whether what was shown is a beginning of a model."""
    flat = [piece for kind, what in whole for piece in (what if kind == "text" else [what])]
    begun = [piece for kind, what in part for piece in (what if kind == "text" else [what])]
    return flat[: len(begun)] == begun


def errors_of(watched):
    """Its text on stderr, without what Python says there of objects that a cancelled block has left half done.

    Python says it in whichever block it comes to collect them.
    """
    text = "".join(o.text for o in watched.outputs if isinstance(o, StreamOutput) and o.name == "stderr")
    return "".join(line for line in text.splitlines(keepends=True) if BY_A_BLOCK.match(line))


def check(blocks, watched):
    """Hold what came of the blocks against their models."""
    for block in blocks:
        check_block(block, watched)


def check_block(block, watched):
    found = watched[block.name]
    (shown, pictures), errors = shown_of(found), errors_of(found)
    values = [o.data["text/plain"] for o in found.outputs if isinstance(o, ResultOutput)]
    where = f"{block.name} in {found.lane}: {found.status}, {found.error}\n{shown}\n{errors}"
    assert found.outcome.missing == 0, where
    model = [] if block.block.captured else joined(block.shown)
    if block.block.cancelled is not None and not (found.status == block.status and block.sign in found.error):
        assert found.status in ("error", "cancelled", "skipped"), where
        assert begins(model, shown), f"{where}\nno beginning of {model}"
        assert pictures <= block.pictures, where
        return
    ends = expected_ends(block, watched)
    assert any(found.status == status and sign in found.error for status, sign in ends), (
        f"{where}\nand not {ends}"
    )
    if (block.status, block.sign) not in ends:
        assert (shown, errors, values, pictures) == ([], "", [], 0), where
        return
    assert shown == model, f"{where}\nand not {model}"
    assert errors == ("" if block.block.captured else block.errors), where
    assert values == ([block.value] if block.value else []), where
    assert pictures == block.pictures, where


def expected_ends(block, watched):
    """How a block may end: (status, what its error says)."""
    maker = block.maker
    if maker is None or block.block.end == "does not parse" or watched[maker.name].status == "ok":
        return [(block.status, block.sign)]
    nameless, skipped = ("error", f"NameError: name 'made_{maker.name}'"), ("skipped", maker.name)
    if maker.block.end == "does not parse":
        return [nameless]
    # A maker that was cancelled may have ended before the block came.
    return [skipped, nameless] if maker.may_end_early else [skipped]


async def check_late(blocks, watched):
    """Hold what the blocks said after their end against their models. All of it has been said."""
    for block in blocks:
        found = watched[block.name]
        ran = (block.status, block.sign) in expected_ends(block, watched)
        expected = sorted(block.late) if ran else []
        if block.block.cancelled is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    while len(late_of(found)) < len(expected):
                        found.spoke.clear()
                        await found.spoke.wait()
            assert late_of(found) == expected, f"{block.name} said {late_of(found)} and not {expected}"
        assert set(late_of(found)) <= set(expected), f"{block.name} said {late_of(found)} of {expected}"


def late_of(found):
    """The lines that it said after its end."""
    text = "".join(o.text for o in found.outputs if isinstance(o, StreamOutput) and o.name == "stdout")
    return sorted(line for line in text.splitlines(keepends=True) if line.startswith("late "))


@pytest.fixture
def stage(bench_of, tmp_path):
    made = Stage(bench_of, check, check_late, tmp_path)
    yield made
    made.close()


def test_random_programs_do_what_their_model_says(stage, times):
    @settings(
        max_examples=times(25, 250),
        derandomize=times(True, False),
        deadline=None,
        phases=set(Phase) - {Phase.explain},
    )
    @given(PROGRAMS)
    def hold(program):
        stage.play(program)

    hold()
