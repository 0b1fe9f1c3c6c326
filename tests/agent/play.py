"""A loop on a fake stage: scripted model, fake runner, a clock that jumps."""

from __future__ import annotations

from contextlib import suppress

from codeact_kernel.agent.answer import AnswerType
from codeact_kernel.agent.asker import Asker
from codeact_kernel.agent.checking import Checked
from codeact_kernel.agent.context import Context
from codeact_kernel.agent.goal import Goal
from codeact_kernel.agent.history import History
from codeact_kernel.agent.hooks import HookChain
from codeact_kernel.agent.inbox import Inbox
from codeact_kernel.agent.launcher import Launcher
from codeact_kernel.agent.loop import Loop
from codeact_kernel.agent.reporting import Reporter
from codeact_kernel.agent.survey import Survey
from codeact_kernel.agent.wakeups import WakeUps
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.context import Counter
from codeact_kernel.dialogue import codec
from codeact_kernel.errors import CodeactError
from codeact_kernel.events import BlockFinished, Heartbeat, RunStarted
from codeact_kernel.policy import Budget, Limits
from codeact_kernel.supervisor import Supervisor, SupervisorSettings
from codeact_kernel.testing import FakeRunner, ScriptedModel, wall
from codeact_kernel.transcript import Transcript


class _OtherKernel:
    """A kernel that tells no more than names."""

    ours = False
    names = ("df", "rows")


async def _passes(command):
    return Checked(0, "")


class Play:
    """Runs one task on the stage and keeps what can be looked at afterwards."""

    def __init__(self, folder):
        self.folder = folder
        self.runner = FakeRunner()
        self.inbox = Inbox()
        self.transcript = Transcript()
        self.events = []

    def emit(self, event):
        self.transcript.apply(event)
        self.events.append(event)
        if isinstance(event, BlockFinished):
            self.inbox.put(event.result)
        elif isinstance(event, Heartbeat):
            self.inbox.put(event)

    async def run(
        self,
        *replies,
        protocol="tags",
        hooks=(),
        output_type=None,
        turns=None,
        seconds=None,
        threshold=16_000,
        window=None,
        task="Do it.",
        again=(),
        goal=False,
        until=None,
        check=None,
        compiles=lambda code: True,
        chunk=None,
        result_tokens=2000,
        grace=5.0,
    ):
        self.model = ScriptedModel(replies, window=window, chunk=chunk)
        chain, talk = HookChain(hooks), codec(protocol)
        settings = SupervisorSettings(grace=grace)
        async with Supervisor(
            {CodeBlock: self.runner}, self.emit, wall=wall, settings=settings
        ) as supervisor:
            self.supervisor = supervisor
            self.goal = Goal(
                self.transcript, check or _passes, self.emit, Counter().count, limit=result_tokens
            )
            self.wake_ups = WakeUps(self.transcript, self.inbox, self.emit, wall)

            def more():
                return (*self.goal.lines, *self.wake_ups.lines)

            survey = Survey(supervisor, _OtherKernel(), self.folder, wall=wall, more=more)
            self.context = Context(
                self.transcript,
                talk,
                "system",
                Counter(),
                window=lambda: window,
                threshold=threshold,
                survey=survey,
            )
            self.history = History(self.transcript, lambda: supervisor.shelf.place("history"))
            launcher = Launcher(supervisor, chain, self.emit, wall, take_back=self.wake_ups.take_back)
            asker = Asker(self.model, talk, launcher, chain, self.emit, compiles, wall)
            answer_type = AnswerType(output_type) if output_type else None
            reporter = Reporter(
                supervisor,
                self.context,
                chain,
                asker.remarks,
                result_tokens=result_tokens,
                handle_of_note=self.history.handle_of,
                wall=wall,
            )
            loop = Loop(
                asker,
                self.context,
                supervisor,
                self.inbox,
                chain,
                self.emit,
                reporter,
                self.goal,
                self.wake_ups,
                answer_type=answer_type,
                wall=wall,
            )
            for left, each in zip(range(len(again), -1, -1), (task, *again), strict=True):
                self.emit(RunStarted("r", each, "m", "system", wall()))
                self.goal.begin(goal, until)
                with suppress(*([CodeactError] if left else [])):
                    self.answer, self.value = await loop.run(
                        each, Budget(Limits(turns=turns, seconds=seconds))
                    )
                self.inbox.drop()
            return self.answer

    def seen(self, call=-1):
        """What the model read in one call, as one text."""
        return "\n".join(m.content for m in self.model.requests[call].messages[1:])

    def last(self, call=-1):
        """The last message of one call."""
        return self.model.requests[call].messages[-1].content
