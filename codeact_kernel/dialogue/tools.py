"""The second protocol: blocks as calls through the endpoint's own tool calling.

Comes in: text and parts of calls, several calls at a time perhaps. Goes out: a block as soon as its JSON
object is complete, and a context in which each call is answered before the model speaks again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from codeact_kernel.blocks import Cancel, Fault, Part
from codeact_kernel.controls import sendable
from codeact_kernel.dialogue.attributes import Desk
from codeact_kernel.dialogue.calls import ObjectEnd, read_call, schemas
from codeact_kernel.dialogue.codec import TagCodec
from codeact_kernel.dialogue.reader import CUT, Items, TextReader
from codeact_kernel.events import Entry, Observation, Reply, Report
from codeact_kernel.messages import CallPiece, Message, ToolCall
from codeact_kernel.protocols import ReplyReader

RESULTS = ("run_code_result", "agent_result")


def call_desk(in_use: Collection[str] = ()) -> Desk:
    """What makes the blocks of a reply that carries them as calls."""
    return Desk(in_use, word="argument", bounded=False)


@dataclass(slots=True)
class _Call:
    """A call that is coming in."""

    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    end: ObjectEnd = field(default_factory=ObjectEnd)
    complete: bool = False


class CallReader(TextReader):
    """Reads one reply that makes calls.

    Each call gives one item: a block, a cancel or a fault. The items come in the order of `calls`, which is
    the order in which the calls were complete.

    Args:
        in_use: Ids and names that are alive.
    """

    def __init__(self, in_use: Collection[str] = ()) -> None:
        super().__init__(call_desk(in_use))
        self._open_calls: dict[int, _Call] = {}
        self._calls: list[ToolCall] = []

    def feed(self, piece: str | CallPiece) -> Sequence[Part | Fault]:
        """Take characters or a part of a call; see `ReplyReader.feed`."""
        if isinstance(piece, str):
            return super().feed(piece)
        out: Items = []
        call = self._open_calls.get(piece.index)
        if call is None or (piece.id and piece.id != call.id):
            # Some endpoints number every call 0 and tell them apart by their ids.
            if call:
                self._complete(call, out)
            call = self._open_calls[piece.index] = _Call(piece.id or f"call_{secrets.token_hex(8)}")
        call.name = call.name or piece.name or ""
        if not call.complete:
            end = call.end.feed(piece.arguments)
            call.arguments.append(piece.arguments[:end])
            if end is not None:
                self._complete(call, out)
        return out

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that were complete."""
        return tuple(self._calls)

    def resume(self) -> None:
        """Go on; a call that was cut is forgotten, since it is asked for whole."""
        super().resume()
        self._open_calls.clear()

    def _complete(self, call: _Call, out: Items) -> None:
        if call.complete:
            return
        call.complete = self._acted = True
        arguments = "".join(call.arguments)
        self._calls.append(ToolCall(call.id, call.name, arguments))
        out.append(read_call(call.name, arguments, self._desk))

    @property
    def _unfinished(self) -> bool:
        # Calls that were complete have started: asking for the rest of the reply would bring them again.
        return not self._acted

    def _end(self, reason: str | None, out: Items) -> None:
        for call in self._half:
            if reason in CUT:
                self._tell_cut(call, out)
            else:
                self._complete(call, out)
        super()._end(reason, out)

    def _abandon(self, out: Items) -> None:
        half = self._half
        self._acted = self._acted or bool(half)
        super()._abandon(out)
        for call in half:
            self._tell_cut(call, out)

    @property
    def _half(self) -> list[_Call]:
        return [call for call in self._open_calls.values() if not call.complete]

    def _tell_cut(self, call: _Call, out: Items) -> None:
        message = f"Your call of {call.name} was cut off, and nothing of it ran. Make it again, whole."
        out.append(Fault("cut", message))


