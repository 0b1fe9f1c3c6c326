"""What nobody shall obey is text: for a model, a person, a notebook."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.controls import coloured, plain, shown, visible

SEQUENCES = {
    "a title": "\x1b]0;owned\x07",
    "a title that ends in a string terminator": "\x1b]2;owned\x1b\\",
    "a link": "\x1b]8;;http://evil\x07text\x1b]8;;\x07",
    "the clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "a cleared screen": "\x1b[2J\x1b[H",
    "the cursor up": "\x1b[1A\x1b[2K",
    "a reset": "\x1bc",
    "another screen": "\x1b[?1049h",
    "an answer of the terminal": "\x1b[6n\x1b[c",
    "a device control string": "\x1bPq#0\x1b\\",
    "a private message": "\x1b^x\x1b\\\x1b_y\x1b\\",
    "another character set": "\x1b(0",
    "one of eight bits": "\x9b2J\x9d0;owned\x07\x90q\x9c",
    "one in another": "\x1b\x1b]0;x\x07[2J",
    "one that does not end": "\x1b]0;owned",
    "half of one": "\x1b[",
    "a bell and a backspace": "good\x07\b\b\b\bevil",
    "a mark of direction": "a\u202eb\u2066c\u200f",
}


@pytest.mark.parametrize("text", SEQUENCES.values(), ids=SEQUENCES)
@pytest.mark.parametrize("way", [plain, shown, visible, coloured])
def test_no_sequence_is_left(way, text):
    left = way(f"before {text} after")
    allowed = "\b\t\n\r" if way is coloured else "\t\n"
    assert not [c for c in left if c not in allowed and (c < " " or "\x7f" <= c <= "\x9f")]
    assert left.startswith("before ")


@given(
    st.text(st.sampled_from("\x1b\x9b\x9d[]0;38mHJ?\x07\\\r\n\b\t ab\u202e\u200bé\x00\ud800"), max_size=30)
)
def test_whatever_is_put_together_nothing_that_is_obeyed_is_left(text):
    for left in (plain(text), shown(text), visible(text)):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", left)
    kept = coloured(text)
    assert not re.search("[\x7f-\x9f\x01-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f]", kept)
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;:]*m", "", kept)
    assert "\u202e" not in shown(text)
    assert coloured(kept) == kept


def test_of_outputs_the_colours_stay_and_what_jupyter_writes_over():
    text = "\x1b[0;31mValueError\x1b[0m\x1b[38:2::1:2:3mx\x1b[m 10%\r20%\b\x1b[2K\x1b]0;t\x07\x0c"
    assert coloured(text) == "\x1b[0;31mValueError\x1b[0m\x1b[38:2::1:2:3mx\x1b[m 10%\r20%\b"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("x = 1\n\ty\n", "x = 1\n\ty\n"),
        ("naïve 中文 🙂 ❤️", "naïve 中文 🙂 ❤️"),
        ("a\r\nb", "a\nb"),
        ("evil()\rgood()", "evil()⟨U+000D⟩good()"),
        ("\x1b[8mhidden", "⟨U+001B⟩[8mhidden"),
        ("if admin\u202e:", "if admin⟨U+202E⟩:"),
        ("a\u200bb\u2060c\ufeff", "a⟨U+200B⟩b⟨U+2060⟩c⟨U+FEFF⟩"),
        ("rm\u00a0-rf", "rm⟨U+00A0⟩-rf"),
        ("x\u3164 = 1", "x⟨U+3164⟩ = 1"),
        ("a" + "\u200b" * 500, "a⟨U+200B x500⟩"),
        ("a\U000e0041\U000e0042", "a⟨U+E0041⟩⟨U+E0042⟩"),
        ("a\ufe01", "a⟨U+FE01⟩"),
        ("a\ufe0f", "a⟨U+FE0F⟩"),
        ("\x00\ud800", "⟨U+0000⟩⟨U+D800⟩"),
        ("a\u2028b", "a⟨U+2028⟩b"),
    ],
)
def test_what_somebody_decides_on_hides_nothing(text, seen):
    assert visible(text) == seen


def test_long_texts_take_no_time_to_speak_of():
    for way in (plain, shown, coloured, visible):
        for text in (
            "\x1b[" * 200_000,
            "\x1b]0;" * 100_000,
            "\u200b" * 400_000,
            "a\u200b" * 200_000,
            "\r" * 400_000,
        ):
            way(text)
