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
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from ipykernel.zmqshell import ZMQInteractiveShell
from traitlets import Any as Anything
from traitlets import Type

from codeact_kernel._version import __version__
from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.admission import Admission
from codeact_kernel.inkernel.agentself import AgentSelf
from codeact_kernel.inkernel.aio import adopt_asyncio
from codeact_kernel.inkernel.aside import Aside
from codeact_kernel.inkernel.asking import AskingKernel
from codeact_kernel.inkernel.bridge import Bridge
from codeact_kernel.inkernel.capture import adopt_captures
from codeact_kernel.inkernel.checkpoint.taking import Checkpoints
from codeact_kernel.inkernel.children import Children
from codeact_kernel.inkernel.control import ControlStream
from codeact_kernel.inkernel.debugging import CodeactDebugger, modules_as_listed
from codeact_kernel.inkernel.delivery import Delivery
from codeact_kernel.inkernel.endings import Endings
from codeact_kernel.inkernel.executor import Executor, Notice
from codeact_kernel.inkernel.family import Family
from codeact_kernel.inkernel.figures import adopt_figures
from codeact_kernel.inkernel.guard import Guard, MainGuard, adopt_callbacks
from codeact_kernel.inkernel.hosting import Hosting, HostWatch
from codeact_kernel.inkernel.keeping import kept_by
from codeact_kernel.inkernel.lanes import AsyncLane, MainLane, WorkerLane
from codeact_kernel.inkernel.magics import code_of_magics
from codeact_kernel.inkernel.names import names_of
from codeact_kernel.inkernel.namespace import knows
from codeact_kernel.inkernel.outbox import Outbox
from codeact_kernel.inkernel.pipes import READER
from codeact_kernel.inkernel.post import SHORT_PATIENCE, IopubPost
from codeact_kernel.inkernel.processes import become_subreaper
from codeact_kernel.inkernel.request import Request, current
from codeact_kernel.inkernel.router import Router
from codeact_kernel.inkernel.shell import CodeactShell
from codeact_kernel.inkernel.spool import Spool
from codeact_kernel.inkernel.stall import StallWatch
from codeact_kernel.inkernel.streams import BlockStream
from codeact_kernel.inkernel.subshells import Subshells
from codeact_kernel.inkernel.syntax import BlockCompiler, adopt_parsing
from codeact_kernel.inkernel.threads import adopt_threads
from codeact_kernel.inkernel.waits import adopt_waits

ASIDE = tuple(
    f"{kind}_request"
    for kind in ("complete", "inspect", "is_complete", "history", "kernel_info", "comm_info")
)
"""Requests that are answered beside the lanes: a person who attaches never waits behind an agent's block."""


