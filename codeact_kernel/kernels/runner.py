"""Runs code blocks in a kernel.

Comes in: jobs from the supervisor. Goes out: their starts, outputs and outcomes. In our own kernel jobs run
side by side and the kernel keeps their order; in any other kernel one runs at a time, in the order of coming.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from codeact_kernel.blocks import CodeBlock, Job, Outcome, Output, Status, StreamOutput
from codeact_kernel.errors import KernelDied
from codeact_kernel.kernels.ansi import plain_traceback
from codeact_kernel.kernels.collector import Collector
from codeact_kernel.kernels.host import Kernel
from codeact_kernel.kernels.outputs import meta_of
from codeact_kernel.protocols import Watcher


@dataclass
class _Sent:
    """A job that is on its way."""

    msg_id: str | None = None
    cancelled: bool = False


class KernelRunner:
    """Runs `run_code` blocks in one kernel (a `Runner`).

    Args:
        kernel: The kernel, started.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._sent: dict[str, _Sent] = {}
        self._blocks: dict[str, str] = {}
        self._one_at_a_time = asyncio.Lock()

    async def run(self, job: Job, watcher: Watcher) -> Outcome:
        """As in `Runner`."""
        sent = self._sent[job.id] = _Sent()
        try:
            if self._kernel.ours:
                return await self._execute(job, watcher, sent)
            async with self._one_at_a_time:
                if sent.cancelled:
                    return Outcome("cancelled", error="it was cancelled before it started")
                return await self._execute(job, watcher, sent)
        finally:
            del self._sent[job.id]

    async def interrupt(self, job_id: str) -> None:
        """As in `Runner`."""
        sent = self._sent.get(job_id)
        if sent is None:
            return
        sent.cancelled = True
        if sent.msg_id is not None:
            await self._kernel.interrupt(sent.msg_id)

    def block_of(self, msg_id: str | None) -> str | None:
        """The job whose code made a call over the bridge.

        Args:
            msg_id: The execute request that the call names as its parent.
        """
        return self._blocks.get(msg_id or "")

    async def _execute(self, job: Job, watcher: Watcher, sent: _Sent) -> Outcome:
        assert isinstance(job.block, CodeBlock)
        block = job.block
        death = await self._kernel.revive()
        collector = Collector(watcher.started, watcher.output, counted=self._kernel.ours)
        meta = {
            "id": job.id,
            "reply": job.reply,
            "order": "names" if block.after is None else "free",
            "lane": block.lane,
        }
        sent.msg_id = self._kernel.client.execute(block.code, meta if self._kernel.ours else {}, collector)
        self._blocks[sent.msg_id] = job.id
        reply = await collector.complete()
        for output in _pages(reply["content"].get("payload") or []):
            watcher.output(output)
        outcome = self._outcome(reply, collector.missing)
        return outcome if death is None else replace(outcome, notes=(_fresh(death), *outcome.notes))

    def _outcome(self, reply: dict[str, Any], missing: int) -> Outcome:
        content, meta = reply["content"], meta_of(reply)
        status: Status = {"ok": "ok", "error": "error"}.get(content["status"], "cancelled")  # type: ignore[assignment]
        error = meta.get("error")
        if content["status"] == "error" and not error:
            error = plain_traceback(content)
        if meta.get("skipped"):
            status = "skipped" if meta.get("how") == "skipped" else "cancelled"
            error = f"It did not run: {meta['skipped']}."
        names = tuple(meta.get("names") or ())
        if names:
            self._kernel.names = names
        return Outcome(
            status,
            error=error,
            notes=tuple(meta.get("notes") or ()),
            lane=meta.get("lane"),
            execution_count=content.get("execution_count"),
            names=names,
            missing=missing,
        )


def _fresh(death: KernelDied) -> str:
    lost = f"; gone with it: {', '.join(death.lost[:40])}" if death.lost else ""
    return f"it ran in a fresh kernel, because {death.message}{lost}"


def _pages(payload: list[dict[str, Any]]) -> list[Output]:
    """What `?` would show in a pager, as text."""
    texts = [
        str((page.get("data") or {}).get("text/plain", ""))
        for page in payload
        if page.get("source") == "page"
    ]
    return [StreamOutput("stdout", text.rstrip("\n") + "\n") for text in texts if text]
