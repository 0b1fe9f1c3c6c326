"""Talks to one kernel over Jupyter's channels, with one reader a socket.

Comes in: a connection file's content. Goes out: `KernelClient`, which sends requests and sorts what comes
back by the request that it belongs to: replies to whoever waits for them, iopub messages to the request's
`Inlet`, calls over the bridge to the `serve` function. A message that cannot be read ends no reader.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

import zmq
import zmq.asyncio
from jupyter_client.session import Session

from codeact_kernel.errors import KernelError, KernelLost
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.acks import Acks

log = logging.getLogger(__name__)

Message = dict[str, Any]
Serve = Callable[[str, Sequence[Any], dict[str, Any], str | None], Awaitable[Any]]
"""Answers a call from code in the kernel: (name, args, kwargs, msg_id of the block) to the result. What it
raises goes back as the error."""

TURN = 0.005
"""Seconds for which a reader takes messages before other tasks get their turn."""
REMEMBERED = 4096
"""Signatures that are remembered, so that no message is taken twice; outputs have numbers besides."""


class Inlet(Protocol):
    """Takes what belongs to one execute request. Contract: must not block, must not raise."""

    def attach(self, msg_id: str, source: KernelClient) -> None:
        """The request was sent under this id."""

    def on_iopub(self, message: Message) -> None:
        """An iopub message with this request as its parent; also after the request's end."""

    def on_reply(self, message: Message) -> None:
        """The execute_reply."""

    def on_state(self, state: dict[str, Any]) -> None:
        """What the kernel says of where the request is, because it was not confirmed."""

    def on_lost(self, error: KernelError) -> None:
        """The kernel is gone: there will be no more."""


