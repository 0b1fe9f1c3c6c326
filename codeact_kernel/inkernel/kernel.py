"""Our kernel: an IPython kernel that runs requests side by side.

Comes in: Jupyter messages on the shell and control channels. Goes out: replies and iopub messages, as an
ordinary IPython kernel's, with our fields in their metadata (see `wire`).

The shell channel's thread reads each execute request, transforms it, and gives it to the router; everything
else on that channel takes ipykernel's own way. Subshells are ipykernel's, too: a request that names one runs
there, after the ones before it.
"""

from __future__ import annotations

import asyncio
import builtins
import math
import os
import signal
import sys
import threading
from functools import partial
from typing import Any

import ipykernel
from ipykernel.ipkernel import IPythonKernel
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.error import StdinNotImplementedError
from traitlets import Type

from codeact_kernel._version import __version__
from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.aio import adopt_asyncio
from codeact_kernel.inkernel.aside import Aside
from codeact_kernel.inkernel.bridge import Bridge
from codeact_kernel.inkernel.capture import adopt_captures
from codeact_kernel.inkernel.children import Children
from codeact_kernel.inkernel.delivery import Delivery
from codeact_kernel.inkernel.executor import Executor
from codeact_kernel.inkernel.figures import adopt_figures
from codeact_kernel.inkernel.guard import Guard, MainGuard
from codeact_kernel.inkernel.lanes import SECOND_STAGE, AsyncLane, MainLane, WorkerLane
from codeact_kernel.inkernel.magics import code_of_magics
from codeact_kernel.inkernel.names import names_of
from codeact_kernel.inkernel.namespace import knows, seed
from codeact_kernel.inkernel.outbox import Outbox
from codeact_kernel.inkernel.pipes import READER
from codeact_kernel.inkernel.post import SHORT_PATIENCE, IopubPost
from codeact_kernel.inkernel.processes import become_subreaper
from codeact_kernel.inkernel.request import Request, current
from codeact_kernel.inkernel.router import Router
from codeact_kernel.inkernel.shell import BlockCompiler, CodeactShell
from codeact_kernel.inkernel.spool import Spool
from codeact_kernel.inkernel.streams import BlockStream
from codeact_kernel.inkernel.threads import adopt_threads
from codeact_kernel.inkernel.tools import install_tools

ASIDE = tuple(
    f"{kind}_request"
    for kind in ("complete", "inspect", "is_complete", "history", "kernel_info", "comm_info")
)
"""Requests that are answered beside the lanes: a person who attaches never waits behind an agent's block."""

NO_INPUT = (
    "input() has nobody to ask: this block runs unattended. Put the value into the code, or ask the person in "
    "your reply."
)


