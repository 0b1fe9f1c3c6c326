"""Reads a checkpoint into a namespace.

Comes in: a folder with `manifest.json` and the files that it names, of a kernel that might do no less than this one:
its pickles are code. Goes out: names bound, and of each other one why it is not.
"""

from __future__ import annotations

import graphlib
import hashlib
import io
import json
import mmap
import os
import pickle
import sys
from collections.abc import Container
from pathlib import Path
from typing import Any

from codeact_kernel.inkernel import functions, parcels
from codeact_kernel.inkernel.checkpoint.writing import MANIFEST, VERSION


def restore(folder: str, place: parcels.Place, taken: Container[str]) -> tuple[list[str], dict[str, str]]:
    """Bind what a checkpoint holds.

    Args:
        folder: Where it lies. Its files may be removed as soon as this returns.
        place: Where its values arrive.
        taken: Names that are something else here.

    Returns:
        The names that are back, and of each other one why it is not.
    """
    manifest = json.loads((Path(folder) / MANIFEST).read_bytes())
    if manifest["python"] != VERSION:
        why = f"Python {manifest['python']} has saved it, and this is Python {VERSION}"
        return [], {name: why for group in manifest["groups"] for name in group["names"]}
    sys.path += [path for path in manifest["path"] if path not in sys.path]
    files, back = _Files(folder), []
    missing: dict[str, str] = {}
    before, functions.arriving.place = getattr(functions.arriving, "place", None), place
    try:
        for group in _in_order(manifest["groups"]):
            try:
                values = files.load(group)
            except BaseException as error:
                missing |= dict.fromkeys(group["names"], _why(error))
                continue
            for name, value in values.items():
                if name in taken:
                    missing[name] = "this name is a tool's here"
                else:
                    place.namespace[name] = value
                    back.append(name)
    finally:
        functions.arriving.place = before
    return back, missing


class _Files:
    """The files of a checkpoint, each mapped, and checked against its digest, once."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, memoryview] = {}

    def load(self, group: dict[str, Any]) -> dict[str, Any]:
        """The values of a group, by name.

        Raises:
            BaseException: Whatever making one of the values raises.
        """
        start, size = group["at"]
        pickled = self._file(group["object"])[start : start + size]
        buffers = [self._file(digest) for digest in group["buffers"]]
        values: dict[str, Any] = pickle.Unpickler(io.BytesIO(pickled), buffers=buffers).load()
        return values

    def _file(self, digest: str) -> memoryview:
        if digest not in self._files:
            with parcels.open_file(str(Path(self._folder, digest))) as file:
                size = os.fstat(file.fileno()).st_size
                whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if size else b"")
            if hashlib.sha256(whole).hexdigest() != digest:
                raise ValueError("its file is damaged")
            self._files[digest] = whole
        return self._files[digest]


def _in_order(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The groups, each after those that it needs."""
    home = {name: number for number, group in enumerate(groups) for name in group["names"]}
    needs = {
        number: {home[name] for name in group["needs"] if name in home} - {number}
        for number, group in enumerate(groups)
    }
    try:
        return [groups[number] for number in graphlib.TopologicalSorter(needs).static_order()]
    except graphlib.CycleError:  # groups of two checkpoints; who comes too early says what it needs
        return groups


def _why(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = ""
    is_ours = isinstance(error, LookupError | ValueError) and text.startswith("it")
    return (
        text if is_ours else f"reading it failed: {type(error).__name__}{f': {text}' if text else ''}"[:200]
    )
