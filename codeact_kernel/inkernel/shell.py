"""IPython's shell, made fit for requests that run side by side.

Comes in: code that a lane wants run for a request. Goes out: its outputs, into that request's outbox, and its
end, into the request. What IPython keeps once per shell and two requests would fight over is looked up in the
current request here: the execution count, the displayhook's result, payloads, the last error.
"""

from __future__ import annotations

import asyncio
import builtins
import sys
import threading
from typing import Any, Literal

from ipykernel.compiler import XCachingCompiler
from ipykernel.displayhook import ZMQShellDisplayHook
from ipykernel.jsonutil import encode_images, json_clean
from ipykernel.zmqshell import ZMQDisplayPublisher, ZMQInteractiveShell
from IPython.core.builtin_trap import BuiltinTrap
from IPython.core.display_trap import DisplayTrap
from IPython.core.payload import PayloadManager
from traitlets import Type

from codeact_kernel.inkernel.guard import GuardedCoroutine
from codeact_kernel.inkernel.request import Request, current
from codeact_kernel.inkernel.tracebacks import model_traceback


class BlockDisplayHook(ZMQShellDisplayHook):  # type: ignore[misc]
    """Publishes the value of an expression as an output of the request that computed it."""

    _results = threading.Lock()

    @property
    def exec_result(self) -> Any:
        """IPython's result object of the current request."""
        request = current.get()
        return request.exec_result if request else self.__dict__.get("_stray_result")

    @exec_result.setter
    def exec_result(self, value: Any) -> None:
        request = current.get()
        if request:
            request.exec_result = value
        else:
            self.__dict__["_stray_result"] = value

    @property
    def prompt_count(self) -> int:
        """The execution count that a value is shown under."""
        request = current.get()
        return request.count if request else int(super().prompt_count)

    def quiet(self) -> bool:
        """Whether the request's own code ends in a semicolon."""
        request = current.get()
        if request is None:
            return bool(super().quiet())
        return bool(self.semicolon_at_end_of_expression(request.transformed))

    def __call__(self, result: Any = None) -> None:
        """Show a value.

        Args:
            result: The value of an expression; None shows nothing.
        """
        request = current.get()
        if request is None:
            super().__call__(result)
            return
        self.check_for_underscore()
        if result is None or self.quiet():
            return
        errors = request.error
        data, metadata = self.compute_format_data(result)
        if request.error is not errors:
            request.display_failed = True
        with self._results:
            self.update_user_ns(result)
            self.fill_exec_result(result)
            if data:
                self.log_output(data)
        if data:
            content = {"data": json_clean(encode_images(data)), "metadata": metadata}
            content["execution_count"] = request.count
            request.outbox.publish(request.outbox.make("execute_result", content), self.topic)


class BlockDisplayPublisher(ZMQDisplayPublisher):  # type: ignore[misc]
    """Publishes displays as outputs of the request whose code shows them."""

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **kwargs: Any,
    ) -> None:
        """Publish a MIME bundle.

        Args:
            data: The representations, keyed by MIME type.
            metadata: Metadata, keyed by MIME type.
            transient: What only matters live: a display_id.
            update: Whether it replaces what was shown under that display_id.
            **kwargs: What older IPython passes; ignored.
        """
        request = current.get()
        if request is None:
            super().publish(data, metadata, transient=transient, update=update, **kwargs)
            return
        self._validate_data(data, metadata or {})
        content = {"data": encode_images(data), "metadata": metadata or {}, "transient": transient or {}}
        self._send(request, "update_display_data" if update else "display_data", content)

    def clear_output(self, wait: bool = False) -> None:
        """Clear what the request has shown.

        Args:
            wait: Clear only when the next output comes.
        """
        request = current.get()
        if request is None:
            super().clear_output(wait)
            return
        self._send(request, "clear_output", {"wait": wait})

    def _send(self, request: Request, msg_type: str, content: dict[str, Any]) -> None:
        message = request.outbox.make(msg_type, json_clean(content))
        for hook in self._hooks:
            message = hook(message)
            if message is None:
                return
        request.outbox.publish(message, self.topic)


class BlockPayloadManager(PayloadManager):  # type: ignore[misc]
    """Keeps payloads with the request that wrote them."""

    def write_payload(self, data: dict[str, Any], single: bool = True) -> None:
        """Add a payload.

        Args:
            data: The payload.
            single: Whether it replaces the earlier one of the same source.
        """
        request = current.get()
        if request is None:
            super().write_payload(data, single)
            return
        if single:
            request.payload = [old for old in request.payload if old.get("source") != data.get("source")]
        request.payload.append(data)


class BlockCompiler(XCachingCompiler):  # type: ignore[misc]
    """Names the code of an agent's block after the block, so that tracebacks say where they are."""

    def get_code_name(self, raw_code: str, code: str, number: int) -> str:
        """The file name of a block's code; an ordinary cell's is what the debugger expects."""
        request = current.get()
        if request is None or request.block_id is None:
            return str(super().get_code_name(raw_code, code, number))
        return f"<block {request.block_id}>"

    def format_code_name(self, name: str) -> tuple[str, str] | None:
        """How a traceback for people calls that code."""
        if name.startswith("<block ") and name.endswith(">"):
            return "Block", name[7:-1]
        named: tuple[str, str] | None = super().format_code_name(name)
        return named


