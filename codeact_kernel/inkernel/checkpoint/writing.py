"""Writes a checkpoint, in a copy of the kernel's process.

Comes in: the namespace as it was at the fork. Goes out: files in a folder, each under the SHA-256 of what is in it,
those that the host has left out; and `manifest.json`, which says what lies where, and what is missing, and why.

Names whose values share an object that can be changed lie in one pickle, so that they share it again. Everything else
lies in pickles of its own, so that what has not changed has the same digest as before, and is not written again.
"""

from __future__ import annotations

import errno
import graphlib
import hashlib
import mmap
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.checkpoint.pickling import (
    Names,
    Piece,
    TooLarge,
    TooLong,
    go_by_name,
    why_not,
)

MANIFEST, SLOW = "manifest.json", "slow.json"
VERSION = "{}.{}".format(*sys.version_info)
"""Python's. What another one has pickled may hold code that this one cannot run."""
WORK, EACH = 10.0, 30.0
"""Seconds of a processor, and of a clock, that the pickling of one name may take; ours: a million small objects take
four, and on a machine with much to do the clock goes on meanwhile."""
LOOK = 0.25
"""Seconds between looks at what pickling has taken."""


class Writer:
    """Writes one checkpoint.

    Args:
        folder: Where to.
        namespace: The namespace.
        busy: Names that blocks which run may be changing, and those blocks.
        skip: Names that are not tried, and why.
        most: Bytes that it may have, all in all.
        room: Bytes of memory that this process may take.
        have: The digests of what the host has.
        note: Takes the number of the name that is being pickled, for who looks why this process has ended.
    """

    def __init__(
        self,
        folder: str,
        namespace: Mapping[str, Any],
        busy: Mapping[str, str],
        skip: Mapping[str, str],
        most: int,
        room: int,
        have: Iterable[str],
        note: Any,
    ) -> None:
        self._folder, self._namespace = Path(folder), namespace
        self._most, self._note = most, note
        self._busy, self._missing = dict(busy), dict(skip)
        self._have = set(have)
        self._used = 0
        self._slow: dict[str, str] = {}
        self._pickles = Names(namespace, {}, most)
        self._limit = Limit(room)

    def write(self, names: Sequence[str]) -> None:
        """Write it.

        Args:
            names: The names that it shall hold.
        """
        self._limit.look()
        named = {id(value): name for name in names if go_by_name(value := self._namespace.get(name))}
        self._pickles = Names(self._namespace, named, self._most)
        pieces = []
        for number, name in enumerate(names):
            self._note.number = number
            is_wanted = name in self._namespace and name not in self._missing
            if is_wanted and (piece := self._pickle([name])):
                pieces.append(piece)
        self._note.number = -1
        alone = {piece.names[0]: piece for piece in pieces}
        together = [piece for group in _together(pieces) if (piece := self._joined(group, alone))]
        # The smallest first: what is large is lost where there is not enough room.
        fitting = [piece for piece in sorted(together, key=lambda piece: piece.whole) if self._fits(piece)]
        self._put_json(MANIFEST, {
            "groups": [*self._small(fitting), *self._large(fitting)],
            "python": VERSION,
            "missing": self._missing,
            "busy": self._busy,
            "path": [path for path in sys.path if isinstance(path, str)],
        })  # fmt: skip
        if self._slow:
            self._put_json(SLOW, self._slow)

    def _pickle(self, names: list[str], out: Callable[[bytes], object] = lambda data: None) -> Piece | None:
        """Pickle names together; None where that does not work, which is noted for each of them."""
        try:
            self._limit.begin()
            piece = self._pickles.pickle(names, out)
            self._limit.end()  # here, where it is caught if the limit is reached just now
            return piece
        except TooLong:
            why = "its pickling took too long"
            self._slow |= dict.fromkeys(names, why)
        except TooLarge:
            why = f"it has more than the {_size(self._most)} that a checkpoint may have (checkpoint_size)"
        except OSError as error:
            raise_if_full(error)
            why = why_not(self._namespace[names[0]], error)
        except BaseException as error:
            why = why_not(self._namespace[names[0]], error)
        finally:
            self._limit.end()
        self._missing |= dict.fromkeys(names, why)
        return None

    def _joined(self, names: list[str], alone: Mapping[str, Piece]) -> Piece | None:
        """The piece of a group, unless a block may be changing what it shares."""
        block = next((self._busy[name] for name in names if name in self._busy), None)
        if block is not None:
            self._busy |= dict.fromkeys(names, block)
            return None
        return alone[names[0]] if len(names) == 1 else self._pickle(names)

    # -- files --------------------------------------------------------------------------------------------

    def _small(self, pieces: list[Piece]) -> list[dict[str, Any]]:
        """Put the small ones into one file."""
        small = [piece for piece in pieces if piece.data is not None]
        data = b"".join(piece.data or b"" for piece in small)
        digest, start, groups = self._put([data]) if small else "", 0, []
        for piece in small:
            groups.append(self._group(piece, digest, start))
            start += piece.size
        return groups

    def _large(self, pieces: list[Piece]) -> list[dict[str, Any]]:
        """Give each of the others a file."""
        return [group for piece in pieces if piece.data is None and (group := self._put_again(piece))]

    def _fits(self, piece: Piece) -> bool:
        if self._used + piece.whole <= self._most:
            self._used += piece.whole
            return True
        why = f"it has {_size(piece.whole)}, and the checkpoint's {_size(self._most)} are full (checkpoint_size)"
        self._missing |= dict.fromkeys(piece.names, why)
        return False

    def _put_again(self, piece: Piece) -> dict[str, Any] | None:
        """Pickle what is large once more, into its file this time, unless the host has it."""
        if piece.digest in self._have:
            return self._group(piece, piece.digest, 0)
        part = self._folder / "part"
        with part.open("wb") as out:
            again = self._pickle(piece.names, out.write)
        if again is None:
            return None
        part.rename(self._folder / again.digest)
        self._have.add(again.digest)
        return self._group(again, again.digest, 0)

    def _group(self, piece: Piece, digest: str, start: int) -> dict[str, Any]:
        return {
            "names": piece.names,
            "object": digest,
            "at": [start, piece.size],
            "buffers": [self._put([buffer]) for buffer in piece.buffers],
            "needs": sorted(piece.needs),
        }

    def _put(self, parts: list[Any]) -> str:
        whole = hashlib.sha256()
        for part in parts:
            whole.update(part)
        digest = whole.hexdigest()
        if digest not in self._have:
            with (self._folder / digest).open("xb") as out:
                out.writelines(parts)
            self._have.add(digest)
        return digest

    def _put_json(self, name: str, content: Any) -> None:
        (self._folder / name).write_bytes(wire.to_json(content))


