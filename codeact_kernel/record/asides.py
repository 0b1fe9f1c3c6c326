"""What a notebook tells beside blocks and prose: where more of a block is, notes, compactions.

Comes in: parts of a transcript. Goes out: Markdown, in which nothing of a stranger's is active.
"""

from __future__ import annotations

from urllib.parse import quote

from codeact_kernel.blocks import AgentBlock
from codeact_kernel.events import Knowledge, NoteReceived
from codeact_kernel.record.clean import clean_text
from codeact_kernel.record.places import AGENTS, slug
from codeact_kernel.record.prose import inert
from codeact_kernel.transcript import BlockRecord


def beyond(record: BlockRecord) -> str:
    """Where more of a block is than its cell shows; empty where nothing is.

    Args:
        record: The block.
    """
    links = []
    if isinstance(record.block, AgentBlock) and record.started is not None:
        links.append(f"The sub-agent's own record: {_link(f'{AGENTS}/{slug(record.id)}/run.ipynb')}")
    if record.file:
        links.append(f"All of the text that this block put out: {_link(record.file)}")
    return "\n\n".join(links)


def note(received: NoteReceived) -> str:
    """A note that came in.

    Args:
        received: The note.
    """
    return _quoted(f"**A note from {inert(received.sender)}:** {inert(received.text)}")


def compaction(knowledge: Knowledge) -> str:
    """A compaction, folded.

    Args:
        knowledge: What the model wrote down.
    """
    parts = (knowledge.text, knowledge.inventory)
    told = "\n\n".join(inert(part.strip()) for part in parts if part.strip())
    title = "The context was compacted. What the model knows from here on:"
    return f"<details><summary>{title}</summary>\n\n{told}\n\n</details>"


def _link(path: str) -> str:
    """A link to a file beside the notebook; a path of odd characters is text alone."""
    path = clean_text(path)
    shown = inert(path.replace("`", "'"))
    return f"[{shown}]({quote(path)})" if path.isascii() and path.isprintable() else shown


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
