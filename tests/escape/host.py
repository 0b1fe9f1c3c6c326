"""A host with kernels in one mode, in which every attack is tried: `python host.py MODE WAY FOLDER`.

Comes in: the mode; whether kernels are spawned or forked; a folder that everybody may pass through. Goes out: on
stdout, in JSON, what the sandbox was, and for each attack "held", "watched", "not held" or "not tried", and in which
words. It is a process of its own, so that it can be root's, an ordinary user's, or one that is shut in as by Docker.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from servers import NEEDLE, facts_of

from codeact_kernel.agent import Options, Settings, house, plan
from codeact_kernel.blocks import CodeBlock, Job, StreamOutput
from codeact_kernel.errors import KernelDied
from codeact_kernel.kernels import (
    Kernel,
    KernelRunner,
    KernelSettings,
    KernelSource,
    choose,
    describe_sandbox,
)

HERE = Path(__file__).parent
WATCHED = {"take_too_much_memory_in_a_tree": "max_memory", "fill_the_workspace": "max_growth"}
"""What is not held but watched, and the limit that the watch is about."""
STATED = 15.0
"""Seconds within which a watch has ended the kernel."""
OF_OTHERS = [
    "read_the_hosts_environment",
    "read_the_hosts_memory",
    "read_the_hosts_files_through_its_descriptors",
    "trace_the_host",
    "signal_the_host",
]
"""What is tried on another process of the same user, too: our host closes itself, and nobody else's process."""
AGAIN = 60
"""How often what is watched is tried, one after the other: a watch looks once a second."""
FILL = """
import time
for number in range(3000):
    with open(f"filled-{number % 30}", "ab") as file: file.write(b"x" * 1_000_000)
    time.sleep(0.01)
"""
"""Fills the workspace, more slowly than a disk could be."""
ITS_OWN = {
    "serve_tcp": "net",
    "serve_tcp_without_binding": "net",
    "share_memory_with_others_of_the_user": "ipc",
}
"""What is no way out where the kernel has that namespace for itself."""
MB = 1_000_000
DATA, TREE, FILE, TMP, GROWTH, PROCESSES = 1000 * MB, 1200 * MB, 64 * MB, 64 * MB, 100 * MB, 300


class Heard:
    """What a block has printed."""

    def __init__(self):
        self.text = ""

    def started(self, lane, at):
        pass

    def held(self, by):
        pass

    def output(self, output):
        self.text += output.text if isinstance(output, StreamOutput) else ""


