"""Sees to it that the owner of an agent's blocks gets all of them.

Comes in: each block's acceptance, start, outputs and end; the owner's confirmations and questions, on the control
channel, ahead of its ordinary messages. Goes out: to whatever the owner has not confirmed for a while, a message
that says how far the block is; outputs and replies again, when it asks; and that of a block nothing will come any more.

The iopub channel drops what a slow reader does not take, and any message can be lost on its way to a reader that
is away. So nothing is believed to have arrived until the owner says so.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.request import Request

LOOK = 0.5
"""Seconds between two looks at what is not confirmed."""
SILENCE = 3.0
"""Seconds without a sign of life after which nobody waits for the owner any more."""
PAGE = 2**20
"""Bytes of outputs in one answer."""
ENDED = 200
"""Ended requests that are kept for an owner that does not confirm them; each may have a spool of its own."""


class Owner:
    """The host that has opened the bridge and reads what blocks put out (the outboxes' `Reader`).

    Args:
        stir: Called when a request has something that it has to confirm.
    """

    def __init__(self, stir: Callable[[str], None]) -> None:
        self._stir = stir
        self.idents: list[bytes] | None = None
        self._heard = 0.0
        self._silent = False

    @property
    def there(self) -> bool:
        """Whether one has come."""
        return self.idents is not None

    def come(self, idents: list[bytes]) -> None:
        """Take that a host has opened the bridge.

        Args:
            idents: Its identity on the control channel.
        """
        self.idents = list(idents)
        self.hear()

    def leave(self) -> None:
        """Take that the host is gone: nobody waits for it, and all is kept for the next one."""
        self.idents = None

    def hear(self) -> None:
        """Take a sign of life."""
        self._heard = time.monotonic()
        self._silent = False

    def reads(self, since: float) -> bool:
        """As in `Reader`. Once it was silent for too long, nobody waits until it is heard again."""
        if time.monotonic() - max(since, self._heard) > SILENCE:
            self._silent = True
        return self.there and not self._silent

    def stir(self, msg_id: str) -> None:
        """As in `Reader`."""
        if self.there:
            self._stir(msg_id)


@dataclass(eq=False)
class _Kept:
    """A request, and what its owner knows of it."""

    request: Request
    ended: bool = False
    reply: tuple[dict[str, Any], dict[str, Any]] | None = None
    """The content and the metadata of its execute_reply."""
    phase_known: int = wire.WAITING
    seen: tuple[int, int, int, int] | None = None
    """What there was, and what of it was confirmed, at the last look."""
    looks: int = 0
    """Looks at which nothing had changed."""

    @property
    def phase(self) -> int:
        if self.ended:
            return wire.ENDED
        return wire.WAITING if self.request.started is None else wire.RUNNING

    @property
    def is_confirmed(self) -> bool:
        outbox = self.request.outbox
        return self.phase_known >= self.phase and outbox.confirmed >= outbox.count

    @property
    def state(self) -> dict[str, Any]:
        request = self.request
        about: dict[str, Any] = {"phase": self.phase, "outputs": request.outbox.count}
        if request.started is not None:
            about["ran"] = (request.ended or time.time()) - request.started
        return {**about, "lane": request.lane}


class Delivery:
    """Keeps agents' requests until their owner has confirmed all of them.

    Args:
        send: Sends frames on the control channel, from any thread.
        session: Gives the kernel's session.
        later: Calls a function after so many seconds, in another thread.
    """

    def __init__(
        self,
        send: Callable[[list[bytes]], None],
        session: Callable[[], Any],
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._send = send
        self._session = session
        self._later = later
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._all: weakref.WeakValueDictionary[str, Request] = weakref.WeakValueDictionary()
        """What may still put something out: what its threads and tasks hold."""
        self._gone: deque[str] = deque()
        """Requests of which nothing is left that could put anything out."""
        self._looking = False
        self.owner = Owner(self._stirred)

    def find(self, msg_id: str) -> Request | None:
        """An agent's request, one that has ended included, as long as anything holds it.

        Args:
            msg_id: Its id.
        """
        return self._all.get(msg_id)

    @property
    def known(self) -> dict[str, dict[str, Any]]:
        """What is known of the requests that may still put something out, or are not confirmed, by msg_id."""
        with self._lock:
            kept = {
                **{
                    msg_id: _Kept(request, ended=request.ended is not None)
                    for msg_id, request in self._all.items()
                },
                **self._kept,
            }
        return {
            msg_id: {"id": one.request.block_id, "held": one.request.held, **one.state}
            for msg_id, one in kept.items()
        }

    def accept(self, request: Request) -> None:
        """Keep a request from now on, if it is an agent's.

        Args:
            request: The request.
        """
        if request.block_id is not None:
            with self._lock:
                self._kept[request.msg_id] = _Kept(request)
                self._all[request.msg_id] = request
            # Called wherever and whenever memory is tidied: it must not wait for a lock.
            weakref.finalize(request.outbox, self._gone.append, request.msg_id).atexit = False
            self._tell_of_gone()

    def end(self, request: Request, content: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Keep a request's reply, before it is sent.

        Args:
            request: The request.
            content: The reply's content.
            metadata: Its metadata.
        """
        kept = self._kept.get(request.msg_id)
        if kept is None:
            return
        with self._lock:
            kept.ended, kept.reply = True, (content, metadata)
            ended = [msg_id for msg_id, kept in self._kept.items() if kept.ended]
            gone = [self._kept.pop(msg_id) for msg_id in ended[:-ENDED]]
        for old in gone:
            old.request.outbox.confirm(old.request.outbox.count)
        self.owner.stir(request.msg_id)

    def take(self, msg: list[bytes]) -> bool:
        """Take a control message if it is a confirmation or a question.

        Args:
            msg: The message's frames.

        Returns:
            Whether it was one; anything else is left as it was.
        """
        kind = wire.kind_of(msg)
        if kind not in (wire.ACK, wire.RESEND, wire.REPLY_AGAIN):
            return False
        session = self._session()
        try:
            idents, frames = session.feed_identities(msg)
            message = session.deserialize(frames)
            content = message["content"]
            if idents == self.owner.idents:
                self.owner.hear()
                if kind == wire.ACK:
                    self._confirm(content["have"])
            if kind == wire.RESEND:
                self._answer(idents, message, wire.RESEND_REPLY, self._page(content))
            elif kind == wire.REPLY_AGAIN:
                self._answer(idents, message, wire.REPLY_AGAIN_REPLY, self._reply_again(content["msg_id"]))
        except (ValueError, TypeError, LookupError, AttributeError):
            # A message that cannot be read, or has come before: who sent it will ask again.
            return True
        return True

    # -- what the owner says ------------------------------------------------------------------------------

    def _confirm(self, have: dict[str, list[int]]) -> None:
        for msg_id, (phase, number) in have.items():
            kept = self._kept.get(msg_id)
            if kept is None:
                continue
            kept.phase_known = max(kept.phase_known, int(phase))
            kept.request.outbox.confirm(int(number))
            with self._lock:
                if kept.phase_known == wire.ENDED and kept.is_confirmed:
                    self._kept.pop(msg_id, None)

    def _page(self, wanted: dict[str, Any]) -> bytes:
        kept = self._kept.get(wanted["msg_id"])
        if kept is None:
            return wire.to_json({"status": "unknown"})
        first, outputs = kept.request.outbox.again(int(wanted["from"]), int(wanted["to"]), PAGE)
        return b'{"status":"ok","first":%d,"outputs":[%b]}' % (first, b",".join(outputs))

    def _reply_again(self, msg_id: str) -> bytes:
        kept = self._kept.get(msg_id)
        if kept is None:
            return wire.to_json({"status": "unknown"})
        status = {wire.WAITING: "waiting", wire.RUNNING: "running", wire.ENDED: "ended"}[kept.phase]
        answer: dict[str, Any] = {"status": status, "state": kept.state}
        if kept.reply is not None:
            answer["content"], answer["metadata"] = kept.reply
        return wire.to_json(answer)

    def _answer(self, idents: list[bytes], parent: dict[str, Any], kind: str, content: bytes) -> None:
        session = self._session()
        message = session.msg(kind, parent=parent)
        message["content"] = content
        self._send(wire.frames_of(session, message, idents))

    # -- what it does not say -----------------------------------------------------------------------------

    def _stirred(self, msg_id: str) -> None:
        if msg_id not in self._kept:
            self._take_back(msg_id)
        self._look_later()

    def _take_back(self, msg_id: str) -> None:
        """Keep a request again that was confirmed as ended: its threads go on."""
        request = self._all.get(msg_id)
        if request is not None:
            with self._lock:
                self._kept.setdefault(msg_id, _Kept(request, ended=True, phase_known=wire.ENDED))

    def _tell_of_gone(self) -> None:
        """Tell the owner what it need not keep. With the next request is soon enough."""
        gone = [self._gone.popleft() for _ in range(len(self._gone))]
        if gone and self.owner.idents is not None:
            self._send(wire.note_of(self._session(), wire.GONE, {"requests": gone}, self.owner.idents))

    def _look_later(self) -> None:
        if not self._looking:
            self._looking = True
            self._later(LOOK, self._look)

    def _look(self) -> None:
        """Tell the owner of what it has not confirmed, where nothing has moved since the last look."""
        self._looking = False
        with self._lock:
            waiting = {msg_id: kept for msg_id, kept in self._kept.items() if not kept.is_confirmed}
        states = {}
        for msg_id, kept in waiting.items():
            outbox = kept.request.outbox
            seen = (kept.phase, outbox.sent, kept.phase_known, outbox.confirmed)
            kept.looks = kept.looks + 1 if seen == kept.seen else 0
            kept.seen = seen
            # After one look, two, four, …: a host that is stopped is not sent thousands.
            if kept.looks and kept.looks & (kept.looks - 1) == 0:
                states[msg_id] = kept.state
        owner = self.owner.idents
        if states and owner is not None:
            self._send(wire.note_of(self._session(), wire.STATE, {"states": states}, owner))
        if waiting:
            self._look_later()
