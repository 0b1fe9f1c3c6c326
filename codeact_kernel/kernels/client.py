"""Talks to one kernel over Jupyter's channels, with one reader a socket.

Comes in: a connection file's content. Goes out: `KernelClient`, which sends requests and sorts what comes
back by the request that it belongs to: replies to whoever waits for them, iopub messages to the request's
`Inlet`, calls over the bridge to the `serve` function. A message that cannot be read ends no reader. A channel whose
socket fails while the kernel lives is opened anew, once; the second failure is told to everybody who waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import zmq
from jupyter_client.session import Session

from codeact_kernel.errors import KernelError, KernelLost
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.acks import Acks
from codeact_kernel.kernels.calls import Calls, Serve
from codeact_kernel.kernels.channel import KINDS, Channel
from codeact_kernel.kernels.inlet import Inlet, Message
from codeact_kernel.kernels.large import Large

log = logging.getLogger(__name__)

ARRIVAL = 1.0
"""Seconds that what an old socket still had sent may take to arrive at the kernel; on one machine it takes
milliseconds."""
REMEMBERED = 4096
"""Signatures that are remembered, so that no message is taken twice; outputs have numbers besides."""


class KernelClient:
    """The channels of one kernel.

    Args:
        connection: What the kernel's connection file holds.
    """

    def __init__(self, connection: dict[str, Any]) -> None:
        self._connection = connection
        self._calls = Calls(lambda answer: self._tell(wire.RETURN, answer), self._return_from_thread)
        key = connection["key"]
        self.session = Session(key=key if isinstance(key, bytes) else str(key).encode())
        self.session.digest_history_size = REMEMBERED
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._channels: dict[str, Channel] = {}
        self._takers = {"shell": self._on_reply, "control": self._on_control, "iopub": self._on_iopub}
        self._inlets: dict[str, Inlet] = {}
        """By request; after its end too, until the kernel says that nothing more can come."""
        self._replies: dict[str, tuple[str, asyncio.Future[Message | None]]] = {}
        """Who waits for a reply, and on which channel; None as a reply asks to ask again."""
        self._unanswered: dict[str, bool] = {}
        """Execute requests without a reply, and whether the kernel can be asked about them."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._acks = Acks(lambda have: self._tell(wire.ACK, {"have": have}))
        self._welcomed = asyncio.Event()
        self.lost: KernelError | None = None
        """Why nothing can be asked any more."""
        self._mended: str | None = None
        """The channel that was opened anew."""
        self.on_held: Callable[[dict[str, Any]], None] = lambda about: None
        """Told when requests are kept from going on by another one, and when they go on (`wire.HELD`)."""

    def serve_with(self, serve: Serve | None, large: Large | None = None) -> None:
        """Answer calls from code in the kernel from now on.

        Args:
            serve: What answers them.
            large: What takes results that are too large to travel.
        """
        self._calls.serve, self._calls.large = serve, large

    def connect(self) -> None:
        """Open the sockets, and take what comes."""
        me = self.session.bsession
        for name in KINDS:
            self._channels[name] = Channel(
                self._context, self._connection, name, me, self._take, self._failed
            )

    async def aclose(self) -> None:
        """Close the sockets, and stop what runs. Never raises."""
        self.lost = self.lost or KernelLost("the channels to the kernel are closed")
        self._acks.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._calls.aclose(), return_exceptions=True)
        for channel in self._channels.values():
            channel.close()
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
        while True:
            message = self.session.msg(msg_type, content)
            msg_id = message["header"]["msg_id"]
            self._send(channel, message, buffers)
            future: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
            self._replies[msg_id] = channel, future
            try:
                if (reply := await future) is not None:
                    return reply
            finally:
                self._replies.pop(msg_id, None)

    def execute(self, code: str, meta: dict[str, Any], inlet: Inlet, *, silent: bool = False) -> str:
        """Send an execute request.

        Args:
            code: The code.
            meta: Our fields of its metadata; empty for a kernel that is not ours.
            inlet: Who takes what comes back.
            silent: Whether it is no cell: it is not counted, not kept, and not shown to other clients.

        Returns:
            The request's msg_id.

        Raises:
            KernelError: If the kernel is gone.
        """
        content = {
            "code": code,
            "silent": silent,
            "store_history": not silent,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        message = self.session.msg("execute_request", content)
        message["metadata"] = {wire.KEY: meta} if meta else {}
        msg_id: str = message["header"]["msg_id"]
        self._send("shell", message)
        self._expect(msg_id, inlet, ours=bool(meta))
        return msg_id

    def take_up(self, msg_id: str, inlet: Inlet) -> None:
        """Take what still comes of an execute request that an earlier host has sent.

        Args:
            msg_id: Its msg_id.
            inlet: As in `execute`.
        """
        self._expect(msg_id, inlet, ours=True)

    def _expect(self, msg_id: str, inlet: Inlet, *, ours: bool) -> None:
        self._inlets[msg_id] = inlet
        self._unanswered[msg_id] = ours
        inlet.attach(msg_id, self)

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
        """Tell everybody who waits that the kernel is gone, or cannot be reached.

        Args:
            error: How it went.
        """
        self.lost = error
        for _, future in self._replies.values():
            if not future.done():
                future.set_exception(error)
        for inlet in list(self._inlets.values()):
            inlet.on_lost(error)

    def _send(self, channel: str, message: Message, buffers: Sequence[bytes] = ()) -> None:
        self._send_frames(channel, [*wire.frames_of(self.session, message), *buffers])

    def _send_frames(self, channel: str, frames: list[bytes]) -> None:
        if self.lost is not None:
            raise self.lost
        self._channels[channel].send(frames)

    def _tell(self, msg_type: str, content: dict[str, Any]) -> None:
        """Send what nobody answers."""
        with suppress(KernelError):
            self._send_frames("control", wire.note_of(self.session, msg_type, content))

    def _return_from_thread(self, content: dict[str, Any]) -> bool:
        if self.lost is not None:
            return False
        frames = wire.note_of(self.session, wire.RETURN, content)
        return self._channels["control"].send_from_thread(frames)

    def _failed(self, channel: Channel, error: object) -> None:
        """Open a channel anew whose socket has failed, once in a client's life.

        What was on its way heals: outputs are numbered, the kernel tells again what is not confirmed and what calls it
        waits for, and what was asked is asked again.

        Raises:
            KernelLost: The second time; everybody who waits has heard of it.
        """
        if self.lost is not None:
            raise self.lost
        if self._mended is not None:
            before = "it" if channel.name == self._mended else self._mended
            lost = KernelLost(
                f"the {channel.name} channel to the kernel failed ({error}), and {before} had failed before"
            )
            self.lose(lost)
            raise lost
        log.warning("the %s channel to the kernel failed (%s) and is opened anew", channel.name, error)
        self._mended = channel.name
        channel.reopen()
        for name, future in self._replies.values():
            if name == channel.name and not future.done():
                future.set_result(None)
        if channel.name == "control":
            self._tell(wire.CALLS_AGAIN, {})
            # Whether they still are held may be what was lost; their deadlines must not stand still for ever.
            self.on_held({"by": None, "held": list(self._unanswered)})
        elif channel.name == "shell":
            for msg_id, ours in self._unanswered.items():
                self.spawn(self._find(msg_id, ours))

    async def _find(self, msg_id: str, ours: bool) -> None:
        """See whether an execute request has come to the kernel, though the socket that it was sent on is gone."""
        await asyncio.sleep(ARRIVAL)
        if msg_id not in self._unanswered:
            return
        with suppress(KernelError):
            content = {"msg_id": msg_id}
            known = ours and await self.request(wire.REPLY_AGAIN, content, channel="control")
            if msg_id in self._unanswered and (not known or known["content"].get("status") == "unknown"):
                error = KernelLost(
                    "the shell channel failed while the block was on its way; the kernel has lost it"
                )
                self._inlets[msg_id].on_lost(error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._broken(bug)

    def _broken(self, bug: BaseException) -> None:
        """Reading that breaks is a bug of ours; whoever waits for what is read has to hear of it."""
        self.lose(KernelLost(f"reading from the kernel failed: {type(bug).__name__}: {bug}"))
        asyncio.get_running_loop().call_exception_handler({"message": str(bug), "exception": bug})

    def _take(self, channel: Channel, frames: list[bytes]) -> None:
        try:
            if channel.name == "control" and wire.kind_of(frames) == wire.CALL:
                self._on_calls(frames)
            elif (message := self._understand(frames)) is not None:
                self._takers[channel.name](message)
            if channel.name == "iopub":
                self._acks.weigh(sum(map(len, frames)))
        except Exception as bug:
            channel.close()
            self._broken(bug)

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
            self._unanswered.pop(parent, None)
            inlet.on_reply(message)
            return
        _, future = self._replies.get(parent, ("", None))
        if future is not None and not future.done():
            future.set_result(message)

    def _on_iopub(self, message: Message) -> None:
        self._welcomed.set()
        inlet = self._inlets.get(message["parent_header"].get("msg_id", ""))
        if inlet is not None:
            inlet.on_iopub(message)

    def _on_calls(self, frames: list[bytes]) -> None:
        content = wire.content_of(self.session, frames)
        for call in content["calls"] if content is not None else ():
            inlet = self._inlets.get(call.get("of") or "")
            if inlet is not None:
                # The start of the block that calls may still be on its way, on another socket.
                inlet.on_call(call.get("lane"))
            self._calls.take(call)

    def _on_control(self, message: Message) -> None:
        content = message["content"]
        if message["msg_type"] == wire.ABANDON:
            for number in content["calls"]:
                self._calls.abandon(number)
        elif message["msg_type"] == wire.HELD:
            self.on_held(content)
        elif message["msg_type"] == wire.STATE:
            self._on_states(content)
        elif message["msg_type"] == wire.GONE:
            self._on_gone(content)
        else:
            self._on_reply(message)

    def _on_gone(self, content: dict[str, Any]) -> None:
        for msg_id in content["requests"]:
            # What is still on its way on another socket has somebody who takes it.
            if (inlet := self._inlets.get(msg_id)) is not None and inlet.is_whole:
                del self._inlets[msg_id]

    def _on_states(self, content: dict[str, Any]) -> None:
        states = content.get("states")
        for msg_id, state in states.items() if isinstance(states, dict) else ():
            inlet = self._inlets.get(msg_id)
            if inlet is None:
                # Nobody here wants it: it was another host's.
                self._acks.note(msg_id, wire.ENDED, 2**62)
            elif isinstance(state, dict):
                inlet.on_state(state)