class Trial:
    """Kernels of one mode, and what is tried in them."""

    def __init__(self, source, settings, facts):
        self._source = source
        self._settings = settings
        self._facts = facts
        self._workspace = Path(facts["workspace"])
        self.results = {}

    async def run(self):
        async with await self._source.take(self._settings) as kernel:
            said = await self._said(kernel, {}, [])
            own = {
                kind
                for kind in ("net", "ipc")
                if _namespace(kind, kernel.process.kernel_pid) != _namespace(kind)
            }
            others = await self._said(kernel, {"host": self._facts["others"]}, OF_OTHERS)
        for name, how in said.items():
            self.results[name] = [self._judged(name, how), how]
        for name, how in others.items():
            self.results[f"{name}, another of the user's"] = [self._judged(name, how), how]
        for name, kind in ITS_OWN.items():
            if kind in own:
                self.results[name] = ["held", f"in a namespace of its own ({kind})"]
        await self._judge_the_survivor()
        # What is started from now on finds what was planted, where a careless one would look first.
        os.chdir(self._workspace)
        await choose(None, sys.executable)
        for name, limit in WATCHED.items():
            self.results[name] = await self._watched(name, limit)
        for name, how in said.items():
            if how.startswith("left") and name != "survive_a_kill":
                self.results[name] = [self._judged(name, how), how]
        # No limit of a process counts it; the watch does as soon as it is written to.
        self.results["take_too_much_shared_memory"][0] = self.results["take_too_much_memory_in_a_tree"][0]

    async def _said(self, kernel, more, names):
        facts = self._facts | {"run": str(kernel.process.folder)} | more
        text = await self._printed(kernel, facts, names)
        return json.loads(text[text.index("{") :])

    async def _printed(self, kernel, facts, names):
        heard = Heard()
        skipped = [] if names else list(WATCHED)
        code = (
            "import subprocess, sys, json\n"
            "sys.path.insert(0, 'attacks')\n"
            f"facts, names, skipped = json.loads({json.dumps(json.dumps(facts))}), {names!r}, {skipped!r}\n"
            "if not names:\n"
            "    listed = subprocess.run([sys.executable, '-c', 'import attacks, attacks_files, attacks_floods, '\n"
            "        'attacks_sockets, attacks_system, attacks_processes; print(*attacks.attacks)'],\n"
            "        cwd='attacks', capture_output=True, text=True, check=True).stdout.split()\n"
            "    names = [name for name in listed if name not in skipped]\n"
            "ended = subprocess.run([sys.executable, 'attacks/attacks.py', *names], input=json.dumps(facts),\n"
            "    capture_output=True, text=True)\n"
            "print(ended.stdout or ended.stderr)"
        )
        outcome = await KernelRunner(kernel).run(Job("attack", CodeBlock(code), 1), heard)
        assert outcome.status == "ok", outcome.error
        return heard.text

    def _judged(self, name, how):
        if how.startswith("stopped"):
            return "held"
        if how.startswith("not tried"):
            return "not tried"
        if name == "make_a_folder_in_the_home" and self._has_a_home_of_its_own:
            return "held"
        if not how.startswith("left"):
            return "broken" if how.startswith("broken") else "not held"
        if name == "plant_a_module":
            ran = [file.read_text() for file in self._workspace.glob("ran-*")]
            # Only who is behind walls has given up new privileges.
            return "held" if all("NoNewPrivs:\t1" in status for status in ran) else "not held"
        if name == "plant_a_pickle":
            return "not held" if (self._workspace / "unpickled").exists() else "held"
        kept = (Path(self._facts["outside"]) / "file").read_text() == NEEDLE
        return "held" if kept else "not held"

    @property
    def _has_a_home_of_its_own(self):
        sandbox = self._settings.sandbox
        return sandbox is not None and (sandbox.own_uid or sandbox.mode != "limits")

    async def _judge_the_survivor(self):
        file = self._workspace / "survivor"
        before = file.read_text() if file.exists() else ""
        await asyncio.sleep(0.5)
        is_over = not file.exists() or file.read_text() == before
        self.results["survive_a_kill"][0] = "held" if is_over else "not held"

    async def _watched(self, name, limit):
        began = time.monotonic()
        try:
            async with asyncio.timeout(60), await self._source.take(self._settings) as kernel:
                if name == "fill_the_workspace":
                    # The attack removes what it has made: too soon for who looks once a second.
                    await KernelRunner(kernel).run(Job("fill", CodeBlock(FILL), 1), Heard())
                else:
                    facts = self._facts | {"run": str(kernel.process.folder)}
                    await self._printed(kernel, facts, [name] * AGAIN)
        except KernelDied as died:
            took = time.monotonic() - began
            is_it = limit in died.message and took < STATED
            return ["watched" if is_it else "not held", f"{died.message} ({took:.1f} s)"]
        except TimeoutError:
            pass
        return ["not held", "it went on"]


def _namespace(kind, pid="self"):
    return Path(f"/proc/{pid}/ns/{kind}").readlink()


class Spawning:
    """As a `KernelSource`, and each kernel is spawned."""

    async def take(self, settings):
        kernel = Kernel(settings)
        await kernel.start()
        return kernel


async def main(mode, way, folder):
    with facts_of(folder) as facts:
        workspace = Path(facts["workspace"])
        (workspace / "attacks").mkdir()
        for file in HERE.glob("attacks*.py"):
            shutil.copy(file, workspace / "attacks")
        settings = Settings(sandbox=mode, max_file=FILE, max_growth=GROWTH)
        options = Options(workspace=workspace, settings=settings)
        _, sandbox = await house(options, plan(options))
        if sandbox is not None:
            wanted = replace(sandbox.settings, max_tmp=TMP, max_processes=PROCESSES)
            sandbox = replace(sandbox, data=DATA, settings=wanted)
        facts |= {"data": DATA, "file_size": FILE, "processes": PROCESSES, "room": 2 * TMP}
        facts["host"], facts["others"] = [os.getpid()], facts["host"]
        if sandbox is not None and sandbox.mode == "bwrap":
            facts["read_only"] = "/usr"
        kernels = KernelSettings(cwd=workspace, sandbox=sandbox, max_memory=TREE)
        async with KernelSource(ready=0) as source:
            trial = Trial(source if way == "forked" else Spawning(), kernels, facts)
            await trial.run()
        mode = "none" if sandbox is None else sandbox.mode
        print(json.dumps({"mode": mode, "told": describe_sandbox(sandbox), "results": trial.results}))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
