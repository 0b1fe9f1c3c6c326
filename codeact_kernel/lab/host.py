"""The host of one notebook: answers its magic.

Comes in: requests over a socket. Goes out: answers, and what happens to the agents of this notebook. When the socket
closes, all of them end.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
from pathlib import Path
from typing import Any

from codeact_kernel._version import __version__
from codeact_kernel.errors import CodeactError, ConfigError
from codeact_kernel.inkernel import wire
from codeact_kernel.lab.doctor import examine
from codeact_kernel.lab.page import bundle
from codeact_kernel.lab.replay import Replay
from codeact_kernel.lab.session import Session, Wanted
from codeact_kernel.lab.showing import Showing


class Host:
    """Serves one magic.

    Args:
        workspace: The folder of its notebook.
        folder: Where parcels lie; it is removed with the host.
    """

    def __init__(self, workspace: Path, folder: Path) -> None:
        self._workspace = workspace
        self._folder = folder
        self._sessions: list[Session] = []
        self._writer: asyncio.StreamWriter | None = None
        self._pages = False
        """Whether some page shows what goes on."""
        self._answering = set[asyncio.Task[None]]()
        self._lives: dict[Session | Replay, asyncio.Task[None]] = {}
        self._replays: dict[str, Replay] = {}
        """By the key under which a recorded run is shown."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve until the other side closes.

        Args:
            reader: What comes.
            writer: Where answers go.
        """
        self._writer = writer
        self._tell({"tell": "ready", "version": __version__, "folder": str(self._folder)})
        try:
            while True:
                head = await reader.readexactly(wire.HEAD)
                asked = wire.from_body(await reader.readexactly(wire.length_of(head)))
                # Each by itself: a stop does not wait for a slow one. They begin in the order in which they came.
                answering = asyncio.get_running_loop().create_task(self._answer(asked))
                self._answering.add(answering)
                answering.add_done_callback(self._answering.discard)
        except (asyncio.IncompleteReadError, OSError, ValueError):
            pass  # the notebook's kernel is gone, or says what cannot be read
        finally:
            for answering in self._answering:
                answering.cancel()
            self._writer = None
            for session in self._sessions:
                session.close()
            for replay in self._replays.values():
                replay.stop()
            await asyncio.gather(*self._lives.values(), return_exceptions=True)

    async def _answer(self, asked: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"re": asked.get("number")}
        try:
            method = getattr(self, f"_do_{asked.get('do')}", None)
            if method is None:
                raise ConfigError(f"this host does not know {asked.get('do')!r}")
            answer |= {"ok": True} | (await method(asked) or {})
        except CodeactError as error:
            answer["error"] = error.message
        except (KeyError, TypeError, ValueError) as error:
            answer["error"] = f"this is no request: {error!r}"
        except OSError as error:
            answer["error"] = f"{error.filename or 'a file'}: {error.strerror or error}"
        except Exception as error:  # ours: who asks has to hear of it, and the log, too
            self._tell(answer | {"error": f"a fault of codeact-kernel: {type(error).__name__}: {error}"})
            raise
        self._tell(answer)

    def _tell(self, message: dict[str, Any]) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(wire.to_frame(message))

    # -- what is asked ------------------------------------------------------------------------------------

    async def _do_begin(self, asked: dict[str, Any]) -> dict[str, Any]:
        wanted = Wanted(
            str(asked["task"]),
            str(asked.get("beside") or ""),
            dict(asked.get("options") or {}),
            asked.get("parcel"),
            tuple(asked.get("names") or ()),
            asked.get("cell"),
            bool(asked.get("terminal")),
            bool(asked.get("rerun")),
        )
        current = self._current
        if current is None or asked.get("new"):
            if current is not None and not current.is_working:
                current.close()
            session = Session(wanted, self._workspace, self._folder, self._tell, lambda: self._pages)
            self._sessions = [*(other for other in self._sessions if not other.ended), session]
        else:
            session = current
            session.check(wanted)
        if (known := session.known(wanted)) is not None:
            return {"known": known}
        began, key = session.has_begun, session.begin(wanted)
        if not began:
            ending = [
                task for other, task in self._lives.items() if isinstance(other, Session) and other.is_closing
            ]
            task = asyncio.get_running_loop().create_task(session.live(ending))
            self._lives[session] = task
            task.add_done_callback(lambda _: self._lives.pop(session))
        return session.runs[key].about

    async def _do_replay(self, asked: dict[str, Any]) -> dict[str, Any]:
        replay = Replay(Path(str(asked["file"])), float(asked.get("speed", 1.0)), bool(asked.get("step")))
        showing = replay.show(self._tell, lambda: self._pages, asked.get("cell"), bool(asked.get("terminal")))
        self._replays[showing.cells.run] = replay
        self._lives[replay] = task = asyncio.get_running_loop().create_task(replay.live())
        task.add_done_callback(lambda _: self._lives.pop(replay))
        return showing.about

    async def _do_next(self, asked: dict[str, Any]) -> None:
        self._replays[str(asked["run"])].go_on()

    async def _do_steer(self, asked: dict[str, Any]) -> None:
        self._working(asked.get("run")).steer(str(asked["text"]))

    async def _do_stop(self, asked: dict[str, Any]) -> None:
        if (replay := self._replays.get(asked.get("run") or "")) is not None:
            replay.stop()
            return
        self._working(asked.get("run")).stop()

    async def _do_end(self, asked: dict[str, Any]) -> None:
        if (replay := self._replays.get(asked.get("run") or "")) is not None:
            replay.stop()
            return
        session = self._session(asked.get("run"))
        session.close()
        if session.agent is not None:
            await session.agent._end_kernel("was ended by the user")

    async def _do_stop_block(self, asked: dict[str, Any]) -> None:
        agent, block = self._working(asked.get("run")).agent, str(asked["block"])
        if agent is None or not agent.cancel(block):
            raise ConfigError(f"no block {block} runs or waits")

    async def _do_answer(self, asked: dict[str, Any]) -> None:
        asking = self._working(asked.get("run")).asking
        reason, text = str(asked.get("reason") or ""), asked.get("text")
        asking.answer(
            asked.get("question"), str(asked["answer"]), reason, None if text is None else str(text)
        )

    async def _do_snapshot(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"snapshot": self._showing(asked.get("run")).snapshot()}

    async def _do_show(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"data": bundle(self._showing(asked.get("run")).cells, whole=True)}

    async def _do_sent(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"text": self._session(asked.get("run")).sent.text(asked.get("request"))}

    async def _do_doctor(self, asked: dict[str, Any]) -> dict[str, Any]:
        model, base_url = asked.get("model"), asked.get("base_url")
        return {"findings": [str(finding) async for finding in examine(self._workspace, model, base_url)]}

    async def _do_list(self, asked: dict[str, Any]) -> dict[str, Any]:
        showings = [showing for session in self._sessions for showing in session.runs.values()]
        return {"runs": [{**showing.about, "bar": showing.cells.bar} for showing in showings]}

    async def _do_pages(self, asked: dict[str, Any]) -> None:
        self._pages = bool(asked["there"])

    # -- sessions -----------------------------------------------------------------------------------------

    @property
    def _current(self) -> Session | None:
        return next(
            (session for session in reversed(self._sessions) if not session.is_closing and not session.ended),
            None,
        )

    def _session(self, run: str | None) -> Session:
        """The session of a run; None is the latest one.

        Raises:
            ConfigError: If there is none.
        """
        if run is None:
            if self._sessions:
                return self._sessions[-1]
        else:
            for session in self._sessions:
                if run in session.runs:
                    return session
        raise ConfigError("there is no such run" if run else "no agent was started in this notebook")

    def _working(self, run: str | None) -> Session:
        session = self._session(run)
        if not session.is_working:
            raise ConfigError("the agent is not at work")
        return session

    def _showing(self, run: str | None) -> Showing:
        if (replay := self._replays.get(run or "")) is not None and replay.showing is not None:
            return replay.showing
        session = self._session(run)
        showing = session.showing if run is None else session.runs[run]
        if showing is None:
            raise ConfigError("there is no run yet")
        return showing


async def serve(fd: int) -> None:
    """Serve the magic at the other end of a socket.

    Args:
        fd: The socket's descriptor.
    """
    folder = Path(tempfile.mkdtemp(prefix="ck-lab-"))
    try:
        connection = socket.socket(fileno=fd)
        reader, writer = await asyncio.open_connection(sock=connection)
        await Host(Path.cwd(), folder).serve(reader, writer)
        writer.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