class ToolCodec(TagCodec):
    """Blocks as calls through the endpoint's own tool calling.

    Args:
        secret: The key of the boundaries round hostile output; see `Framer`.
        examples: Whether the context begins with example turns.
        agents: Whether sub-agents are offered.
    """

    name = "tools"

    def __init__(self, secret: bytes | None = None, *, examples: bool = False, agents: bool = False) -> None:
        super().__init__(secret, examples=examples)
        self.tools = schemas(agents=agents)

    def reader(self, compiles: Callable[[str], bool], in_use: Collection[str] = ()) -> ReplyReader:
        """Begin to read a reply; a call has no closing tag that could be missing, so nothing is compiled."""
        del compiles
        return CallReader(in_use)

    def messages(self, system: str | None, entries: Sequence[Entry]) -> list[Message]:
        """Write the context; see `Codec.messages`.

        The calls of a reply are answered as soon as an entry follows it: by their results, if those are in
        that entry, and otherwise by the news that they run; what ends later comes as a message of the
        user's.
        """
        written = [Message("system", sendable(system))] if system else []
        asked: Reply | None = None
        for entry in (*self._examples, *entries):
            reports = list(entry.reports) if isinstance(entry, Observation) else []
            if asked:
                written += self._answers(asked, reports)
            asked = entry if isinstance(entry, Reply) and entry.calls else None
            if asked:
                calls = tuple(map(_sendable_call, asked.calls))
                written.append(Message("assistant", sendable(asked.text), calls))
            elif isinstance(entry, Observation):
                written += self.entry_messages(Observation(tuple(reports))) if reports else []
            else:
                written += self.entry_messages(entry)
        return written

    def continuation(self, text: str) -> list[Message]:
        """Ask for the rest of a reply, and for a call that was cut from its beginning."""
        ask = (
            "Your reply was cut off. If that was inside a call, make the call again, whole, in smaller parts."
        )
        asked = super().continuation(text)[:1]
        return [*asked, Message("user", ask + (" Else go on with the very next character." if asked else ""))]

    def example_reply(self, number: int, code: str) -> Reply:
        """A reply that is one call."""
        call = ToolCall(f"example_{number}", "run_code", json.dumps({"code": code}))
        return Reply(0, "", calls=(call,), job_ids=("b1",))

    def _answers(self, reply: Reply, reports: list[Report]) -> list[Message]:
        """Answer each call of a reply, taking what answers it from the reports that follow."""
        desk, answers = call_desk(), list[Message]()
        for call, job_id in zip_longest(reply.calls, reply.job_ids[: len(reply.calls)]):
            item = read_call(call.name, call.arguments, desk)
            answer = _refusal(item, reply) if job_id is None else _news(job_id, reports)
            if answer in reports:
                reports.remove(answer)
            answers.append(Message("tool", self.framer.frame(answer), tool_call_id=call.id))
        return answers


def _news(job_id: str, reports: Sequence[Report]) -> Report:
    """What there is to say of a job: its result, its first heartbeat, or that it runs."""
    about = [report for report in reports if report.id == job_id]
    ended = (report for report in about if report.kind in RESULTS)
    running = (report for report in about if report.kind == "running")
    started = Report("running", "Its end comes as a message.", job_id)
    return next(ended, None) or next(running, None) or started


def _refusal(item: Part | Fault, reply: Reply) -> Report:
    """Why a call started nothing. Reading it again says so, save where its id was alive at the time."""
    if isinstance(item, Cancel):
        return Report("running", "It was asked to end. Its end comes as a message.", item.id)
    if isinstance(item, Fault):
        return Report("fault", item.message, item.id)
    name = getattr(item, "id", None)
    told = (fault.message for fault in reply.faults if fault.id == name and not fault.runs)
    return Report("fault", next(told, "It did not start."), name)


def _sendable_call(call: ToolCall) -> ToolCall:
    """Endpoints read the arguments again and refuse what is no object."""
    try:
        whole = isinstance(json.loads(call.arguments), dict)
    except (ValueError, RecursionError):
        whole = False
    return replace(
        call, arguments=sendable(call.arguments) if whole else json.dumps({"no_json": call.arguments})
    )
