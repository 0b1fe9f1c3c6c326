"""The loop: what is asked, when, and with what."""

from __future__ import annotations

import asyncio
import re

import pytest
from pydantic import BaseModel

from codeact_kernel.agent import Refused
from codeact_kernel.agent.inbox import Note
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.errors import ContextOverflow, LimitReached, ModelRefused
from codeact_kernel.events import BlockFinished, Knowledge, Observation, Report, TurnStarted
from codeact_kernel.messages import CallPiece, EndPiece, TextPiece, Usage
from codeact_kernel.testing import jumping


def block(code, **attributes):
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<run_code{written}>\n{code}\n</run_code>"


@jumping
async def test_a_reply_without_blocks_is_the_answer(play):
    assert await play.run("It is 4.") == "It is 4."
    assert play.model.calls == 1


@jumping
async def test_a_block_runs_and_its_output_is_what_the_model_reads_next(play):
    await play.run(block('print("42")', id="a"), "It is 42.")
    assert play.last() == '<run_code_result id="a" duration="0s">\n42\n</run_code_result>'


@jumping
async def test_a_block_starts_while_the_reply_still_streams(play):
    slow = ["before\n" + block('print("x")', id="a") + "\n", 100.0, "after"]
    await play.run(slow, "done")
    (started,) = [e for e in play.events if type(e).__name__ == "BlockStarted"]
    assert started.at - play.events[0].at < 1


@jumping
async def test_blocks_of_one_reply_run_side_by_side_and_ends_that_fall_together_are_one_message(play):
    reply = "\n".join(block("sleep(10)", id=f"s{i}") for i in range(5))
    await play.run(reply, "done")
    assert play.model.calls == 2
    assert play.last().count("<run_code_result") == 5


@jumping
async def test_plain_text_while_blocks_run_means_wait(play):
    await play.run(block("sleep(100)", id="slow") + "\n" + block("sleep(1)", id="quick"), "I wait.", "done")
    assert play.answer == "done"
    assert [e.result.id for e in play.events if isinstance(e, BlockFinished)] == ["quick", "slow"]


@jumping
async def test_a_silent_block_of_ten_minutes_costs_no_call(play):
    await play.run(block("sleep(600)", id="a", heartbeat="5s"), "done")
    assert play.model.calls == 2


@jumping
async def test_a_heartbeat_tells_what_is_new_with_its_times(play):
    code = 'print("1/3")\nsleep(7)\nprint("2/3")\nsleep(20)'
    await play.run(block(code, id="dl", heartbeat="5s", timeout="2m"), "wait", "wait", "done")
    assert re.fullmatch(
        r'<running id="dl" current="5.0s" now="\d\d:\d\d:\d\d" deadline="\d\d:\d\d:\d\d">\n1/3\n</running>',
        play.last(1),
    )
    assert "2/3" in play.last(2)
    assert "1/3" not in play.last(2)


def talk(seconds):
    """Code that prints once a second."""
    return "\n".join(['print("tick")', "sleep(1)"] * seconds)


def currents(text):
    return re.findall(r'<running id="(\w+)" current="([^"]+)"', text)


@jumping
async def test_heartbeats_of_several_blocks_that_fall_together_are_one_message(play):
    reply = "\n".join(block(talk(8), id=f"b{i}", heartbeat="5s") for i in range(4))
    await play.run(reply, "wait", "done")
    assert play.model.calls == 3
    assert sorted(currents(play.last(1))) == [(f"b{i}", "5.0s") for i in range(4)]


@jumping
async def test_the_more_often_the_model_only_waits_the_less_often_it_is_asked_and_it_is_told_so(play):
    await play.run(block(talk(100), id="dl", heartbeat="5s"), *["I wait."] * 4, "done")
    reports = [re.search(r"<running.*>", play.last(call))[0] for call in range(1, 5)]
    assert [re.findall(r'current="(.*?)"', report) for report in reports] == [
        ["5.0s"],
        ["15s"],
        ["35s"],
        ["75s"],
    ]
    assert [re.findall(r'heartbeat="(.*?)"', report) for report in reports] == [[], ["10s"], ["20s"], ["40s"]]


@jumping
async def test_an_hour_of_output_that_the_model_only_waits_for_costs_a_dozen_calls(play):
    await play.run(block(talk(3600), id="dl", heartbeat="5s", timeout="2h"), *["I wait."] * 11, "done")
    assert play.model.calls == 13


