"""The log of one block's outputs."""

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.blocks import ClearOutput, DisplayOutput, ErrorOutput, LeftOut, ResultOutput, StreamOutput
from codeact_kernel.controls import plain
from codeact_kernel.supervisor import tape
from codeact_kernel.supervisor.output import OutputLog, as_text
from codeact_kernel.supervisor.shelf import Shelf
from codeact_kernel.supervisor.tape import Tape

streams = st.builds(StreamOutput, st.sampled_from(["stdout", "stderr"]), st.text(max_size=5))
others = st.sampled_from(
    [ClearOutput(), DisplayOutput({"text/plain": "d"}), ResultOutput({"text/plain": "r"})]
)


@pytest.fixture
def shelf():
    shelf = Shelf()
    yield shelf
    shelf.close()


def log_of(*outputs, shelf=None):
    shelf = shelf or Shelf()
    log = OutputLog(lambda: shelf.place("b1"), shelf.shown)
    for output in outputs:
        log.add(output)
    return log


def test_results_and_displays_stand_on_lines_of_their_own():
    log = log_of(
        StreamOutput("stdout", "a"),
        ResultOutput({"text/plain": "42"}),
        DisplayOutput({"image/png": "…", "text/html": "<b>"}),
        ClearOutput(),
        StreamOutput("stderr", "b"),
    )
    assert log.tape.read() == "a\n42\n<image/png, text/html>\nb"


def test_an_error_is_its_traceback_without_colours():
    assert log_of(ErrorOutput("E", "v", ("\x1b[31mTrace\x1b[0m", "line"))).tape.read() == "Trace\nline\n"
    assert log_of(ErrorOutput("E", "v")).tape.read() == "E: v\n"


def test_since_gives_what_came_after_the_mark():
    log = log_of(StreamOutput("stdout", "old"))
    mark = log.mark
    assert log.since(mark) == ("", ())
    log.add(StreamOutput("stdout", "new"))
    assert log.since(mark) == ("new", ())


def out(text):
    return StreamOutput("stdout", text)


def bar(text, *, update=True, name="bar"):
    return DisplayOutput({"text/plain": text}, display_id=name, update=update)


@pytest.mark.parametrize(
    ("before", "after", "news"),
    [
        ([out("a\n"), ClearOutput()], [out("b\n")], "b\n"),
        ([out("a\n")], [out("b\n"), ClearOutput(wait=True), out("c\n")], "c\n"),
        ([out("a\n"), ClearOutput(wait=True)], [out("b\n")], "b\n"),
        ([out("a\n")], [out("b\n"), ClearOutput(wait=True)], "b\n"),
        ([out("a\n")], [out("b\n"), ClearOutput()], ""),
        ([bar("1/9", update=False)], [bar("2/9"), bar("3/9")], "3/9\n"),
        ([], [bar("1/9", update=False), out("x\n"), bar("2/9"), out("y\n"), bar("3/9")], "x\ny\n3/9\n"),
        (
            [],
            [bar("1", update=False), bar("a", update=False, name="b"), bar("2"), bar("b", name="b")],
            "2\nb\n",
        ),
        ([bar("1/9", update=False), ClearOutput()], [bar("2/9")], "2/9\n"),
    ],
)
def test_since_gives_what_is_still_shown(before, after, news):
    log = log_of(*before)
    mark = log.mark
    for output in after:
        log.add(output)
    assert log.since(mark) == (news, ())


@pytest.mark.parametrize("states", [["\r 45%|####", "    |\r 46%|####    |"], ["44%\r45", "%\r46%\r"]])
def test_a_progress_bar_that_a_report_cut_is_whole_in_the_next(states):
    log = log_of(out("begin\n"), out(states[0]))
    mark = log.mark
    first = states[1].index("\r")
    log.add(out(states[1][:first]))
    assert plain(log.since(mark)[0]).strip() in (" 45%|####    |".strip(), "45%")
    log.add(out(states[1][first:]))
    assert plain(log.since(mark)[0]).strip() in ("46%|####    |", "46%")


def test_what_follows_a_progress_bar_does_not_bring_it_again():
    log = log_of(out("\r100%|####|"))
    mark = log.mark
    log.add(out("\n"))
    assert log.since(mark)[0].strip() == ""
    log.add(out("done\n"))
    assert plain(log.since(mark)[0]).strip() == "done"


