"""IPython's shell, made fit for requests that run side by side.

Comes in: code that a lane wants run for a request. Goes out: its outputs, into that request's outbox, and its
end, into the request. What IPython keeps once per shell and two requests would fight over is looked up in the
current request here: the execution count, the displayhook's result, payloads, the last error.
"""

from __future__ import annotations

import asyncio
import builtins
import importlib
import sys
import threading
from typing import Any, Literal

from ipykernel.jsonutil import json_clean
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.builtin_trap import BuiltinTrap
from IPython.core.display_trap import DisplayTrap
from IPython.core.history import HistoryManager
from IPython.core.payload import PayloadManager
from traitlets import Type

from codeact_kernel.inkernel.display import BlockDisplayHook, BlockDisplayPublisher
from codeact_kernel.inkernel.guarded import GuardedCoroutine
from codeact_kernel.inkernel.magics import AwaitingMagics
from codeact_kernel.inkernel.request import Request, current
from codeact_kernel.inkernel.tracebacks import model_traceback


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


class BlockHistoryManager(HistoryManager):  # type: ignore[misc]
    """Keeps `In` in step with the execution counts, in whatever order requests begin."""

    _storing = threading.Lock()

    def store_inputs(self, line_num: int, source: str, source_raw: str | None = None) -> None:
        """Store a request's code.

        Args:
            line_num: Its execution count, which is its index in `In`.
            source: The code after the transform.
            source_raw: The code as it was sent.
        """
        with self._storing:
            before = len(self.input_hist_parsed)
            super().store_inputs(line_num, source, source_raw)
            request = current.get()
            if request is not None and request.block_id is not None:
                # A person may want _i7; an agent would have thousands of them, and only pay for them.
                for names in (self.shell.user_ns, self.shell.user_ns_hidden):
                    names.pop(f"_i{line_num}", None)
            if len(self.input_hist_parsed) == before:
                return
            for kept in (self.input_hist_parsed, self.input_hist_raw):
                last = kept.pop()
                kept.extend([""] * (line_num + 1 - len(kept)))
                kept[line_num] = last


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
    _loading = threading.RLock()
    _formatting = threading.RLock()
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
        # pygments swaps its module while that is imported: two blocks that need it first would collide.
        importlib.import_module("pygments.lexers").PythonLexer  # noqa: B018
        builtins.__dict__.setdefault("display", sys.modules["IPython.display"].display)

    def init_history(self) -> None:
        """Set up the history."""
        self.history_manager = BlockHistoryManager(shell=self, parent=self)
        self.configurables.append(self.history_manager)
        self.ast_transformers.append(AwaitingMagics(self))

    def _find_with_lazy_load(self, /, type_: Any, magic_name: str) -> Any:
        # Two requests that need one magic for the first time would load it twice at once, and one would fail.
        with self._loading:
            return super()._find_with_lazy_load(type_, magic_name)

    def _inspect(self, *args: Any, **kwargs: Any) -> Any:
        # IPython keeps one inspector and one traceback formatter, each with state of its own: one user at a time.
        with self._formatting:
            return super()._inspect(*args, **kwargs)

    def object_inspect_mime(self, *args: Any, **kwargs: Any) -> Any:
        """Inspect an object for a client."""
        with self._formatting:
            return super().object_inspect_mime(*args, **kwargs)

    def showtraceback(self, *args: Any, **kwargs: Any) -> None:
        """Format and publish an exception."""
        with self._formatting:
            super().showtraceback(*args, **kwargs)

    def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None:
        """Format and publish a syntax error."""
        with self._formatting:
            super().showsyntaxerror(*args, **kwargs)

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
                    guarded = GuardedCoroutine(request.guard, request, coroutine, raw=True)
                    request.coroutines.add(guarded)
                    await guarded
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
    __tracebackhide__ = True
    # The guard is open here: an interrupt from before it was has only left its mark.
    _stop_if_interrupted(request)
    exec(code_obj, global_ns, local_ns)


def _stop_if_interrupted(request: Request) -> None:
    __tracebackhide__ = True
    if request.interrupted:
        raise KeyboardInterrupt


def _text(evalue: BaseException) -> str:
    try:
        return str(evalue)
    except Exception as broken:
        return f"<its __str__ raised {type(broken).__name__}>"
