"""Jobs in a kernel, as its runner knows them.

Comes in: jobs. Goes out: what their requests say of them; what is known of one that was sent, of one whose place is
kept, of one that an earlier host has sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from codeact_kernel.blocks import CodeBlock, Job, Output
from codeact_kernel.kernels.client import KernelClient
from codeact_kernel.kernels.collector import Collector
from codeact_kernel.protocols import Counted, Watcher


@dataclass
class Sent:
    """A job that is on its way."""

    watcher: Watcher
    msg_id: str | None = None
    interrupts: int = 0
    """How often it was interrupted."""
    unanswered: bool = False
    """Whether the kernel has not answered the last interrupt."""
    restarted: bool = False
    """Whether its kernel was ended to end it."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A job that an earlier host has sent."""

    msg_id: str
    state: dict[str, Any]
    """As in `wire.STATE`."""
    first: int
    """The number of the first output that is not kept."""


class Held:
    """A job whose place is kept while somebody decides about it."""

    def __init__(self, job: Job, client: KernelClient, *, waits: bool) -> None:
        self.code = code_of(job)
        self.client = client
        """Whose kernel keeps its place; another one knows nothing of it."""
        self.watcher: Watcher = Nobody()
        self.collector = Collector(
            lambda lane, at: self.watcher.started(lane, at),
            lambda output: self.watcher.output(output),
            counted=True,
            upto=lambda number: self.watcher.upto(number) if isinstance(self.watcher, Counted) else None,
            waits=waits,
        )
        self.msg_id = ""


class Nobody:
    """Hears of a job, and tells nobody."""

    def started(self, lane: str, at: float) -> None:
        """As in `Watcher`."""

    def held(self, by: str | None) -> None:
        """As in `Watcher`."""

    def output(self, output: Output) -> None:
        """As in `Watcher`."""


def code_of(job: Job) -> str:
    """The code of a code block's job."""
    assert isinstance(job.block, CodeBlock)
    return job.block.code


def fields_of(job: Job) -> dict[str, Any]:
    """Our fields of its execute request's metadata, as in `wire`."""
    assert isinstance(job.block, CodeBlock)
    return {
        "id": job.id,
        "reply": job.reply,
        "order": "names" if job.block.after is None else "free",
        "lane": job.block.lane,
    }
