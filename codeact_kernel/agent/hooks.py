"""Hooks: a caller's own code at the joints of a run.

Comes in: objects with any of the methods of `Hooks`. Goes out: `HookChain`, which calls them in order. A hook
may observe, return something changed, or refuse by raising `Refused`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from codeact_kernel.blocks import BlockResult, CodeBlock, Job
from codeact_kernel.errors import ToolError
from codeact_kernel.events import Reply
from codeact_kernel.messages import ModelRequest
from codeact_kernel.tools import ToolUse


class Refused(Exception):
    """Raised by a hook: what was about to happen does not happen. The text is read by the model.

    In `before_model_call` it ends the run.
    """


class Hooks:
    """What a hook object may have: any of these methods, plain or async. None as a result changes nothing."""

    def before_model_call(self, request: ModelRequest) -> ModelRequest | None:
        """Contract: called before each call to the model; may return another request, or refuse."""

    def after_model_call(self, reply: Reply) -> None:
        """Contract: called with each complete reply. Its blocks may be running already."""

    def before_block(self, job: Job) -> Job | CodeBlock | None:
        """Contract: called before each block starts; may return another block, or refuse."""

    def after_block(self, result: BlockResult) -> BlockResult | None:
        """Contract: called with each end before the model reads it; may return another result."""

    def before_tool_call(self, use: ToolUse) -> ToolUse | None:
        """Contract: called before each tool call from a block; may return other arguments, or refuse."""

    def after_tool_call(self, use: ToolUse, value: Any) -> Any:
        """Contract: called with each result of a tool; may return another."""

    def on_stop(self, answer: str) -> str | None:
        """Contract: called when the model has answered; a text that it returns goes to the model as a note,
        and the run goes on.
        """  # noqa: D205


class HookChain:
    """Calls hooks in order, each with what the one before it left.

    Args:
        hooks: The hook objects.
    """

    def __init__(self, hooks: Sequence[object] = ()) -> None:
        self._hooks = tuple(hooks)

    def has(self, name: str) -> bool:
        """Whether a hook has a method.

        Args:
            name: One of those of `Hooks`.
        """
        return bool(self._with(name))

    async def before_model_call(self, request: ModelRequest) -> ModelRequest:
        """As in `Hooks`."""
        changed: ModelRequest = await self._through("before_model_call", request)
        return changed

    async def after_model_call(self, reply: Reply) -> None:
        """As in `Hooks`."""
        await self._through("after_model_call", reply)

    async def before_block(self, job: Job) -> Job:
        """As in `Hooks`; a block that is returned takes the job's place under its id."""
        for hook in self._with("before_block"):
            changed = await _call(hook, job)
            if isinstance(changed, CodeBlock):
                job = replace(job, block=changed)
            elif changed is not None:
                job = changed
        return job

    async def after_block(self, result: BlockResult) -> BlockResult:
        """As in `Hooks`."""
        changed: BlockResult = await self._through("after_block", result)
        return changed

    async def before_tool_call(self, use: ToolUse) -> ToolUse:
        """As in `Hooks`; a refusal becomes a `ToolError` in the block."""
        try:
            changed: ToolUse = await self._through("before_tool_call", use)
        except Refused as refused:
            raise ToolError(f"{use.name} was refused: {refused}") from refused
        return changed

    async def after_tool_call(self, use: ToolUse, value: Any) -> Any:
        """As in `Hooks`."""
        for hook in self._with("after_tool_call"):
            changed = await _call(hook, use, value)
            value = value if changed is None else changed
        return value

    async def on_stop(self, answer: str) -> str | None:
        """As in `Hooks`: the first text that a hook returns."""
        for hook in self._with("on_stop"):
            more = await _call(hook, answer)
            if more is not None:
                return str(more)
        return None

    async def _through(self, name: str, value: Any) -> Any:
        for hook in self._with(name):
            changed = await _call(hook, value)
            value = value if changed is None else changed
        return value

    def _with(self, name: str) -> list[Any]:
        return [getattr(hook, name) for hook in self._hooks if hasattr(hook, name)]


async def _call(hook: Any, *args: Any) -> Any:
    result = hook(*args)
    return await result if inspect.isawaitable(result) else result