@jumping
@pytest.mark.parametrize(
    "act",
    [block('print("x")', id="look"), '<cancel id="slow"/>', block("1", id="dl"), block("1", timout="5s")],
)
async def test_once_the_model_does_anything_it_is_asked_as_often_as_it_wished(play, act):
    first = block(talk(24), id="dl", heartbeat="5s") + "\n" + block("sleep(60)", id="slow")
    await play.run(first, "I wait.", act, *["I wait."] * 3, "done", seconds=61)
    before, after = play.seen().split('current="15s"')
    assert 'heartbeat="10s"' in after.partition(">")[0]
    assert [now for _, now in currents(before)] == ["5.0s"]
    assert 'heartbeat="' not in re.search(r'current="20s".*?>', after)[0]


@jumping
async def test_what_ended_wakes_the_model_whatever_heartbeats_are_due(play):
    first = block(talk(70), id="dl", heartbeat="5s") + "\n" + block("sleep(52)", id="end")
    await play.run(first, *["wait"] * 8)
    began, asked = play.events[0].at, [e for e in play.events if isinstance(e, TurnStarted)]
    assert [round(turn.at - began) for turn in asked] == [0, 5, 15, 35, 52, 70]


@jumping
async def test_heartbeats_that_came_while_the_model_replied_are_one_report(play):
    slow = ["I think.", 17.0, ""]
    await play.run(block(talk(40), id="dl", heartbeat="5s"), slow, "wait", "done")
    assert currents(play.last(2)) == [("dl", "20s")]
    assert play.last(2).count("tick") == 15


@jumping
async def test_of_a_block_that_ended_while_the_model_replied_only_the_result_is_told(play):
    slow = ["I think.", 17.0, ""]
    await play.run(block(talk(12), id="dl", heartbeat="5s"), slow, "done")
    assert "<running" not in play.last()
    assert play.last().startswith('<run_code_result id="dl" duration="12s">')


@jumping
async def test_a_timeout_interrupts_the_block_and_keeps_what_it_printed(play):
    await play.run(block('print("one")\nsleep(600)', id="a", timeout="20s"), "done")
    assert '<run_code_result id="a" status="timeout"' in play.last()
    assert "one" in play.last()


@jumping
async def test_a_cancel_in_a_reply_ends_the_block_and_waits_for_its_end(play):
    await play.run(
        block('print("on")\nsleep(600)', id="dl", heartbeat="5s"), 'Too slow.\n<cancel id="dl"/>', "done"
    )
    assert 'status="cancelled"' in play.last()
    assert play.model.calls == 3


@jumping
async def test_a_cancel_of_nothing_is_told(play):
    await play.run('<cancel id="dl"/>', "done")
    assert "no running block 'dl'" in play.last()


@jumping
async def test_a_reused_id_is_numbered_inside_and_keeps_its_name_outside(play):
    await play.run(block('print("1")', id="a"), block('print("2")', id="a"), "done")
    assert list(play.supervisor.results) == ["a", "a#2"]
    assert 'id="a"' in play.last(-1)
    assert "#" not in play.seen()


@jumping
async def test_an_id_in_use_is_refused_while_the_other_blocks_run(play):
    await play.run(
        block("sleep(100)", id="a") + "\n" + block("sleep(1)", id="x"),
        block('print("again")', id="a") + "\n" + block('print("b")', id="b"),
        "wait",
        "done",
    )
    assert "again" not in [o.text for r in play.transcript.blocks.values() for o in r.outputs]
    assert "<fault" in play.seen()
    assert 'id="b"' in play.seen()


@jumping
async def test_unnamed_blocks_are_named_and_never_like_a_named_one(play):
    await play.run(block("value(1)", id="b1") + "\n" + block("value(2)") + "\n" + block("value(3)"), "done")
    assert list(play.transcript.blocks) == ["b1", "b2", "b3"]


@jumping
async def test_a_misspelt_attribute_is_told_and_the_other_block_runs(play):
    await play.run(block('print("1")', id="a", timout="5s") + "\n" + block('print("2")', id="b"), "done")
    assert "timout" in play.last()
    assert "timeout" in play.last()
    assert 'id="b"' in play.last()


