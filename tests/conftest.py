"""Fixtures that tests of more than one room use."""

from __future__ import annotations

import asyncio
import compileall
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_core.utils import ensure_event_loop

import codeact_kernel
from codeact_kernel.blocks import CodeBlock, Job, Outcome, Output, ResultOutput, StreamOutput
from codeact_kernel.kernels import Kernel, KernelRunner, KernelSettings, KernelSource, choose, keep_warm
from codeact_kernel.kernels.process import environment_of

FORKED = sys.platform == "linux" and os.environ.get("CODEACT_TEST_KERNELS") != "spawned"
"""Whether kernels are forked where a test does not say how its kernel comes to be: that takes a fifth of the time."""

# A shell that starts the tests in the background leaves SIGINT and SIGQUIT ignored, nohup SIGHUP, and every process
# below would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)
for ignored in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(ignored, signal.SIG_DFL)


def pytest_configure(config: pytest.Config) -> None:
    """Compile the package, as pip does with what is no checkout: kernels behind walls cannot write that down."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(Path(codeact_kernel.__file__).parent, quiet=2)


@pytest.fixture(autouse=True, scope="session")
def one_loop_of_the_main_thread():
    """The event loop that jupyter_client's blocking clients and pytest-asyncio find, made and closed here.

    Each makes one where it finds none, puts it in the other's place, and closes neither."""
    loop = ensure_event_loop()
    yield
    loop.close()


@pytest.fixture(autouse=True, scope="session")
def key_of_the_tests(tmp_path_factory):
    """What signs audits and records here: nothing of the user's own is touched."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODEACT_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(autouse=True, scope="session")
def warm(request):
    """The warm parents of all tests of this process, and of the agents that they start.

    One is there before the first test of a kernel: what a test leaves does not depend on whether it comes first."""
    if not FORKED or not any(item.get_closest_marker("kernel") for item in request.session.items):
        yield None
        return
    with keep_warm() as parents:
        loop = asyncio.new_event_loop()
        launch = loop.run_until_complete(choose())
        loop.run_until_complete(parents.find(launch, environment_of(launch, KernelSettings())))
        loop.close()
        yield parents


@dataclass
class Watched:
    """A job and what its watcher heard."""

    outputs: list[Output] = field(default_factory=list)
    lane: str | None = None
    began: float | None = None
    ended: float | None = None
    outcome: Outcome | None = None
    running: asyncio.Event = field(default_factory=asyncio.Event)
    spoke: asyncio.Event = field(default_factory=asyncio.Event)

    def started(self, lane: str, at: float) -> None:
        self.lane, self.began = lane, at
        self.running.set()

    def held(self, by: str | None) -> None:
        pass

    def output(self, output: Output) -> None:
        self.outputs.append(output)
        self.spoke.set()

    @property
    def text(self) -> str:
        return "".join(o.text for o in self.outputs if isinstance(o, StreamOutput))

    @property
    def value(self) -> str | None:
        values = [o.data.get("text/plain") for o in self.outputs if isinstance(o, ResultOutput)]
        return values[-1] if values else None

    @property
    def status(self) -> str:
        assert self.outcome is not None
        return self.outcome.status

    @property
    def error(self) -> str:
        assert self.outcome is not None
        return self.outcome.error or ""


class Bench:
    """A kernel on the bench: runs blocks and remembers what was heard of each."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.runner = KernelRunner(kernel)
        self._count = 0

    def start(self, code: str, *, id: str | None = None, reply: int | None = None, **attributes: Any):
        """Launch a block; returns what is watched of it, and the task that ends with it."""
        self._count += 1
        job = Job(
            id or f"b{self._count}", CodeBlock(code, **attributes), self._count if reply is None else reply
        )
        watched = Watched()

        async def run() -> Watched:
            watched.outcome = await self.runner.run(job, watched)
            watched.ended = time.time()
            return watched

        return watched, asyncio.get_running_loop().create_task(run())

    async def run(self, code: str, **options: Any) -> Watched:
        """Run a block to its end."""
        async with asyncio.timeout(60):
            return await self.start(code, **options)[1]


@pytest.fixture(scope="session")
def bench_of() -> type[Bench]:
    """Makes a bench of a kernel that a test keeps by itself."""
    return Bench


OpenBench = Callable[..., Awaitable[Bench]]


@pytest.fixture
async def open_bench(request, tmp_path: Path, warm: Any) -> AsyncIterator[OpenBench]:
    """Starts kernels that live as long as the test: "spawned" or "forked" ones where the test's parameter says so."""
    way = getattr(request, "param", "forked" if FORKED else "spawned")
    async with KernelSource(0, warm) as source, AsyncExitStack() as stack:

        async def start(serve: Any = None, tools: Any = None, **values: Any) -> Bench:
            settings = KernelSettings(**{"cwd": tmp_path, **values})
            taken = source.take(settings, serve, tools) if way == "forked" else None
            kernel = await taken if taken is not None else Kernel(settings, serve, tools)
            bench = Bench(await stack.enter_async_context(kernel))
            if hasattr(request, "param"):
                assert (psutil.Process(kernel.pid).ppid() != os.getpid()) == (way == "forked")
            return bench

        yield start


@pytest.fixture
async def bench(open_bench: OpenBench) -> Bench:
    """Our kernel, with no host tools."""
    return await open_bench()
