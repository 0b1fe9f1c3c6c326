"""Sessions by client: each has a namespace of its own, from its first call to its end.

Comes in: who calls. Goes out: a session that is alive. Each is kept by a task of its own, so that any call may be the
first, and may be cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from codeact_kernel.mcpserver.session import Session

log = logging.getLogger(__name__)

Open = Callable[[str, bool], AbstractAsyncContextManager[Session]]
"""Opens a session for a client of a name, which can ask its person something or not."""


class Sessions:
    """All sessions of a server. An `async with`: leaving it ends them.

    Args:
        open_session: Opens one.
    """

    def __init__(self, open_session: Open) -> None:
        self._open = open_session
        self._kept: dict[str, _Kept] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._why: dict[str, str] = {}
        """Why a client's last session has ended, where it did not end it itself."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for key in list(self._kept):
            self.end(key)
        # Also when this is cancelled meanwhile: a kernel would be left.
        cancelled = None
        while self._ending:
            try:
                await asyncio.wait(self._ending)
            except asyncio.CancelledError as error_:
                cancelled = error_
        if cancelled is not None:
            raise cancelled

    async def get(self, key: str, client: str = "", asks: bool = False) -> Session:
        """Give a client's session; the first time it is opened.

        Args:
            key: Whose.
            client: What the client calls itself.
            asks: Whether it can ask its person something.

        Raises:
            CodeactError: If it cannot be opened; the next call tries again.
        """
        kept = self._kept.get(key)
        if kept is not None and kept.task.done():
            self.end(key, "something in this server has failed")
            kept = None
        if kept is None:
            kept = self._kept[key] = _Kept(self._open(client, asks))
        session = await asyncio.shield(kept.session)
        why = self._why.pop(key, None)
        if why is not None:
            session.remind(f"This is a fresh kernel: {why}. All names are gone.")
        return session

    def end(self, key: str, why: str = "") -> None:
        """Begin to end a client's session, if it has one.

        Args:
            key: Whose.
            why: What the client is told, should it come again.
        """
        kept = self._kept.pop(key, None)
        if kept is not None:
            if why and kept.is_open:
                self._why[key] = why
            kept.closing.set()
            self._ending.add(kept.task)
            kept.task.add_done_callback(self._ending.discard)

    def is_busy(self, key: str) -> bool:
        """Whether blocks of a client run."""
        kept = self._kept.get(key)
        return kept is not None and kept.is_open and bool(kept.session.result().supervisor.live)


class _Kept:
    """A session, and the task that keeps it."""

    def __init__(self, opening: AbstractAsyncContextManager[Session]) -> None:
        loop = asyncio.get_running_loop()
        self.session: asyncio.Future[Session] = loop.create_future()
        self.session.add_done_callback(lambda future: future.cancelled() or future.exception())
        self.closing = asyncio.Event()
        self.task = loop.create_task(self._keep(opening), name="session")

    @property
    def is_open(self) -> bool:
        """Whether the session was opened."""
        return self.session.done() and self.session.exception() is None

    async def _keep(self, opening: AbstractAsyncContextManager[Session]) -> None:
        try:
            async with opening as session:
                self.session.set_result(session)
                await self.closing.wait()
        except Exception as error:
            if self.session.done():
                log.exception("a session has failed; the next call opens another one")
            else:
                self.session.set_exception(error)
