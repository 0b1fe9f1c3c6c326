"""Lines of a server's stdout, and the messages in them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.tools.mcp.framing import ENDLESS, Endless, Line, Lines, read_message

LIMIT = 10_000


@given(st.binary(max_size=200), st.lists(st.integers(1, 7)))
def test_lines_are_the_same_however_the_bytes_come(data, cuts):
    lines, found, at = Lines(1000), [], 0
    for cut in [*cuts, len(data)]:
        found += [line.head for line in lines.feed(data[at : at + cut])]
        at += cut
    assert found == data.split(b"\n")[:-1]


@pytest.mark.parametrize("chunk", [1, 7, 4096, 10**6])
def test_of_a_line_that_is_too_long_both_ends_are_kept(chunk):
    lines, found = Lines(LIMIT), []
    data = b"<head>" + b"x" * 50_000 + b"<tail>\nnext\n"
    for at in range(0, len(data), chunk):
        found += lines.feed(data[at : at + chunk])
    assert found[0].head.startswith(b"<head>")
    assert found[0].tail.endswith(b"<tail>")
    assert found[0].size == 50_012
    assert max(len(found[0].head), len(found[0].tail)) <= 4096
    assert found[1] == Line(b"next")


def test_a_line_without_an_end_is_read_no_further():
    lines = Lines(LIMIT)
    assert list(lines.feed(b"x" * LIMIT * ENDLESS)) == []
    with pytest.raises(Endless):
        list(lines.feed(b"x"))


def read(text):
    (line,) = Lines(LIMIT).feed(text.encode() + b"\n")
    return read_message(line, LIMIT)


BIG = json.dumps({"text": "x" * LIMIT, "id": 99, "note": '"id": 98, "result"'})


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (f'{{"jsonrpc":"2.0","id":7,"result":{BIG}}}', 7),
        (f' {{ "id" : 7 , "jsonrpc" : "2.0", "result" : {BIG}}} ', 7),
        (f'{{"jsonrpc":"2.0","id":"a-7","error":{BIG}}}', "a-7"),
        (f'{{"result":{BIG},"jsonrpc":"2.0","id":7}}', 7),
        (f'{{"jsonrpc":"2.0","result":{BIG},"id":7}}\r', 7),
        (f'{{"result":{BIG}, "id": 7, "jsonrpc": "2.0"}}', 7),
    ],
)
def test_an_answer_that_is_too_long_ends_the_call_that_waits_for_it(text, number):
    message = read(text)
    assert message.id == number
    assert message.error.message == "the answer has 10 kB; at most 10 kB are taken"


@pytest.mark.parametrize(
    "text",
    [
        f'{{"jsonrpc":"2.0","method":"notifications/message","params":{BIG}}}',
        f'{{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{BIG}}}',
        "x" * 2 * LIMIT,
    ],
)
def test_what_is_too_long_and_no_answer_is_no_message(text):
    assert read(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ready",
        "[]",
        "{}",
        "null",
        '{"jsonrpc":"1.0","id":1,"result":{}}',
        '{"id":1}',
        "[" * 5000,
        '"\\ud800"',
    ],
)
def test_what_is_no_message_is_none(text):
    assert read(text) is None or read(text).error.message.endswith("it is no JSON")


def test_bytes_that_are_no_text_are_none():
    assert read_message(Line(b"\xff\xfe{}"), LIMIT) is None
