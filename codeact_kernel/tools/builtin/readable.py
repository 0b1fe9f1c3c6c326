"""HTML as text that reads well.

Comes in: a page. Goes out: its text, with headings, lists, links, tables and code as Markdown writes them.

Of the standard library's parser alone: what models need of a page is not much, html2text is under the GPL, and
markdownify brings Beautiful Soup along.
"""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from urllib.parse import urljoin

PATIENCE = 10.0
"""Seconds. Ours: nine megabytes of paragraphs and links took six on two busy cores; traps take for ever."""
_PIECE = 2**16
"""Characters that are parsed at once, and after which the time is looked at."""
_SKIPPED = {"script", "style", "template", "svg", "noscript", "iframe", "select", "button"}
_BLOCKS = {
    *("address", "article", "aside", "blockquote", "body", "dd", "details", "div", "dl", "dt", "fieldset"),
    *("figcaption", "figure", "footer", "form", "header", "hr", "main", "nav", "p", "section", "summary"),
    *("table", "tbody", "thead", "title", "caption", "html", "head"),
}
_BREAK = "\0"


def readable(html: str, base: str = "", patience: float = PATIENCE) -> str:
    """The text of a page.

    Args:
        html: The page.
        base: Its address, from which its links count.
        patience: Seconds that it may take.

    Returns:
        The text.

    Raises:
        TimeoutError: If it takes longer.
    """
    reader, end = _Reader(base), time.monotonic() + patience
    for start in range(0, len(html), _PIECE):
        if time.monotonic() > end:
            raise TimeoutError
        reader.feed(html[start : start + _PIECE])
    # What waits for a `<` is let go by one. Closed the parser never is: at its end it tries each of many unclosed
    # comments anew, up to the end of the page.
    reader.feed("<p>")
    return reader.text()


class _Reader(HTMLParser):
    """Collects blocks of text.

    Args:
        base: The page's address.
    """

    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self._base = base
        self._blocks: list[tuple[str, str]] = []
        """Each with its kind; items and rows stand close together."""
        self._kind = self._prefix = ""
        self._pieces: list[str] = []
        self._skipped = ""
        self._depth = 0
        self._pre = False
        self._lists: list[int] = []
        """How many items each open list has; below zero for one without numbers."""
        self._link: tuple[int, int, str] | None = None
        """Blocks and pieces before an open link, and where it leads."""

    def text(self) -> str:
        """All that was collected."""
        self._flush()
        parts, last = list[str](), ""
        for kind, text in self._blocks:
            parts += [("\n" if kind and kind == last else "\n\n") if parts else "", text]
            last = kind
        return "".join(parts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipped:
            self._depth += tag == self._skipped
        elif tag in _SKIPPED:
            self._skipped, self._depth = tag, 1
        elif tag == "br":
            self._pieces.append("\n" if self._pre else _BREAK)
        elif tag == "a":
            href = dict(attrs).get("href")
            self._link = (len(self._blocks), len(self._pieces), href) if href else None
        elif tag == "img":
            self._pieces.append(dict(attrs).get("alt") or "")
        elif tag in ("td", "th"):
            self._pieces.append(" | " if self._pieces else "")
        else:
            self._open(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            self._depth -= tag == self._skipped
            if not self._depth:
                self._skipped = ""
        elif tag == "a":
            self._close_link()
        elif tag in ("ul", "ol"):
            self._flush()
            self._lists = self._lists[:-1]
        elif tag in _BLOCKS or tag in ("li", "tr", "pre") or re.fullmatch("h[1-6]", tag):
            self._flush()
            self._pre = self._pre and tag != "pre"

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._pieces.append(data)

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """Pass over `<![…`: the parser knows only some of them, and stops at the others."""
        return self.rawdata.find(">", i) + 1 or -1

    def _open(self, tag: str) -> None:
        heading = re.fullmatch("h([1-6])", tag)
        if heading or tag in ("li", "tr", "pre", "ul", "ol") or tag in _BLOCKS:
            # A block at the beginning of an item or a row is part of it.
            if not self._pieces and self._prefix and tag in _BLOCKS:
                return
            self._flush()
        if heading:
            self._prefix = "#" * int(heading[1]) + " "
        elif tag == "pre":
            self._pre = True
        elif tag in ("ul", "ol"):
            self._lists.append(0 if tag == "ol" else -1)
        elif tag == "li":
            self._kind, self._prefix = "li", self._item()
        elif tag == "tr":
            self._kind = "tr"

    def _item(self) -> str:
        indent = "  " * (min(len(self._lists), 10) - 1)
        if self._lists and self._lists[-1] >= 0:
            self._lists[-1] += 1
            return f"{indent}{self._lists[-1]}. "
        return f"{indent}- "

    def _close_link(self) -> None:
        if self._link is None:
            return
        blocks, pieces, href = self._link
        self._link = None
        inner = "".join(self._pieces[pieces:]) if blocks == len(self._blocks) else ""
        if not inner.strip():
            return
        try:
            address = urljoin(self._base, href.strip())
        except ValueError:
            return
        if address.startswith(("http://", "https://")) and not href.startswith("#"):
            lead = inner[: len(inner) - len(inner.lstrip())]
            tail = inner[len(inner.rstrip()) :]
            self._pieces[pieces:] = [f"{lead}[{inner.strip()}]({address}){tail}"]

    def _flush(self) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        if self._pre:
            text = text.strip("\n")
            text = f"```\n{text}\n```" if text else ""
        else:
            text = re.sub(rf" ?{_BREAK} ?", "\n", " ".join(re.split(r"\s+", text)).strip()).strip()
        if text:
            self._blocks.append((self._kind, self._prefix + text))
        if text or not self._prefix:
            self._kind = self._prefix = ""
