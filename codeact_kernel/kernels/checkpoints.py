"""Checkpoints of a kernel's namespace, in the folder of its run: when they are taken, and where they lie.

Comes in: ends of blocks. Goes out: `checkpoint/objects/<sha256>`, each file named by what is in it and written once,
and `checkpoint/manifest.json`, replaced in one step; and, the other way round, names bound in a fresh process.

The kernel writes where it can, and what it has written is moved from there. The host reads no pickle. A kernel reads
them, if the one that has made them might do no less.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from codeact_kernel.allowance import Allowance
from codeact_kernel.errors import KernelError
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.process import KernelProcess
from codeact_kernel.runfiles import Folder, open_plain

log = logging.getLogger(__name__)

CHECKPOINT, OBJECTS, MANIFEST = "checkpoint", "objects", "manifest.json"
SHARE = 0.05
"""The share of time that may go into checkpoints; ours: as for the record."""
CALM = 0.2
"""Seconds after a block's end before one is taken, so that the next block is not held up by the fork."""
EVERY = 2.0
"""Seconds between two of them, at least."""
AT_END = 5.0
"""Seconds that the last one may take, when a kernel is left."""
PATIENCE = 150.0
"""Seconds after which a checkpoint, or bringing one back, has failed. The kernel gives up after 120 itself."""
MOST = 2**25
"""Bytes of a manifest that are read; ours: hundred thousand names."""
_VERSION = 1
_DIGEST = re.compile(r"[0-9a-f]{64}")
_WORDS = 300


