"""The host's end of a warm parent: a process that kernels are forked from.

Comes in: what a kernel shall be. Goes out: its process, and in time how it ended. The other end is
`inkernel/warm.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.forked import ForkedProcess, Refused
from codeact_kernel.kernels.interpreter import Launch
from codeact_kernel.kernels.janitor import janitor

log = logging.getLogger(__name__)

CAN_FORK = sys.platform == "linux" and hasattr(os, "pidfd_open")
"""Elsewhere all kernels are spawned: a fork alone is not safe there, or nothing stands for a process."""
START, ANSWER = 60.0, 5.0
"""Seconds that a warm parent may take to be ready, and to answer an order: it takes some milliseconds."""
DROP_POLL = 0.01
"""Seconds between two looks at a kernel that nobody wants any more."""


class WarmParent:
    """A warm parent, alive inside an `async with`.

    Args:
        launch: How a kernel would be started.
        env: Its environment, as a kernel would have it.
        preload: Modules that it imports.
    """

    def __init__(self, launch: Launch, env: Mapping[str, str], preload: Sequence[str] = ()) -> None:
        self._launch = launch
        self._env = dict(env)
        self._preload = tuple(preload)
        self._orders: dict[int, asyncio.Future[ForkedProcess]] = {}
        self._kernels: dict[int, ForkedProcess] = {}
        self._drops: set[asyncio.Task[None]] = set()
        self._count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.left_out: dict[str, str] = {}
        """Modules that were not preloaded, and why."""
        self.gone = ""
        """Why nothing can be forked any more."""

    async def __aenter__(self) -> WarmParent:
        """Start it.

        Raises:
            Refused: If that fails.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="ck-"))
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.setblocking(False)
        life, held = os.pipe()
        self._life = open(held, "wb", buffering=0)  # noqa: ASYNC230, SIM115
        fds = (theirs.fileno(), life)
        try:
            with open(self._folder / "log", "wb") as output:  # noqa: ASYNC230
                self._process = subprocess.Popen(  # noqa: ASYNC220
                    [
                        *self._launch.command,
                        "--warm",
                        *map(str, fds),
                        ",".join(self._preload),
                        *self._launch.options,
                    ],
                    env=self._env,
                    cwd=self._folder,
                    pass_fds=fds,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        except OSError as error:
            self._let_go()
            raise Refused(f"a warm parent did not start: {error}") from error
        finally:
            theirs.close()
            os.close(life)
        janitor.watch(self._folder, self._process.pid)
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._move_in()
        try:
            async with asyncio.timeout(START):
                await self._ready
        except (Refused, TimeoutError) as error:
            await self.aclose()
            raise Refused(self.gone or "a warm parent was not ready in time") from error
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def fork(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        given: Sequence[int],
        walls: Mapping[str, Any] | None = None,
    ) -> ForkedProcess:
        """Fork a kernel.

        Args:
            argv: Its command line, the connection file first.
            cwd: The folder in which it runs.
            env: Its whole environment.
            given: The descriptors for its stdin, stdout and stderr, and what `walls` needs besides.
            walls: What it does to itself before anything else: "walls" as `inkernel.walls` takes it, "join" the
                namespaces of the process that the last descriptor stands for.

        Returns:
            Its process.

        Raises:
            Refused: If that does not work.
        """
        self._move_in()
        # One order at a time: the queue of a socket of packets is short.
        async with self._turn:
            if self.gone:
                raise Refused(self.gone)
            self._count += 1
            number = self._count
            order = {"kernel": number, "argv": list(argv), "cwd": cwd, "env": dict(env), **(walls or {})}
            future: asyncio.Future[ForkedProcess] = asyncio.get_running_loop().create_future()
            self._orders[number] = future
            try:
                socket.send_fds(self._channel, [json.dumps(order).encode()], list(given))
                async with asyncio.timeout(ANSWER):
                    return await asyncio.shield(future)
            except asyncio.CancelledError:
                drop = asyncio.get_running_loop().create_task(self._drop(future))
                self._drops.add(drop)
                drop.add_done_callback(self._drops.discard)
                await asyncio.shield(drop)
                raise
            except TimeoutError as error:
                self._give_up("the warm parent does not answer")
                raise Refused(self.gone) from error
            except OSError as error:
                self._give_up(f"the warm parent takes no order: {error}")
                raise Refused(self.gone) from error
            finally:
                del self._orders[number]

    async def _drop(self, future: asyncio.Future[ForkedProcess]) -> None:
        """End a kernel that nobody wants any more: it must be gone before its folder goes, where it makes folders."""
        with suppress(TimeoutError, Refused):
            async with asyncio.timeout(ANSWER):
                kernel = await asyncio.shield(future)
                kernel.kill()
                while kernel.poll() is None:  # noqa: ASYNC110
                    await asyncio.sleep(DROP_POLL)

    async def aclose(self) -> None:
        """End it. Kernels that live go on until the host ends them; afterwards nobody tells how they ended."""
        await asyncio.gather(*self._drops)
        self._give_up("the warm parent was ended")
        for _ in range(100):
            if self._process.poll() is not None:
                break
            await asyncio.sleep(0.01)
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """As `aclose`, where no loop runs any more: waits for the end of the process."""
        self._give_up("the warm parent was ended")
        self._process.wait()
        self._let_go()
        janitor.release(self._folder)

    def _move_in(self) -> None:
        """Have the loop that runs read what it says: a kept one outlives the loop in which it was started."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop and not self.gone:
            self._leave()
            self._loop, self._turn = loop, asyncio.Lock()
            loop.add_reader(self._channel, self._read)

    def _leave(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._channel)

    def _let_go(self) -> None:
        self._channel.close()
        self._life.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _give_up(self, why: str) -> None:
        if not self.gone:
            self.gone = why
            self._leave()
        with suppress(OSError):
            self._process.kill()
        waiting: list[asyncio.Future[Any]] = [self._ready, *self._orders.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(Refused(why))

    def look(self) -> None:
        """Take in what it has said until now, its end above all, of which the loop may not have heard yet."""
        self._read()

    def _read(self) -> None:
        while not self.gone:
            try:
                data, given, _, _ = socket.recv_fds(self._channel, wire.WARM_ROOM, 1, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                data, given = b"", []
            if not data:
                self._give_up(f"the warm parent ended{self._log_tail()}")
                return
            self._take(json.loads(data), given)

    def _take(self, message: dict[str, Any], given: Sequence[int]) -> None:
        number = message.get("kernel")
        if number is None:
            self.left_out = message["left_out"]
            if not self._ready.done():
                self._ready.set_result(None)
        elif "code" in message:
            if (kernel := self._kernels.pop(number, None)) is not None:
                kernel.take_end(message["code"])
        else:
            future = self._orders[number]
            try:
                if "refused" in message:
                    raise Refused(message["refused"])
                self._kernels[number] = ForkedProcess(given[0])
                future.set_result(self._kernels[number])
            except Refused as refused:
                future.set_exception(refused)

    def _log_tail(self) -> str:
        try:
            text = (self._folder / "log").read_text("utf-8", "replace").strip()
        except OSError:
            return ""
        return f"; it said: {text.splitlines()[-1][:300]}" if text else ""
