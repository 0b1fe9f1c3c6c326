"""Between compactions the context only grows at its end, whatever is said: caches of prompts keep their worth."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count, pairwise
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from play import Play

from codeact_kernel.agent.inbox import Note
from codeact_kernel.dialogue import codec
from codeact_kernel.errors import ContextOverflow, LimitReached, ModelRefused
from codeact_kernel.events import Appended, Knowledge, Observation, Reply, TurnStarted
from codeact_kernel.messages import CallPiece, EndPiece, Usage
from codeact_kernel.testing import run_jumping

_NAMES = count()


def written(protocol, code, **more):
    """A block, as a model of this protocol writes it."""
    if protocol == "tags":
        attributes = "".join(f' {name}="{value}"' for name, value in more.items())
        return [f"<run_code{attributes}>\n{code}\n</run_code>\n"]
    arguments = json.dumps({"code": code, **more})
    if protocol == "tools":
        call = CallPiece(0, f"call{next(_NAMES)}", "run_code", arguments)
        return [call, EndPiece("tool_calls", Usage())]
    return [f'{{"name": "run_code", "arguments": {arguments}}}\n']


def say(protocol, move):
    """The replies that a move consists of: more than one where the first is cut."""
    kind, size = move
    quick = written(protocol, f'print("{"word " * size}")', id="same")
    match kind:
        case "run":
            return [quick]
        case "run long":
            return [written(protocol, f"sleep({size})", heartbeat="5s")]
        case "talk":
            code = "\n".join(['print("tick tock")', "sleep(3)"] * (1 + size % 20))
            return [written(protocol, code, heartbeat="5s")]
        case "compact":
            return [written(protocol, f'print("{size}")', id="compact")]
        case "wait":
            return ["I wait. " * (1 + size % 9)]
        case "nothing":
            return [""]
        case "wrong":
            return [written(protocol, "print(1)", timout="5s")]
        case "cut in prose":
            return [[f"I think {size} times", EndPiece("length", Usage())], [" and wait."]]
        case "cut in a block":
            if protocol == "tools":
                half = [CallPiece(0, "half", "run_code", '{"code": "pri'), EndPiece("length", Usage())]
                return [half, quick]
            whole = "".join(quick)
            return [[whole[: len(whole) // 2], EndPiece(None, Usage())], [whole[len(whole) // 2 :]]]
        case "does not fit":
            return [ContextOverflow("too long")]
    raise AssertionError(kind)


MOVES = st.tuples(
    st.sampled_from(
        [
            *["run", "run long", "talk", "wait"] * 3,
            *["cut in prose", "cut in a block", "compact", "wrong", "nothing", "does not fit"],
        ]
    ),
    st.integers(0, 900),
)


class Talk:
    """A hook that now and then has the user say something, and block `compact` compact."""

    def __init__(self, play, notes):
        self.play, self.notes = play, list(notes)

    def after_model_call(self, reply):
        if self.notes and (note := self.notes.pop()):
            self.play.inbox.put(Note("user", note))

    def after_block(self, result):
        if result.id.startswith("compact"):
            self.play.context.compact("what I know " * 20)


class Watched(Play):
    """Knows at which calls the context began anew, and which did not fit."""

    def __init__(self, folder):
        super().__init__(folder)
        self.anew = set()
        self.refused = set()

    def emit(self, event):
        if isinstance(event, Appended) and isinstance(event.entry, Knowledge):
            self.anew.add(len(self.model.requests))
        super().emit(event)


async def converse(protocol, moves, notes, window, threshold, folder):
    play = Watched(folder)
    script = [reply for move in moves for reply in say(protocol, move)]
    replies = iter(script)

    def reply(request):
        said = next(replies, "done")
        if isinstance(said, ContextOverflow):
            play.refused.add(len(play.model.requests) - 1)
        return said

    with suppress(LimitReached, ModelRefused):
        await play.run(
            *[reply] * (len(script) + 500),
            protocol=protocol,
            window=window,
            threshold=threshold,
            hooks=[Talk(play, notes)],
            task="Do it. " * 40,
        )
    return play


@pytest.mark.parametrize("protocol", ["tags", "tools", "json"])
@settings(max_examples=15, deadline=None)
@given(
    moves=st.lists(MOVES, max_size=25),
    notes=st.lists(st.sampled_from(["", "skip page 7", "a b\n" * 900]), max_size=20),
    window=st.sampled_from([None, 3_000, 12_000]),
    threshold=st.sampled_from([400, 16_000]),
)
def test_every_request_begins_with_the_one_before_it(protocol, moves, notes, window, threshold):
    with TemporaryDirectory() as folder:
        play = run_jumping(converse(protocol, moves, notes, window, threshold, folder))
    requests = [
        (number, request.messages)
        for number, request in enumerate(play.model.requests)
        if not is_join(request) and number not in play.refused
    ]
    for (first, before), (second, after) in pairwise(requests):
        if not any(first < number <= second for number in play.anew):
            assert after[: len(before)] == before
    assert all(messages[0].role == "system" for _, messages in requests)


def is_join(request):
    """Whether a request asks for the rest of a reply that was cut."""
    return request.messages[-1].content.startswith("Your reply was cut off")


@pytest.mark.parametrize("protocol", ["tags", "tools", "json"])
@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(0, 900), min_size=10, max_size=60, unique=True))
def test_the_context_of_a_model_that_heeds_reminders_is_never_larger_than_the_threshold_and_a_turn(
    protocol, sizes
):
    threshold, numbers = 2_000, iter(sizes)

    def reply(request):
        if "<reminder" in request.messages[-1].content:
            return written(protocol, 'print("kept")', id="compact")
        size = next(numbers, None)
        return "done" if size is None else say(protocol, ("run", size))[0]

    async def work(folder):
        play = Watched(folder)
        await play.run(
            *[reply] * 200, protocol=protocol, threshold=threshold, window=32_000, hooks=[Talk(play, ())]
        )
        return play

    with TemporaryDirectory() as folder:
        play = run_jumping(work(folder))
    appended = [event.entry for event in play.events if isinstance(event, Appended)]
    turns = [
        play.context.count(codec(protocol).messages(None, [reply, read]))
        for reply, read in pairwise(appended)
        if isinstance(reply, Reply) and isinstance(read, Observation)
    ]
    context = [event.context_tokens for event in play.events if isinstance(event, TurnStarted)]
    assert max(context) < threshold + max(turns)
