"""What reaches stdout and stderr, whatever a model or a block wrote."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.blocks import DisplayOutput, StreamOutput
from codeact_kernel.cli.streams import Answers, answers, clean, complain, json_line
from codeact_kernel.errors import CodeactError
from codeact_kernel.events import BlockOutput, ReplyDelta


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left_of_a_text(text):
    left = clean(text)
    assert not any(ord(char) < 32 and char != "\n" for char in left)
    assert not any(0x7F <= ord(char) < 0xA0 for char in left)
    left.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b[2J\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "31mred"),
        ("10%\r50%\r100%", "100%"),
        ("if a:\n\tb", "if a:\n    b"),
        ("access = '\u202euser\u2066'", "access = 'user'"),
        ("日本語 é 🙂", "日本語 é 🙂"),
    ],
)
def test_what_is_left_is_what_a_person_would_see(text, left):
    assert clean(text) == left


def test_what_is_wrong_is_one_line_whatever_it_says(capsys):
    complain("two\nlines\x1b[2J,\ttabs")
    assert capsys.readouterr().err == "codeact: two lines, tabs\n"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (b"\x89PNG", "iVBORw=="),
        (float("nan"), None),
        ([float("inf"), 1.5], [None, 1.5]),
        ({"b", "a"}, ["a", "b"]),
        (range(3), "range(0, 3)"),
        ("\ud800", "\ud800"),
    ],
)
def test_odd_values_of_an_event_are_valid_json(value, written):
    line = json_line(BlockOutput("a", DisplayOutput({"x": value, "text/plain": "é"})))
    assert "\n" not in line
    read = json.loads(line, parse_constant=pytest.fail)
    assert read["output"]["data"] == {"x": written, "text/plain": "é"}
    assert read["type"] == "BlockOutput"


class Full(io.StringIO):
    """Takes nothing."""

    def write(self, text):
        raise OSError(28, "No space left on device")


def test_an_answer_that_stdout_does_not_take_is_an_error():
    with pytest.raises(CodeactError, match="stdout cannot be written: No space left"):
        Answers(Full()).write("x")


def test_an_event_that_stdout_does_not_take_stops_the_run_once_and_is_told_later():
    out, told = Answers(Full()), []
    out.on_failure = lambda: told.append(1)
    out.event(ReplyDelta(1, "x"))
    out.event(ReplyDelta(1, "y"))
    assert told == [1]
    with pytest.raises(CodeactError, match="No space left"):
        out.check()


def test_an_answer_goes_to_a_file_unchanged_and_to_a_terminal_as_text_only():
    class Tty(io.StringIO):
        def isatty(self):
            return True

    file, tty = io.StringIO(), Tty()
    Answers(file).write("a\x1b[31mb\tc")
    Answers(tty).write("a\x1b[31mb\tc")
    assert (file.getvalue(), tty.getvalue()) == ("a\x1b[31mb\tc\n", "ab  c\n")


@pytest.mark.parametrize(
    ("encoding", "written"), [("ascii", b"\\xe9 \\udc80\n"), ("utf-8", "é \\udc80\n".encode())]
)
def test_what_an_encoding_lacks_is_written_as_an_escape(encoding, written):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    Answers(stream).write("é \udc80")
    assert raw.getvalue() == written
    stream.close()


def test_whoever_prints_meanwhile_prints_to_stderr_child_processes_too():
    script = """
import os
from codeact_kernel.cli.streams import answers
with answers() as out:
    print("a tool", flush=True)
    os.system("echo a child")
    out.write("the answer")
print("after")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("the answer\nafter\n", "a tool\na child\n")


def test_the_same_without_a_file_behind_stdout(capsys):
    with answers() as out:
        print("a tool")
        out.event(BlockOutput("a", StreamOutput("stdout", "x")))
    captured = capsys.readouterr()
    assert json.loads(captured.out)["output"]["text"] == "x"
    assert captured.err == "a tool\n"
