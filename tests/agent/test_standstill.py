"""Circles are noticed; what makes progress, or waits, is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from talk import block

from codeact_kernel.agent.inbox import Note
from codeact_kernel.agent.standstill import STOPPED_AFTER, TOLD_AFTER
from codeact_kernel.blocks import StreamOutput
from codeact_kernel.errors import LimitReached
from codeact_kernel.testing import jumping

FAILS = block('fail("ValueError", "line 1 at 0x7f01")')


def told(play):
    return [n for n in range(play.model.calls) if "brought nothing new" in play.last(n)]


async def stopped(play, *replies, **options):
    with pytest.raises(LimitReached, match="brought nothing new") as reached:
        await play.run(*replies, **options)
    assert reached.value.limit == "standstill"
    return play.model.calls


@jumping
async def test_the_same_error_again_and_again_is_told_once_and_then_ends_the_run(play):
    assert await stopped(play, *[FAILS] * 30) == STOPPED_AFTER + 1
    assert told(play) == [TOLD_AFTER + 1]


@jumping
async def test_an_error_that_differs_in_numbers_only_is_the_same(play):
    replies = [block(f'fail("ValueError", "at 0x{n}f")\n') for n in range(30)]
    with pytest.raises(AssertionError):  # other code each time: each is a try
        await play.run(*replies)
    assert not told(play)


@jumping
async def test_a_circle_of_several_blocks_is_one(play):
    assert await stopped(play, *[block('print("a")'), FAILS, block('print("b")')] * 20) == STOPPED_AFTER + 3


@jumping
async def test_replies_of_which_nothing_runs_are_a_circle(play):
    assert await stopped(play, *[block(f'print("{n}")', timout="5s") for n in range(30)]) == STOPPED_AFTER


@jumping
async def test_the_same_code_with_other_output_is_progress(play):
    class Counting:
        """The output differs, as that of a loop does that looks at a file that grows."""

        def after_block(self, result):
            self.n = getattr(self, "n", 0) + 1
            return replace(result, outputs=(StreamOutput("stdout", f"{self.n}/30\n"),))

    await play.run(*[block('print("x")')] * 30, "done", hooks=[Counting()])
    assert play.answer == "done"
    assert not told(play)


@jumping
async def test_polling_that_sleeps_is_waiting(play):
    await play.run(*[block('sleep(5)\nprint("pending")')] * 30, "done")
    assert play.answer == "done"
    assert not told(play)


@jumping
async def test_an_error_that_takes_a_minute_to_come_is_waiting_and_one_of_ten_seconds_is_not(play):
    await play.run(*[block('sleep(60)\nfail("OSError", "refused")')] * 20, "done")
    assert not told(play)
    await stopped(play, *[block('sleep(10)\nfail("OSError", "refused")')] * 20)


@jumping
async def test_waiting_for_a_block_is_no_circle(play):
    ticking = "\n".join(['print("tick")', "sleep(5)"] * 400)

    def reply(request):
        return "done" if "<run_code_result" in request.messages[-1].content else "I wait."

    await play.run(block(ticking, heartbeat="5s", timeout="1h"), *[reply] * 40)
    assert play.model.calls > STOPPED_AFTER
    assert not told(play)


@jumping
async def test_something_new_in_between_begins_the_count_anew(play):
    replies = []
    for n in range(6):
        replies += [FAILS] * TOLD_AFTER + [block(f'print("edit {n}")')]
    await play.run(*replies, "done")
    assert play.answer == "done"


@jumping
async def test_a_note_of_the_user_begins_the_count_anew(play):
    class Noting:
        def after_block(self, result):
            play.inbox.put(Note("user", "again, please"))

    await play.run(*[FAILS] * 20, "done", "done", hooks=[Noting()])
    assert play.answer == "done"


@jumping
async def test_a_new_run_begins_the_count_anew(play):
    await play.run(
        *[FAILS] * (STOPPED_AFTER - 1), "done", *[FAILS] * (STOPPED_AFTER - 1), "done", again=["Again."]
    )
    assert play.answer == "done"