class _PinnedBuiltins(BuiltinTrap):  # type: ignore[misc]
    """IPython's builtins, put in place once: two requests that nest cannot take them away from each other."""

    def __enter__(self) -> _PinnedBuiltins:
        return self

    def __exit__(self, *exc: object) -> Literal[False]:
        return False


class _PinnedDisplay(DisplayTrap):  # type: ignore[misc]
    """The same for `sys.displayhook`."""

    def __enter__(self) -> _PinnedDisplay:
        return self

    def __exit__(self, *exc: object) -> Literal[False]:
        return False


class CodeactShell(ZMQInteractiveShell):  # type: ignore[misc]
    """The shell of our kernel."""

    displayhook_class = Type(BlockDisplayHook)
    display_pub_class = Type(BlockDisplayPublisher)

    _counting = threading.Lock()
    _count = 1

    @property
    def execution_count(self) -> int:
        """The current request's count as IPython expects to see it; outside of any, the next one."""
        request = current.get()
        return request.shown_count if request else self._count

    @execution_count.setter
    def execution_count(self, value: int) -> None:
        request = current.get()
        if request:
            request.shown_count = value
        else:
            self._count = value

    def count_request(self, request: Request) -> None:
        """Give a request its execution count."""
        with self._counting:
            request.count = request.shown_count = self._count
            if request.store_history:
                self._count += 1

    def pin_traps(self) -> None:
        """Put IPython's builtins and displayhook in place for good."""
        pinned: Any = _PinnedBuiltins(self)
        pinned.activate()
        self.builtin_trap = pinned
        self.display_trap = _PinnedDisplay(hook=self.displayhook)
        sys.displayhook = self.displayhook
        builtins.__dict__.setdefault("display", sys.modules["IPython.display"].display)

    def init_payload(self) -> None:
        """Set up payloads."""
        self.payload_manager = BlockPayloadManager(parent=self)
        self.configurables.append(self.payload_manager)

    def ask_exit(self) -> None:
        """Answer `exit` and `quit`: they end an agent's block, and an ordinary client's session."""
        request = current.get()
        if request is not None and request.block_id is not None:
            raise SystemExit("exit() ends the block; the kernel and its names live on")
        super().ask_exit()

    async def run_code(self, code_obj: Any, result: Any = None, *, async_: bool = False) -> bool:
        """Run compiled code for the current request; only here can an interrupt land.

        Args:
            code_obj: The code.
            result: IPython's result object, which takes the exception.
            async_: Whether the code is a coroutine's.

        Returns:
            Whether it raised.
        """
        request = current.get()
        if request is None or request.guard is None:
            return bool(await super().run_code(code_obj, result, async_=async_))
        __tracebackhide__ = "__ipython_bottom__"
        try:
            try:
                if async_:
                    _stop_if_interrupted(request)
                    coroutine = eval(code_obj, self.user_global_ns, self.user_ns)
                    request.awaiting = True
                    await GuardedCoroutine(request.guard, request, coroutine, raw=True)
                else:
                    request.guard.call(request, _run, request, code_obj, self.user_global_ns, self.user_ns)
            except asyncio.CancelledError as cancelled:
                if not request.interrupted:
                    raise
                raise KeyboardInterrupt().with_traceback(cancelled.__traceback__) from None
            finally:
                request.awaiting = False
        except BaseException as exception:
            if result is not None:
                result.error_in_exec = exception
            request.error_text = model_traceback(exception)
            if isinstance(exception, SystemExit):
                self.showtraceback(exception_only=True)
            elif isinstance(exception, self.custom_exceptions):
                self.CustomTB(type(exception), exception, exception.__traceback__)
            else:
                self.showtraceback(running_compiled_code=True)
            return True
        return False

    def _showtraceback(self, etype: type, evalue: BaseException, stb: list[str]) -> None:
        request = current.get()
        if request is None:
            super()._showtraceback(etype, evalue, stb)
            return
        content = {"ename": etype.__name__, "evalue": _text(evalue), "traceback": stb}
        request.error = json_clean(content)
        if request.error_text is None:
            request.error_text = model_traceback(evalue)
        topic = self.displayhook.topic.replace(b"execute_result", b"error")
        request.outbox.publish(request.outbox.make("error", request.error), topic)
        self._last_traceback = stb


def _run(request: Request, code_obj: Any, global_ns: dict[str, Any], local_ns: dict[str, Any]) -> None:
    # The guard is open here: an interrupt from before it was has only left its mark.
    _stop_if_interrupted(request)
    exec(code_obj, global_ns, local_ns)


def _stop_if_interrupted(request: Request) -> None:
    if request.interrupted:
        raise KeyboardInterrupt


def _text(evalue: BaseException) -> str:
    try:
        return str(evalue)
    except Exception as broken:
        return f"<its __str__ raised {type(broken).__name__}>"
