"""Checkpoints of a kernel's namespace, in the folder of its run: when they are taken, and where they lie.

Comes in: ends of blocks. Goes out: `checkpoint/objects/<sha256>`, each file named by what is in it and written once,
and `checkpoint/manifest.json`, replaced in one step; and, the other way round, names bound in a fresh process.

The kernel writes where it can, and what it has written is moved from there. The host reads no pickle. A kernel reads
them, if the one that has made them might do no less.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from codeact_kernel.allowance import Allowance
from codeact_kernel.errors import KernelDied, KernelError
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.manifest import Store
from codeact_kernel.kernels.process import KernelProcess
from codeact_kernel.masking import Mask
from codeact_kernel.runfiles import Folder

log = logging.getLogger(__name__)

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
        mask: Knows the secrets of the host, which no file of one holds.
    """

    def __init__(
        self,
        folder: Callable[[], Folder | None] = lambda: None,
        most: int = 0,
        allowance: Allowance | None = None,
        *,
        at_end: bool = True,
        mask: Mask | None = None,
    ) -> None:
        self._mask = mask or Mask()
        self._folder, self._most, self._at_end = folder, most, at_end
        self._allowance = allowance or Allowance()
        self._ended = asyncio.Event()
        self._busy = asyncio.Lock()
        self._number = 0
        self._unproven = False
        """Whether no block has ended since names were brought back."""
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
        self._unproven = False
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
                    content = {"folder": str(place), "most": self._most, "room": process.room()}
                    content["have"] = sorted(store.have)
                    at = time.time()
                    reply = await process.client.request(wire.CHECKPOINT, content, channel="control")
                    self.fault = reply["content"]["error"] or ""
                    if not self.fault:
                        await asyncio.to_thread(
                            store.collect, place, at, self._allowance, self._most, self._mask
                        )
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

    async def bring_back(self, process: KernelProcess) -> Restored:
        """As `restore`, after a death: but not what the kernel has died of.

        Args:
            process: The next process.

        Raises:
            KernelError: As for `restore`.
        """
        if self._unproven:
            self._unproven = False
            return Restored(fault="the kernel died when the checkpoint had just been brought back")
        return await self.restore(process)

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
                self._unproven = bool(told["back"])
                missing = {**store.manifest["missing"], **told["missing"]}
                return Restored(tuple(told["back"]), missing, self.taken)
            except TimeoutError:
                return Restored(fault="bringing it back took too long")
            except (OSError, ValueError) as error:
                return Restored(fault=f"the checkpoint cannot be read: {error}")
            finally:
                await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


def _time_of_day(at: float | None) -> str:
    return "" if at is None else time.strftime("%H:%M:%S", time.localtime(at))


def after(death: KernelDied, names: Sequence[str], restored: Restored) -> KernelDied:
    """A death, with what became of the names since.

    Args:
        death: The death.
        names: What the namespace holds now.
        restored: What came back.
    """
    lost = tuple(name for name in death.lost if name not in names)
    known = [name for name in death.lost if name in restored.back]
    reasons = {**dict.fromkeys(lost, restored.fault or "it is newer than the checkpoint"), **restored.missing}
    return KernelDied(
        death.message,
        returncode=death.returncode,
        lost=lost,
        back=tuple(dict.fromkeys((*known, *restored.back))),
        reasons=reasons if restored.taken is not None or restored.fault else None,
        checkpoint=restored.at,
    )
