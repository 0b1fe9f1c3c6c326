"""A wire between a kernel and its client that loses, repeats and spoils messages as a test wants it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass

import zmq
import zmq.asyncio

from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.client import KernelClient


@dataclass
class Fault:
    """What happens to the messages of a kind that belong to execute requests (or to nothing, on control)."""

    kind: str
    """A message's type; of a status its state: "busy" or "idle"."""
    which: int | None = None
    """Which of them, counted from 0; None for each."""
    how: str = "drop"
    """ "drop", "twice", "corrupt" (the content) or "garble" (no message any more)."""


class FaultyWire:
    """Stands between a kernel and a client of its own.

    Args:
        connection: The kernel's connection info.
        folder: A short path for sockets.
    """

    def __init__(self, connection, folder):
        self._context = zmq.asyncio.Context()
        self._tasks = []
        self.faults: list[Fault] = []
        self.seen: Counter[str] = Counter()
        self.hit: Counter[str] = Counter()
        self.open = asyncio.Event()
        """Whether iopub gets through; a wire that is not read holds it back."""
        self.open.set()
        self.connection = {**connection, "transport": "ipc", "ip": str(folder)}
        separator = "-" if connection["transport"] == "ipc" else ":"
        for channel, back, front in (
            ("shell", zmq.DEALER, zmq.DEALER),
            ("control", zmq.DEALER, zmq.DEALER),
            ("iopub", zmq.SUB, zmq.XPUB),
        ):
            kernel, client = self._socket(back), self._socket(front)
            if back == zmq.SUB:
                kernel.subscribe(b"")
            port = connection[f"{channel}_port"]
            kernel.connect(f"{connection['transport']}://{connection['ip']}{separator}{port}")
            client.bind(f"ipc://{folder}-{port}")
            self._spawn(self._pass(kernel, client, channel))
            if channel != "iopub":
                self._spawn(self._pass(client, kernel, channel))

    def reset(self, *faults):
        """Begin to count, with these faults."""
        self.faults, self.seen, self.hit = list(faults), Counter(), Counter()

    async def aclose(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._context.destroy(linger=0)

    def _socket(self, kind):
        socket = self._context.socket(kind)
        socket.linger = socket.rcvhwm = socket.sndhwm = 0
        return socket

    def _spawn(self, coroutine):
        self._tasks.append(asyncio.get_running_loop().create_task(coroutine))

    async def _pass(self, here, there, channel):
        while True:
            frames = await here.recv_multipart()
            if channel == "iopub":
                await self.open.wait()
            for passed in self._spoilt(frames):
                await there.send_multipart(passed)

    def _spoilt(self, frames):
        kind = self._kind(frames)
        if kind is None:
            return [frames]
        number = self.seen[kind]
        self.seen[kind] += 1
        for fault in self.faults:
            if fault.kind == kind and fault.which in (None, number):
                self.hit[kind] += 1
                return {
                    "drop": [],
                    "twice": [frames, frames],
                    "corrupt": [[*frames[:-1], frames[-1][:-1] + b"?"]],
                    "garble": [[b"\xff" * 5, b"no message"]],
                }[fault.how]
        return [frames]

    def _kind(self, frames):
        kind = wire.kind_of(frames)
        if not kind or kind.startswith("codeact_"):
            return kind or None
        at = frames.index(b"<IDS|MSG>")
        if kind != "execute_request" and json.loads(frames[at + 3]).get("msg_type") != "execute_request":
            return None
        return json.loads(frames[at + 5])["execution_state"] if kind == "status" else kind


async def put_between(kernel, folder, serve=None):
    """Give a started kernel a client behind a faulty wire, and make that its owner."""
    faulty = FaultyWire(kernel.client._connection, folder)
    client = KernelClient(faulty.connection)
    client.serve_with(serve)
    client.connect()
    await client.ready(20)
    await client.request(wire.OPEN, {"tools": [], "self": True}, channel="control")
    await kernel.client.aclose()
    kernel.process.client = client
    return faulty