class CodeactKernel(AskingKernel):
    """The kernel class that the `codeact` kernelspec starts."""

    implementation = "codeact-kernel"
    implementation_version = __version__
    shell_class = Type(CodeactShell, klass=ZMQInteractiveShell)
    compiler_class = Type(BlockCompiler, klass="ipykernel.compiler.XCachingCompiler")
    debugger_class = Type(CodeactDebugger)
    control_stream = Anything(help="Ours, once it has taken ipykernel's in.")

    def __init__(self, **kwargs: Any) -> None:
        with modules_as_listed():
            super().__init__(**kwargs)
        self.shell.pin_traps()
        builtins.input = self.raw_input
        sys.modules["getpass"].getpass = self.getpass  # type: ignore[attr-defined]
        self.children = Children(READER, self._later, lambda request: kept_by(request, self.shell.user_ns))
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
        self.subshells = Subshells(self.executor)
        self.main_guard = MainGuard(self._on_signal, self._later)
        self.main_lane = MainLane(self._call_soon_in_main, self.main_guard, self.executor.run)
        self.async_lane = AsyncLane(self.executor.run_async, self.main_lane.context.copy, self._later)
        worker_lane = WorkerLane(self.executor.run, self.main_lane.context.copy)
        lanes = {"main": self.main_lane, "async": self.async_lane, "worker": worker_lane}
        self.router = Router(lanes, lambda name: knows(self.shell, name), self.executor.drop)
        self.aside = Aside(self)
        self.control_stream = ControlStream(self.control_stream, self._take_ahead)
        send_on_control = self.control_stream.send_multipart
        self.bridge = Bridge(self._soon_on_control, send_on_control, lambda: self.session)
        self.family = Family(self.shell, self.bridge)
        self.post = IopubPost(lambda: self.session, self.iopub_thread, self._later, self._patience)
        self.delivery = Delivery(send_on_control, lambda: self.session, self._later)
        self.stalls = StallWatch(
            lambda: self.async_lane.home, lambda: self.router.live, self._tell_of_stall, self._later
        )
        self.endings = Endings(
            self.router,
            self.subshells,
            self.executor,
            self.children,
            self.delivery.find,
            self.async_lane,
            self._reply_on_control,
            self._later,
        )
        self.hosting = Hosting(
            self.shell,
            self.bridge,
            self.delivery.owner,
            lambda: self.delivery.known,
            self.family,
            lambda: AgentSelf(self.bridge, self.children, lambda: self.async_lane.home, self.family),
            self.children.told,
            self._reply_on_control,
            self._do_beside,
        )
        self._checkpoints = Checkpoints(
            self.shell, self.family, lambda: self.router.live, self._reply_on_control, self._do_beside
        )
        self.control_handlers |= {
            **self.hosting.handlers,
            **self.endings.handlers,
            **self._checkpoints.handlers,
            **Admission(self.router, self._prepare, self._reply_on_control).handlers,
        }
        self._beside: set[asyncio.Task[None]] = set()

    # -- life ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start serving. That comes last: the first block must find everything adopted."""
        self._main_loop = asyncio.get_event_loop()
        self.main_guard.install()
        self.async_lane.start()
        self.aside.start()
        adopt_parsing()
        adopt_threads()
        adopt_callbacks()
        adopt_captures()
        adopt_figures()
        adopt_asyncio(lambda: self.async_lane.home)
        adopt_waits()
        BlockStream.only_request = staticmethod(self._only_request)
        if os.name == "posix":
            self._adopt_children()
        pipe = os.path.join(self._folder, wire.GONE_PIPE)  # noqa: PTH118
        if os.path.exists(pipe):  # noqa: PTH110
            HostWatch(pipe, lambda host: self._soon_on_control(partial(self.hosting.lose, host))).start()
        super().start()

    def pre_handler_hook(self) -> None:
        """Leave SIGINT to our own handler."""

    def post_handler_hook(self) -> None:
        """Leave SIGINT to our own handler."""

    @property
    def kernel_info(self) -> dict[str, Any]:
        """What a client is told about this kernel."""
        info: dict[str, Any] = super().kernel_info
        return {**info, "supported_features": [*info.get("supported_features", []), "codeact blocks"]}

    # -- the shell channel --------------------------------------------------------------------------------

    async def shell_channel_thread_main(self, msg: Any) -> None:
        """Take execute requests for the router; leave the rest to ipykernel."""
        header = wire.header_of(msg)
        kind = header.get("msg_type")
        if kind in ASIDE and not header.get("subshell_id"):
            self.aside.submit(msg)
        elif kind == "execute_request" and not header.get("subshell_id"):
            request = self._read_request(msg)
            if request is not None:
                self._prepare(request)
                self.delivery.accept(request)
                self.router.accept(request)
                if request.is_async:
                    self.stalls.attend()
        elif kind:
            await super().shell_channel_thread_main(msg)
        else:
            self.log.error("a message that cannot be read")

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
        request.held = bool(request.meta.get("held"))
        if request.block_id is not None:
            request.outbox = Outbox(self.post, parent, self.delivery.owner, Spool(self._folder))
        return request

    @property
    def _folder(self) -> str:
        """Where its own files go: beside its sockets, which may be the only place that it can write."""
        is_ipc = self.parent.transport == "ipc"
        return os.path.dirname(str(self.parent.ip if is_ipc else self.parent.abs_connection_file))  # noqa: PTH120

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
        await self.subshells.run(request)

    async def delete_subshell_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Delete a subshell once it is idle: ipykernel would hold both channels until then."""

        async def delete() -> None:
            await self.subshells.idle(parent["content"].get("subshell_id"))
            await super(CodeactKernel, self).delete_subshell_request(stream, ident, parent)

        self._do_beside(delete())

    # -- ends ---------------------------------------------------------------------------------------------

    def _on_signal(self, running: Request | None) -> bool:
        """Take a SIGINT from outside: the host's means the request that it has noted, any other one all requests."""
        note = os.path.join(self._folder, wire.INTERRUPT_FILE)  # noqa: PTH118
        wanted = {}
        with suppress(OSError), open(note) as file:
            os.unlink(note)  # noqa: PTH108
            wanted = {"msg_id": file.read()}
        if running is not None and wanted.get("msg_id") == running.msg_id:
            return True
        self.control_thread.io_loop.add_callback(self.endings.interrupt, wanted)
        return False

    def _tell_of_stall(self, holder: Request | None, held: list[Request], seconds: float) -> None:
        about = {
            "by": holder and holder.msg_id,
            "held": [request.msg_id for request in held],
            "seconds": seconds,
        }
        idents = self.delivery.owner.idents
        if idents is not None:
            self.control_stream.send_multipart(wire.note_of(self.session, wire.HELD, about, idents))

    def _reply_on_control(self, kind: str, content: dict[str, Any], parent: Any, ident: Any) -> None:
        self.session.send(self.control_stream, kind, content, parent, ident=ident)

    async def debug_request(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """Answer a debugger's client, beside other control messages."""
        self._do_beside(super().debug_request(stream, ident, parent))

    def _do_beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

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

    def _take_ahead(self, frames: list[bytes]) -> bool:
        """Take answers to calls and what is said of outputs at once, ahead of the ordinary control messages."""
        return self.bridge.take(frames) or self.delivery.take(frames)

    # -- what the executor asks for -----------------------------------------------------------------------

    def _enter(self, request: Request) -> None:
        self._running.add(request)
        self.set_parent(request.idents, request.parent)

    def _settle(self, request: Request) -> None:
        if Guard.follower is not None:
            Guard.follower.ended()
        BlockStream.settle()
        self.children.leave(request)

    def _leaves(self, request: Request) -> None:
        self._running.discard(request)
        self.router.leaves(request)

    def _ended(self, request: Request, ok: bool) -> None:
        self.router.ended(request, ok)

    def _publish_for(self, request: Request, notices: list[Notice]) -> None:
        if request.lane is None and request.guard is not None:
            # ipykernel's own way: busy and idle are its.
            notices = [notice for notice in notices if notice[0] != "status"]
        messages = []
        for kind, content, metadata in notices:
            message = self.session.msg(kind, content, parent=request.parent)
            message["metadata"] = {wire.KEY: metadata} if metadata else {}
            messages.append((self._topic(kind), message))
        self.post.send(*messages)
        if any(kind == "execute_input" for kind, _, _ in notices):
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

    def _soon_on_control(self, function: Any) -> None:
        self.control_thread.io_loop.asyncio_loop.call_soon_threadsafe(function)

    def _patience(self) -> float:
        thread, request = threading.current_thread(), current.get()
        serving = (self.iopub_thread.thread, self.control_thread, self.shell_channel_thread, READER.thread)
        if thread in serving:
            return 0.0
        ending = request is not None and request.interrupted
        return SHORT_PATIENCE if ending or thread is self.async_lane.home.thread else math.inf

    def _later(self, delay: float, function: Any) -> None:
        loop = self.iopub_thread.io_loop.asyncio_loop
        loop.call_soon_threadsafe(loop.call_later, delay, function)

    def _call_soon_in_main(self, function: Any) -> None:
        self._main_loop.call_soon_threadsafe(function)
