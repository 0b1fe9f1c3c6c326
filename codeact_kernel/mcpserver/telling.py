"""How blocks are told of, in an answer.

Comes in: which blocks a call is about, and what of all blocks was not told. Goes out: answers: one text in which each
report stands in a frame that no output can imitate, and the pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from codeact_kernel.dialogue import Framer, observation, result_report, running_report
from codeact_kernel.events import Report
from codeact_kernel.mcpserver.answer import Answer, Pictures
from codeact_kernel.mcpserver.news import News
from codeact_kernel.supervisor import LiveBlock

ALL = 4
"""Results of full length that the results of one answer come to together, however many they are."""


class HasHandles(Protocol):
    """What is asked of a kernel here."""

    @property
    def ours(self) -> bool:
        """Whether its blocks have a `self` that gives whole outputs."""


class Teller:
    """Tells of blocks. What it has told counts as told.

    Args:
        news: What was not told.
        kernel: Where the blocks run.
        count: How many tokens a text is.
        limit: Tokens of one block's output.
        wall: The time in seconds since the epoch.
    """

    def __init__(
        self,
        news: News,
        kernel: HasHandles,
        count: Callable[[str], int],
        limit: int,
        wall: Callable[[], float],
    ) -> None:
        self._news = news
        self._kernel = kernel
        self._count = count
        self._limit = limit
        self._wall = wall
        self._framer = Framer()

    def answer(
        self, ids: Sequence[str], live: Iterable[LiveBlock], lines: Iterable[str], advice: str
    ) -> Answer:
        """Tell of blocks, and of all else that has ended or happened. It does not await: nobody else tells the same.

        Args:
            ids: The blocks that the call is about.
            live: The blocks that have not ended.
            lines: What stands before them.
            advice: What to do about one that has not ended.
        """
        news, pictures, alive = self._news, Pictures(), {block.id: block for block in live}
        new = [name for name in ids if news.result(name) is None or news.ended([name])]
        old = [name for name in ids if name not in new]
        also = [name for name in news.ended() if name not in ids]
        limit = min(self._limit, max(1, self._limit * ALL // max(1, len(new) + len(also))))
        reports = [self._report(name, alive.get(name), pictures, limit, advice) for name in (*new, *also)]
        reports += [*map(self._told_before, old), *news.others()]
        framed = self._framer.observation(observation(reports))
        return Answer(
            "\n".join([*lines, *([framed] if framed else [])]) or "Nothing runs.",
            tuple(pictures.taken),
            len(ids) == 1 and self._has_failed(ids[0]),
            tuple(self._known(name, alive.get(name)) for name in (*ids, *also)),
        )

    def _report(
        self, name: str, live: LiveBlock | None, pictures: Pictures, limit: int, advice: str
    ) -> Report:
        outputs, result = tuple(pictures.take(self._news.fresh(name))), self._news.result(name)
        if result is not None:
            shown = replace(result, outputs=outputs)
            return result_report(shown, self._count, limit=limit, handles=self._kernel.ours)
        assert live is not None
        now = self._wall()
        report = running_report(
            name,
            outputs,
            self._count,
            current=0.0 if live.started is None else now - live.started,
            now=now,
            deadline=live.deadline,
            limit=limit,
            handles=self._kernel.ours,
        )
        words = " ".join(["It has not started yet."] * (live.started is None) + [advice] * bool(advice))
        return replace(report, body="\n".join(filter(None, [report.body, f"[{words}]" if words else ""])))

    def _told_before(self, name: str) -> Report:
        """Say again how a block has ended, but not what it has put out."""
        result = self._news.result(name)
        assert result is not None
        report = result_report(replace(result, outputs=()), self._count, limit=self._limit, handles=False)
        words = f'self.output("{name}") has it' if self._kernel.ours else "save_notebook writes it"
        return replace(report, body=f"[Its output was told before: {words}.]")

    def _has_failed(self, name: str) -> bool:
        result = self._news.result(name)
        return result is not None and result.status not in ("ok", "cancelled")

    def _known(self, name: str, live: LiveBlock | None) -> dict[str, Any]:
        """What programs are told of a block."""
        result = self._news.result(name)
        if result is not None:
            return {"id": name, "status": result.status, "seconds": round(result.duration, 3)}
        assert live is not None
        seconds = 0.0 if live.started is None else self._wall() - live.started
        return {"id": name, "status": live.state, "seconds": round(seconds, 3)}
