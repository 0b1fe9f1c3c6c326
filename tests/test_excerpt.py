"""The outputs of one block, with a long middle left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel import excerpt
from codeact_kernel.blocks import ClearOutput, DisplayOutput, ErrorOutput, LeftOut, StreamOutput
from codeact_kernel.excerpt import TEXT, TEXT_END, Excerpt


def out(text, name="stdout"):
    return StreamOutput(name, text)


def display(text, id=None, update=False):
    return DisplayOutput({"text/plain": text}, {}, id, update)


def test_what_is_short_is_kept_whole_with_its_streams_joined():
    outputs = [out("a"), out("b"), out("c", "stderr"), display("d"), out("e")]
    assert Excerpt(outputs).outputs() == (out("ab"), out("c", "stderr"), display("d"), out("e"))
    assert Excerpt([out("x" * TEXT)]).outputs() == (out("x" * TEXT),)


def test_of_a_long_text_both_ends_are_kept_and_the_rest_is_counted():
    text = "".join(f"{n}\n" for n in range(300_000))
    made = Excerpt(out(text[at : at + 1000]) for at in range(0, len(text), 1000))
    head, left_out, tail = made.outputs("outputs/b1.txt")
    assert (head.text, len(head.text)) == (text[:TEXT_END], TEXT_END)
    assert text.endswith(tail.text)
    assert TEXT_END <= len(tail.text) <= 2 * TEXT_END
    middle = text[TEXT_END : len(text) - len(tail.text)]
    assert left_out == LeftOut(len(middle), middle.count("\n"), file="outputs/b1.txt")


def test_a_progress_bar_never_gets_long():
    made = Excerpt(out(f"\r{n // 1000:3}% of {n}", "stderr") for n in range(100_000))
    (only,) = made.outputs()
    assert only.text.endswith("\r 99% of 99999")
    assert len(only.text) <= TEXT
    made.add(out("\r" * TEXT, "stderr"))
    assert made.outputs() == (out("\r 99% of 99999\r", "stderr"),)


def test_what_was_cleared_is_not_counted():
    made = Excerpt()
    for n in range(30_000):
        made.add(ClearOutput(wait=True))
        made.add(out(f"frame {n}\n" * 5))
    assert not any(isinstance(output, LeftOut) for output in made)
    assert list(made)[-1] == out("frame 29999\n" * 5)


def test_clearing_after_something_was_left_out_lets_go_of_it(monkeypatch):
    made = Excerpt([out("x" * (2 * TEXT))])
    made.add(ClearOutput())
    made.add(out("y" * TEXT))
    assert made.outputs() == (out("y" * TEXT),)


def test_of_many_updates_of_one_display_only_the_last_few_are_kept(monkeypatch):
    monkeypatch.setattr(excerpt, "DATA", 400_000)
    made = Excerpt([display("0", "bar")])
    for n in range(10_000):
        made.add(display(f"{n}", "bar", update=True))
    outputs = made.outputs()
    assert len(outputs) < 100
    assert outputs[0].update is False
    assert int(outputs[0].data["text/plain"]) + len(outputs) - 1 == 9999
    assert outputs[-1].data["text/plain"] == "9999"


def test_three_thousand_displays_are_kept_and_of_twenty_thousand_both_ends():
    displays = [display(f"{n:01000}") for n in range(20_000)]
    assert list(Excerpt(displays[:3000])) == displays[:3000]
    kept = list(Excerpt(displays))
    assert kept[:900] == displays[:900]
    assert kept[-900:] == displays[-900:]
    assert sum(output.outputs if isinstance(output, LeftOut) else 1 for output in kept) == 20_000


def test_of_too_many_displays_the_middle_is_left_out_and_counted(monkeypatch):
    monkeypatch.setattr(excerpt, "DATA", 400_000)
    monkeypatch.setattr(excerpt, "DATA_END", 62_000)
    displays = [display(f"{n:0800}") for n in range(1000)]
    outputs = list(Excerpt(displays))
    at = next(at for at, output in enumerate(outputs) if isinstance(output, LeftOut))
    assert outputs[:at] == displays[:7]
    after = len(outputs) - at - 1
    assert outputs[at + 1 :] == displays[-after:]
    assert outputs[at] == LeftOut(outputs=1000 - 7 - after)


pieces = st.one_of(
    st.builds(out, st.text("ab\n\r", max_size=30), st.sampled_from(["stdout", "stderr"])),
    st.builds(display, st.text("x", max_size=30)),
    st.just(ErrorOutput("E", "v", ("line",))),
)


@given(st.lists(pieces, max_size=60))
def test_nothing_is_left_out_uncounted(outputs):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"TEXT": 100, "TEXT_END": 20, "DATA": 120_000, "DATA_END": 40_000}.items():
            patch.setattr(excerpt, name, value)
        kept = list(Excerpt(outputs))
    left_out = sum((o for o in kept if isinstance(o, LeftOut)), LeftOut())
    others = [o for o in outputs if not isinstance(o, StreamOutput)]
    assert left_out.outputs + sum(not isinstance(o, StreamOutput | LeftOut) for o in kept) == len(others)
    text = "".join(o.text for o in outputs if isinstance(o, StreamOutput))
    here = "".join(o.text for o in kept if isinstance(o, StreamOutput))
    assert left_out.lines + here.count("\n") == text.count("\n")
    if "\r" not in text:
        assert left_out.characters + len(here) == len(text)


def last_states(text):
    """What a terminal shows in the end, as the dialogue and the notebook have it."""
    return [next((s for s in reversed(line.split("\r")) if s), "") for line in text.split("\n")]


@given(st.lists(st.text("ab\n\r", max_size=12), max_size=60))
def test_what_is_kept_of_lines_that_are_written_over_looks_the_same_in_the_end(texts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(excerpt, "TEXT", 40)
        patch.setattr(excerpt, "TEXT_END", 15)
        kept = list(Excerpt(map(out, texts)))
    head = next((o.text for o in kept if isinstance(o, StreamOutput)), "")
    whole = last_states("".join(texts))
    if not any(isinstance(o, LeftOut) for o in kept):
        assert last_states(head) == whole
    else:
        tail = kept[-1].text if isinstance(kept[-1], StreamOutput) else ""
        assert last_states(tail)[1:] == whole[len(whole) - tail.count("\n") :]


def test_a_copy_does_not_change_with_the_original():
    made = Excerpt([out("a")])
    copy = made.copy()
    made.add(out("b"))
    assert copy.outputs() == (out("a"),)
