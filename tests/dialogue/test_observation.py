"""Reports: what the model reads of a block, and in which order."""

import base64
import re
import struct
import time

import pytest
from dialogue_helpers import count
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.blocks import (
    AgentBlock,
    BlockResult,
    ClearOutput,
    CodeBlock,
    DisplayOutput,
    ErrorOutput,
    Fault,
    Outcome,
    ResultOutput,
    StreamOutput,
)
from codeact_kernel.controls import plain
from codeact_kernel.dialogue import (
    codec,
    fault_report,
    note_report,
    observation,
    reminder_report,
    result_report,
    running_report,
)
from codeact_kernel.dialogue.shorten import one_line, shorten

PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\0" * 9000
).decode()


def out(text, name="stdout"):
    return StreamOutput(name, text)


BLOCK, FINE = CodeBlock("x"), Outcome()


def report(*outputs, block=BLOCK, outcome=FINE, started=0.0, job_id="dl", **options):
    result = BlockResult(job_id, block, outcome, outputs, 0.0, started, 41.0)
    return result_report(result, count, **options)


def test_a_good_result_has_its_text_and_its_duration():
    told = report(out("a\n"), out("b\n", "stderr"))
    assert (told.kind, told.id, told.body, told.attrs) == (
        "run_code_result",
        "dl",
        "a\nb",
        (("duration", "41s"),),
    )


def test_a_block_that_never_started_has_no_duration():
    told = report(outcome=Outcome("skipped", "a failed, and it waits for a"), started=None)
    assert told.attrs == (("status", "skipped"),)
    assert told.body == "a failed, and it waits for a"


def test_errors_notes_and_losses_follow_the_output():
    outcome = Outcome("error", "\x1b[31mTraceback\x1b[0m\nZeroDivisionError: x", ("waited for a",), missing=3)
    told = report(
        out("50\n"), ErrorOutput("ZeroDivisionError", "x"), outcome=outcome, remarks=("tag was missing",)
    )
    assert told.attrs[0] == ("status", "error")
    assert told.body == (
        "50\nTraceback\nZeroDivisionError: x\n[waited for a]\n[tag was missing]\n"
        "[output lost in part: 3 messages never came]"
    )


def test_an_error_without_a_text_is_taken_from_the_outputs():
    assert report(ErrorOutput("KeyError", "'x'"), outcome=Outcome("error")).body == "KeyError: 'x'"


def test_a_value_is_shown_only_where_nothing_was_printed_and_on_one_line():
    value = ResultOutput({"text/plain": "a\n  b"})
    assert report(value).body == "Out: a b"
    assert report(out("x\n"), value).body == "x"
    assert report(out(" \n"), value).body == "Out: a b"
    told = report(ResultOutput({"text/plain": "9" * 5000})).body
    assert told == "Out: " + "9" * 300 + "… (5,000 characters)"


def test_displays_stand_on_lines_of_their_own():
    table = DisplayOutput({"text/plain": "   a\n0  1", "text/html": "<table>"})
    assert report(out("x"), table, out("y\n")).body == "x\n   a\n0  1\ny"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"image/png": PNG, "text/plain": "<Figure>"}, "[image/png 640x480, 9 kB: kept in the record]"),
        ({"image/png": "iVBORw0KGgo!!"}, "[image/png, 9 B: kept in the record]"),
        ({"image/svg+xml": "<svg/>"}, "[image/svg+xml, 6 B: kept in the record]"),
        ({"image/gif": "R0lGODlhAgADAA=="}, "[image/gif 2x3, 12 B: kept in the record]"),
        (
            {"text/html": "<b>" * 500, "text/plain": "<IPython.core.display.HTML object>"},
            "[text/html, 2 kB: kept in the record]",
        ),
        ({"text/markdown": "*hi*", "text/plain": "<IPython.core.display.Markdown object>"}, "*hi*"),
        ({"text/plain": "<Foo at 0x1>"}, "<Foo at 0x1>"),
        ({"text/plain": ["a\n", "b"]}, "a\nb"),
        ({"application/json": {"a": 1}}, "[application/json, 8 B: kept in the record]"),
        ({}, ""),
    ],
)
def test_a_bundle_is_told_in_text(data, text):
    assert report(DisplayOutput(data)).body == text


def test_a_picture_that_is_a_value_is_told_also_beside_printed_text():
    assert report(out("x\n"), ResultOutput({"image/png": PNG, "text/plain": "y"})).body.startswith(
        "x\n[image/png"
    )


def test_an_updated_display_shows_its_last_state_in_its_place():
    first = DisplayOutput({"text/plain": "1/2"}, display_id="bar")
    second = DisplayOutput({"text/plain": "2/2"}, display_id="bar", update=True)
    assert report(first, out("x\n"), second).body == "2/2\nx"


def test_a_display_that_is_shown_twice_is_updated_in_both_places():
    first = DisplayOutput({"text/plain": "1/2"}, display_id="bar")
    second = DisplayOutput({"text/plain": "2/2"}, display_id="bar", update=True)
    assert report(first, out("x\n"), first, second).body == "2/2\nx\n2/2"


def test_cleared_output_is_gone_at_once_or_when_more_comes():
    assert report(out("a\n"), ClearOutput(), out("b\n")).body == "b"
    assert report(out("a\n"), ClearOutput(wait=True)).body == "a"
    assert report(out("a\n"), ClearOutput(wait=True), out("b\n")).body == "b"