class KernelClient:
    """The channels of one kernel.

    Args:
        connection: What the kernel's connection file holds.
        serve: Answers calls from code in the kernel.
    """

    def __init__(self, connection: dict[str, Any], serve: Serve | None = None) -> None:
        self._connection = connection
        self._serve = serve
        key = connection["key"]
        self.session = Session(key=key if isinstance(key, bytes) else str(key).encode())
        self.session.digest_history_size = REMEMBERED
        self._context = zmq.asyncio.Context()
        self._inlets: dict[str, Inlet] = {}
        self._replies: dict[str, asyncio.Future[Message]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._acks = Acks(self._confirm)
        self._welcomed = asyncio.Event()
        self._lost: KernelError | None = None

    def connect(self) -> None:
        """Open the sockets and start their readers."""
        self._shell = self._socket(zmq.DEALER, "shell")
        self._control = self._socket(zmq.DEALER, "control")
        self._iopub = self._socket(zmq.SUB, "iopub")
        for socket, take in (
            (self._shell, self._on_reply),
            (self._control, self._on_control),
            (self._iopub, self._on_iopub),
        ):
            self.spawn(self._read(socket, take))

    async def aclose(self) -> None:
        """Stop the readers and close the sockets. Never raises."""
        self._acks.close()
        tasks = [*self._tasks, *self._calls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for name in ("_shell", "_control", "_iopub"):
            if hasattr(self, name):
                getattr(self, name).close(linger=0)
        self._context.destroy(linger=0)

    async def ready(self, timeout: float) -> Message:
        """Wait until the kernel answers and its iopub stream is ours.

        Args:
            timeout: Seconds.

        Returns:
            The content of its kernel_info_reply.

        Raises:
            TimeoutError: If it did not answer in time.
            KernelError: If it died meanwhile.
        """
        async with asyncio.timeout(timeout):
            info = await self.request("kernel_info_request", {})
            # A kernel without the welcome message has subscribed us when its idle comes through.
            while not self._welcomed.is_set():
                await self.request("kernel_info_request", {})
                await asyncio.sleep(0.01)
        content: Message = info["content"]
        return content

    async def request(
        self,
        msg_type: str,
        content: dict[str, Any],
        *,
        channel: str = "shell",
        buffers: Sequence[bytes] = (),
    ) -> Message:
        """Send a request and wait for its reply.

        Args:
            msg_type: The request's type.
            content: Its content.
            channel: "shell" or "control".
            buffers: Raw data that travels with it.

        Returns:
            The reply.

        Raises:
            KernelError: If the kernel is gone.
        """
        message = self.session.msg(msg_type, content)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._replies[message["header"]["msg_id"]] = future
        try:
            self._send(channel, message, buffers)
            return await future
        finally:
            self._replies.pop(message["header"]["msg_id"], None)

    def execute(self, code: str, meta: dict[str, Any], inlet: Inlet) -> str:
        """Send an execute request.

        Args:
            code: The code.
            meta: Our fields of its metadata; empty for a kernel that is not ours.
            inlet: Who takes what comes back.

        Returns:
            The request's msg_id.

        Raises:
            KernelError: If the kernel is gone.
        """
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        message = self.session.msg("execute_request", content)
        message["metadata"] = {wire.KEY: meta} if meta else {}
        msg_id: str = message["header"]["msg_id"]
        self._inlets[msg_id] = inlet
        inlet.attach(msg_id, self)
        self._send("shell", message)
        return msg_id

    def acknowledge(self, msg_id: str, phase: int, number: int) -> None:
        """Confirm what has been taken in of a request; may wait a moment for more.

        Args:
            msg_id: The request's id.
            phase: The phase that is known here.
            number: The first output that is not here.
        """
        self._acks.note(msg_id, phase, number)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run something until it ends or the client is closed.

        Args:
            coroutine: What to run. An exception of it is a bug.
        """
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def lose(self, error: KernelError) -> None:
        """Tell everybody who waits that the kernel is gone.

        Args:
            error: How it went.
        """
        self._lost = error
        for future in self._replies.values():
            if not future.done():
                future.set_exception(error)
        for inlet in list(self._inlets.values()):
            inlet.on_lost(error)

    def _socket(self, kind: int, channel: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.rcvhwm = 0
        socket.sndhwm = 0
        if kind == zmq.SUB:
            socket.subscribe(b"")
        info = self._connection
        separator = "-" if info["transport"] == "ipc" else ":"
        socket.connect(f"{info['transport']}://{info['ip']}{separator}{info[f'{channel}_port']}")
        return socket

    def _send(self, channel: str, message: Message, buffers: Sequence[bytes] = ()) -> None:
        if self._lost is not None:
            raise self._lost
        socket = self._shell if channel == "shell" else self._control
        frames = [*wire.frames_of(self.session, message), *buffers]
        # With no high-water mark this hands the frames over at once; the future is done when it returns.
        socket.send_multipart(frames)

    def _confirm(self, have: dict[str, tuple[int, int]]) -> None:
        if self._lost is None:
            self._send("control", self.session.msg(wire.ACK, {"have": have}))

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A reader that breaks is a bug of ours; whoever waits for what it reads has to hear of it."""
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self.lose(KernelLost(f"reading from the kernel failed: {type(bug).__name__}: {bug}"))
            asyncio.get_running_loop().call_exception_handler({"message": str(bug), "exception": bug})

    async def _read(self, socket: zmq.asyncio.Socket, take: Callable[[Message], None]) -> None:
        turn = time.monotonic()
        while True:
            frames = await socket.recv_multipart()
            message = self._understand(frames)
            if message is not None:
                take(message)
            if socket is self._iopub:
                self._acks.weigh(sum(map(len, frames)))
            if time.monotonic() - turn > TURN:
                await asyncio.sleep(0)
                turn = time.monotonic()

    def _understand(self, frames: list[bytes]) -> Message | None:
        """Read a message; what is none, has a wrong signature or has come before is passed over."""
        try:
            message: Message = self.session.deserialize(self.session.feed_identities(frames)[1])
        except Exception as exception:
            log.warning("a message from the kernel cannot be read: %s", exception)
            return None
        parts = ("header", "parent_header", "metadata", "content")
        if not all(isinstance(message[part], dict) for part in parts):
            log.warning("a message from the kernel has no Jupyter message's shape")
            return None
        return message

    def _on_reply(self, message: Message) -> None:
        parent = message["parent_header"].get("msg_id", "")
        inlet = self._inlets.get(parent)
        if inlet is not None and message["msg_type"] == "execute_reply":
            inlet.on_reply(message)
            return
        future = self._replies.get(parent)
        if future is not None and not future.done():
            future.set_result(message)

    def _on_iopub(self, message: Message) -> None:
        self._welcomed.set()
        inlet = self._inlets.get(message["parent_header"].get("msg_id", ""))
        if inlet is not None:
            inlet.on_iopub(message)

    def _on_control(self, message: Message) -> None:
        content = message["content"]
        if message["msg_type"] == wire.CALL:
            number = content["call"]
            task = asyncio.get_running_loop().create_task(self._answer(message))
            self._calls[number] = task
            task.add_done_callback(lambda _: self._calls.pop(number, None))
        elif message["msg_type"] == wire.ABANDON:
            call = self._calls.get(content["call"])
            if call is not None:
                call.cancel()
        elif message["msg_type"] == wire.STATE:
            self._on_states(content)
        else:
            self._on_reply(message)

    def _on_states(self, content: dict[str, Any]) -> None:
        states = content.get("states")
        for msg_id, state in states.items() if isinstance(states, dict) else ():
            inlet = self._inlets.get(msg_id)
            if inlet is None:
                # Nobody here wants it: it was another host's.
                self._acks.note(msg_id, wire.ENDED, 2**62)
            elif isinstance(state, dict):
                inlet.on_state(state)

    async def _answer(self, message: Message) -> None:
        content = message["content"]
        answer: dict[str, Any] = {"call": content["call"], "status": "ok"}
        try:
            if self._serve is None:
                raise KernelLost("no tools are served to this kernel")
            args = [wire.unpack(value) for value in content["args"]]
            kwargs = {key: wire.unpack(value) for key, value in content["kwargs"].items()}
            parent = message["parent_header"].get("msg_id")
            value = await self._serve(content["name"], args, kwargs, parent)
            answer["value"] = wire.pack(value, f"the result of {content['name']}")
        except Exception as exception:
            answer |= {"status": "error", "error": str(exception) or type(exception).__name__}
        self._send("control", self.session.msg(wire.RETURN, answer))
