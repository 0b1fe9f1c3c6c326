"""The last resort: the context is full, and the model has not compacted it."""

from __future__ import annotations

import asyncio
import json
from itertools import count

import pytest
from talk import block

from codeact_kernel.agent.inbox import Note
from codeact_kernel.errors import ContextOverflow, LimitReached, ModelUnreachable
from codeact_kernel.events import ModelUsed, NoteReceived, Task, TurnStarted
from codeact_kernel.messages import CallPiece, EndPiece, Usage
from codeact_kernel.testing import jumping

WORDS = "word " * 900  # some 1,100 tokens
PRINTS = [block(f'print("{n} {WORDS}")') for n in range(9)]


def asked_for(request):
    return "Your context is full. Before you read on" in request.messages[-1].content


@jumping
async def test_the_model_is_asked_to_write_down_what_it_needs_before_the_window_is_full(play):
    def reply(request):
        return "I have read pages 0 to 2." if asked_for(request) else next(turns)

    turns = iter([*PRINTS[:5], "done"])
    await play.run(*[reply] * 20, window=8_000)
    assert play.answer == "done"
    asked = [n for n, request in enumerate(play.model.requests) if asked_for(request)]
    assert asked
    after = play.model.requests[asked[0] + 1].messages
    assert "I have read pages 0 to 2." in after[1].content
    assert "self.history" not in after[1].content  # in this kernel there is none
    assert len(after) == 3  # and what was to be read is read now
    for event in play.events:
        if isinstance(event, TurnStarted):
            assert event.context_tokens <= 6_000


@jumping
async def test_what_the_asking_used_counts_and_is_no_turn(play):
    used = EndPiece("stop", Usage(input_tokens=500, output_tokens=20, calls=1))
    turns = iter([*PRINTS[:4], "done"])
    await play.run(
        *[lambda request: ["I know.", used] if asked_for(request) else next(turns)] * 20, window=8_000
    )
    assert [e.usage.calls for e in play.events if isinstance(e, ModelUsed)] == [1]
    assert play.transcript.usage.calls == play.model.calls
    assert [e.turn for e in play.events if isinstance(e, TurnStarted)] == [1, 2, 3, 4, 5]


@jumping
@pytest.mark.parametrize("protocol", ["tags", "tools", "json"])
async def test_a_reply_that_calls_compact_knowledge_is_taken_too_and_nothing_of_it_runs(play, protocol):
    code = 'self.compact_knowledge("X is 3")\nfail("ValueError", "it ran")'

    numbers = count()

    def written(code):
        arguments = json.dumps({"code": code})
        if protocol == "tags":
            return block(code)
        if protocol == "json":
            return f'{{"name": "run_code", "arguments": {arguments}}}'
        return [CallPiece(0, f"c{next(numbers)}", "run_code", arguments), EndPiece("tool_calls", Usage())]

    turns = iter([*(written(f'print("{n} {WORDS}")') for n in range(4)), "done"])
    await play.run(
        *[lambda request: written(code) if asked_for(request) else next(turns)] * 20,
        window=8_000,
        protocol=protocol,
    )
    assert play.answer == "done"
    assert "X is 3" in play.seen()
    assert "it ran" not in "".join(result.error or "" for result in _outcomes(play))


def _outcomes(play):
    return [record.result.outcome for record in play.transcript.blocks.values()]


@jumping
async def test_a_model_that_writes_nothing_is_asked_twice_and_then_the_runtime_makes_an_excerpt(play):
    turns = iter([*PRINTS[:4], "done"])
    await play.run(
        *[lambda request: block("1 + 1") if asked_for(request) else next(turns)] * 20, window=8_000
    )
    assert play.answer == "done"
    assert sum(asked_for(request) for request in play.model.requests) == 2
    assert "The runtime wrote this" in play.seen()


@jumping
async def test_an_endpoint_that_fails_while_it_is_asked_leaves_the_context_as_it_was(play):
    turns, asked = iter([*PRINTS[:4], "done"]), iter([ModelUnreachable("no connection"), "I know all."])
    replies = [lambda request: next(asked) if asked_for(request) else next(turns)] * 20
    await play.run(*replies, window=8_000, again=["Go on."])
    asking = [request.messages for request in play.model.requests if asked_for(request)]
    assert len(asking) == 2
    assert asking[1][: len(asking[0]) - 1] == asking[0][:-1]
    assert "I know all." in play.seen()
    assert play.seen().endswith("Go on.") or play.answer == "done"


@jumping
async def test_what_ends_while_the_model_writes_down_what_it_needs_is_read_after_it(play):
    turns = iter([block("sleep(50)\nprint('slow end')", id="slow") + "\n" + PRINTS[8], *PRINTS[:4], "done"])
    await play.run(
        *[lambda request: ["I know", 90.0, " it."] if asked_for(request) else next(turns)] * 20,
        window=8_000,
    )
    assert play.answer == "done"
    (after,) = [n for n in range(play.model.calls) if "slow end" in play.last(n)]
    assert "I know it." in play.seen(after)


