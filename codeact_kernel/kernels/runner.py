"""Runs code blocks in a kernel.

Comes in: jobs from the supervisor. Goes out: their starts, outputs and outcomes. In our own kernel jobs run
side by side and the kernel keeps their order; in any other kernel one runs at a time, in the order of coming.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from codeact_kernel.blocks import Job, Outcome, Output, Status, StreamOutput
from codeact_kernel.errors import KernelDied, KernelError, ToolError
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.ansi import plain_traceback
from codeact_kernel.kernels.collector import Collector
from codeact_kernel.kernels.host import Kernel
from codeact_kernel.kernels.jobs import Earlier, Held, Nobody, Sent, code_of, fields_of
from codeact_kernel.kernels.outputs import meta_of
from codeact_kernel.protocols import LAST, Counted, Watcher

GENTLE = 2
"""Interrupts that leave it to the code how it ends."""
ANSWER = 0.8
"""Seconds for which a kernel that runs several blocks may be busy before it counts as one that does not answer."""
REST = 3.0
"""Seconds that the end of what a block has left running may take: 0.5 for processes that ignore SIGTERM, 1.7 for
threads that nothing ends."""
REMEMBERED = 1000
"""Ended jobs that calls over the bridge are still told from others'."""


class KernelRunner:
    """Runs `run_code` blocks in one kernel (a `Runner`).

    Args:
        kernel: The kernel, started.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._sent: dict[str, Sent] = {}
        self._blocks: dict[str, str] = {}
        self._ended: dict[str, str] = {}
        """The latest jobs that have ended, by msg_id."""
        self._one_at_a_time = asyncio.Lock()
        self._held: dict[str, Held] = {}
        self._turns: dict[str, asyncio.Task[bool]] = {}
        """Places in the queue of a kernel that is not ours."""
        self._earlier: dict[str, Earlier] = {}
        self._ends: dict[str, Collector] = {}
        """By job, whose end the kernel keeps until it is kept here: in one that may outlive this process."""

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self._kernel

    async def run(self, job: Job, watcher: Watcher) -> Outcome:
        """As in `Runner`."""
        sent = self._sent[job.id] = Sent(watcher)
        try:
            if self._kernel.ours:
                return await self._execute(job, watcher, sent)
            await self._come_to(self._turns.pop(job.id) if job.id in self._turns else self._turn())
            try:
                if sent.interrupts:
                    return Outcome("cancelled", error="it was cancelled before it started")
                return await self._execute(job, watcher, sent)
            finally:
                self._one_at_a_time.release()
        finally:
            del self._sent[job.id]

    def _turn(self) -> asyncio.Task[bool]:
        """Stand in the queue of a kernel that is not ours, which runs blocks one at a time, in the order of coming."""
        return asyncio.get_running_loop().create_task(self._one_at_a_time.acquire())

    async def _come_to(self, turn: asyncio.Task[bool]) -> None:
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._one_at_a_time.release()
            raise

    def take_up(self, job_id: str, msg_id: str, state: dict[str, Any], first: int) -> None:
        """Know a job that an earlier host has sent: `run` finds it where it is, and starts nothing.

        Args:
            job_id: Its id.
            msg_id: Its request's.
            state: What the kernel says of it, as in `wire.STATE`.
            first: The number of its first output that is not kept already.
        """
        self._earlier[job_id] = Earlier(msg_id, state, first)

    def listen(self, job_id: str, msg_id: str, state: dict[str, Any], first: int, watcher: Watcher) -> None:
        """Take the late outputs of a job that has ended with an earlier host.

        Args:
            job_id: As in `take_up`.
            msg_id: As in `take_up`.
            state: As in `take_up`.
            first: As in `take_up`.
            watcher: Who hears of them.
        """
        self._ended[msg_id] = job_id
        collector = self._collector(watcher, first, is_over=True)
        self._kernel.client.take_up(msg_id, collector)
        collector.on_state(state)

    def keep(self, job_id: str) -> None:
        """Take that a job's end is kept: the kernel need not keep it any more.

        Args:
            job_id: Its id.
        """
        if (collector := self._ends.pop(job_id, None)) is not None:
            collector.keep()

    def _collector(
        self, watcher: Watcher, first: int = 0, *, waits: bool = False, is_over: bool = False
    ) -> Collector:
        if not self._kernel.settings.lease:
            return Collector(watcher.started, watcher.output, counted=self._kernel.ours)
        upto = watcher.upto if isinstance(watcher, Counted) else lambda number: None
        return Collector(
            watcher.started,
            watcher.output,
            counted=True,
            first=first,
            upto=upto,
            waits=waits,
            is_over=is_over,
        )

    async def hold(self, job: Job) -> Callable[[], Awaitable[Outcome]] | None:
        """As in `PlaceKeeper`. In a kernel that is not ours, what comes later waits: it knows no names."""
        if not self._kernel.ours:
            self._turns[job.id] = self._turn()
            return None
        await self._kernel.revive()
        held = Held(job, self._kernel.client, waits=bool(self._kernel.settings.lease))
        held.msg_id = held.client.execute(held.code, {**fields_of(job), "held": True}, held.collector)
        self._held[job.id] = held
        return partial(self._ended_without, held)

    async def _ended_without(self, held: Held) -> Outcome:
        """How a job has ended that was held: what it waited for did not end well. One whose kernel ends has not."""
        try:
            return self._outcome(await held.collector.complete(), 0)
        except KernelError:
            never: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            return await never

    async def drop(self, job: Job) -> None:
        """As in `PlaceKeeper`."""
        if not self._kernel.ours:
            turn = self._turns.pop(job.id, None)
            if turn is not None and not turn.cancel():
                self._one_at_a_time.release()
            return
        if job.id not in self._held:
            await self.hold(job)
        held = self._held.pop(job.id, None)
        if held is not None and held.client is self._kernel.client:
            await self._kernel.refuse(held.msg_id)
            await held.collector.complete()

    async def aside(self, job: Job) -> Outcome:
        """Run code of ours in the namespace: as a block, in the same order and as easily interrupted, but no cell.

        Args:
            job: A code block, under an id that no other job has.

        Returns:
            How it ended. What it puts out is dropped.

        Raises:
            KernelError: If the kernel is gone.
        """
        sent = self._sent[job.id] = Sent(Nobody())
        try:
            return await self._execute(job, sent.watcher, sent, silent=True)
        finally:
            del self._sent[job.id]

    async def interrupt(self, job_id: str, insistence: int = 0) -> None:
        """As in `Runner`: an interrupt, another, then all means that spare other blocks; at last what does not."""
        sent = self._sent.get(job_id)
        if sent is None:
            return
        sent.interrupts += 1
        if sent.msg_id is None:
            return
        if insistence == LAST:
            await self._end(job_id, sent, sent.msg_id)
            return
        was_unanswered, sent.unanswered = sent.unanswered, True
        if was_unanswered:
            await self._kernel.interrupt_by_signal(sent.msg_id)
        await self._kernel.interrupt(sent.msg_id, insisting=insistence >= GENTLE)
        sent.unanswered = False

    async def _end(self, job_id: str, sent: Sent, msg_id: str) -> None:
        """End a job that interrupts do not: cut it off, where others live that it must not harm; else restart."""
        others = any(other is not sent and other.msg_id for other in self._sent.values())
        if self._kernel.ours and others and not sent.unanswered:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER):
                    await self._kernel.cut_off(msg_id)
                    return
        sent.restarted = True
        await self._kernel.kill(f"was restarted to stop block {job_id}, which nothing else stopped")

    def block_of(self, msg_id: str | None) -> str | None:
        """The job whose code made a call over the bridge.

        Args:
            msg_id: The execute request that the call names as its parent.

        Returns:
            Its id; None for code of another client, and for what a block has left running on purpose.

        Raises:
            ToolError: If that has ended: nothing calls in its name any more.
        """
        if msg_id in self._ended:
            raise ToolError(f"block {self._ended[msg_id]} has ended: calls in its name are not answered")
        return self._blocks.get(msg_id or "")

    async def _execute(self, job: Job, watcher: Watcher, sent: Sent, *, silent: bool = False) -> Outcome:
        death = await self._kernel.revive()
        earlier = self._earlier.pop(job.id, None)
        if death is not None and earlier is not None:
            raise death
        self._kernel.client.on_held = self._on_held
        held = self._held.pop(job.id, None)
        if held is not None and not await self._admitted(job, held, watcher, sent):
            held, death = None, await self._kernel.revive() or death
        collector = held.collector if held is not None else self._send(job, watcher, sent, earlier, silent)
        assert sent.msg_id is not None
        if self._kernel.settings.lease and not silent:
            self._ends[job.id] = collector
        try:
            reply = await collector.complete()
        except KernelDied as died:
            if not sent.restarted:
                raise
            return Outcome("cancelled", notes=(f"{died.message}.{died.loss}",))
        finally:
            self._note_end(sent.msg_id)
        if not silent:
            self._kernel.checkpoints.stir()
        for output in _pages(reply["content"].get("payload") or []):
            watcher.output(output)
        outcome = self._outcome(reply, collector.missing)
        if earlier is not None:
            outcome = replace(outcome, ended=meta_of(reply).get("ended"))
        notes = (*outcome.notes, *await self._aftermath(sent, meta_of(reply)))
        return replace(outcome, notes=notes if death is None else (_fresh(death), *notes))

    def _send(
        self, job: Job, watcher: Watcher, sent: Sent, earlier: Earlier | None, silent: bool
    ) -> Collector:
        """Send a job, or find the one that an earlier host has sent."""
        client = self._kernel.client
        collector = self._collector(watcher, earlier.first if earlier else 0, waits=not silent)
        if earlier is None:
            fields = fields_of(job) if self._kernel.ours else {}
            sent.msg_id = client.execute(code_of(job), fields, collector, silent=silent)
        else:
            sent.msg_id = earlier.msg_id
            client.take_up(earlier.msg_id, collector)
            collector.on_state(earlier.state)
        self._blocks[sent.msg_id] = job.id
        return collector

    async def _admitted(self, job: Job, held: Held, watcher: Watcher, sent: Sent) -> bool:
        """Let a held job run; gives whether the kernel that keeps its place is still there for that.

        It is asked for that first: of a kernel that dies once it was told, nobody can say whether the job has run. And
        that it was told is not waited for: the job may have ended by then, and those that waited for it.
        """
        if held.client is not self._kernel.client:
            return False
        held.watcher, sent.msg_id = watcher, held.msg_id
        self._blocks[held.msg_id] = job.id
        code = code_of(job)
        try:
            await held.client.request(wire.REPLY_AGAIN, {"msg_id": held.msg_id}, channel="control")
        except KernelError:
            sent.msg_id = None
            self._note_end(held.msg_id)
            return False
        held.client.spawn(self._let_run(held.msg_id, None if code == held.code else code))
        return True

    async def _let_run(self, msg_id: str, code: str | None) -> None:
        with suppress(KernelError):  # of which the job hears by itself
            await self._kernel.admit(msg_id, code)

    def _note_end(self, msg_id: str) -> None:
        self._ended[msg_id] = self._blocks.pop(msg_id)
        if len(self._ended) > REMEMBERED:
            del self._ended[next(iter(self._ended))]

    async def _aftermath(self, sent: Sent, meta: dict[str, Any]) -> list[str]:
        """What there is to say of a job that was ended: what it took, what ended with it, and what lives."""
        if not sent.interrupts or sent.msg_id is None or not self._kernel.ours:
            return []
        notes = []
        if meta.get("how") == "cut off":
            return [_cut_off(meta.get("living") or ["its code"])]
        if meta.get("insisted_on"):
            notes.append("it went on at the first interrupts; its code was ended at the line that it was in")
        if meta.get("shut_down"):
            notes.append("the sockets that it waited for were shut down")
        with suppress(KernelError, TimeoutError):
            async with asyncio.timeout(REST):
                rest = await self._kernel.end_rest(sent.msg_id)
                if rest["ended"]:
                    notes.append(f"ended with it: process {', '.join(map(str, rest['ended']))}")
                for pid, command in rest.get("processes", ()):
                    notes.append(f"still runs, because a name holds it: process {pid} ({command})")
                if rest.get("threads"):
                    notes.append(f"still runs, because nothing ends it: thread {', '.join(rest['threads'])}")
        return notes

    def _on_held(self, about: dict[str, Any]) -> None:
        by = None if about["by"] is None else self._blocks.get(about["by"], "code of another client")
        for msg_id in about["held"]:
            sent = self._sent.get(self._blocks.get(msg_id, ""))
            if sent is not None:
                sent.watcher.held(by)

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


def _cut_off(living: list[str]) -> str:
    return (
        "no interrupt ended it, and other blocks live in its kernel: it is cut off, its output and its tool calls go "
        f"nowhere, but {', '.join(living)} still runs; self.restart() ends it, and all names with it"
    )


def _fresh(death: KernelDied) -> str:
    return f"it ran in a fresh kernel, because {death.message}.{death.loss}"


def _pages(payload: list[dict[str, Any]]) -> list[Output]:
    """What `?` would show in a pager, as text."""
    texts = [
        str((page.get("data") or {}).get("text/plain", ""))
        for page in payload
        if page.get("source") == "page"
    ]
    return [StreamOutput("stdout", text.rstrip("\n") + "\n") for text in texts if text]