@dataclass(frozen=True, slots=True)
class Restored:
    """What came back of a checkpoint."""

    back: tuple[str, ...] = ()
    """The names that are bound again."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """The other names that there were, and why each is not back."""
    taken: float | None = None
    """When the checkpoint was taken, in seconds since the epoch; None where there was none."""
    fault: str = ""
    """Why nothing could be brought back, where there was a checkpoint."""

    @property
    def at(self) -> str:
        """When it was taken, as a time of day; empty where there was none."""
        return _time_of_day(self.taken)


class Checkpoints:
    """The checkpoints of one kernel.

    Args:
        folder: Gives the folder of the run, open; None where there is none (yet).
        most: Bytes that a checkpoint may have; 0 for none at all.
        allowance: What the code in this kernel may do.
        at_end: Whether a last one is taken when the kernel is left.
    """

    def __init__(
        self,
        folder: Callable[[], Folder | None] = lambda: None,
        most: int = 0,
        allowance: Allowance | None = None,
        *,
        at_end: bool = True,
    ) -> None:
        self._folder, self._most, self._at_end = folder, most, at_end
        self._allowance = allowance or Allowance()
        self._ended = asyncio.Event()
        self._busy = asyncio.Lock()
        self._number = 0
        self.fault = ""
        """Why the latest one could not be taken."""
        self.taken: float | None = None
        """When the latest one was taken."""

    @property
    def at(self) -> str:
        """When the latest one was taken, as a time of day; empty where there is none."""
        return _time_of_day(self.taken)

    def stir(self) -> None:
        """Take note that a block has ended: the namespace is another one."""
        self._ended.set()

    async def keep(self, process: KernelProcess) -> None:
        """Take checkpoints of a process after blocks have ended, for as long as it lives."""
        while self._most:
            await self._ended.wait()
            await asyncio.sleep(CALM)
            began = time.monotonic()
            await self.take(process)
            spent = time.monotonic() - began
            await asyncio.sleep(max(EVERY, spent / SHARE - spent))

    async def close(self, process: KernelProcess) -> None:
        """Take the last one of a process that is left, if blocks have ended since the one before."""
        if self._at_end and self._most and self._ended.is_set() and process.death is None and process.is_open:
            await self.take(process, AT_END)

    async def take(self, process: KernelProcess, patience: float = PATIENCE) -> None:
        """Take one now. Where that does not work, what the last one has saved is still there.

        Args:
            process: The kernel's.
            patience: Seconds that it may take.
        """
        run = self._folder()
        if run is None:
            return
        async with self._busy:
            self._ended.clear()
            self._number += 1
            place = process.own / f"checkpoint-{self._number}"
            try:
                async with asyncio.timeout(patience):
                    store = await asyncio.to_thread(Store, run)
                    content = {"folder": str(place), "most": self._most, "have": sorted(store.have)}
                    at = time.time()
                    reply = await process.client.request(wire.CHECKPOINT, content, channel="control")
                    self.fault = reply["content"]["error"] or ""
                    if not self.fault:
                        await asyncio.to_thread(store.collect, place, at, self._allowance)
                        self.taken = at
            except asyncio.CancelledError:
                self._ended.set()
                raise
            except KernelError:
                pass
            except TimeoutError:
                self.fault = "it took too long"
            except (OSError, ValueError) as error:
                self.fault = str(error)
            finally:
                await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
            if self.fault:
                log.warning("the namespace could not be saved: %s", self.fault)

    async def restore(self, process: KernelProcess, run: Folder | None = None) -> Restored:
        """Bring back in a fresh process what the checkpoint holds.

        Args:
            process: The process.
            run: The folder of the run whose checkpoint it is; None for this kernel's own.

        Returns:
            What came back.

        Raises:
            KernelError: If the process ended from it.
        """
        run = run or self._folder()
        if run is None or not self._most:
            return Restored()
        self._number += 1
        place = process.own / f"restore-{self._number}"
        async with self._busy:
            try:
                store = await asyncio.to_thread(Store, run)
                if store.manifest is None:
                    return Restored(fault=store.fault)
                self.taken = float(store.manifest["taken"])
                if lacks := store.maker.lacks(self._allowance):
                    why = f"the agent that it is of may do less than this one (it lacks {'; '.join(lacks)})"
                    return Restored((), dict.fromkeys(store.names, why), self.taken, why)
                async with asyncio.timeout(PATIENCE):
                    await asyncio.to_thread(store.lend, place)
                    content = {"folder": str(place)}
                    reply = await process.client.request(wire.RESTORE, content, channel="control")
                told = reply["content"]
                missing = {**store.manifest["missing"], **told["missing"]}
                return Restored(tuple(told["back"]), missing, self.taken)
            except TimeoutError:
                return Restored(fault="bringing it back took too long")
            except (OSError, ValueError) as error:
                return Restored(fault=f"the checkpoint cannot be read: {error}")
            finally:
                await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


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
                self.manifest = _checked(json.loads(file.read(MOST)))
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

    def collect(self, place: Path, at: float, maker: Allowance) -> None:
        """Take what a kernel has written, and sweep what nothing needs any more.

        Args:
            place: Where it lies.
            at: When it was taken.
            maker: What the code in that kernel may do.

        Raises:
            OSError: If it cannot be moved. The one before is still there.
            ValueError: If it is no checkpoint.
        """
        with open_plain(place / MANIFEST, follow=False) as file:
            manifest = _checked(json.loads(file.read(MOST)))
        manifest["groups"] += self._kept(manifest)
        wanted = _digests(manifest)
        for digest in sorted(wanted - self.have):
            self._objects.take(place / digest, digest)
        allowed = {**asdict(maker), "network": sorted(maker.network), "tools": sorted(maker.tools)}
        manifest |= {"version": _VERSION, "taken": at, "maker": allowed}
        self._folder.replace(MANIFEST, wire.to_json(manifest))
        for name in set(self._objects.names()) - wanted:
            self._objects.remove(name)

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


def _time_of_day(at: float | None) -> str:
    return "" if at is None else time.strftime("%H:%M:%S", time.localtime(at))


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


def _group(group: Any) -> dict[str, Any]:
    digests = [group["object"], *group["buffers"]]
    start, size = group["at"]
    if not all(_DIGEST.fullmatch(digest) for digest in digests) or not type(start) is type(size) is int:
        raise ValueError("no digest")
    names, needs = ([str(name) for name in group[key]] for key in ("names", "needs"))
    return {"names": names, "object": digests[0], "at": [start, size], "buffers": digests[1:], "needs": needs}


def _allowance(maker: Any) -> Allowance:
    return Allowance(**{**maker, "network": frozenset(maker["network"]), "tools": frozenset(maker["tools"])})