@jumping
async def test_a_sub_agent_is_rejected_with_one_sentence(play):
    await play.run('<run_agent name="scout">\nLook around.\n</run_agent>', "done")
    assert '<agent_result id="scout" status="rejected"' in play.last() or 'status="rejected"' in play.last()
    assert "not available" in play.last()


@jumping
async def test_a_reply_cut_inside_a_block_is_joined_and_runs_once(play):
    whole = block('print("part one")\nprint("part two")', id="a")
    half = [whole[:30], EndPiece("length", Usage(10, 0, 5, 1))]
    await play.run(half, whole[30:], "done")
    assert play.last().count("part one") == 1
    assert len(play.runner.jobs) == 1
    assert play.model.requests[1].messages[-2].content == whole[:30]
    assert play.transcript.usage.calls >= 3


@jumping
async def test_a_reply_that_is_cut_again_and_again_is_given_up_and_told(play):
    half = ["<run_code id=a>\nprint(", EndPiece(None, Usage())]
    more = ["'x", EndPiece(None, Usage())]
    await play.run(half, more, more, more, "done")
    assert play.runner.jobs == []
    assert "<fault" in play.last()


@jumping
async def test_an_unclosed_block_that_compiles_runs_and_the_result_says_so(play):
    await play.run('<run_code id=a>\nprint("x")', "done")
    assert "closing tag" in play.last()
    assert "x" in play.last()


@jumping
async def test_invented_results_are_dropped_and_told(play):
    invented = block('print("42")', id="a") + '\n<run_code_result id="a">\n7\n</run_code_result>\nIt is 7.'
    await play.run(invented, "done")
    assert "It is 7" not in play.seen()
    assert "42" in play.last()


@jumping
async def test_a_note_is_read_at_the_next_safe_point_and_one_message_holds_all(play):
    async def person():
        await asyncio.sleep(5)
        play.inbox.put(Note("user", "skip page 7"))

    task = asyncio.ensure_future(person())
    await play.run(block("sleep(60)", id="a"), "I go on.", "done")
    await task
    assert play.last(1) == '<note from="user">skip page 7</note>' or "skip page 7" in play.last(1)


@jumping
async def test_a_note_that_comes_with_the_answer_is_answered_first(play):
    play.inbox.put(Note("user", "wait, also the sum"))
    await play.run("It is 4.", "And the sum is 9.")
    assert play.answer == "And the sum is 9."


@jumping
async def test_what_lies_aside_is_read_with_what_comes_next_and_makes_no_turn_of_its_own(play):
    play.inbox.put_aside(Report("reminder", "Memory runs short."))
    await play.run(block("sleep(30)", id="a"), "done")
    assert play.last().endswith("<reminder>Memory runs short.</reminder>")
    play.inbox.put_aside(Report("reminder", "Again."))
    assert await play.run("It is 4.") == "It is 4."
    assert [item.body for item in play.inbox.take()] == ["Again."]


@jumping
async def test_a_follow_up_is_read_only_when_the_run_would_stop(play):
    play.inbox.follow_up(Note("user", "now in French"))
    await play.run(block('print("x")'), "It is x.", "C'est x.")
    assert "French" not in play.seen(1)
    assert "French" in play.last(2)
    assert play.answer == "C'est x."


