"""Blocks that have to be stopped, and kernels that die: our supervisor beside others, in one run.

Each engine gets each case in a process of its own, since some of them hang for good. A case has a deadline of one
second; printed are the seconds from the deadline until control is back, and what is left then: whether the next block
works, and whether a name from before is still there. Ours and a stock kernel with a bare client always run; ipybox,
AutoGen's Jupyter executor and smolagents' local executor run where they are installed
(`pip install ipybox "autogen-ext[jupyter-executor]" smolagents`).
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import asynccontextmanager
from pathlib import Path

DEADLINE, PATIENCE, CAP = 1.0, 8.0, 20.0
"""Seconds: of a case; that the next block may take; of a whole process."""
STOPS = {
    "sleeps": "import time\ntime.sleep(60)",
    "is busy": "while True: pass",
    "swallows interrupts": (
        "import time\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass"
    ),
    "holds the interpreter": "x = 10 ** (10 ** 8)",
}
THREE, DEATH = "three sleeps of 0.9 s at once", "a kernel that is killed"
SILENT = "calls of a silent 10 min"


class Ours:
    name, module = "codeact-kernel", "codeact_kernel"

    @asynccontextmanager
    async def open(self):
        from codeact_kernel.blocks import CodeBlock, Job
        from codeact_kernel.kernels import Kernel, KernelRunner, KernelSettings
        from codeact_kernel.supervisor import Supervisor

        async with (
            Kernel(KernelSettings(cwd=Path(tempfile.mkdtemp()))) as kernel,
            Supervisor({CodeBlock: KernelRunner(kernel)}, lambda event: None) as supervisor,
        ):
            count = 0

            async def execute(code):
                nonlocal count
                count += 1
                name = f"b{count}"
                supervisor.launch(Job(name, CodeBlock(code, timeout=DEADLINE), count), count)
                await supervisor._watches[name].ended
                return supervisor.output(name)

            yield execute


class Bare:
    """jupyter_client's own asynchronous client: at the deadline it interrupts the kernel and waits for its idle."""

    name, module = "stock kernel, jupyter_client", "jupyter_client"

    @asynccontextmanager
    async def open(self):
        from jupyter_client.manager import AsyncKernelManager

        manager = AsyncKernelManager()
        await manager.start_kernel()
        client = manager.client()
        client.start_channels()
        await client.wait_for_ready()

        async def execute(code):
            texts = []

            def hook(message):
                texts.append(message["content"].get("text", ""))

            run = asyncio.ensure_future(client.execute_interactive(code, output_hook=hook, allow_stdin=False))
            done, _ = await asyncio.wait({run}, timeout=DEADLINE)
            if not done:
                await manager.interrupt_kernel()
                await run
            return "".join(texts)

        try:
            yield execute
        finally:
            await manager.shutdown_kernel(now=True)


class Ipybox:
    name, module = "ipybox", "ipybox"

    @asynccontextmanager
    async def open(self):
        from ipybox import CodeExecutor

        async with CodeExecutor() as executor:

            async def execute(code):
                return (await executor.execute(code, timeout=DEADLINE)).text or ""

            yield execute


class AutoGen:
    name, module = "AutoGen Jupyter executor", "autogen_ext"

    @asynccontextmanager
    async def open(self):
        from autogen_core import CancellationToken
        from autogen_core.code_executor import CodeBlock as Block
        from autogen_ext.code_executors.jupyter import JupyterCodeExecutor

        async with JupyterCodeExecutor(timeout=1) as executor:

            async def execute(code):
                block = Block(code=code, language="python")
                return (await executor.execute_code_blocks([block], CancellationToken())).output

            yield execute


class Smolagents:
    name, module = "smolagents local executor", "smolagents"

    @asynccontextmanager
    async def open(self):
        from smolagents.local_python_executor import BASE_PYTHON_TOOLS, LocalPythonExecutor

        executor = LocalPythonExecutor(["time", "os"], timeout_seconds=1)
        executor.send_tools({**BASE_PYTHON_TOOLS})

        async def execute(code):
            return (await asyncio.to_thread(executor, code)).logs

        yield execute


