"""The kernel's side of the page, without agents: what `docs/design/lab.md` says, played from scripts of operations.

Imported in a notebook's kernel, a stock one. Goes out: a comm of target `codeact.hello`, and for each page that opens
`codeact` what it asks for. What pages say is kept in `heard`.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from comm import create_comm, get_comm_manager
from IPython import get_ipython
from IPython.display import display

MIME = "application/vnd.codeact.run+json"
BAR = {
    "state": "working",
    "text": "Thinking",
    "model": "fake",
    "started": None,
    "ended": None,
    "turns": 1,
    "tokens": 1234,
    "cost": 0.02,
    "context": 0.3,
    "blocks": [],
}
VERSION = 1

runs: dict[str, Run] = {}
pages: dict[str, str] = {}
"""The comm of each page, by its session."""
heard: list[dict[str, Any]] = []
changed = threading.Condition()


def tell(comm: str, data: dict[str, Any]) -> None:
    """Send to a page. Not by the comm's own `send`: ipykernel then takes what the page says to the thread that sent."""
    kernel = get_ipython().kernel
    kernel.session.send(kernel.iopub_socket, "comm_msg", {"comm_id": comm, "data": data}, ident=b"comm")


class Run:
    """A run that the cell which makes it shows.

    Args:
        task: What it is about.
    """

    def __init__(self, task: str = "Find the outliers") -> None:
        parent = get_ipython().kernel.get_parent()
        self.key = f"r{len(runs) + 1}"
        self.task = task
        self.cell = parent["metadata"].get("cellId")
        self.page = pages.get(parent["header"]["session"])
        self.n = -1
        self.had = -1
        self.heard_at = time.monotonic()
        self.ops: list[dict[str, Any]] = []
        self.bar = {**BAR, "started": time.time()}
        self.display = display(self._shown(), raw=True, display_id=True)
        self.cells = 0
        runs[self.key] = self
        if self.page:
            tell(self.page, {"begun": self.info})

    @property
    def info(self) -> dict[str, Any]:
        return {"run": self.key, "cell": self.cell, "task": self.task, "live": self.bar["ended"] is None}

    def tell(self, *ops: dict[str, Any]) -> None:
        """Operations, as one message."""
        self.ops += ops
        self.n += 1
        if self.page:
            tell(self.page, {"run": self.key, "n": self.n, "ops": list(ops)})

    def cell_op(self, source: str = "", kind: str = "code", under: str | None = None, **fields: Any) -> str:
        """A cell; returns its id."""
        name = f"ck-{self.key}-{self.cells}"
        block = f"b{self.cells}" if kind == "code" else None
        self.cells += 1
        op = {"op": "cell", "id": name, "kind": kind, "depth": int(under is not None), "source": source}
        self.tell({**op, "block": block, "under": under, **fields})
        return name

    def source(self, name: str, at: int, text: str) -> None:
        self.tell({"op": "source", "id": name, "at": at, "text": text})

    def state(self, name: str, state: str, started: float | None = None, ended: float | None = None) -> None:
        self.tell(
            {"op": "state", "id": name, "state": state, "started": started, "ended": ended, "note": None}
        )

    def outputs(self, name: str, at: int, *outputs: dict[str, Any]) -> None:
        self.tell({"op": "outputs", "id": name, "at": at, "outputs": list(outputs)})

    def block(
        self, source: str, *outputs: dict[str, Any], state: str = "ok", under: str | None = None
    ) -> str:
        """A whole block, at once."""
        name = self.cell_op(source, under=under)
        start = time.time()
        self.state(name, "running", start)
        self.outputs(name, 0, *outputs)
        self.state(name, state, start, start + 1.4)
        return name

    def ask(self, name: str, question: str = "q1", **fields: Any) -> None:
        op = {
            "op": "ask",
            "question": question,
            "id": name,
            "title": "Write to results.csv?",
            "why": "It writes a file.",
        }
        self.tell(
            {
                **op,
                "text": "df.to_csv('results.csv')",
                "ending": ".py",
                "diff": None,
                "always": True,
                **fields,
            }
        )

    def asked(self, answer: str, question: str = "q1") -> None:
        self.tell({"op": "asked", "question": question, "answer": answer})

    def set_bar(self, **changes: Any) -> None:
        self.bar |= changes
        self.tell({"op": "bar", **self.bar})
        self.display.update(self._shown(), raw=True)

    def end(self, state: str = "answered", text: str = "There are three.") -> None:
        self.set_bar(state=state, text=text, ended=time.time(), blocks=[])

    def _shown(self) -> dict[str, Any]:
        data = {"v": VERSION, "run": self.key, "bar": self.bar}
        return {MIME: data, "text/html": "<b>agent</b>", "text/plain": "agent"}


def wait_for(what: str, timeout: float = 30) -> dict[str, Any]:
    """What a page says next of this kind, `have` left out; waits in the cell's thread, as `%agent` does."""
    with changed:
        found = changed.wait_for(lambda: next((m for m in heard if m["do"] == what), None), timeout)
        assert found, f"no {what}"
        heard.remove(found)
        return found


def wait_until_had(run: Run, timeout: float = 30) -> None:
    """Wait until the page has put everything into the notebook."""
    with changed:
        assert changed.wait_for(lambda: run.had >= run.n, timeout)


def wait_for_file(name: str, timeout: float = 30) -> None:
    """Wait until the test has made a file beside the notebook."""
    end = time.monotonic() + timeout
    while not Path(name).exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def hear(comm: str, said: dict[str, Any]) -> None:
    answer: dict[str, Any] = {"re": said["number"], "ok": True}
    run = runs.get(said.get("run", ""))
    with changed:
        if run and run.page == comm:
            run.heard_at = time.monotonic()
        if said["do"] == "have":
            assert run
            run.had = said["n"]
        elif said["do"] == "show":
            assert run
            if run.page not in (None, comm) and time.monotonic() - run.heard_at < 3:
                answer = {"re": said["number"], "error": "Another page shows this run."}
            else:
                run.page, run.heard_at = comm, time.monotonic()
                answer["snapshot"] = {"n": run.n, "ops": run.ops}
        else:
            heard.append(said)
        changed.notify_all()
    tell(comm, answer)


def open_page(comm: Any, message: dict[str, Any]) -> None:
    pages[message["header"]["session"]] = comm.comm_id
    comm.on_msg(lambda said: hear(comm.comm_id, said["content"]["data"]))
    known = [run.info for run in runs.values()]
    tell(comm.comm_id, {"hello": {"v": VERSION, "version": "0.1.0", "runs": known}})


def wait_for_page(timeout: float = 30) -> None:
    """Wait until the page whose cell this is has opened its comm."""
    session = get_ipython().kernel.get_parent()["header"]["session"]
    end = time.monotonic() + timeout
    while session not in pages:
        assert time.monotonic() < end, "no page"
        time.sleep(0.01)


get_comm_manager().register_target("codeact", open_page)
hello = create_comm(target_name="codeact.hello")
