"""A request's outputs, numbered in the order in which they were made.

Comes in: text, displays, results and errors of one request, from any of its threads. Goes out: iopub messages,
each with its number. Text is collected and sent in pieces: at once when there is much of it, else a moment
later, and always before the next output of another kind and before the reply.

A writer only appends to a queue. Everything else (joining, numbering, keeping, publishing) happens one output at
a time in the publishing thread, or in the request's own after its code has ended: an interrupt, which can land
at any bytecode of a block's code, so finds nothing half done, and nobody waits for the thread that publishes.

Of an agent's block each output is kept until its owner confirms it, and only a window of unconfirmed ones is on
its way at a time. A writer that is ahead waits, without a lock and interruptibly, while the owner reads; else what
it writes goes to the spool.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.spool import Output, Spool

CHUNK = 2**16
"""Characters after which text is sent without waiting for more."""
PIECE = 2**18
"""Characters of one message at most, twice that with what was written last: large enough that the cost of a
message does not count, small enough that no reader stalls over one."""
DELAY = 0.05
"""Seconds for which text may wait for more, as long as the block runs."""
FULL = 2**20
"""Characters that may wait in the queue before their writer does."""
WINDOW = 8 * 2**20
"""Bytes that may be on their way unconfirmed: some 20 ms at the speed of a local reader."""
POLL = 0.05
"""Seconds between looks while waiting: an asynchronous exception lands only between bytecodes."""


class Post(Protocol):
    """What publishes for an outbox. Contract: any thread may call; nothing here blocks."""

    def make(self, kind: str, content: dict[str, Any], parent: dict[str, Any]) -> dict[str, Any]:
        """Build a message of a type with a parent."""

    def publish(self, output: Output, number: int, parent: dict[str, Any]) -> None:
        """Send an output on iopub. Contract: in the order of the calls."""

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function in the publishing thread."""

    def later(self, delay: float, function: Callable[[], None]) -> None:
        """Call a function in the publishing thread after so many seconds."""

    def patience(self) -> float:
        """Seconds that the calling thread may wait for a reader; 0 where others could not go on meanwhile."""


class Reader(Protocol):
    """The owner of an agent's blocks, who confirms what it has."""

    @property
    def there(self) -> bool:
        """Whether one has come."""

    def reads(self, since: float) -> bool:
        """Whether it gives signs of life, for somebody who has waited since a (monotonic) time."""

    def stir(self, msg_id: str) -> None:
        """A request has something that it has to confirm."""


