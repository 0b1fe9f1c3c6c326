"""Prose of models and strangers as Markdown that does nothing, whoever renders it.

Comes in: Markdown that a model wrote, or that holds what a stranger wrote. Goes out: Markdown that reads the same, in
which no HTML is active, no link leads to a script, and no picture is loaded from somewhere else.

JupyterLab sanitizes Markdown of a notebook that it does not trust. It trusts one that the user has run, and nbconvert,
pandoc and the pages of forges have rules of their own: so nothing here relies on who renders it. Text is not taken for
code because it looks so: what would do something outside of a code block is written so that it does nothing there,
either.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from codeact_kernel.controls import plain

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_TICKS = re.compile("`+")
_BLANK = re.compile(r"\n[ \t]*\n")
_FAR = 2000
"""Characters of an address that are looked at; what is longer, and has said nothing good by then, leads nowhere.

An address is looked at only up to where the next one may begin, so that no text is looked at more than once: what
begins one is no part of any scheme.
"""
_TAG = re.compile(r"\\?<(?=[A-Za-z/!?])(?!(?:https?://|mailto:)[^\s<>\"'`=(]{0,2000}>)")
_IMAGE = re.compile(r"!\[(?:[^\[\]]{0,2000}\]\(((?:[^)!]|!(?!\[)){0,2000})\))?")
_LINK = re.compile(r"\](?=\(((?:[^)\]]|\](?!\()){0,2000})|:[ \t]*\n?[ \t]*((?:[^\s\]]|\](?![:(])){0,2000}))")
_MATH_LINK = re.compile(r"\\(?=(?:href|url)\s{0,9}\{((?:[^}\\]|\\(?!(?:href|url)\s{0,9}\{)){0,2000}))")
_SCHEME = re.compile(r"[^a-z0-9]*([a-z][a-z0-9+.-]*):")
_LINKED = frozenset({"http", "https", "mailto", "ftp", "ftps", "tel", "attachment"})
"""What a link may lead to; another scheme may be a script."""
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp)[;,]|attachment:")


def inert(text: str) -> str:
    """Write Markdown so that it does nothing.

    Args:
        text: Markdown of anybody.

    Returns:
        The same for a reader. A block of code that is left open is closed.
    """
    pieces = []
    for fence, piece in _pieces(plain(text.replace("\r\n", "\n").replace("\r", "\n"))):
        if fence is None:
            pieces.append(_prose(piece))
        elif _harmless(piece) == piece:
            pieces.append(f"{fence}\n{piece}{_closing(fence)}")
        else:
            pieces.append(f"<pre><code>{html.escape(piece, quote=False)}</code></pre>")
    return "\n".join(pieces)


def _pieces(text: str) -> Iterator[tuple[str | None, str]]:
    """Stretches of prose, each with None, and blocks of code, each with the line that opens it."""
    fence, mark, lines = None, "", list[str]()
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        if fence is None and found and not ("`" in found[1] and "`" in found[2]):
            if lines:
                yield None, "\n".join(lines)
            fence, mark, lines = re.sub("[{}=<]", "", line).rstrip(), found[1], []
        elif fence is not None and found and found[1].startswith(mark) and not found[2].strip():
            yield fence, "".join(f"{line}\n" for line in lines)
            fence, lines = None, []
        else:
            lines.append(line)
    if fence is not None:
        yield fence, "".join(f"{line}\n" for line in lines)
    elif lines:
        yield None, "\n".join(lines)


def _closing(fence: str) -> str:
    found = _FENCE.fullmatch(fence)
    assert found is not None
    return found[1]


def _prose(text: str) -> str:
    pieces, at = list[str](), 0
    for begins, ends in _spans(text):
        if begins.start() < at:
            continue
        pieces.append(_harmless(text[at : begins.start()]))
        code, at = text[begins.end() : ends.start()], ends.end()
        same = _harmless(code) == code
        pieces.append(text[begins.start() : at] if same else f"<code>{_letters(code.strip())}</code>")
    return "".join([*pieces, _harmless(text[at:])])


def _spans(text: str) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """Ticks that may begin a span of code in prose, each with those that end it, in order."""
    after, end, pairs = dict[int, re.Match[str]](), len(text), []
    for ticks in reversed(list(_TICKS.finditer(text))):
        if _BLANK.search(text, ticks.end(), end):
            after.clear()  # no span goes beyond a paragraph
        if (same := after.get(len(ticks[0]))) is not None:
            pairs.append((ticks, same))
        after[len(ticks[0])], end = ticks, ticks.start()
    return reversed(pairs)


def _harmless(text: str) -> str:
    """Prose with everything that does something written as text."""
    text = _TAG.sub("&lt;", text)
    text = _IMAGE.sub(lambda found: found[0] if _is_here(found[1]) else f"&#33;{found[0][1:]}", text)
    text = _LINK.sub(lambda found: "]" if _leads(found[1] or found[2] or "") else "&#93;", text)
    return _MATH_LINK.sub(lambda found: "\\" if _leads(found[1]) else "\\ ", text)


def _letters(text: str) -> str:
    """Text in which nothing is Markdown, for where HTML stands."""
    return re.sub(r"[^\w\s.,;/ -]", lambda found: f"&#{ord(found[0])};", text)


def _is_here(target: str | None) -> bool:
    """Whether a picture is loaded from nowhere else: to look at it tells somebody, and its address may say more."""
    if target is None:
        return False
    target = _plainly(target)
    return bool(_PICTURE.match(target)) or not (
        _SCHEME.match(target) or target.startswith(("//", "\\", "/\\"))
    )


def _leads(target: str) -> bool:
    """Whether a link leads somewhere, and starts nothing."""
    address = _plainly(target)
    scheme = _SCHEME.match(address)
    if scheme is None:
        return len(target) < _FAR
    return scheme[1] in _LINKED or bool(_PICTURE.match(address))


def _plainly(target: str) -> str:
    """An address as a browser takes it in the end."""
    target = html.unescape(html.unescape(target)).replace("\\", "")
    return "".join(char for char in target if char.isprintable() and not char.isspace()).lower()
