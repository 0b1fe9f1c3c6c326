"""Runs one request in the thread of its lane, from its first message on iopub to its reply.

Comes in: a request that its lane has begun. Goes out: busy, execute_input, its outputs, exactly one reply, and
exactly one idle, whatever its code raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from ipykernel.jsonutil import json_clean

from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.figures import drawing
from codeact_kernel.inkernel.forked import leave_if_copy
from codeact_kernel.inkernel.namespace import visible_names
from codeact_kernel.inkernel.request import Request
from codeact_kernel.inkernel.shell import CodeactShell

Notice = tuple[str, dict[str, Any], dict[str, Any]]
"""A status or an execute_input: its type, content and metadata."""
Publish = Callable[[Request, list[Notice]], None]
Reply = Callable[[Request, dict[str, Any], dict[str, Any]], None]

BUSY: Notice = ("status", {"execution_state": "busy"}, {})
IDLE: Notice = ("status", {"execution_state": "idle"}, {})


class Executor:
    """Runs requests.

    Args:
        shell: The shell.
        publish: Sends notices of a request.
        reply: Sends the execute_reply: (request, content, metadata).
        enter: Called in the lane's thread before anything else, to set the parent message there.
        settle: Called when its code has ended: brings in what was written elsewhere for it.
        leaves: Told when a request has only its reply left to send.
        ended: Told of each end: (request, whether it ended well).
    """

    def __init__(
        self,
        shell: CodeactShell,
        publish: Publish,
        reply: Reply,
        enter: Callable[[Request], None],
        settle: Callable[[Request], None],
        leaves: Callable[[Request], None],
        ended: Callable[[Request, bool], None],
    ) -> None:
        self._shell = shell
        self._publish = publish
        self._reply = reply
        self._enter = enter
        self._settle = settle
        self._leaves = leaves
        self._ended = ended

    def run(self, request: Request) -> None:
        """Run a request without await to its end. Never raises."""
        with self._outermost(request):
            running = self._run_cell(request)
            try:
                running.send(None)
            except StopIteration:
                pass
            else:
                running.close()
                raise RuntimeError("code that was routed as synchronous awaited something")

    async def run_async(self, request: Request) -> None:
        """Run a request with await to its end. Raises nothing of the request's."""
        with self._outermost(request):
            await self._run_cell(request)

    def drop(self, request: Request, status: str, reason: str) -> None:
        """Answer a request that does not run.

        Args:
            request: The request.
            status: "skipped", "cancelled" or "aborted".
            reason: Why, as half a sentence.
        """
        self._publish(request, [BUSY])
        request.ended = time.time()
        try:
            meta = {"outputs": 0, "lane": None, "skipped": reason, "how": status, "notes": request.notes}
            self._reply(request, {"status": "aborted"}, meta)
        finally:
            self._publish(request, [IDLE])
            self._ended(request, False)

    @contextmanager
    def _outermost(self, request: Request) -> Generator[None]:
        """Everything that must happen around a request, whatever happens inside."""
        broken: BaseException | None = None
        try:
            self._shell.count_request(request)
            self._enter(request)
            self._publish(request, [BUSY] if request.silent else [BUSY, _input_of(request)])
            request.begin()
            yield
        except BaseException as exception:
            broken = exception
        finally:
            if request.guard is not None:
                request.guard.close()
            self._finish(request, broken)

    def cut_off(self, request: Request, living: list[str]) -> bool:
        """Answer a request whose code does not end; what it still does is nobody's.

        Args:
            request: The request.
            living: What of it lives on, in words.

        Returns:
            Whether it had not been answered before.
        """
        if not request.answered.acquire(blocking=False):
            return False
        request.is_cut_off, request.ended = True, time.time()
        request.outbox.close()
        content = {"status": "aborted", "execution_count": request.count}
        meta = self._reply_meta(request) | {"how": "cut off", "living": living}
        try:
            self._reply(request, content, meta)
        finally:
            self._publish(request, [IDLE])
            self._ended(request, False)
        return True

    def _finish(self, request: Request, broken: BaseException | None) -> None:
        if not request.answered.acquire(blocking=False):
            self._leaves(request)
            return
        request.ended = time.time()
        try:
            self._settle(request)
            request.outbox.flush()
            content, meta = self._reply_content(request, broken), self._reply_meta(request)
        except BaseException as exception:
            content, meta = self._failed_reply(request, exception)
        self._leaves(request)
        try:
            self._reply(request, content, meta)
        finally:
            self._publish(request, [IDLE])
            self._ended(request, content["status"] == "ok")

    async def _run_cell(self, request: Request) -> None:
        shell = self._shell
        result = None
        try:
            result = await shell.run_cell_async(
                request.code,
                store_history=request.store_history,
                silent=request.silent,
                transformed_cell=request.transformed,
                preprocessing_exc_tuple=request.transform_error,
                cell_id=(request.parent.get("metadata") or {}).get("cellId"),
            )
        finally:
            leave_if_copy(result and result.error_in_exec)
            # What a block left redirected shall not swallow its figures, nor its traceback.
            request.captures.clear()
            with drawing():
                shell.events.trigger("post_execute")
            if not request.silent:
                shell.events.trigger("post_run_cell", result)
        error = result.error_before_exec or result.error_in_exec
        if error is not None and request.error is None:
            request.error = {"ename": type(error).__name__, "evalue": str(error), "traceback": []}
        elif error is None and not request.display_failed:
            request.error = None

    def _reply_content(self, request: Request, broken: BaseException | None) -> dict[str, Any]:
        content: dict[str, Any] = {"execution_count": request.count, "payload": request.payload}
        content["user_expressions"] = {}
        error = request.error
        if broken is not None and error is None:
            error = {"ename": type(broken).__name__, "evalue": str(broken), "traceback": []}
            request.error_text = request.error_text or f"{error['ename']}: {error['evalue']}"
        if error is not None:
            return json_clean({**content, **error, "status": "error"})  # type: ignore[no-any-return]
        wanted = request.content.get("user_expressions") or {}
        content["user_expressions"] = self._shell.user_expressions(wanted)
        return json_clean({**content, "status": "ok"})  # type: ignore[no-any-return]

    def _failed_reply(
        self, request: Request, exception: BaseException
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """A reply in spite of a fault of ours, or of a user's object that we looked at."""
        text = f"the kernel could not write its reply: {type(exception).__name__}: {exception}"
        error = {"ename": type(exception).__name__, "evalue": str(exception), "traceback": []}
        content = {**error, "status": "error", "execution_count": request.count, "payload": []}
        return content, {"outputs": request.outbox.count, "lane": request.lane, "error": text}

    def _reply_meta(self, request: Request) -> dict[str, Any]:
        meta: dict[str, Any] = {"outputs": request.outbox.count, "lane": request.lane}
        meta["started"], meta["ended"] = request.started, request.ended
        if request.block_id is not None:
            meta["error"] = request.error_text if request.error is not None else None
            meta["notes"] = [
                *(f"it waited for {name}, which {maker} makes" for name, maker in request.waited),
                *request.notes,
            ]
            meta["names"] = visible_names(self._shell)
            meta["insisted_on"], meta["shut_down"] = request.insisted_on, request.shut_down
        return {**meta, "protocol": wire.PROTOCOL}


def _input_of(request: Request) -> Notice:
    content = {"code": request.code, "execution_count": request.count}
    return "execute_input", content, {"lane": request.lane}
