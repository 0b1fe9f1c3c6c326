"""The magics `%agent`, `%%agent` and `%agents`.

Comes in: lines and cells. Goes out: runs of the notebook's agent, begun, watched, steered and stopped; names bound.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
import time
from contextlib import suppress
from typing import Any

from IPython.core.magic import no_var_expand

from codeact_kernel._version import __version__
from codeact_kernel.inkernel.magic.describing import described, mentioned, rows_of
from codeact_kernel.inkernel.magic.failure import Failures
from codeact_kernel.inkernel.magic.line import HELP, make_parser, questions, read_line
from codeact_kernel.inkernel.magic.link import AgentError, Link
from codeact_kernel.inkernel.magic.pages import Pages
from codeact_kernel.inkernel.magic.running import Running
from codeact_kernel.inkernel.magic.values import chosen, pack, unpack
from codeact_kernel.inkernel.namespace import visible_names

_PASSED_ON = (
    *("model", "base_url", "protocol", "tools", "mcp", "sandbox", "approve"),
    *("max_turns", "max_time", "max_tokens", "max_cost"),
)
"""Options that are the agent's, by the names that it has for them."""
_SETTINGS = {
    "model": "model",
    "baseUrl": "base_url",
    "sandbox": "sandbox",
    "approve": "approve",
    "maxTurns": "max_turns",
    "maxTime": "max_time",
    "maxCost": "max_cost",
}
"""What a page's settings say, and whose value that is where the line says nothing."""
_EXAMINED = 120.0
"""Seconds that looking at everything may take: a kernel is started for it."""
_FIRST_PAGE = 0.5
"""Seconds that the first run waits for the page, which may have heard just now that it may come."""
_RETURN = (
    "\n\n(The user waits for a Python object: hand it back with self.return_value(obj) before you answer.)"
)
_OBJECTS = (
    "\n\n(Names in the user's notebook, of which you know no more than this:\n{lines}\n"
    "Their values are not in your kernel; the user can give you copies, with `%agent -n`.)"
)
_SEEDED = "\n\n(You have copies of these from the user's notebook:\n{lines})"