def _together(pieces: list[Piece]) -> list[list[str]]:
    """Which names belong into one pickle: those that share an object, and those that need each other."""
    groups = {name: [name] for piece in pieces for name in piece.names}

    def join(one: str, other: str) -> None:
        into, more = groups[one], groups[other]
        if into is not more:
            into += more
            groups.update(dict.fromkeys(more, into))

    first: dict[int, str] = {}
    for piece in pieces:
        for number in piece.parts:
            join(first.setdefault(number, piece.names[0]), piece.names[0])
    while True:
        needs: dict[str, set[str]] = {}
        for piece in pieces:
            head = groups[piece.names[0]][0]
            needs.setdefault(head, set()).update(groups[name][0] for name in piece.needs if name in groups)
        for head, needed in needs.items():
            needed.discard(head)
        try:
            graphlib.TopologicalSorter(needs).prepare()
        except graphlib.CycleError as error:
            for name in error.args[1][1:]:
                join(error.args[1][0], name)
        else:
            return [groups[head] for head in needs]


class Limit:
    """Ends the pickling of a name that takes more time or memory than there is.

    Args:
        room: Bytes of memory that this process may take for itself.
        work: Seconds of a processor that a name may take.
        again: Seconds that what swallows the error may take longer. What was made has to be freed in that time, too:
            a look meanwhile would hit whoever has caught the error.
    """

    def __init__(self, room: int, work: float = WORK, again: float = WORK) -> None:
        self._room, self._work, self._again = room, work, again
        self._began = (0.0, 0.0)
        self._faults: Callable[[], int] = lambda: 0

    def look(self) -> None:
        """Look from now on, in this process."""
        from resource import RUSAGE_SELF, getrusage

        self._faults = lambda: getrusage(RUSAGE_SELF).ru_minflt
        signal.signal(signal.SIGALRM, self._look)

    def begin(self) -> None:
        """A name begins: until its end, `TooLong` and `MemoryError` may be raised anywhere."""
        self._began = time.process_time(), time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, LOOK, LOOK)

    def end(self) -> None:
        """It has ended, in one way or another."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _look(self, *_: object) -> None:
        work, clock = self._began
        error: BaseException | None = None
        if time.process_time() - work > self._work or time.monotonic() - clock > EACH:
            error = TooLong()
        # A page that was the kernel's, too, becomes this process's own by a fault, and so does a new one.
        elif self._faults() * mmap.PAGESIZE > self._room:
            error = MemoryError()
        if error is not None:
            signal.setitimer(signal.ITIMER_REAL, self._again, LOOK)
            raise error


def raise_if_full(error: OSError) -> None:
    """Raise an error that is the disk's, and no fault of a value's."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        raise error


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 999.5:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
