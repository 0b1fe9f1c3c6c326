"""What holds of the events of blocks, whatever the blocks do and whoever ends them when."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.events import (
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Heartbeat,
    RunStarted,
    TurnStarted,
)
from codeact_kernel.supervisor import Supervisor, SupervisorSettings
from codeact_kernel.supervisor.output import as_text
from codeact_kernel.testing import FakeRunner, run_jumping, wall
from codeact_kernel.transcript import Transcript

GRACE = 5.0

seconds = st.sampled_from([0, 0.5, 1, 2, 3, 5, 10, 30])
lines = st.one_of(
    st.builds("sleep({})".format, seconds),
    st.sampled_from(
        ['print("x")', 'print("y", err=True)', 'print("")', "deaf()", 'late(3, "late")', 'value("42")']
    ),
    st.sampled_from(['fail("ValueError")', 'die("x")', 'wait("never")']),
)
plays = st.builds(
    lambda queue, lines: "\n".join([*queue, *lines]),
    st.lists(st.builds("queue({})".format, seconds), max_size=1),
    st.lists(lines, max_size=6),
)
names = [f"b{number}" for number in range(6)]
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("launch"),
            plays,
            st.none() | st.sampled_from([0.5, 1, 2, 4, 10]),
            st.none() | st.sampled_from([0.5, 1, 2, 3]),
            st.none() | st.lists(st.sampled_from(names), max_size=2).map(tuple),
        ),
        st.tuples(st.just("cancel"), st.sampled_from(names)),
        st.tuples(st.just("sleep"), seconds),
    ),
    max_size=12,
)


async def play(steps):
    events = []
    runner = FakeRunner()
    async with Supervisor(
        {CodeBlock: runner}, events.append, wall=wall, settings=SupervisorSettings(20.0, GRACE)
    ) as supervisor:
        launched = 0
        for what, *given in steps:
            if what == "launch":
                code, timeout, heartbeat, after = given
                block = CodeBlock(code, timeout=timeout, heartbeat=heartbeat, after=after)
                supervisor.launch(Job(f"b{launched}", block, 1), 1)
                launched += 1
            elif what == "cancel":
                supervisor.cancel(given[0], "by the test")
            else:
                await asyncio.sleep(given[0])
            live = {block.id for block in supervisor.live}
            assert live.isdisjoint(supervisor.results)
            assert len(live) + len(supervisor.results) == launched
        left = asyncio.get_running_loop().time()
    assert supervisor.live == supervisor.stuck == []
    assert asyncio.get_running_loop().time() <= left + GRACE + 0.001
    assert runner.playing == {}
    return events


@settings(max_examples=150, deadline=None)
@given(steps)
def test_every_block_has_one_start_at_most_and_exactly_one_end_with_all_its_output_before(steps):
    events = run_jumping(play(steps))
    queued = [event.id for event in events if isinstance(event, BlockQueued)]
    for name in queued:
        mine = [
            event
            for event in events
            if getattr(event, "id", None) == name
            or getattr(getattr(event, "result", None), "id", None) == name
        ]
        kinds = [type(event) for event in mine]
        end = kinds.index(BlockFinished)
        assert kinds[0] is BlockQueued
        assert kinds.count(BlockFinished) == kinds.count(BlockQueued) == 1
        assert kinds.count(BlockStarted) <= 1
        assert BlockStarted not in kinds[end:]
        assert Heartbeat not in kinds[end:]
        assert Heartbeat not in kinds[: kinds.index(BlockStarted) if BlockStarted in kinds else end]
        outputs = [(at, event) for at, event in enumerate(mine) if isinstance(event, BlockOutput)]
        assert all(event.late == (at > end) for at, event in outputs)
        result = mine[end].result
        said = as_text([event.output for _, event in outputs if not event.late])
        assert as_text(result.outputs) == said
        beats = "".join(event.text for event in mine if isinstance(event, Heartbeat))
        assert "".join(said.split()).startswith("".join(beats.split()))
        if result.outcome.status in ("rejected", "skipped"):
            assert result.started is None


@settings(max_examples=30, deadline=None)
@given(steps)
def test_a_transcript_takes_every_such_story(steps):
    transcript = Transcript()
    transcript.apply(RunStarted("r", "t", "m", "s", 0.0))
    transcript.apply(TurnStarted(1, 0.0))
    for event in run_jumping(play(steps)):
        transcript.apply(event)
    assert all(record.result for record in transcript.blocks.values())