def test_since_counts_what_a_long_news_leaves_out():
    log = log_of(StreamOutput("stdout", "old\n"))
    mark = log.mark
    new = "".join(f"{n:09}\n" for n in range(100_000))
    log.add(StreamOutput("stdout", new))
    head, (left_out, tail) = log.since(mark)
    assert new.startswith(head)
    assert new.endswith(tail.text)
    middle = new[len(head) : -len(tail.text)]
    assert left_out == LeftOut(len(middle), middle.count("\n"))
    assert len(head) + len(tail.text) < 50_000


def test_the_last_line_is_clean_and_short(shelf):
    assert log_of().last_line == ""
    assert log_of(StreamOutput("stdout", "a\nb\n\n  \n")).last_line == "b"
    assert log_of(StreamOutput("stdout", " 10%\r 20%\r")).last_line == "20%"
    assert log_of(StreamOutput("stdout", "\x1b[2K\x1b]0;title\x07\x1b[32mok\x1b[0m\x00")).last_line == "ok"
    assert len(log_of(StreamOutput("stdout", "x" * 10_000_000), shelf=shelf).last_line) == 200
    assert log_of(*[StreamOutput("stdout", char) for char in "page 7"]).last_line == "page 7"


@given(st.lists(streams | others))
def test_the_text_of_a_log_is_that_of_its_outputs(outputs):
    log = log_of(*outputs)
    assert log.tape.read() == as_text(outputs) == as_text(log.outputs())
    log.add(StreamOutput("stdout", "late"))
    assert log.tape.read() == as_text(outputs) + "late"


def test_a_long_text_lies_in_a_file_and_its_outputs_are_head_tail_and_an_exact_count(tmp_path):
    lines = [f"{n:09} ä\n" for n in range(200_000)]
    log = log_of(*(StreamOutput("stdout", line) for line in lines), shelf=Shelf(tmp_path / "outputs"))
    head, left_out, tail = log.outputs()
    text = "".join(lines)
    assert log.tape.read() == text
    assert text.startswith(head.text)
    assert text.endswith(tail.text)
    assert len(head.text) + left_out.characters + len(tail.text) == len(text)
    assert head.text.count("\n") + left_out.lines + tail.text.count("\n") == len(lines)
    assert left_out.file == "outputs/b1.txt"
    log.tape.write()
    assert (tmp_path / left_out.file).read_text() == text
    assert sum(len(piece) for piece in log.tape._recent) < 2**17


@given(st.lists(st.text("ab\n\r\ud800ä", max_size=40), max_size=30), st.integers(0, 300), st.integers(0, 300))
def test_any_part_of_a_tape_is_what_was_put_there(pieces, start, stop):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tape, "IN_MEMORY", 60)
        patch.setattr(tape, "SECTION", 16)
        shelf = Shelf()
        made = Tape(lambda: shelf.place("b"))
        for piece in pieces:
            made.append(piece)
        whole = "".join(pieces)
        text = made.read()
        assert text.replace("\ufffd", "\ud800") == whole
        assert made.read(start, stop) == text[start:stop]
        assert (made.length, made.lines) == (len(whole), whole.count("\n"))
        lines = whole.split("\n")
        for number in range(len(lines)):
            assert made.line(number) == len("\n".join([*lines[:number], ""])) * (number > 0)
        assert made.line(len(lines)) == len(whole)
        shelf.close()


def test_what_cannot_be_written_is_counted_and_what_came_before_stays():
    def full() -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    made = Tape(full)
    for _ in range(3):
        made.append("x" * 2**20)
    assert made.read() == "x" * 2**20
    assert made.error is not None
    assert made.lost == 2 * 2**20


def test_a_shelf_finds_a_harmless_name_for_every_block_and_removes_what_is_temporary(tmp_path):
    shelf = Shelf(tmp_path / "outputs")
    for _ in range(2):
        shelf.place("../dl#2")
    assert sorted(path.name for path in (tmp_path / "outputs").iterdir()) == ["dl-2-2.txt", "dl-2.txt"]
    assert shelf.place("").path.name == "block.txt"
    shelf.close()
    temporary = Shelf()
    path = temporary.place("b").path
    assert temporary.shown(path) is None
    temporary.close()
    assert not path.parent.exists()
