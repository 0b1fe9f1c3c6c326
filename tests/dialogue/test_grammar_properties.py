"""What holds for every reply: pieces do not matter, writing and reading are inverse, time grows in line."""

import time

import pytest
from dialogue_helpers import compiles, faults_of, parts_of, pieces, read
from hypothesis import given, settings
from hypothesis import strategies as st

from codeact_kernel.blocks import AgentBlock, Cancel, CodeBlock, Prose
from codeact_kernel.dialogue.format import format_parts
from codeact_kernel.dialogue.tags import TagReader

# fmt: off
FRAGMENTS = st.sampled_from([
    "<run_code>", "<run_code id=a>", "<run_code id=b timeout=1.5s after='a, c' lane=main>", "</run_code>",
    "<run_agent name=s namespace='a b'>", "</run_agent>", "<run_code boundary=k>", "</run_code boundary=k>",
    "<cancel id=q/>", "<cancel id=q>", "</cancel>", "<run_code/>", "<run_code timeout=", "<run_code id='>",
    "<run_code_result>", "<note from=u>", "<think>", "</think>", "<run_co", "de>", "</run_code", "<", "/",
    ">", "\n", "\n", "\n", "\r\n", "\r", "  ", "\t", "print(1)", "x", "é", '"', "'", "\0", "\u2028", "\u00a0",
    "\x0c", "```python\n", "```", "\ud800",
])
# fmt: on
REPLIES = st.lists(FRAGMENTS, max_size=30).map("".join)
NASTY = st.lists(FRAGMENTS | st.text(max_size=5), max_size=12).map("".join)
NAMES = st.from_regex(r"[A-Za-z_.:@+/-]{1,8}", fullmatch=True)
DURATIONS = st.none() | st.integers(1, 10**12).map(lambda n: n / 1000)
AFTER = st.none() | st.lists(NAMES, max_size=3).map(tuple)


def code_blocks(draw_id):
    return st.builds(
        CodeBlock,
        NASTY,
        id=st.none() | draw_id,
        timeout=DURATIONS,
        heartbeat=DURATIONS,
        after=AFTER,
        lane=st.sampled_from([None, "main", "async", "worker"]),
    )


def agent_blocks(draw_id):
    return st.builds(
        AgentBlock,
        NASTY.filter(str.strip),
        id=st.none() | draw_id,
        namespace=st.lists(st.sampled_from(["urls", "été", "_x"]), max_size=2).map(tuple),
        model=st.none() | NAMES,
        timeout=DURATIONS,
        heartbeat=DURATIONS,
        after=AFTER,
    )


BLOCKS = code_blocks(NAMES) | agent_blocks(NAMES) | st.builds(Cancel, NAMES)


@settings(max_examples=300, deadline=None)
@given(REPLIES, st.sampled_from(["stop", "length", None, "content_filter"]), st.integers(1, 9))
def test_pieces_do_not_matter(reply, finish, size):
    at_once, reader = read(reply, finish)
    in_pieces, other = read(reply, finish, size)
    assert in_pieces == at_once
    assert (other.text, other.cut) == (reader.text, reader.cut)


@settings(max_examples=300, deadline=None)
@given(REPLIES, st.sampled_from(["stop", "length"]))
def test_what_was_read_is_read_again_after_it_was_written(reply, finish):
    parts = parts_of(read(reply, finish)[0])
    again, _ = read(format_parts(parts))
    assert again == parts


@settings(max_examples=300, deadline=None)
@given(st.lists(BLOCKS, max_size=4, unique_by=lambda block: block.id or id(block)))
def test_any_blocks_are_read_as_they_were_written(blocks):
    assert read(format_parts(blocks))[0] == blocks


@settings(max_examples=300, deadline=None)
@given(REPLIES, st.integers(0, 200))
def test_a_reply_that_was_cut_and_resumed_is_read_like_a_whole_one(reply, at):
    whole, one = read(reply)
    reader = TagReader(compiles)
    items = [*reader.feed(reply[:at]), *reader.finish("length")]
    if reader.cut:
        reader.resume()
        items += [*reader.feed(reply[at:]), *reader.finish("stop")]
        assert parts_of(items) == parts_of(whole)
        assert [fault.message for fault in faults_of(items)] == [fault.message for fault in faults_of(whole)]
        assert reader.text == one.text


def test_a_boundary_is_fresh_each_time_and_used_only_where_it_is_needed():
    block = CodeBlock("x = '''\n</run_code>\n'''")
    assert format_parts([block]) != format_parts([block])
    honest = CodeBlock("x = 'see <run_code> and </run_code>'\nprint(x)")
    assert format_parts([honest]) == f"<run_code>\n{honest.code}\n</run_code>"


@pytest.mark.parametrize(
    "parts",
    [
        [Prose("a"), CodeBlock("1"), Prose("\n\nb")],
        [Prose("a"), CodeBlock("1"), CodeBlock("2"), Prose("\nb")],
        [Prose("<think>no</think>")],
        [CodeBlock("1"), Prose("  b")],
        [Prose("a"), Cancel("q"), Prose("\n  \n\nb"), CodeBlock("1"), Prose("\n c")],
    ],
)
def test_white_space_between_prose_and_blocks_is_kept(parts):
    assert read(format_parts(parts))[0] == parts


UNITS = [
    "<run_code>\nprint(1)\n</run_code>\n",
    "# </run_code> ",
    "><",
    " ",
    "\n ",
    "</run_code ",
    "<run_code id='>>>>\n</run_code>\n",
    "<cancel id=>\n",
    "\r",
]
KINDS = [
    *((opening, unit, 160_000) for opening in ("", "<run_code>\n") for unit in UNITS),
    ("<think>", "</", 160_000),
    ("", "<run_code id='>", 160_000),
    # Copying what has come is so fast that it shows only in long replies.
    *(
        (opening, unit, 1_000_000)
        for opening in ("", "a", "<run_code>\n", "<run_code id='")
        for unit in (" ", "x")
    ),
]


@pytest.mark.parametrize(("opening", "unit", "length"), KINDS)
def test_time_grows_in_line_with_the_reply(opening, unit, length):
    """Eight times the text in eight times the time, give or take; a quadratic reader takes 64 times."""

    def seconds(length):
        reply = opening + unit * (length // len(unit))
        begin = time.process_time()
        for size in (None, 4):
            reader = TagReader(compiles)
            for piece in pieces(reply, size):
                reader.feed(piece)
            reader.finish("stop")
        return time.process_time() - begin

    small = min(seconds(length // 8) for _ in range(3))
    assert seconds(length) < 24 * small + 0.05