class Outbox:
    """Publishes what one request puts out.

    Args:
        post: Publishes.
        parent: The request's message.
        reader: Who confirms, for an agent's block; an ordinary client's request is published and forgotten.
        spool: Keeps what is not confirmed; needed with a reader.
    """

    def __init__(
        self, post: Post, parent: dict[str, Any], reader: Reader | None = None, spool: Spool | None = None
    ) -> None:
        self._post = post
        self._parent = parent
        self._reader = reader
        self._spool = spool
        self._queue: deque[tuple[str, str] | Output] = deque()
        self._size = 0
        """About how much waits in the queue; a race between two writers costs an early or a late look at it."""
        self._attention = 0
        """The size of the queue from which the next writer has to do something about it."""
        self._room = threading.Lock()
        self._room.acquire()
        self._spill = False
        """Whether the queue is emptied into the spool, open window or not."""
        self._flushing = False
        """Whether the request's own thread publishes; the publishing thread would overtake it."""
        self._again = False
        """Whether a step has called for the next."""
        self._is_closed = False
        self._lock = threading.Lock()
        """Held for what follows, an output at a time; never by a block's code that can be interrupted."""
        self._held: tuple[str, str] | Output | None = None
        self._big: tuple[str, str, int] | None = None
        """An enormous text, and how much of it has been taken."""
        self._flying = 0
        self._lost = [0, 0, 0]
        """Outputs, characters and lines that the spool did not take, since the last output that tells of them."""
        self.count = 0
        """How many outputs have a number."""
        self.sent = 0
        """How many have been published."""

    # -- for writers --------------------------------------------------------------------------------------

    def write(self, name: str, text: str) -> None:
        """Add text to stdout or stderr.

        Args:
            name: "stdout" or "stderr".
            text: What was written.
        """
        if self._is_closed:
            return
        self._queue.append((name, text))
        size = self._size = self._size + len(text)
        if size >= self._attention:
            self._attend(size)

    def publish(self, message: dict[str, Any], topic: bytes) -> None:
        """Add an output of another kind, after the text written before it.

        Args:
            message: The message, made for this request.
            topic: What to publish it under.
        """
        if self._is_closed:
            return
        output = Output(message["msg_type"], topic, wire.to_json(message["content"]))
        self._queue.append(output)
        self._size = size = self._size + output.size
        if size >= self._attention:
            self._attend(max(size, CHUNK))

    def make(self, msg_type: str, content: dict[str, Any]) -> dict[str, Any]:
        """Build a message with this request as its parent."""
        return self._post.make(msg_type, content, self._parent)

    def flush(self) -> None:
        """Number all that has been written so far. For the end of the request: it is not to be interrupted."""
        self._flushing = more = True
        while more:
            with self._lock:
                more = self._advance(everything=True) > 0 or self._tell_of_loss()
        if self.count:
            self._post.soon(self._flushed)
            return
        self._flushing = False
        if self._queue:
            self._post.soon(self._step)

    def close(self) -> None:
        """Number all that has been written so far, and take nothing more."""
        self._is_closed = True
        self.flush()

    def _flushed(self) -> None:
        self._flushing = False
        self._step()

    def _attend(self, size: int) -> None:
        """Do about a queue of this size what has to be done, once until the next step."""
        if size >= FULL:
            self._wait(self._post.patience())
            return
        # Noted first: the step, which takes the note back, may come before this thread goes on.
        self._attention = CHUNK if size < CHUNK else FULL
        try:
            if size < CHUNK:
                self._post.later(DELAY, self._step)
            else:
                self._post.soon(self._step)
        except BaseException:  # an interrupt: the next writer has to see to it
            self._attention = 0
            raise

    def _wait(self, patience: float) -> None:
        """Wait until there is room in the queue; without a reader the spool makes it."""
        since = time.monotonic()
        while self._is_full():
            reader = self._reader
            if reader and (time.monotonic() - since >= patience or not reader.reads(since)):
                self._spill = True
            self._post.soon(self._step)
            if not patience:
                return
            self._room.acquire(timeout=POLL)
        self._signal()

    def has_room(self, since: float) -> bool:
        """Whether somebody should write now who must not wait in `write`, and asks again instead.

        Args:
            since: Since when he has been asking, in monotonic seconds.
        """
        if not self._is_full():
            return True
        if self._reader is not None and not self._reader.reads(since):
            self._spill = True
        self._post.soon(self._step)
        return False

    def _is_full(self) -> bool:
        return self._size >= FULL and bool(self._queue or self._big or self._held)

    def _signal(self) -> None:
        if not self._is_full():
            try:
                self._room.release()
            except RuntimeError:
                return

    # -- for the owner ------------------------------------------------------------------------------------

    @property
    def confirmed(self) -> int:
        """The first output that is not confirmed."""
        return self._spool.first if self._spool is not None else self.count

    def confirm(self, number: int) -> None:
        """Take that the owner has all outputs before a number, and let the next ones go."""
        if self._spool is None:
            return
        with self._lock:
            at = self._spool.first
            for size in self._spool.drop(number):
                self._flying -= size if at < self.sent else 0
                at += 1
            self.sent = max(self.sent, self._spool.first)
            more = self.sent < self.count
        if more or self._queue or self._big or self._held:
            self._post.soon(self._step)

    def again(self, number: int, until: int, most: int) -> tuple[int, list[bytes]]:
        """Give outputs again.

        Args:
            number: The first that is wanted.
            until: The first that is not.
            most: Bytes after which it is enough for once.

        Returns:
            The number of the first that is given, higher where the wanted ones are gone, and the outputs as JSON.
        """
        if self._spool is None:
            return self.count, []
        page: list[bytes] = []
        with self._lock:
            first = at = max(number, self._spool.first)
            size = 0
            while at < min(until, self._spool.next) and size < most:
                output = self._spool.get(at)
                page.append(
                    b'{"n":%d,"msg_type":"%b","content":%b}' % (at, output.kind.encode(), output.content)
                )
                size += output.size
                at += 1
        return first, page

    # -- one output at a time -----------------------------------------------------------------------------

    def _step(self) -> None:
        """Work off a message's worth, in the publishing thread."""
        with self._lock:
            # Before the queue is looked at: who appends from now on looks after it himself.
            self._attention = 0
            done = 0
            while not self._flushing and done < PIECE and (size := self._advance(self._spill)):
                done += size
            self._spill = self._spill and done >= PIECE
        self._signal()
        if done >= PIECE and not self._again:
            self._again = True
            self._post.soon(self._step_on)

    def _step_on(self) -> None:
        self._again = False
        self._step()

    def _advance(self, everything: bool) -> int:
        """Publish the next output that is kept, or take the next of the queue; returns its size, 0 for none."""
        if self._spool is None:
            taken = self._take()
            if taken is None:
                return 0
            output = _packed(taken)
            self._post.publish(output, self.count, self._parent)
            self.count = self.sent = self.count + 1
            return output.size
        is_open = self._flying < WINDOW or self._reader is None or not self._reader.there
        if is_open and self.sent < self.count:
            return self._publish(self._spool)
        taken = self._take() if is_open or everything else None
        if taken is None:
            return 0
        output = _packed(taken)
        if any(self._lost) and self._spool.fits(output):
            self._tell_of_loss()
        if self._spool.put(output):
            self.count += 1
            if self._reader is not None:
                self._reader.stir(self._parent["header"]["msg_id"])
        else:
            self._lose(taken)
        return self._publish(self._spool) if is_open and self.sent < self.count else output.size

    def _publish(self, spool: Spool) -> int:
        output = spool.get(self.sent)
        self._post.publish(output, self.sent, self._parent)
        self.sent += 1
        self._flying += output.size
        return output.size

    def _take(self) -> tuple[str, str] | Output | None:
        """The next of the queue: an output, or a stretch of one stream's text."""
        if self._big is not None:
            return self._cut(*self._big)
        held, self._held = self._held, None
        pop = self._queue.popleft
        name, size = "", 0
        texts: list[str] = []
        while size < PIECE:
            try:
                item = held or pop()
            except IndexError:
                self._size = size
                break
            held = None
            if texts and (not isinstance(item, tuple) or item[0] != name or len(item[1]) > PIECE):
                self._held = item
                break
            if not isinstance(item, tuple):
                self._size -= item.size
                return item
            name, text = item
            if len(text) > PIECE:
                return self._cut(name, text, 0)
            if text:
                texts.append(text)
                size += len(text)
        self._size -= size
        return (name, "".join(texts)) if size else None

    def _cut(self, name: str, text: str, at: int) -> tuple[str, str]:
        piece = text[at : at + PIECE]
        self._size -= len(piece)
        self._big = (name, text, at + PIECE) if at + PIECE < len(text) else None
        return name, piece

    def _lose(self, item: tuple[str, str] | Output) -> None:
        text = "" if isinstance(item, Output) else item[1]
        for at, more in enumerate((1, len(text), text.count("\n"))):
            self._lost[at] += more

    def _tell_of_loss(self) -> bool:
        """Put an output where others were lost, that says how many; returns whether there were any."""
        if self._spool is None or not any(self._lost):
            return False
        content = dict(zip(("outputs", "characters", "lines"), self._lost, strict=True))
        self._lost = [0, 0, 0]
        self._spool.put(Output(wire.LOST, b"stream.stderr", wire.to_json(content)), small=True)
        self.count += 1
        return True


def _packed(item: tuple[str, str] | Output) -> Output:
    if isinstance(item, Output):
        return item
    name, text = item
    return Output("stream", b"stream." + name.encode(), wire.to_json({"name": name, "text": text}))
