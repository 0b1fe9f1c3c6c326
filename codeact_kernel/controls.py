"""What a terminal, a notebook or a reader's eye would obey or overlook instead of reading it.

Comes in: text of a model, a block, a tool, a server, an endpoint. Goes out: the same text as text. There is one way to
do this, and everybody who shows, stores or sends such a text goes it: what is only shown, `plain`; what is stored as
Jupyter's output, `coloured`; what a person decides on, `visible`.
"""

from __future__ import annotations

import re
import unicodedata

_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours, moves of the cursor
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links, the clipboard
    r"|[PX^_][^\x1b\n]*(?:\x1b\\)?"  # device control strings
    r"|[ -/]*[0-~])"  # two and three characters
)
_CONTROL = re.compile(r"[\x01-\x08\x0b-\x1f\x7f-\x9f]")
"""Those of eight bits, too: an introducer alone makes text of what follows it."""
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_NO_OUTPUT = re.compile(r"[\x01-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Controls but for "\\n", "\\t", and "\\r" and "\\b", by which Jupyter writes over what stands there."""
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Marks that turn the direction of writing: with them a terminal shows other code than the one that runs."""
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
"""Unicode's categories of characters that look like nothing, or like a space."""
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
"""Letters and marks that look like nothing, too: fillers, joiners, variants."""


def sendable(text: str) -> str:
    """Replace what an endpoint cannot take (NUL, halves of surrogate pairs) by the replacement mark.

    Args:
        text: Any text.
    """
    return _UNSENDABLE.sub("\ufffd", text)


def plain(text: str) -> str:
    """Take away what only a terminal understands.

    Args:
        text: Text with colours, progress bars and controls.

    Returns:
        The text without escape sequences; of a line that was written over by carriage returns only its last
        state; without other controls; with a replacement mark for NUL and for halves of surrogate pairs.
    """
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    if "\r" in text:
        text = "\n".join(map(_last_state, text.split("\n")))
    return sendable(_CONTROL.sub("", text))


def shown(text: str) -> str:
    """As `plain`, and written in the order in which it reads.

    Args:
        text: Text that a person sees.
    """
    return _BIDI.sub("", plain(text))


def coloured(text: str) -> str:
    """Keep of what only a terminal understands the colours, which Jupyter shows.

    Args:
        text: Text of an output.

    Returns:
        The text without other sequences, and without controls but line ends, tabs, carriage returns and backspaces.
    """
    if "\x1b" not in text:
        return _NO_OUTPUT.sub("", text)
    pieces, at = [], 0
    for colour in _COLOUR.finditer(text := _SEQUENCE.sub(lambda found: _kept(found[0]), text)):
        pieces += [_NO_OUTPUT.sub("", text[at : colour.start()]), colour[0]]
        at = colour.end()
    return "".join([*pieces, _NO_OUTPUT.sub("", text[at:])])


def visible(text: str) -> str:
    """Let nothing of a text be hidden: it is what somebody decides on.

    Args:
        text: Code, arguments, a name, a task.

    Returns:
        The text with a mark such as ⟨U+202E⟩ for whatever cannot be seen; a run of one of them is counted.
    """
    text = text.replace("\r\n", "\n")
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    pieces, at = list[str](), 0
    for found in re.finditer(r"(.)\1*", text, re.DOTALL):
        char, count = found[1], found.end() - found.start()
        if _is_unseen(char, text[at - 1 : at]):
            pieces.append(f"⟨U+{ord(char):04X}{f' x{count}' if count > 1 else ''}⟩")
        else:
            pieces.append(found[0])
        at = found.end()
    return "".join(pieces)


def _is_unseen(char: str, before: str) -> bool:
    if char in " \n\t":
        return False
    if char in "\ufe0e\ufe0f" and before and not before.isascii():
        return False  # how an emoji is drawn
    return _BLANK.match(char) is not None or unicodedata.category(char) in _UNSEEN


def _kept(sequence: str) -> str:
    return sequence if _COLOUR.fullmatch(sequence) else ""


def _last_state(line: str) -> str:
    return next((state for state in reversed(line.split("\r")) if state), "")
