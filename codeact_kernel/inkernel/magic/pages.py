"""The pages that show this notebook, as far as they have our extension.

Comes in: comms that pages open; what the host says of runs. Goes out: what the one page that shows a run is told; what
pages ask, to the host. See `docs/design/lab.md`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from codeact_kernel.inkernel.magic.link import AgentError

TARGET = "codeact"
HELLO = "codeact.hello"
VERSION = 1
"""Of what page and kernel say to each other."""
SILENT = 3.0
"""Seconds after which another page may show a run."""

Ask = Callable[..., dict[str, Any]]


class Page:
    """One page.

    Args:
        comm: The way to it.
        kernel: The kernel that has it.
        session: Its Jupyter session, which its execute requests have, too.
        settings: What its settings editor says.
    """

    def __init__(self, comm: Any, kernel: Any, session: str, settings: dict[str, Any]) -> None:
        self.comm = comm
        self._kernel = kernel
        self.session = session
        self.settings = settings
        self.heard = time.monotonic()

    def tell(self, **message: Any) -> None:
        """Tell it something.

        Not by the comm's own `send`: ipykernel then takes what the page says to the thread that has sent, and the cell
        may hold that.
        """
        kernel, content = self._kernel, {"comm_id": self.comm.comm_id, "data": message}
        kernel.session.send(kernel.iopub_socket, "comm_msg", content, parent={}, ident=self.comm.topic)


class Pages:
    """All pages of this kernel.

    Args:
        ask: Asks the host; raises `AgentError`.
        runs: The runs that there are, as pages are told of them.
        version: The package's.
        kernel: The kernel; None in a terminal, which has no pages.
    """

    def __init__(self, ask: Ask, runs: Callable[[], list[dict[str, Any]]], version: str, kernel: Any) -> None:
        self._kernel = kernel
        self._ask = ask
        self._runs = runs
        self._version = version
        self._pages: dict[str, Page] = {}
        self._shows: dict[str, Page] = {}
        """Who shows which run."""
        self._lock = threading.RLock()
        self._came = threading.Condition(self._lock)
        self._hello: Any = None

    def open(self) -> None:
        """Let pages know that they may come."""
        from comm import create_comm, get_comm_manager

        get_comm_manager().register_target(TARGET, self._opened)
        self._hello = create_comm(target_name=HELLO, data={"v": VERSION})

    def close(self) -> None:
        """Let none come any more."""
        from comm import get_comm_manager

        manager = get_comm_manager()
        manager.unregister_target(TARGET, self._opened)
        for page in list(self._pages.values()):
            page.comm.close()
        if self._hello is not None:
            self._hello.close()

    def begun(self, run: dict[str, Any], session: str, wait: float) -> bool:
        """Take that a run has begun.

        Args:
            run: The run.
            session: Whose cell it is.
            wait: Seconds for which a page of that session may still come.

        Returns:
            Whether a page shows it.
        """
        with self._came:
            self._came.wait_for(lambda: self._of(session) is not None, wait)
            page = self._of(session)
            if page is not None:
                self._shows[run["run"]] = page
            pages = list(self._pages.values())
        for other in pages:
            other.tell(begun=run)
        return page is not None

    def cells(self, run: str, n: int, operations: list[dict[str, Any]]) -> None:
        """Tell the page that shows a run what has changed."""
        with self._lock:
            page = self._shows.get(run)
        if page is not None:
            page.tell(run=run, n=n, ops=operations)

    def settings_of(self, session: str) -> dict[str, Any]:
        """What the settings editor of a page says; nothing where it is not known."""
        with self._lock:
            page = self._of(session)
            return {} if page is None else dict(page.settings)

    @property
    def there(self) -> bool:
        """Whether any page has our extension."""
        return bool(self._pages)

    def _of(self, session: str) -> Page | None:
        return next((page for page in self._pages.values() if page.session == session), None)

    def _opened(self, comm: Any, message: dict[str, Any]) -> None:
        data = message["content"].get("data") or {}
        page = Page(comm, self._kernel, message["header"]["session"], dict(data.get("settings") or {}))
        comm.on_msg(lambda said: self._heard(page, said["content"].get("data") or {}))
        comm.on_close(lambda _: self._gone(comm.comm_id))
        page.tell(hello={"v": VERSION, "version": self._version, "runs": self._runs()})
        with self._came:
            self._pages[comm.comm_id] = page
            self._came.notify_all()
        self._count()

    def _gone(self, comm_id: str) -> None:
        with self._lock:
            page = self._pages.pop(comm_id, None)
            self._shows = {run: by for run, by in self._shows.items() if by is not page}
        self._count()

    def _count(self) -> None:
        try:
            self._ask("pages", there=self.there)
        except AgentError:
            return  # there is no host yet, or no more

    def _heard(self, page: Page, said: dict[str, Any]) -> None:
        page.heard = time.monotonic()
        number = said.get("number")
        try:
            page.tell(re=number, ok=True, **self._done(page, said))
        except AgentError as error:
            page.tell(re=number, error=str(error))

    def _done(self, page: Page, said: dict[str, Any]) -> dict[str, Any]:
        do, run = said.get("do"), str(said.get("run"))
        match do:
            case "have":
                return {}
            case "settings":
                page.settings = dict(said.get("settings") or {})
                return {}
            case "show":
                with self._lock:
                    by = self._shows.get(run)
                    if by not in (None, page) and time.monotonic() - by.heard < SILENT:
                        raise AgentError("another page shows this run")
                    self._shows[run] = page
                return {"snapshot": self._ask("snapshot", run=run)["snapshot"]}
            case "stop" | "stop_block" | "steer" | "answer":
                about = {key: value for key, value in said.items() if key not in ("do", "number")}
                self._ask(do, **about)
                return {}
        raise AgentError(
            f"this kernel does not know {do!r}; is the extension newer than codeact-kernel {self._version}?"
        )
