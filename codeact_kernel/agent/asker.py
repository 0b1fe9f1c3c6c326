"""One question to the model: a reply, whole, its blocks launched while it still streams.

Comes in: the messages of the context. Goes out: a `Reply`. A reply that was cut is joined with its rest here,
from the cut point on, so that no block is asked for, or run, twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from codeact_kernel.agent.hooks import HookChain
from codeact_kernel.agent.launcher import Launcher
from codeact_kernel.agent.spending import closing
from codeact_kernel.blocks import AgentBlock, Cancel, CodeBlock, Fault, Part, Prose
from codeact_kernel.events import Drafted, Event, ModelUsed, Reply, ReplyDelta
from codeact_kernel.messages import CallPiece, EndPiece, Message, ModelRequest, TextPiece, Usage
from codeact_kernel.protocols import Codec, Model, ReplyReader

JOINS = 3
"""How often the rest of one reply is asked for."""


@dataclass
class _Draft:
    """A reply while it comes."""

    runs: bool = True
    """Whether its blocks run."""
    parts: list[Part] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    job_ids: list[str | None] = field(default_factory=list)
    received: str = ""
    began: float = 0.0
    usage: Usage = field(default_factory=Usage)
    finish: str | None = None

    def reply(self, reader: ReplyReader, turn: int, ended: float) -> Reply:
        """The reply, as far as it has come."""
        return Reply(
            turn,
            reader.text,
            tuple(self.parts),
            tuple(self.faults),
            reader.calls[: len(self.job_ids)],
            tuple(self.job_ids),
            self.usage,
            self.began,
            ended,
            self.finish,
        )

    def add_prose(self, prose: Prose) -> None:
        if self.parts and isinstance(self.parts[-1], Prose):
            prose = Prose(self.parts.pop().text + prose.text)  # type: ignore[union-attr]
        self.parts.append(prose)


class Asker:
    """Asks the model and launches what it replies.

    Args:
        model: Who is asked.
        codec: How blocks travel.
        launcher: Takes the blocks.
        hooks: May change the request.
        emit: Gets the characters of the reply as they come.
        compiles: Whether code compiles after IPython's transform.
        wall: The time in seconds since the epoch.
    """

    def __init__(
        self,
        model: Model,
        codec: Codec,
        launcher: Launcher,
        hooks: HookChain,
        emit: Callable[[Event], None],
        compiles: Callable[[str], bool],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._model = model
        self._codec = codec
        self._launcher = launcher
        self._hooks = hooks
        self._emit = emit
        self._compiles = compiles
        self._wall = wall
        self.remarks: dict[str, str] = {}
        """By settled id, what was wrong with a block that ran all the same."""

    async def ask(self, messages: list[Message], turn: int, *, runs: bool = True) -> Reply:
        """Ask for one reply.

        Args:
            messages: The context.
            turn: The turn that begins with it.
            runs: Whether its blocks run; else it is read like any other, and only what it used is told.

        Returns:
            The reply. Its blocks run already.

        Raises:
            ModelError: If the model cannot be asked.
            LimitReached: If the budget does not pay for it.
            Refused: If a hook refuses the call.
        """
        draft = _Draft(runs, began=self._wall())
        reader = self._codec.reader(self._compiles, self._launcher.in_use if runs else ())
        request = ModelRequest(tuple(messages), stop=self._codec.stop, tools=self._codec.tools)
        request = await self._hooks.before_model_call(request)
        await self._stream(request, reader, draft, turn)
        for _ in range(JOINS):
            if not reader.cut:
                break
            reader.resume()
            rest = self._codec.continuation(draft.received)
            await self._stream(replace(request, messages=(*request.messages, *rest)), reader, draft, turn)
        if reader.cut:
            await self._take(reader.give_up(), reader, draft, turn)
        if not runs:
            self._emit(ModelUsed(self._model.name, draft.usage))
        return draft.reply(reader, turn, self._wall())

    async def _stream(self, request: ModelRequest, reader: ReplyReader, draft: _Draft, turn: int) -> None:
        async with closing(self._model.stream(request)) as pieces:
            async for piece in pieces:
                match piece:
                    case TextPiece():
                        draft.received += piece.text
                        if draft.runs:
                            self._emit(ReplyDelta(turn, piece.text))
                        # By lines: a block's draft holds nothing of the next one, which has not been launched.
                        for line in piece.text.splitlines(keepends=True):
                            await self._take(reader.feed(line), reader, draft, turn)
                    case CallPiece():
                        await self._take(reader.feed(piece), reader, draft, turn)
                    case EndPiece():
                        draft.usage += piece.usage
                        draft.finish = piece.finish
                    case _:
                        pass
        await self._take(reader.finish(draft.finish), reader, draft, turn)

    async def _take(
        self, items: Sequence[Part | Fault], reader: ReplyReader, draft: _Draft, turn: int
    ) -> None:
        """Act on what the reader returned. Each call that is new gives the first items that are no prose."""
        of_calls = len(reader.calls) - len(draft.job_ids)
        last: str | None = None
        for item in items:
            if isinstance(item, Prose):
                draft.add_prose(item)
                continue
            job_id = await self._act(item, draft, turn)
            last = job_id or last
            if isinstance(item, Fault) and item.runs and last is not None:
                self.remarks[last] = item.message
            if of_calls > 0:
                draft.job_ids.append(job_id)
                of_calls -= 1
            if draft.runs and isinstance(item, CodeBlock | AgentBlock):
                # Nothing was awaited since its launch: this is known before any of it runs.
                self._emit(Drafted(draft.reply(reader, turn, self._wall())))

    async def _act(
        self, item: CodeBlock | AgentBlock | Cancel | Fault, draft: _Draft, turn: int
    ) -> str | None:
        match item:
            case CodeBlock() | AgentBlock() | Cancel() if not draft.runs:
                draft.parts.append(item)
            case CodeBlock() | AgentBlock():
                job_id = await self._launcher.launch(item, turn)
                draft.parts.append(replace(item, id=item.id or job_id))
                return job_id
            case Cancel():
                draft.parts.append(item)
                fault = self._launcher.cancel(item)
                if fault is not None:
                    draft.faults.append(fault)
            case Fault():
                draft.faults.append(item)
        return None