@jumping
async def test_where_the_endpoint_says_that_it_does_not_fit_the_window_is_learnt_and_the_last_message_kept(
    play,
):
    said = []

    def reply(request):
        if asked_for(request):
            said.append(request)
            return "I have read 0 and 1."
        if len(said) == 0 and "2 word" in request.messages[-1].content:
            return ContextOverflow("too long")
        return next(turns)

    turns = iter([*PRINTS[:3], "done"])
    await play.run(*[reply] * 20)
    assert play.answer == "done"
    assert "I have read 0 and 1." in play.seen()
    assert "2 word" in play.seen()
    assert play.context.window is not None


@jumping
async def test_a_context_that_never_fits_stops_the_run_after_three_compactions(play):
    with pytest.raises(LimitReached, match="even after 3 compactions") as reached:
        await play.run(PRINTS[0], *[ContextOverflow("too long")] * 20)
    assert reached.value.limit == "context"
    assert play.model.calls <= 6


@jumping
async def test_a_task_that_is_larger_than_the_window_is_cut_and_can_be_had_whole(play):
    task = f"Begin. {'task ' * 20_000} End."
    await play.run("done", window=8_000, task=task)
    (read,) = [m.content for m in play.model.requests[0].messages if m.role == "user"]
    assert read.startswith("Begin.")
    assert read.endswith("End.")
    assert "self.history.task has all of it" in read
    assert play.events[-1] is not None
    assert isinstance(play.transcript.entries[0], Task)
    assert await play.history.task() == task


@jumping
async def test_a_task_that_does_not_fit_a_window_that_nobody_knew_is_cut_then(play):
    def reply(request):
        fits = sum(len(message.content) for message in request.messages) < 20_000
        return "done" if fits else ContextOverflow("too long")

    await play.run(*[reply] * 9, task=f"Begin. {'task ' * 40_000} End.")
    assert play.answer == "done"
    assert "Begin." in play.seen()
    assert play.seen().endswith("End.")


@jumping
async def test_a_note_that_is_larger_than_the_window_is_cut_and_can_be_had_whole(play):
    note = f"Read {'this ' * 20_000} now."

    class Noting:
        def after_model_call(self, reply):
            if reply.turn == 1:
                play.emit(NoteReceived("user", note))
                play.inbox.put(Note("user", note))

    await play.run(block("sleep(5)"), "I wait.", "done", window=8_000, hooks=[Noting()])
    assert "self.history.notes[0] has all of it" in play.seen()
    assert (await play.history.notes())[0] == note


@jumping
async def test_many_results_at_once_share_a_quarter_of_the_window(play):
    reply = "\n".join(block(f'print("{WORDS * 3}")', id=f"r{n}") for n in range(12))
    await play.run(reply, "done", window=16_000)
    assert play.answer == "done"
    assert play.context.count_text(play.last()) < 6_000
    assert all(f'self.output("r{n}") has all of it' in play.last() for n in range(12))


@jumping
async def test_knowledge_that_would_fill_the_window_is_cut(play):
    class Compacting:
        def after_block(self, result):
            play.context.compact("I know. " + "much " * 30_000)

    await play.run(block('print("1")'), "done", window=8_000, hooks=[Compacting()])
    assert play.answer == "done"
    assert play.context.count(play.context.messages()) < 5_000


@jumping
async def test_an_inventory_that_would_fill_a_small_window_is_cut(play):
    for n in range(30):
        (play.folder / f"{'long' * 25}-{n}.txt").write_text("x")

    class Compacting:
        def before_block(self, job):
            for file in play.folder.iterdir():
                file.touch()

        def after_block(self, result):
            play.context.compact("I know.")

    await play.run(block('print("1")'), "done", window=2_000, hooks=[Compacting()])
    assert play.answer == "done"
    assert "left out here: dir() has all of it" in play.seen()
    assert play.context.count(play.context.messages()) < 500


@jumping
async def test_a_compaction_that_was_wished_for_is_carried_out_though_the_endpoint_failed(play):
    class Compacting:
        def after_block(self, result):
            play.context.compact("I know that x is 3.")

    class Broken:
        def before_model_call(self, request):
            if play.model.calls == 1 and not hasattr(self, "failed"):
                self.failed = True
                raise ModelUnreachable("no connection")

    await play.run(
        "first words\n" + block('print("1")'), "done", hooks=[Compacting(), Broken()], again=["Go on."]
    )
    assert play.answer == "done"
    assert "x is 3" in play.seen()
    assert "first words" not in play.seen()


@jumping
async def test_a_stop_while_the_model_is_asked_changes_nothing(play):
    turns = iter([*PRINTS[:4], "done"])
    replies = [lambda request: ["I", 600.0, " know."] if asked_for(request) else next(turns)] * 20
    running = asyncio.create_task(play.run(*replies, window=8_000))
    while not any(map(asked_for, play.model.requests if hasattr(play, "model") else ())):
        await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "know." not in play.seen()