class AgentMagics:
    """The magics of one shell.

    Args:
        shell: IPython's shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._link: Link | None = None
        self._runs: dict[str, Running] = {}
        self._early: dict[str, list[dict[str, Any]]] = {}
        """What the host has said of runs that their cells do not know yet."""
        self._order = threading.Lock()
        self._parser = make_parser()
        self.is_kernel = hasattr(shell, "kernel")
        self._waits_for_page = True
        self._failures = Failures(shell)
        runs = self._runs.values()
        kernel = getattr(shell, "kernel", None)
        self.pages = Pages(self._ask, lambda: [run.about for run in runs], __version__, kernel)

    @no_var_expand  # type: ignore[untyped-decorator]
    def agent(self, line: str, cell: str | None = None) -> None:
        """Let an agent work on a task."""
        said, rest = read_line(line, self._parser)
        task = rest if cell is None else "\n".join(filter(None, [rest, cell.removesuffix("\n")]))
        if self._aside(said):
            return
        if said.replay is not None:
            self._finish(self._begin_replay(said), None)
            return
        if not task.strip():
            raise AgentError("%agent: there is no task. `%agent?` tells how.")
        running = self._begin(said, task)
        if not isinstance(running, Running):
            self._bind(running, said.output)
        elif said.background:
            running.leave(lambda end: self._bind(end, said.output))
        else:
            self._finish(running, said.output)

    def agents(self, line: str = "") -> None:
        """List the runs of this notebook's agents."""
        runs = self._ask("list")["runs"] if self._link is not None else []
        for run in runs:
            bar = run["bar"]
            used = f"{bar['turns']:>3} turns  {bar['tokens']:>9,} tokens"
            print(f"{run['run']}  {bar['state']:<9} {used}  {run['task']:.60}")
        if not runs:
            print("No agent was started in this notebook.")

    def leave(self) -> None:
        """Let go of the shell, too."""
        self._failures.close()
        self.close()

    def close(self) -> None:
        """End the host; may be called twice."""
        if self._link is not None:
            self._link.close()
            self._link = None

    # -- a run --------------------------------------------------------------------------------------------

    def _begin(self, said: Any, task: str) -> Running | dict[str, Any]:
        """Begin a run; gives it, or the end of one that has answered the same before."""
        shell = self._shell
        rows = rows_of(said.describe)
        values = chosen(said.names, shell.user_ns)
        link = self._ensure_link()
        parcel = pack(values, link.folder, shell) if values else None
        header, cell = self._asked_by()
        wanted: dict[str, Any] = {
            "task": task,
            "beside": self._beside(task, values, rows) + (_RETURN if said.output else ""),
            "options": self._options(said, header),
            "new": said.new,
            "parcel": parcel,
            "names": list(values),
            "cell": cell,
            "terminal": not self.is_kernel,
            "rerun": said.rerun,
        }
        try:
            about = link.ask("begin", **wanted)
        except KeyboardInterrupt:
            with suppress(AgentError):  # it may have begun, and nobody would wait for it
                link.ask("stop")
            raise
        if "known" in about:
            return self._show_known(about["known"])
        return self._running(link, about, header)

    def _begin_replay(self, said: Any) -> Running:
        """Begin to show a recorded run again."""
        link = self._ensure_link()
        header, cell = self._asked_by()
        how: dict[str, Any] = {"cell": cell, "terminal": not self.is_kernel}
        about = link.ask("replay", file=os.path.abspath(said.replay), speed=said.speed, step=said.step, **how)  # noqa: PTH100
        return self._running(link, about, header)

    def _running(self, link: Link, about: dict[str, Any], header: str) -> Running:
        cell, shell = about["cell"], self._shell
        about = {key: about[key] for key in ("run", "cell", "task", "live")}
        running = Running(shell, link, about, terminal=not self.is_kernel)
        running.begin()
        if self.is_kernel:
            wait = _FIRST_PAGE if self._waits_for_page and cell is not None else 0.0
            self._waits_for_page = (
                not self.pages.begun(about, header, wait) and self._waits_for_page and not wait
            )
        with self._order:  # nothing is told before a page knows of the run, and nothing out of turn
            self._runs[running.key] = running
            for message in self._early.pop(running.key, ()):
                self._pass_on(running, message)
        return running

    def _show_known(self, end: dict[str, Any]) -> dict[str, Any]:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(end["ended"]))
        note = f"As answered on {when}; --rerun asks again."
        text, page = (
            f"{end['data']['text/plain']}\n[{note}]",
            f"{end['data']['text/html']}<p><i>{note}</i></p>",
        )
        if self.is_kernel:
            shown = end["data"] | {"text/plain": text, "text/html": page}
            self._shell.display_pub.publish(shown, {}, transient={"display_id": end["run"]})
        else:
            print(text)
        return end

    def _finish(self, running: Running, output: str | None) -> None:
        """Wait for a run's end, and bind what it gives."""
        end = running.wait(ask=not self.pages.there)
        if end["stop"] == "cancelled" or (running.presses and end["stop"] == "failed"):
            raise running.stopped()
        if end["stop"] != "answered":
            raise AgentError(end["message"] or f"the run ended: {end['stop']}")
        self._bind(end, output)

    def _bind(self, end: dict[str, Any], output: str | None) -> None:
        if output is None or end["stop"] != "answered":
            return
        value = end["answer"]
        if end["file"]:
            value = unpack(end["file"], self._shell.user_ns, objects=bool(end.get("objects")))
        self._shell.user_ns[output] = value

    def _beside(self, task: str, seeded: dict[str, Any], rows: int | None) -> str:
        """What the model is told of the notebook."""
        if task.strip() == "fix":
            return self._failures.told()
        if rows is None:
            return ""
        namespace = self._shell.user_ns
        others = {
            name: namespace[name]
            for name in mentioned(task, visible_names(self._shell))
            if name not in seeded
        }
        told = _SEEDED.format(lines="\n".join(described(seeded, rows))) if seeded else ""
        if others:
            told += _OBJECTS.format(lines="\n".join(described(others, rows)))
        return told

    def _options(self, said: Any, session: str) -> dict[str, Any]:
        settings = self.pages.settings_of(session)
        options = {name: settings[key] for key, name in _SETTINGS.items() if settings.get(key)}
        options |= {name: value for name in _PASSED_ON if (value := getattr(said, name)) is not None}
        if said.allow_net:
            options["allow_net"] = True
        if said.trust_objects:
            options["returns_objects"] = True
        return options

    # -- beside a run -------------------------------------------------------------------------------------

    def _aside(self, said: Any) -> bool:
        """Do what is no task; gives whether there was something to do."""
        if said.output is not None and not said.output.isidentifier():
            raise AgentError(f"-o: {said.output!r} is no name")
        if said.steer is not None:
            self._ask("steer", text=said.steer)
        elif said.wait:
            running = next((run for run in reversed(self._runs.values()) if run.is_left), None)
            if running is None:
                raise AgentError("nothing was begun in the background")
            self._finish(running, said.output)
        elif said.stop:
            self._ask("stop")
        elif said.end:
            self._ask("end")
        elif said.yes or said.no is not None:
            self._ask("answer", answer="yes" if said.yes else "no", reason=said.no or "")
        elif said.doctor:
            self._examine(said)
        elif said.sent is not None:
            print(self._ask("sent", request=said.sent or None)["text"])
        elif said.show:
            data = self._ask("show")["data"]
            if self.is_kernel:
                self._shell.display_pub.publish(data, {})
            else:
                print(data["text/plain"])
        else:
            return False
        return True

    def _examine(self, said: Any) -> None:
        kernel = "a terminal" if not self.is_kernel else type(self._shell.kernel).__name__
        print(
            f"this kernel: codeact-kernel {__version__}, IPython {self._shell.__class__.__name__} in {kernel}"
        )
        if self.is_kernel:
            has = "has our extension" if self.pages.there else "has not: outputs are shown as HTML"
            print(f"this page: {has}")
        link = self._ensure_link()
        print(
            "\n".join(
                link.ask("doctor", within=_EXAMINED, model=said.model, base_url=said.base_url)["findings"]
            )
        )

    # -- the host -----------------------------------------------------------------------------------------

    def _ensure_link(self) -> Link:
        if self._link is None or not self._link.is_alive:
            self.close()
            self._early.clear()
            self._link = Link(self._told)
            if self.pages.there:
                self._link.ask("pages", there=True)
        return self._link

    def _ask(self, do: str, **about: Any) -> dict[str, Any]:
        if self._link is None:
            raise AgentError("no agent was started in this notebook")
        return self._link.ask(do, **about)

    def _told(self, message: dict[str, Any]) -> None:
        """Take what the host says; in its thread."""
        if message["tell"] == "gone":
            for running in self._runs.values():
                running.take(message)
            return
        with self._order:
            known = self._runs.get(message["run"])
            if known is None:
                self._early.setdefault(message["run"], []).append(message)
            else:
                self._pass_on(known, message)

    def _pass_on(self, running: Running, message: dict[str, Any]) -> None:
        if message["tell"] == "cells":
            self.pages.cells(message["run"], message["n"], message["ops"])
        running.take(message)

    def _asked_by(self) -> tuple[str, str | None]:
        """The session whose cell this is, and the cell's id where the page has told it."""
        if not self.is_kernel:
            return "", None
        parent = self._shell.get_parent() or {}
        return parent.get("header", {}).get("session", ""), parent.get("metadata", {}).get("cellId")


