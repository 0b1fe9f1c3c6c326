"""Reads the pages of the documentation: their fenced blocks, tables and links.

Comes in: Markdown files. Goes out: what the tests beside this file run and compare.

- A ```python block is an example. The examples of a page run in order and share their names.
- A ```text block that directly follows one is what it prints; `...` in it stands for anything.
- A comment `<!-- model says: … -->` before an example holds what the model of an endpoint replies to it, one
  reply after the other, with `=====` on a line of its own between them.
- An ```xml block under a line that begins with "The model writes" is a reply; the ```xml block that
  directly follows it is all that the model reads of it.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```([\w+-]*)\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_SAYS = re.compile(r"<!-- model says:\n(.*?)\n-->\s*\Z", re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Fence:
    """A fenced block of a page."""

    page: Path
    line: int
    """The number of its first line of text."""
    language: str
    text: str
    gap: str
    """What stands between it and the block before it."""

    @property
    def follows(self) -> bool:
        """Whether nothing stands between it and the block before it."""
        return not self.gap.strip()

    @property
    def replies(self) -> list[str]:
        """What the model of an endpoint replies to this example."""
        said = _SAYS.search(self.gap)
        return said[1].split("\n=====\n") if said else []


def fences_of(page: Path, text: str | None = None) -> list[Fence]:
    """The fenced blocks of a page, in order."""
    text = page.read_text("utf-8") if text is None else text
    found, end = [], 0
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        found.append(Fence(page, line, match[1], match[2], text[end : match.start()]))
        end = match.end()
    return found


def examples_of(fences: list[Fence]) -> list[tuple[Fence, str | None]]:
    """The examples of a page, each with what it prints, where the page shows that."""
    after = [*fences[1:], None]
    return [
        (fence, following.text if following and following.follows and following.language == "text" else None)
        for fence, following in zip(fences, after, strict=False)
        if fence.language == "python"
    ]


def exchanges_of(fences: list[Fence]) -> list[tuple[Fence, Fence]]:
    """Replies of a model, each with what it reads of it."""
    return [
        (reply, reading)
        for reply, reading in itertools.pairwise(fences)
        if reply.language == reading.language == "xml"
        and reply.gap.strip().rpartition("\n")[2].startswith("The model writes")
        and reading.follows
    ]


def table_under(page: Path, heading: str) -> list[list[str]]:
    """The rows of the first table under a heading, without its head; cells as they are written."""
    section = re.split(rf"^#+ {re.escape(heading)}$", page.read_text("utf-8"), flags=re.MULTILINE)[1]
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table, f"{page.name} has no table under {heading!r}"
    return [cells_of(row) for row in table[0].splitlines()[2:]]


def cells_of(row: str) -> list[str]:
    """The cells of a table's row, as they are written: a bar of a cell's own has a backslash, in back quotes, too."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def tables_of(page: Path) -> list[list[str]]:
    """The rows of each table of a page, heads included; what stands in fenced blocks left out."""
    text = _FENCE.sub("", page.read_text("utf-8"))
    return [table.splitlines() for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]


def names_in(rows: list[list[str]]) -> list[str]:
    """What stands in back quotes at the start of each row, without parentheses and what is in them."""
    return [name for row in rows for name in re.findall(r"`(\w+)[^`]*`", row[0])]


def links_of(page: Path) -> list[str]:
    """Targets of a page's links, those in fenced blocks left out."""
    return _LINK.findall(_FENCE.sub("", page.read_text("utf-8")))
