"""A supervisor on a fake stage."""

import asyncio

import pytest

from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.supervisor import Supervisor, SupervisorSettings
from codeact_kernel.testing import FakeRunner, wall


class Stage:
    """A fake runner, a supervisor of it, and all that was emitted, with the loop's time of each event."""

    def __init__(self):
        self.runner = FakeRunner()
        self.events = []
        self.times = []
        self.told = 0

    def supervisor(self, runner=None, **settings):
        self.it = Supervisor(
            {CodeBlock: runner or self.runner}, self._emit, wall=wall, settings=SupervisorSettings(**settings)
        )
        return self.it

    def _emit(self, event):
        self.events.append(event)
        self.times.append(asyncio.get_running_loop().time())

    def launch(self, name, code, **attributes):
        self.it.launch(Job(name, CodeBlock(code, id=name.partition("#")[0], **attributes), 1), turn=1)

    def of(self, kind, name=None):
        """The events of a kind, of one block or of all."""
        found = [event for event in self.events if isinstance(event, kind)]
        return [event for event in found if name is None or getattr(event, "id", None) == name]

    def at(self, event):
        return self.times[self.events.index(event)]

    def result(self, name):
        return self.it.results[name]


@pytest.fixture
def stage():
    return Stage()