class CodeactKernel(IPythonKernel):  # type: ignore[misc]
    """The kernel class that the `codeact` kernelspec starts."""

    implementation = "codeact-kernel"
    implementation_version = __version__
    shell_class = Type(CodeactShell, klass=ZMQInteractiveShell)
    compiler_class = Type(BlockCompiler, klass="ipykernel.compiler.XCachingCompiler")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shell.pin_traps()
        builtins.input = self.raw_input
        sys.modules["getpass"].getpass = self.getpass  # type: ignore[attr-defined]
        self.children = Children(READER, self._later)
        self._running: set[Request] = set()
        self.executor = Executor(
            self.shell,
            self._publish_for,
            self._reply_to,
            self._enter,
            self._settle,
            self._leaves,
            self._ended,
        )
        self.main_guard = MainGuard(self._interrupt_all_soon)
        self.main_lane = MainLane(self._call_soon_in_main, self.main_guard, self.executor.run)
        self.async_lane = AsyncLane(self.executor.run_async, self.main_lane.context.copy)
        worker_lane = WorkerLane(self.executor.run, self.main_lane.context.copy)
        lanes = {"main": self.main_lane, "async": self.async_lane, "worker": worker_lane}
        self.router = Router(lanes, lambda name: knows(self.shell, name), self.executor.drop)
        self.aside = Aside(self)
        self.bridge = Bridge(self._send_on_control, lambda: self.session)
        self.post = IopubPost(lambda: self.session, self.iopub_thread, self._later, self._patience)
        self.delivery = Delivery(self._send_on_control, lambda: self.session, self._later)
        self.control_handlers |= {
            wire.OPEN: self.open_request,
            wire.SEED: self.seed_request,
            wire.END_CHILDREN: self.end_children_request,
        }
        self._ending: set[asyncio.Task[None]] = set()

    # -- life ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start serving."""
        super().start()
        self._main_loop = asyncio.get_event_loop()
        self.main_guard.install()
        self.async_lane.start()
        self.aside.start()
        adopt_threads()
        adopt_captures()
        adopt_figures()
        adopt_asyncio(self.async_lane.loop, self.async_lane.thread)
        BlockStream.only_request = staticmethod(self._only_request)
        if os.name == "posix":
            self._adopt_children()

    def pre_handler_hook(self) -> None:
        """Leave SIGINT to our own handler."""

    def post_handler_hook(self) -> None:
        """Leave SIGINT to our own handler."""

    @property
    def kernel_info(self) -> dict[str, Any]:
        """What a client is told about this kernel."""
        return {**super().kernel_info, "supported_features": [*self._features(), "codeact blocks"]}

    def _features(self) -> list[str]:
        return list(super().kernel_info.get("supported_features", []))

    # -- the shell channel --------------------------------------------------------------------------------

    async def shell_channel_thread_main(self, msg: Any) -> None:
        """Take execute requests for the router; leave the rest to ipykernel."""
        header = self._peek(msg)
        if header is None:
            return
        if header.get("subshell_id") or header["msg_type"] not in ("execute_request", *ASIDE):
            await super().shell_channel_thread_main(msg)
        elif header["msg_type"] in ASIDE:
            self.aside.submit(msg)
        else:
            request = self._read_request(msg)
            if request is not None:
                self._prepare(request)
                self.delivery.accept(request)
                self.router.accept(request)

    def _peek(self, msg: Any) -> dict[str, Any] | None:
        try:
            _, frames = self.session.feed_identities(msg, copy=False)
            header: dict[str, Any] = self.session.deserialize(frames, content=False, copy=False)["header"]
        except Exception:
            self.log.exception("a message that cannot be read")
            return None
        return header

    def _read_request(self, msg: Any) -> Request | None:
        try:
            idents, frames = self.session.feed_identities(msg, copy=False)
            parent = self.session.deserialize(frames, content=True, copy=False)
            str(parent["content"]["code"])
        except Exception:
            self.log.exception("a message that cannot be read")
            return None
        return self._make_request(idents, parent)

    def _make_request(self, idents: Any, parent: dict[str, Any]) -> Request:
        request = Request(idents, parent, Outbox(self.post, parent))
        if request.block_id is not None:
            folder = os.path.dirname(self.parent.abs_connection_file)  # noqa: PTH120
            request.outbox = Outbox(self.post, parent, self.delivery.owner, Spool(folder))
        return request

    def _prepare(self, request: Request) -> None:
        try:
            request.transformed = self.shell.transform_cell(request.code)
        except Exception:
            request.transformed = request.code
            request.transform_error = sys.exc_info()
        inside = code_of_magics(self.shell, request.transformed)
        request.is_async = self.shell.should_run_async(
            request.code,
            transformed_cell=request.transformed if inside is None else inside,
            preprocessing_exc_tuple=request.transform_error,
        )
        request.names = names_of(request.transformed)

    async def execute_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Run a request that came by ipykernel's own way: one for a subshell, or on the control channel.

        Busy and idle around it, and the order, are ipykernel's.
        """
        request = self._make_request(ident, parent)
        self._prepare(request)
        request.guard = Guard()
        token = current.set(request)
        try:
            if request.is_async:
                await self.executor.run_async(request)
            else:
                self.executor.run(request)
        finally:
            current.reset(token)

    # -- interrupts ---------------------------------------------------------------------------------------

    async def interrupt_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Interrupt the request that is named, or each live one where none is."""
        named = parent["content"].get("msg_id")
        for msg_id in [request.msg_id for request in self.router.live] if named is None else [named]:
            self._interrupt(msg_id)
        self.session.send(stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident)

    def _interrupt_all_soon(self) -> None:
        def interrupt_all() -> None:
            for request in self.router.live:
                self._interrupt(request.msg_id)

        self.control_thread.io_loop.add_callback(interrupt_all)

    def _interrupt(self, msg_id: str) -> None:
        running = [request for request in list(self._running) if request.msg_id == msg_id]
        self.router.interrupt(msg_id)
        for request in running:
            self._interrupt_children(request)
            if request.lane == "async":
                # Code there that was about to start a child and wait for it, without await, does so by now.
                self._later(SECOND_STAGE, partial(self._interrupt_children, request, again=True))

    def _interrupt_children(self, request: Request, *, again: bool = False) -> None:
        # After the request itself: a thread that waits for a child finds its own interrupt when the child ends.
        # The async lane has only cancelled at first, which code that waits without await would not notice.
        if not again or self.async_lane.guard.is_open_for(request):
            self.children.interrupt(request, partial(self.async_lane.guard.interrupt, request))

    # -- children -----------------------------------------------------------------------------------------

    async def end_children_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """End the processes of the request that is named, or of all, beside other control messages."""

        async def end() -> None:
            msg_id = parent["content"].get("msg_id")
            request = self.children.find(msg_id)
            ended = await self.children.end(request) if request is not None or msg_id is None else []
            content = {"status": "ok", "ended": ended}
            self.session.send(stream, wire.END_CHILDREN_REPLY, content, parent, ident=ident)

        task = asyncio.get_running_loop().create_task(end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        """End all children; the rest is ipykernel's."""
        await self.children.end_all()
        content: dict[str, Any] = super().do_shutdown(restart)
        return content

    def _adopt_children(self) -> None:
        from codeact_kernel.inkernel.commands import adopt_commands
        from codeact_kernel.inkernel.spawning import adopt_children

        READER.start()
        become_subreaper()
        adopt_children(self.children, on_interrupt=signal.getsignal(signal.SIGINT))
        adopt_commands(self.children)

    def _only_request(self) -> Request | None:
        running = list(self._running)
        return running[0] if len(running) == 1 else None

    # -- the bridge ---------------------------------------------------------------------------------------

    async def dispatch_control(self, msg: Any) -> None:
        """Take answers to calls and what is said of outputs at once, ahead of the ordinary control messages."""
        if not (self.bridge.take(msg) or self.delivery.take(msg)):
            await super().dispatch_control(msg)

    async def open_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Open the bridge to the host that asks, and bind its tools."""
        self.bridge.open(ident)
        self.delivery.owner.come(ident)
        install_tools(self.shell, self.bridge, parent["content"])
        content = {
            "status": "ok",
            "protocol": wire.PROTOCOL,
            "python": sys.version.split()[0],
            "ipykernel": ipykernel.__version__,
            "pid": os.getpid(),
        }
        self.session.send(stream, wire.OPEN_REPLY, content, parent, ident=ident)

    async def seed_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Bind values that the host sends."""
        values = dict(zip(parent["content"]["names"], map(bytes, parent["buffers"]), strict=True))
        content = {"status": "ok", "failed": seed(self.shell, values, parent["content"]["cloudpickle"])}
        self.session.send(stream, wire.SEED_REPLY, content, parent, ident=ident)

    # -- input --------------------------------------------------------------------------------------------

    def raw_input(self, prompt: object = "") -> str:
        """Ask the client of the current request for a line of text."""
        self._check_stdin()
        request = current.get()
        if request is None:
            return str(super().raw_input(prompt))
        return str(self._input_request(str(prompt), request.idents, request.parent, password=False))

    def getpass(self, prompt: str = "", stream: Any = None, **kwargs: Any) -> str:
        """Ask the client of the current request for a password."""
        self._check_stdin()
        request = current.get()
        if request is None:
            return str(super().getpass(prompt, stream, **kwargs))
        return str(self._input_request(prompt, request.idents, request.parent, password=True))

    def _check_stdin(self) -> None:
        request = current.get()
        if request is not None and not request.allow_stdin:
            raise StdinNotImplementedError(
                NO_INPUT if request.block_id else "this frontend does not support input requests"
            )

    # -- what the executor asks for -----------------------------------------------------------------------

    def _enter(self, request: Request) -> None:
        self._running.add(request)
        self.set_parent(request.idents, request.parent)

    def _settle(self, request: Request) -> None:
        BlockStream.settle()
        self.children.leave(request)

    def _leaves(self, request: Request) -> None:
        self._running.discard(request)
        self.router.leaves(request)

    def _ended(self, request: Request, ok: bool) -> None:
        self.router.ended(request, ok)

    def _publish_for(
        self, msg_type: str, content: dict[str, Any], request: Request, metadata: dict[str, Any]
    ) -> None:
        if msg_type == "status" and (request.lane is None and request.guard is not None):
            return
        message = self.session.msg(msg_type, content, parent=request.parent)
        if metadata:
            message["metadata"] = {wire.KEY: metadata}
        self.post.send(message, self._topic(msg_type))
        if msg_type == "execute_input":
            self.delivery.owner.stir(request.msg_id)

    def _reply_to(self, request: Request, content: dict[str, Any], meta: dict[str, Any]) -> None:
        metadata = {"started": request.parent["header"]["date"], wire.KEY: meta, "status": content["status"]}
        message = self.session.msg("execute_reply", content, parent=request.parent)
        message["metadata"] = metadata
        self.delivery.end(request, content, metadata)
        self.in_shell_channel(wire.frames_of(self.session, message, request.idents))

    def in_shell_channel(self, frames: list[bytes]) -> None:
        """Send frames on the shell channel, from any thread."""
        thread = self.shell_channel_thread
        if threading.current_thread() is thread:
            self.shell_stream.send_multipart(frames)
        else:
            thread.io_loop.asyncio_loop.call_soon_threadsafe(self.shell_stream.send_multipart, frames)

    def _send_on_control(self, frames: list[bytes]) -> None:
        loop = self.control_thread.io_loop.asyncio_loop
        loop.call_soon_threadsafe(self.control_stream.send_multipart, frames)

    def _patience(self) -> float:
        thread, request = threading.current_thread(), current.get()
        if thread in (self.iopub_thread.thread, self.control_thread, self.shell_channel_thread):
            return 0.0
        ending = request is not None and request.interrupted
        return SHORT_PATIENCE if ending or thread is self.async_lane.thread else math.inf

    def _later(self, delay: float, function: Any) -> None:
        loop = self.iopub_thread.io_loop.asyncio_loop
        loop.call_soon_threadsafe(loop.call_later, delay, function)

    def _call_soon_in_main(self, function: Any) -> None:
        self._main_loop.call_soon_threadsafe(function)
