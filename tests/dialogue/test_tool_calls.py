"""The second protocol: calls through the endpoint, and a context in which each is answered in time."""

import json

import pytest
from dialogue_helpers import blocks_of, faults_of

from codeact_kernel.blocks import AgentBlock, Cancel, CodeBlock, Fault, Prose
from codeact_kernel.dialogue.tools import CallReader, ToolCodec
from codeact_kernel.events import Knowledge, Observation, Reply, Report, Task
from codeact_kernel.messages import CallPiece, ToolCall


def call(index, name, arguments, size=None, call_id=None):
    """The pieces of one call."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    step = size or len(text) or 1
    first = CallPiece(index, call_id or f"c{index}", name, text[:step])
    return [first, *(CallPiece(index, arguments=text[at : at + step]) for at in range(step, len(text), step))]


def read_calls(pieces, finish="tool_calls", in_use=()):
    reader = CallReader(in_use)
    items = [item for piece in pieces for item in reader.feed(piece)]
    return [*items, *reader.finish(finish)], reader


@pytest.mark.parametrize("size", [None, 1, 3])
def test_a_block_starts_when_its_object_is_complete(size):
    arguments = {"code": 'print("}{\\"")\n', "id": "a", "timeout": "5s", "after": ["b", "c#2"], "lane": None}
    pieces = call(0, "run_code", arguments, size)
    reader = CallReader()
    items = [reader.feed(piece) for piece in pieces]
    assert [len(item) for item in items] == [0] * (len(pieces) - 1) + [1]
    assert items[-1] == [CodeBlock('print("}{\\"")\n', "a", 5.0, after=("b", "c#2"))]
    assert reader.calls == (ToolCall("c0", "run_code", json.dumps(arguments)),)


def test_calls_may_come_interleaved_and_are_listed_as_they_become_complete():
    one, two = call(0, "run_code", {"code": "1"}, 4), call(1, "run_agent", {"task": "Go.", "name": "s"}, 9)
    mixed = [one[0], *two, *one[1:]]
    items, reader = read_calls(mixed)
    assert items == [AgentBlock("Go.", "s"), CodeBlock("1")]
    assert [call.id for call in reader.calls] == ["c1", "c0"]


def test_calls_that_are_all_numbered_0_are_told_apart_by_their_ids():
    pieces = [*call(0, "run_code", {"code": "1"}), *call(0, "run_code", {"code": "2"}, call_id="x")]
    items, reader = read_calls(pieces)
    assert items == [CodeBlock("1"), CodeBlock("2")]
    assert [call.id for call in reader.calls] == ["c0", "x"]


def test_a_call_without_an_id_gets_one():
    reader = CallReader()
    reader.feed(CallPiece(0, None, "cancel", '{"id": "dl"}'))
    assert reader.calls[0].id


def test_text_beside_calls_is_prose_without_reasoning():
    reader = CallReader()
    items = [
        *reader.feed("<think>x</think>Let me look.\n"),
        *reader.feed(call(0, "run_code", {"code": "1"})[0]),
    ]
    assert items == [Prose("Let me look."), CodeBlock("1")]
    assert reader.text == "Let me look."


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "words"),
    [
        ("run_code", '{"code": "1",}', "call", "no JSON"),
        ("run_code", '["1"]', "call", "not an object"),
        ("run_code", "", "call", 'needs "code"'),
        ("run_code", '{"code": ["1"]}', "call", 'needs "code"'),
        ("python", '{"code": "1"}', "call", 'no function "python"'),
        ("run_code", '{"code": "1", "timout": 5}', "attribute", 'did you mean "timeout"?'),
        ("run_code", '{"code": "1", "boundary": "k"}', "attribute", 'no argument "boundary"'),
        ("run_code", '{"code": "1", "timeout": -5}', "attribute", "no duration"),
        ("run_code", '{"code": "1", "timeout": 1e999}', "attribute", "no duration"),
        ("run_code", '{"code": "1", "lane": ["main"]}', "attribute", "no lane"),
        ("run_code", '{"code": "1", "id": {"a": 1}}', "attribute", "cannot be used"),
        ("run_agent", '{"task": " "}', "empty", "no task"),
        ("cancel", "{}", "attribute", "needs an id"),
        ("run_code", '{"code": ' + "[" * 100_000 + "}", "call", "JSON"),
        ("run_code", '{"code": "1", "timeout": ' + "9" * 5000 + "}", "call", "JSON"),
    ],
)
def test_a_bad_call_is_told_precisely(name, arguments, kind, words):
    items, reader = read_calls(call(0, name, arguments))
    assert len(reader.calls) == 1
    (fault,) = items
    assert fault.kind == kind
    assert words in fault.message


@pytest.mark.parametrize("size", [None, 1])
def test_what_follows_the_object_of_a_call_does_not_matter(size):
    items, reader = read_calls(call(0, "run_code", '{"code": "1"}}}', size))
    assert items == [CodeBlock("1")]
    assert reader.calls[0].arguments == '{"code": "1"}'


def test_numbers_and_lists_in_text_are_taken():
    arguments = {"code": "1", "timeout": 90, "heartbeat": "2s", "after": "a, b", "id": 7}
    items, _ = read_calls(call(0, "run_code", arguments))
    assert items == [CodeBlock("1", "7", 90.0, 2.0, ("a", "b"))]


def test_half_of_a_surrogate_pair_becomes_a_replacement_mark():
    items, _ = read_calls(call(0, "run_code", '{"code": "print(\'\\ud83d\')"}'))
    assert items == [CodeBlock("print('\ufffd')")]


def test_a_cut_call_is_asked_for_whole():
    reader = CallReader()
    reader.feed(call(0, "run_code", '{"code": "print(')[0])
    assert not reader.finish("length")
    assert reader.cut
    reader.resume()
    assert reader.feed(call(0, "run_code", {"code": "print(1)"})[0]) == [CodeBlock("print(1)")]
    assert not reader.finish("tool_calls")
    assert len(reader.calls) == 1


def test_a_cut_call_behind_a_started_one_is_only_told_of():
    items, reader = read_calls(
        [*call(0, "run_code", {"code": "1"}), *call(1, "run_code", '{"code"')], "length"
    )
    assert items[0] == CodeBlock("1")
    assert [fault.kind for fault in faults_of(items)] == ["cut"]
    assert not reader.cut
    assert [call.id for call in reader.calls] == ["c0"]


def test_a_cut_call_that_never_comes_is_told_of_once():
    reader = CallReader()
    reader.feed(call(0, "run_code", '{"code"')[0])
    reader.finish(None)
    assert [fault.kind for fault in reader.give_up()] == ["cut"]
    assert reader.calls == ()


def test_an_answer_that_was_cut_is_asked_for_here_too():
    reader = CallReader()
    reader.feed("The title")
    reader.finish("length")
    assert reader.cut


def test_ids_are_one_set_here_too():
    items, _ = read_calls(
        [*call(0, "run_code", {"code": "1", "id": "a"}), *call(1, "run_agent", {"task": "x", "name": "a"})]
    )
    assert [fault.kind for fault in faults_of(items)] == ["duplicate"]
    assert blocks_of(items) == [CodeBlock("1", "a")]


# The context.


CALLS = (ToolCall("c0", "run_code", '{"code": "1"}'), ToolCall("c1", "run_code", '{"code": "2", "id": "dl"}'))


def result(job_id, body="", kind="run_code_result"):
    return Report(kind, body, job_id)


def test_each_call_is_answered_before_the_next_reply_and_the_context_only_grows():
    codec = ToolCodec(examples=True)
    entries = [
        Task("Do."),
        Reply(1, "Looking.", calls=CALLS, job_ids=("b1", "dl")),
        Observation((result("b1", "one"), Report("note", "Hurry.", attrs=(("from", "user"),)))),
        Reply(2, "", calls=(ToolCall("c2", "cancel", '{"id": "dl"}'),), job_ids=(None,)),
        Observation((result("dl", "two"),)),
        Reply(3, "", calls=(ToolCall("c3", "run_code", '{"code": "3"}'),), job_ids=("b3",)),
        Knowledge("I know."),
        Reply(4, "", calls=(ToolCall("c4", "run_code", '{"code": "4"}'),), job_ids=("b4",)),
    ]
    before = codec.messages("System", [])
    for size in range(len(entries) + 1):
        now = codec.messages("System", entries[:size])
        assert now[: len(before)] == before
        before = now
        open_calls = []
        for message in now:
            if message.role == "tool":
                open_calls.remove(message.tool_call_id)
            else:
                assert not open_calls
                open_calls = [call.id for call in message.tool_calls]


def test_a_call_is_answered_by_its_result_or_by_the_news_that_it_runs():
    entries = [
        Reply(1, "", calls=CALLS, job_ids=("b1", "dl#2")),
        Observation((Report("reminder", "Short."), result("b1", "one"))),
        Observation((result("dl#2", "two"),)),
    ]
    asked, one, running, rest, later = ToolCodec().messages(None, entries)
    assert asked.tool_calls == CALLS
    assert (one.role, one.tool_call_id) == ("tool", "c0")
    assert one.content == '<run_code_result id="b1">\none\n</run_code_result>'
    assert running.tool_call_id == "c1"
    assert running.content.startswith('<running id="dl">')
    assert (rest.role, rest.content) == ("user", "<reminder>Short.</reminder>")
    assert (later.role, later.content) == ("user", '<run_code_result id="dl">\ntwo\n</run_code_result>')


def test_a_heartbeat_answers_a_call_whose_result_is_not_there():
    beat = Report("running", "12/40", "dl", (("current", "5s"),))
    entries = [Reply(1, "", calls=CALLS[1:], job_ids=("dl",)), Observation((beat,))]
    _, answer = ToolCodec().messages(None, entries)
    assert answer.content == '<running id="dl" current="5s">\n12/40\n</running>'


def test_a_call_that_started_nothing_is_answered_by_its_fault_and_told_once():
    calls = (
        ToolCall("c0", "run_code", '{"code": "1", "timout": 5}'),
        ToolCall("c1", "run_code", "{no json"),
        ToolCall("c2", "run_code", '{"code": "1", "id": "dl"}'),
        ToolCall("c3", "cancel", '{"id": "dl"}'),
    )
    items, _ = read_calls(
        [piece for i, c in enumerate(calls) for piece in call(i, c.name, c.arguments)], in_use=["dl"]
    )
    faults = tuple(item for item in items if isinstance(item, Fault))
    assert len(faults) == 3
    assert Cancel("dl") in items
    reply = Reply(1, "", faults=faults, calls=calls, job_ids=(None,) * 4)
    reports = tuple(Report("fault", fault.message, fault.id) for fault in faults)
    asked, *answers = ToolCodec().messages(None, [reply, Observation(reports)])
    assert [answer.role for answer in answers] == ["tool"] * 4
    for words, answer in zip(("timout", "no JSON", "alive", "asked to end"), answers, strict=True):
        assert words in answer.content
    assert all(isinstance(json.loads(made.arguments), dict) for made in asked.tool_calls)


def test_a_reply_of_the_other_protocol_is_still_readable():
    codec = ToolCodec()
    (message,) = codec.messages(None, [Reply(1, "<run_code>\n1\n</run_code>")])
    assert message.content == "<run_code>\n1\n</run_code>"


def test_schemas_name_what_can_be_called():
    assert [tool.name for tool in ToolCodec().tools] == ["run_code", "cancel"]
    offered = ToolCodec(agents=True).tools
    assert [tool.name for tool in offered] == ["run_code", "run_agent", "cancel"]
    assert offered[0].parameters["required"] == ["code"]
    assert "boundary" not in json.dumps([tool.parameters for tool in offered])


def test_the_rest_of_a_cut_reply_is_asked_for_also_where_no_text_has_come():
    (asked,) = ToolCodec().continuation("")
    assert "make the call again" in asked.content
    assert [message.role for message in ToolCodec().continuation("So")] == ["assistant", "user"]


def test_nothing_is_compiled():
    def never(code):
        raise AssertionError(code)

    reader = ToolCodec().reader(never)
    assert reader.feed(call(0, "run_code", {"code": "1 +"})[0]) == [CodeBlock("1 +")]
    assert not reader.finish("stop")
