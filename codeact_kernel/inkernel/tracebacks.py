"""A traceback for the model: short, plain, and only about its own code.

Comes in: an exception. Goes out: text with the frames of blocks (by name and line), each with its source
line, the place in a library where it was raised, and the exception. Frames of this package and of IPython
never appear.
"""

from __future__ import annotations

import linecache
import traceback
from types import TracebackType

_HEAD, _TAIL = 5, 10
"""How many of the block's own frames are shown at each end of a long traceback."""
_MESSAGE = 4000
"""Characters of an exception's own text."""


def model_traceback(exception: BaseException) -> str:
    """Write an exception for the model.

    Args:
        exception: What ended the block.

    Returns:
        A few lines, the exception's type and text last. Exceptions that it came from stand before it.
    """
    parts: list[str] = []
    seen: set[int] = set()
    following: BaseException | None = exception
    link = ""
    while following is not None and id(following) not in seen and len(parts) < 5:
        seen.add(id(following))
        parts.append(_one(following) + link)
        if following.__cause__ is not None:
            following, link = following.__cause__, "\n\nwhich caused:"
        elif following.__context__ is not None and not following.__suppress_context__:
            following, link = following.__context__, "\n\nand while that was handled:"
        else:
            following = None
    hint = _hint(exception)
    return "\n\n".join([*reversed(parts), *([hint] if hint else [])])


def _hint(exception: BaseException) -> str:
    """What to do about an object that works in one thread only."""
    text = str(exception)
    bound = "in a thread can only be used in that same thread" in text  # sqlite3
    if bound or ("only works in main thread" in text and isinstance(exception, ValueError)):
        return 'This works in one thread only: give lane="main" to each block that makes or uses it.'
    return ""


def _one(exception: BaseException) -> str:
    lines = _frames(exception.__traceback__) if not isinstance(exception, SyntaxError) else []
    text = "".join(traceback.format_exception_only(exception)).rstrip()
    if len(text) > _MESSAGE:
        text = f"{text[: _MESSAGE // 2]}\n… {len(text) - _MESSAGE} characters left out …\n{text[-_MESSAGE // 2 :]}"
    return "\n".join([*lines, text])


def _frames(tb: TracebackType | None) -> list[str]:
    frames = traceback.StackSummary.extract(traceback.walk_tb(tb), lookup_lines=False)
    own = [frame for frame in frames if _is_block(frame.filename)]
    shown: list[str] = []
    for number, frame in enumerate(own):
        if _HEAD <= number < len(own) - _TAIL:
            if number == _HEAD:
                shown.append(f"  … {len(own) - _HEAD - _TAIL} frames left out …")
            continue
        where = f"{_name(frame.filename)}, line {frame.lineno}"
        shown.append(where if frame.name == "<module>" else f"{where}, in {frame.name}")
        source = linecache.getline(frame.filename, frame.lineno or 0).strip()
        if source:
            shown.append(f"    {source}")
    if own and frames[-1] is not own[-1] and not _is_ours(frames[-1].filename):
        last = frames[-1]
        shown.append(f"  raised in {_short(last.filename)}, line {last.lineno}, in {last.name}")
    return shown


def _is_block(filename: str) -> bool:
    return filename.startswith("<block ") or "ipykernel_" in filename


def _is_ours(filename: str) -> bool:
    return "codeact_kernel" in filename or "/IPython/core/" in filename


def _name(filename: str) -> str:
    return filename[1:-1] if filename.startswith("<block ") else "a cell"


def _short(filename: str) -> str:
    for mark in ("/site-packages/", "/lib/python3"):
        if mark in filename:
            tail = filename.rpartition(mark)[2]
            return tail if mark == "/site-packages/" else tail.partition("/")[2]
    return filename