def install(shell: Any) -> None:
    """Register the magics in a shell; once is enough."""
    if hasattr(shell, "codeact_magics"):
        return
    magics = AgentMagics(shell)
    magics.agent.__func__.__doc__ = f"{HELP}\n\n{magics._parser.format_help()}"
    shell.register_magic_function(magics.agent, "line_cell", "agent")
    shell.register_magic_function(magics.agents, "line", "agents")
    shell.input_transformers_cleanup.append(questions)
    shell.set_hook("complete_command", _completer(magics), re_key=re.compile(r"%%?agent\b"))
    shell.codeact_magics = magics
    atexit.register(magics.close)
    if magics.is_kernel:
        magics.pages.open()


def remove(shell: Any) -> None:
    """Take the magics away."""
    magics = getattr(shell, "codeact_magics", None)
    if magics is None:
        return
    del shell.codeact_magics
    shell.input_transformers_cleanup.remove(questions)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("agent", None)
    shell.magics_manager.magics["line"].pop("agents", None)
    if magics.is_kernel:
        magics.pages.close()
    magics.leave()
    atexit.unregister(magics.close)


def _completer(magics: AgentMagics) -> Any:
    options = sorted(magics._parser._option_string_actions)

    def complete(_: Any, event: Any) -> list[str]:
        """Options behind a dash; the notebook's names behind -n."""
        if event.symbol.startswith("-"):
            return [option for option in options if option.startswith(event.symbol)]
        return (
            visible_names(magics._shell) if re.search(r"(-n|--names)\s+\S*$", event.text_until_cursor) else []
        )

    return complete
