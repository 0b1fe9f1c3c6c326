"""Takes checkpoints of a namespace, and brings it back, when the host wants it.

Comes in: `CHECKPOINT` and `RESTORE` on the control channel. Goes out: a checkpoint's files in a folder; names bound.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import time
import types
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from codeact_kernel.inkernel import functions, parcels, wire
from codeact_kernel.inkernel.checkpoint.copying import Note, run_in_copy
from codeact_kernel.inkernel.checkpoint.restoring import restore
from codeact_kernel.inkernel.checkpoint.writing import MANIFEST, SLOW, Writer
from codeact_kernel.inkernel.family import Family
from codeact_kernel.inkernel.request import Request

ALL = 120.0
"""Seconds that a checkpoint may take; ours: 1 GB of arrays takes four."""
TRIES = 3
"""How often one is tried when a value's pickling ends the copy: each time without the names that did."""
_OWN = re.compile(r"_+|_i+|_i?\d+|_[iod]h|In|Out|__\w+__|_exit_code")
"""Names that are IPython's or the module's own."""
_MADE = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
"""What is whole as soon as a name is bound to it."""
_FIXED = (str, bytes, int, float, complex, bool, type(None))
"""What a block that only reads a name cannot change."""


class Checkpoints:
    """Takes and restores checkpoints of a namespace.

    Args:
        shell: IPython's shell.
        family: Where what is read arrives.
        live: Gives the requests that have not ended.
        reply: Sends a reply on the control channel: (type, content, parent, identity).
        beside: Runs something beside other control messages.
    """

    def __init__(
        self,
        shell: Any,
        family: Family,
        live: Callable[[], Iterable[Request]],
        reply: Callable[[str, dict[str, Any], Any, Any], None],
        beside: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._shell, self._family, self._live = shell, family, live
        self._reply, self._beside = reply, beside
        self._hopeless: dict[str, tuple[int, str]] = {}
        """Names that are not tried as long as they hold the same object, and why."""

    @property
    def handlers(self) -> dict[str, Callable[[Any, Any, dict[str, Any]], Coroutine[Any, Any, None]]]:
        """What takes which control message."""
        return {wire.CHECKPOINT: self._on_take, wire.RESTORE: self._on_restore}

    async def _on_take(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        wanted = parent["content"]

        async def work() -> None:
            error = await asyncio.to_thread(self.take, **wanted)
            self._reply(wire.CHECKPOINT_REPLY, {"status": "ok", "error": error}, parent, ident)

        self._beside(work())

    async def _on_restore(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        async def work() -> None:
            self._family.ensure_cloudpickle()
            hidden = self._shell.user_ns_hidden
            back, missing = await asyncio.to_thread(
                restore, parent["content"]["folder"], self._family, hidden
            )
            self._reply(wire.RESTORE_REPLY, {"status": "ok", "back": back, "missing": missing}, parent, ident)

        self._beside(work())

    def take(self, folder: str, most: int, room: int, have: Sequence[str]) -> str | None:
        """Take a checkpoint.

        Args:
            folder: Where to; it is made.
            most: Bytes that it may have.
            room: Bytes of memory that taking it may take.
            have: The digests of files that the host has.

        Returns:
            Why there is none; None where there is one.
        """
        if sys.platform != "linux":
            return "checkpoints are taken on Linux only"
        self._family.ensure_cloudpickle()
        parcels.pickler_class()
        names, values, deadline = self.names(), self._shell.user_ns, time.monotonic() + ALL
        for _ in range(TRIES):
            note = Note()
            writer = Writer(folder, values, self.busy(names), self._skipped(names), most, room, have, note)
            Path(folder).mkdir(0o700)
            how = run_in_copy(partial(writer.write, names), note, most + room, deadline)
            if how is None and Path(folder, MANIFEST).exists():
                self._learn(folder)
                return None
            shutil.rmtree(folder, ignore_errors=True)
            if note.text or note.number < 0:
                return note.text or how or "it ended too early"
            # Its pickling has ended the copy, or did not end: the others are saved without it.
            name, why = names[note.number], f"its pickling {how or 'ended the process'}"
            self._hopeless[name] = id(values.get(name)), why
        return why

    def names(self) -> list[str]:
        """The names that a checkpoint shall hold: all that blocks have made."""
        values, hidden = self._shell.user_ns, self._shell.user_ns_hidden
        return [
            name
            for name in list(values)
            if name.isidentifier()
            and not _OWN.fullmatch(name)
            and hidden.get(name, hidden) is not values.get(name)
        ]

    def busy(self, names: Iterable[str]) -> dict[str, str]:
        """Names that a block which runs now may be changing, and that block.

        Args:
            names: Names of the namespace.
        """
        values, busy = self._shell.user_ns, {}
        for request in self._live():
            # One that has its reply is still listed for a moment.
            if request.lane is None or request.ended is not None or request.names is None:
                continue
            touched = self._reached(request.names.needs)
            for name in touched.union(request.names.makes).intersection(names):
                value, only_read = values.get(name), name not in request.names.makes
                if not (isinstance(value, _MADE) or (only_read and type(value) in _FIXED)):
                    busy[name] = request.label
        return busy

    def _reached(self, names: Iterable[str]) -> set[str]:
        """Names, and those that the functions and classes among them read."""
        values, reached, due = self._shell.user_ns, set(), list(names)
        while due:
            name = due.pop()
            if name in reached:
                continue
            reached.add(name)
            for function in _functions_of(values.get(name)):
                if function.__globals__ is values:
                    due += functions.reads(function.__code__)
        return reached

    def _skipped(self, names: Iterable[str]) -> dict[str, str]:
        values, skipped = self._shell.user_ns, {}
        for name in names:
            number, why = self._hopeless.get(name, (None, ""))
            if number == id(values.get(name)):
                skipped[name] = why
        return skipped

    def _learn(self, folder: str) -> None:
        """Take note of the names that took too long."""
        with suppress(FileNotFoundError):
            for name, why in json.loads(Path(folder, SLOW).read_bytes()).items():
                self._hopeless[name] = id(self._shell.user_ns.get(name)), why


def _functions_of(value: Any) -> Iterable[types.FunctionType]:
    if isinstance(value, types.FunctionType):
        return [value]
    parts = vars(value).values() if isinstance(value, type) else ()
    return [part for part in parts if isinstance(part, types.FunctionType)]
