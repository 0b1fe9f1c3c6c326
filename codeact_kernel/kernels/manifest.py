"""The checkpoint of a run, on the disk: its files, and the manifest that says what lies where.

Comes in: what a kernel has written, which may be anything. Goes out: a checkpoint that is there as a whole or not at
all. No pickle is read here.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from codeact_kernel.allowance import Allowance
from codeact_kernel.inkernel import wire
from codeact_kernel.masking import Mask
from codeact_kernel.runfiles import Folder, open_plain

CHECKPOINT, OBJECTS, MANIFEST = "checkpoint", "objects", "manifest.json"
MOST = 2**25
"""Bytes of a manifest that are read; ours: hundred thousand names."""
_VERSION = 1
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FARTHEST = 2**63
"""No file has more bytes."""
_WORDS = 300
"""Characters of a reason."""


class Store:
    """The checkpoint of a run, on the disk.

    Args:
        run: The run's folder.

    Raises:
        OSError: If its folders cannot be made or read.
    """

    def __init__(self, run: Folder) -> None:
        self._folder = run.sub(CHECKPOINT)
        self._objects = self._folder.sub(OBJECTS)
        self.fault = ""
        """Why the manifest cannot be read."""
        self.manifest: dict[str, Any] | None = None
        """What lies where, and since when; None where there is none that can be read."""
        try:
            with open(self._folder.read(MANIFEST), "rb") as file:
                self.manifest = _read(file)
            self.maker = _allowance(self.manifest["maker"])
            float(self.manifest["taken"])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError) as error:
            self.manifest, self.fault = None, f"the checkpoint cannot be read: {error}"

    @property
    def have(self) -> set[str]:
        """The digests of its files. Others may be there, from a host that was ended in the middle."""
        return _digests(self.manifest).intersection(self._objects.names()) if self.manifest else set()

    @property
    def names(self) -> list[str]:
        """The names that it holds."""
        return [name for group in (self.manifest or {"groups": []})["groups"] for name in group["names"]]

    def collect(
        self,
        place: Path,
        at: float,
        maker: Allowance,
        most: int,
        mask: Mask,
    ) -> None:
        """Take what a kernel has written, and sweep what nothing needs any more.

        Args:
            place: Where it lies.
            at: When it was taken.
            maker: What the code in that kernel may do.
            most: Bytes that it may have; what the one before has of names in use may come to it.
            mask: Knows the secrets of the host: what holds one is not kept.

        Raises:
            OSError: If it cannot be moved. The one before is still there.
            ValueError: If it is no checkpoint.
        """
        with open_plain(place / MANIFEST, follow=False) as file:
            manifest = _read(file)
        manifest["groups"] += self._kept(manifest)
        wanted = _digests(manifest)
        new = sorted(wanted - self.have)
        files = [*(place / digest for digest in new), *(self._objects.path / digest for digest in self.have)]
        if sum(file.lstat().st_size for file in files) > 2 * most:
            raise ValueError("it has more bytes than it may")
        for digest in new:
            self._objects.take(place / digest, digest)
        for digest in new:
            self._leave_out(manifest, digest, mask)
        manifest = mask.of(manifest)  # reasons are words of errors
        wanted = _digests(manifest)
        allowed = {**asdict(maker), "network": sorted(maker.network), "tools": sorted(maker.tools)}
        manifest |= {"version": _VERSION, "taken": at, "maker": allowed}
        self._folder.replace(MANIFEST, wire.to_json(manifest))
        for name in set(self._objects.names()) - wanted:
            self._objects.remove(name)

    def _leave_out(self, manifest: dict[str, Any], digest: str, mask: Mask) -> None:
        """Take what of a file holds a secret out of a manifest; the sweep removes the file."""
        with open(self._objects.read(digest), "rb") as file:
            if not mask.is_in(file):
                return
            inside = [group for group in manifest["groups"] if digest in (group["object"], *group["buffers"])]
            kept = self._without_secrets(file, inside, mask) if _is_shared(inside, digest) else []
        for group in inside:
            if group not in kept:
                manifest["groups"].remove(group)
                manifest["missing"] |= dict.fromkeys(group["names"], "it holds a secret of the host")

    def _without_secrets(
        self, file: BinaryIO, groups: list[dict[str, Any]], mask: Mask
    ) -> list[dict[str, Any]]:
        """Put those of the groups that lie in a file and hold no secret into a file of their own, and tell which."""
        if sum(group["at"][1] for group in groups) > os.fstat(file.fileno()).st_size:
            return []
        kept, data = [], b""
        for group in groups:
            file.seek(group["at"][0])
            piece = file.read(group["at"][1])
            if not mask.is_in(io.BytesIO(piece)):
                group["at"] = [len(data), len(piece)]
                kept.append(group)
                data += piece
        digest = hashlib.sha256(data).hexdigest()
        self._objects.replace(digest, data)
        for group in kept:
            group["object"] = digest
        return kept

    def lend(self, place: Path) -> None:
        """Let a kernel read it.

        Args:
            place: Where.
        """
        assert self.manifest is not None
        place.mkdir(mode=0o755)
        (place / MANIFEST).write_bytes(wire.to_json(self.manifest))
        for digest in _digests(self.manifest):
            with suppress(FileNotFoundError):  # said name by name
                self._objects.lend(digest, place / digest)

    def _kept(self, manifest: dict[str, Any]) -> list[dict[str, Any]]:
        """What the one before holds of names that blocks were changing when this one was taken."""
        busy = manifest["busy"]
        kept = [
            group
            for group in (self.manifest or {"groups": []})["groups"]
            if busy.keys() >= set(group["names"])
        ]
        old = {name for group in kept for name in group["names"]}
        manifest["missing"] |= {
            name: f"{block}, which was running, was using it"
            for name, block in busy.items()
            if name not in old
        }
        return kept


def _read(file: BinaryIO) -> dict[str, Any]:
    """Read a manifest.

    Raises:
        ValueError: If it is none.
    """
    try:
        return _checked(json.loads(file.read(MOST)))
    except RecursionError:
        raise ValueError("its manifest is none (RecursionError)") from None


def _digests(manifest: dict[str, Any]) -> set[str]:
    """What a manifest names."""
    return {digest for group in manifest["groups"] for digest in (group["object"], *group["buffers"])}


def _checked(manifest: Any) -> dict[str, Any]:
    """A manifest, as far as it is one: a kernel may have written anything.

    Raises:
        ValueError: If it is none.
    """
    try:
        groups = [_group(group) for group in manifest["groups"]]
        told = {
            key: {str(n): str(why)[:_WORDS] for n, why in manifest[key].items()}
            for key in ("missing", "busy")
        }
        path = [str(folder) for folder in manifest["path"]]
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"its manifest is none ({type(error).__name__})") from None
    rest = {key: manifest[key] for key in ("version", "taken", "maker") if key in manifest}
    return {"groups": groups, **told, "path": path, "python": str(manifest.get("python")), **rest}


def _is_shared(groups: list[dict[str, Any]], digest: str) -> bool:
    """Whether a file has the pickles of several groups, and no buffer."""
    return len(groups) > 1 and all(digest == group["object"] for group in groups)


def _group(group: Any) -> dict[str, Any]:
    digests = [group["object"], *group["buffers"]]
    start, size = group["at"]
    if not all(_DIGEST.fullmatch(digest) for digest in digests):
        raise ValueError("no digest")
    if not type(start) is type(size) is int or not 0 <= start <= start + size < _FARTHEST:
        raise ValueError("no place in a file")
    names, needs = list(group["names"]), list(group["needs"])
    if not all(name.isidentifier() for name in (*names, *needs)):
        raise ValueError("no name")
    return {"names": names, "object": digests[0], "at": [start, size], "buffers": digests[1:], "needs": needs}


def _allowance(maker: Any) -> Allowance:
    return Allowance(**{**maker, "network": frozenset(maker["network"]), "tools": frozenset(maker["tools"])})