@jumping
async def test_the_context_only_grows_at_its_end(play):
    await play.run(*[block(f'print("{i}")') for i in range(6)], "done")
    for before, after in zip(play.model.requests, play.model.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages


@jumping
async def test_compaction_replaces_everything_and_lists_what_is_alive(play):
    class Compacting:
        def after_block(self, result):
            if result.id == "c":
                play.context.compact("I know that x is 3.")

    await play.run(
        "first words\n" + block("sleep(500)", id="long") + "\n" + block('print("c")', id="c"),
        "wait",
        "done",
        hooks=[Compacting()],
    )
    text = play.seen(1)
    assert "first words" not in text
    assert "I know that x is 3." in text
    assert "long" in text
    assert "df" in text
    assert any(isinstance(e, Knowledge) for e in play.transcript.entries)


@jumping
async def test_past_the_threshold_the_model_is_reminded(play):
    await play.run(block('print("' + "word " * 300 + '")'), "done", threshold=200)
    assert "<reminder" in play.last()
    assert "compact_knowledge" in play.last()


@jumping
async def test_a_context_overflow_is_compacted_and_asked_again(play):
    await play.run(block('print("x")'), ContextOverflow("too long"), "x was printed", "done")
    assert play.answer == "done"
    assert any(isinstance(e, Knowledge) for e in play.transcript.entries)


@jumping
async def test_limits_of_turns_and_of_time_stop_the_run(play):
    with pytest.raises(LimitReached) as reached:
        await play.run(*[block('print("x")')] * 5, turns=3)
    assert reached.value.limit == "turns"
    assert play.model.calls == 3


@jumping
async def test_the_time_limit_also_counts_while_waiting(play):
    with pytest.raises(LimitReached, match="time"):
        await play.run(block("sleep(1000)"), seconds=50)


@jumping
async def test_a_time_out_of_a_hook_is_no_limit_of_the_run(play):
    class Slow:
        async def after_model_call(self, reply):
            async with asyncio.timeout(1):
                await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        await play.run("done", hooks=[Slow()], seconds=50)


@jumping
async def test_an_empty_reply_is_told_and_three_end_the_run(play):
    assert await play.run("", "done") == "done"
    assert "empty" in play.last()
    with pytest.raises(ModelRefused, match="nothing at all"):
        await play.run("", "", "")


class City(BaseModel):
    name: str
    people: int


@jumping
async def test_an_answer_of_a_type_is_validated_and_asked_for_again(play):
    await play.run("Berlin", '```json\n{"name": "Berlin", "people": 3900000}\n```', output_type=City)
    assert play.value == City(name="Berlin", people=3900000)
    assert "does not validate" in play.last()


@jumping
async def test_an_answer_that_never_validates_ends_the_run(play):
    with pytest.raises(ModelRefused, match="wanted type"):
        await play.run(*["no"] * 5, output_type=City)


@jumping
async def test_hooks_observe_change_and_refuse(play):
    seen = []

    class Watch:
        async def before_model_call(self, request):
            seen.append("ask")

        def after_model_call(self, reply):
            seen.append("reply")

        def before_block(self, job):
            if "secret" in job.block.code:
                raise Refused("no secrets")
            return CodeBlock('print("changed")', id=job.block.id)

        def on_stop(self, answer):
            return "Really?" if answer == "first" else None

    await play.run(
        block('print("a")', id="a") + "\n" + block('print("secret")', id="s"),
        "first",
        "second",
        hooks=[Watch()],
    )
    assert seen == ["ask", "reply"] * 3
    assert "changed" in play.seen(1)
    assert 'status="rejected"' in play.seen(1)
    assert "no secrets" in play.seen(1)
    assert "Really?" in play.last(2)
    assert play.answer == "second"


@jumping
async def test_tool_calls_are_answered_before_the_next_reply_and_late_ends_come_as_messages(play):
    def call(index, id, code):
        arguments = '{"code": "' + code + '", "id": "' + id + '"}'
        return CallPiece(index, f"call_{id}", "run_code", arguments)

    first = [
        TextPiece("Working."),
        call(0, "quick", "print('q')"),
        call(1, "slow", "sleep(50)"),
        EndPiece("tool_calls", Usage(1, 0, 1, 1)),
    ]
    await play.run(first, "wait", "done", protocol="tools")
    second = play.model.requests[1].messages
    assert [m.role for m in second[2:]] == ["assistant", "tool", "tool"]
    assert "q" in second[3].content
    assert "running" in second[4].content
    assert play.model.requests[2].messages[-1].role == "user"
    assert play.answer == "done"


@jumping
async def test_calls_as_json_in_text_run(play):
    await play.run('{"name": "run_code", "arguments": {"code": "print(\'x\')"}}', "done", protocol="json")
    assert "x" in play.last()


@jumping
async def test_long_output_is_shortened_with_a_handle(play):
    lines = "\n".join(f'print("line {i} ' + "x" * 60 + '")' for i in range(300))
    await play.run(block(lines, id="dl"), "done", result_tokens=300)
    assert 'self.output("dl")' in play.last()
    assert "line 0" in play.last()
    assert "line 299" in play.last()
    assert len(play.last()) < 3000
    assert "line 150" in play.supervisor.output("dl")


@jumping
async def test_every_entry_of_the_transcript_is_an_event(play):
    await play.run(block('print("x")'), "done")
    kinds = [type(e).__name__ for e in play.transcript.entries]
    assert kinds == ["Task", "Reply", "Observation", "Reply"]
    assert isinstance(play.transcript.entries[2], Observation)