ENGINES = {engine.name: engine for engine in (Ours, Bare, Ipybox, AutoGen, Smolagents)}
WAIT = "import time\ntime.sleep(0.9)\nprint('done')"
KILL = f"import os\nos.kill(os.getpid(), {int(signal.SIGKILL)})"


async def one_case(engine: str, case: str) -> dict[str, object]:
    """Run one case; returns what is printed of it."""
    warnings.simplefilter("ignore")
    async with ENGINES[engine]().open() as execute:
        await execute("kept = 41")
        begun = time.monotonic()
        if case == THREE:
            texts = await asyncio.gather(*(execute(WAIT) for _ in range(3)), return_exceptions=True)
            whole = sum("done" in str(text) for text in texts)
            show({"seconds": time.monotonic() - begun, "next": f"{whole} of 3 with their line"})
            return {}
        try:
            await execute(KILL if case == DEATH else STOPS[case])
            raised = ""
        except Exception as exception:
            raised = f"{type(exception).__name__}: {exception}"[:80]
        seconds = time.monotonic() - begun - (0.0 if case == DEATH else DEADLINE)
        show({"seconds": max(0.0, seconds), "raised": raised})
        try:
            async with asyncio.timeout(PATIENCE):
                told = await execute("try: print(kept + 1)\nexcept NameError: print('gone')")
                for _ in range(5):
                    if "42" in told or "gone" in told:
                        break
                    told = await execute("try: print(kept + 1)\nexcept NameError: print('gone')")
        except Exception as exception:
            told = f"{type(exception).__name__}"
        show({"next": "names kept" if "42" in told else "names gone" if "gone" in told else "no next block"})
    return {}


def show(about: dict[str, object]) -> None:
    print(f"#{json.dumps(about)}", flush=True)


def measure(engine: str, case: str) -> str:
    """Run a case in a process of its own; returns its line of the table."""
    command = [sys.executable, __file__, engine, case]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        out, _ = process.communicate(timeout=CAP)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
    about: dict[str, object] = {}
    for line in out.decode(errors="replace").splitlines():
        if line.startswith("#"):
            about |= json.loads(line[1:])
    if "seconds" not in about:
        return f"not back within {CAP:.0f} s"
    return f"{about['seconds']:.1f} s, {about.get('next', 'no next block')}"


def calls_of_a_silent_block() -> int:
    """How often our agent calls its model while a block runs for ten minutes and says nothing."""
    from codeact_kernel.blocks import CodeBlock, Job
    from codeact_kernel.events import Heartbeat
    from codeact_kernel.supervisor import Supervisor
    from codeact_kernel.testing import FakeRunner, run_jumping, wall

    async def run() -> int:
        wakes = []
        async with Supervisor({CodeBlock: FakeRunner()}, wakes.append, wall=wall) as supervisor:
            supervisor.launch(Job("a", CodeBlock("sleep(600)", heartbeat=5.0), 1), 1)
            await supervisor.settled()
        return sum(isinstance(event, Heartbeat) for event in wakes)

    return run_jumping(run())


def main() -> None:
    there = [name for name, engine in ENGINES.items() if importlib.util.find_spec(engine.module)]
    for name in ENGINES.keys() - set(there):
        print(f"({name} is not installed)")
    for case in (THREE, *STOPS, DEATH):
        print(f"\na block that {case}" if case in STOPS else f"\n{case}")
        for name in there:
            print(f"  {name:30} {measure(name, case)}", flush=True)
    print(f"\nmodel {SILENT}, with a heartbeat of 5 s\n  {Ours.name:30} {calls_of_a_silent_block()}")
    print("  the others have no loop that waits: their caller polls, or blocks until the code ends")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        asyncio.run(one_case(sys.argv[1], sys.argv[2]))
    else:
        main()
