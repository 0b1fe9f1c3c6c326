"""The log of one block's outputs."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.blocks import ClearOutput, DisplayOutput, ErrorOutput, ResultOutput, StreamOutput
from codeact_kernel.supervisor.output import OutputLog, as_text

streams = st.builds(StreamOutput, st.sampled_from(["stdout", "stderr"]), st.text(max_size=5))
others = st.sampled_from(
    [ClearOutput(), DisplayOutput({"text/plain": "d"}), ResultOutput({"text/plain": "r"})]
)


def log_of(*outputs):
    log = OutputLog()
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
    assert log.text == "a\n42\n<image/png, text/html>\nb"


def test_an_error_is_its_traceback_without_colours():
    assert log_of(ErrorOutput("E", "v", ("\x1b[31mTrace\x1b[0m", "line"))).text == "Trace\nline\n"
    assert log_of(ErrorOutput("E", "v")).text == "E: v\n"


def test_since_gives_what_came_after_the_mark():
    log = log_of(StreamOutput("stdout", "old"))
    mark = log.mark
    assert log.since(mark) == ""
    log.add(StreamOutput("stdout", "new"))
    assert log.since(mark) == "new"


def test_the_last_line_is_clean_and_short():
    assert OutputLog().last_line == ""
    assert log_of(StreamOutput("stdout", "a\nb\n\n  \n")).last_line == "b"
    assert log_of(StreamOutput("stdout", " 10%\r 20%\r")).last_line == "20%"
    assert log_of(StreamOutput("stdout", "\x1b[2K\x1b]0;title\x07\x1b[32mok\x1b[0m\x00")).last_line == "ok"
    assert len(log_of(StreamOutput("stdout", "x" * 10_000_000)).last_line) == 200
    assert log_of(*[StreamOutput("stdout", char) for char in "page 7"]).last_line == "page 7"


@given(st.lists(streams | others))
def test_joining_changes_no_text_and_leaves_no_two_pieces_of_one_stretch(outputs):
    log = log_of(*outputs)
    before = log.text
    joined = log.joined()
    assert log.text == before == as_text(joined)
    assert [o for o in joined if not isinstance(o, StreamOutput)] == [
        o for o in outputs if not isinstance(o, StreamOutput)
    ]
    for one, two in pairwise(joined):
        assert not (isinstance(one, StreamOutput) and isinstance(two, StreamOutput) and one.name == two.name)
    log.add(StreamOutput("stdout", "late"))
    assert log.text == before + "late"