def test_an_agents_answer_is_shown_whole():
    told = report(ResultOutput({"text/plain": "a\nb"}), block=AgentBlock("Go."), job_id="scout")
    assert (told.kind, told.body) == ("agent_result", "a\nb")


def test_long_output_keeps_head_and_tail_and_counts_exactly_what_is_left_out():
    lines = [f"line {number}" for number in range(10_000)]
    told = report(out("\n".join(lines) + "\n"), limit=200, job_id="dl#3").body
    head, note, tail = re.fullmatch(r"(.*\n)\[(.*)\]\n(.*)", told, re.DOTALL).groups()
    assert 'self.output("dl") has all of it' in note
    left = len("\n".join(lines)) - len(head) - len(tail)
    shown = head.count("\n") + tail.count("\n") + 1
    assert note.startswith(f"{10_000 - shown:,} lines, {left:,} characters left out here")
    assert head.startswith("line 0\nline 1\n")
    assert tail.endswith("line 9999")
    assert 150 <= count(head) + count(tail) <= 200


def test_without_handles_the_record_is_named():
    assert "the record has all of it" in report(out("x" * 10_000), limit=100, handles=False).body


def test_a_long_error_is_shortened_too():
    told = report(outcome=Outcome("error", "ValueError: " + "x" * 100_000))
    assert count(told.body) < 900
    assert told.body.startswith("ValueError: x")


@given(st.text(max_size=400), st.integers(2, 40))
def test_what_is_left_out_is_counted_exactly_whatever_the_text(text, limit):
    short = shorten(text, limit, count, "h")
    note = re.search(r"\[(?:[\d,]+ lines, )?([\d,]+) characters left out here: h has all of it\]\n", short)
    if note is None:
        assert short == text
        return
    head, tail = short[: note.start()], short[note.end() :]
    missing = len(text) - int(note[1].replace(",", ""))
    assert len(head) + len(tail) - missing in (0, 1)
    assert text.startswith(head.removesuffix("\n"))
    assert text.endswith(tail)


def test_five_megabytes_are_shortened_fast():
    text = "x" * 5_000_000
    begin = time.process_time()
    told = report(out(text), out("\x1b[0m\r"))
    assert time.process_time() - begin < 2
    assert count(told.body) < 2100


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
        ("\x1b]0;title with no end\nnext", "\nnext"),
        ("\x1bPq#1\x1b\\\x1b(Bx\x1b7", "x"),
        (" 10%\r 50%\r100%\n", "100%\n"),
        ("50%\r", "50%"),
        ("a\r\nb\r\r\n", "a\nb\n"),
        ("a\0b\ud800c\x07\x08d\x9b", "a\ufffdb\ufffdcd"),
        ("tab\tand\u2028separator", "tab\tand\u2028separator"),
    ],
)
def test_what_only_a_terminal_understands_is_taken_away(raw, text):
    assert plain(raw) == text


@pytest.mark.parametrize("unit", ["\x1b", "\x1b[", "\x1b]", "\r", "\r\n", "a", "\x1b]8;;", " ", "\n"])
def test_cleaning_takes_time_in_line_with_the_text(unit):
    begin = time.process_time()
    plain("\r" + unit * (1_000_000 // len(unit)) + "\x1b")
    assert time.process_time() - begin < 3


def test_a_sequence_that_is_split_over_outputs_is_seen():
    assert report(out("\x1b[3"), out("1mred\n")).body == "red"


def test_one_line_says_how_long_the_text_was():
    assert one_line("a \n b", 10) == "a b"
    assert one_line("x" * 12, 10) == "xxxxxxxxxx… (12 characters)"


def test_a_heartbeat_tells_the_time_and_the_deadline():
    told = running_report("dl", [out("downloaded 12/40\n")], count, current=5.0, now=0.0, deadline=117.0)
    assert (told.kind, told.id, told.body) == ("running", "dl", "downloaded 12/40")
    assert [name for name, _ in told.attrs] == ["current", "now", "deadline"]
    values = dict(told.attrs)
    assert values["current"] == "5.0s"
    assert values["now"] == time.strftime("%H:%M:%S", time.localtime(0.0))
    endless = running_report("dl", [], count, current=5.0, now=0.0)
    assert [name for name, _ in endless.attrs] == ["current", "now"]


@pytest.mark.parametrize("protocol", ["tags", "tools", "json"])
def test_a_heartbeat_that_comes_less_often_than_asked_says_so_in_every_protocol(protocol):
    told = running_report("dl", [out("12/40\n")], count, current=5.0, now=0.0, deadline=9.0, heartbeat=80.0)
    (message,) = codec(protocol).messages(None, [observation([told])])
    now, then = (time.strftime("%H:%M:%S", time.localtime(at)) for at in (0.0, 9.0))
    assert message.content == (
        f'<running id="dl" current="5.0s" now="{now}" deadline="{then}" heartbeat="80s">\n12/40\n</running>'
    )


def test_reports_are_read_faults_first_and_reminders_last():
    result, agent = report(), report(block=AgentBlock("x"))
    beat = running_report("b", [], count, current=1.0, now=0.0)
    note, reminder = note_report("user", "skip page 7\n"), reminder_report("Short.")
    fault = fault_report(Fault("attribute", "No.", "b"))
    given_order = [reminder, note, agent, beat, result, fault]
    assert observation(given_order).reports == (fault, agent, result, beat, note, reminder)
    assert (note.attrs, note.body) == ((("from", "user"),), "skip page 7")
    assert (fault.body, fault.id) == ("No.", "b")
