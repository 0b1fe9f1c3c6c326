"""Where kernels come from when many are wanted: what is ready, what is given to whom, and what is left of it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from sources import alive, parent_of, until

from codeact_kernel.environment import parent_environment
from codeact_kernel.errors import ConfigError, KernelDied
from codeact_kernel.kernels import Kernel, KernelSettings, KernelSource, keep_warm, kept_parents

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only"),
]

LOG = "codeact_kernel.kernels"


@pytest.fixture
def settings(tmp_path):
    return KernelSettings(cwd=tmp_path)


def ready_of(parent: int) -> set[int]:
    """The kernels that were forked from a warm parent."""
    return {child.pid for child in psutil.Process(parent).children()}


async def is_filled(source: KernelSource, parent: int, count: int) -> set[int]:
    """Wait until so many kernels are ready; returns all that there are."""
    await until(lambda: sum(len(stock._ready) for stock in source._stocks.values()) == count)
    return ready_of(parent)


# -- kernels that are ready ----------------------------------------------------------------------------------


async def test_a_kernel_that_is_ready_is_given_and_another_one_takes_its_place(settings, bench_of):
    async with KernelSource(ready=2) as source:
        first = await source.take(settings)
        parent = parent_of(first.pid)
        ready = await is_filled(source, parent, 2) - {first.pid}
        second = await source.take(settings)
        assert second.pid in ready
        assert (await bench_of(second).run("print(1)")).text == "1\n"
        assert len(await is_filled(source, parent, 2)) == 4


async def test_a_ready_kernel_works_in_the_folder_and_with_the_tools_of_who_takes_it(tmp_path, bench_of):
    async def serve(name, args, kwargs, msg_id, note):
        return [name, kwargs["what"]]

    tools = [{"name": "ask", "signature": "(what)", "doc": "Asks.", "async": False}]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with KernelSource(ready=1) as source:
        first = await source.take(KernelSettings(cwd=tmp_path / "a"))
        ready = await is_filled(source, parent_of(first.pid), 1) - {first.pid}
        kernel = await source.take(KernelSettings(cwd=tmp_path / "b"), serve, tools)
        assert {kernel.pid} == ready
        block = await bench_of(kernel).run(
            "import os\nprint(os.getcwd(), get_ipython().starting_dir, *_dh, ask(1), 'self' in globals())"
        )
        folder = tmp_path.resolve() / "b"
        assert block.text == f"{folder} {folder} {folder} ['ask', 1] True\n"


async def test_a_ready_kernel_is_given_to_nobody_who_wants_another_environment(
    settings, tmp_path, bench_of, monkeypatch
):
    other = KernelSettings(cwd=tmp_path, variables=(("GREETING", "hello"),))
    async with KernelSource(ready=1) as source:
        first = await source.take(settings)
        ready = await is_filled(source, parent_of(first.pid), 1)
        kernel = await source.take(other)
        assert kernel.pid not in ready
        assert parent_of(kernel.pid) == parent_of(first.pid)
        block = await bench_of(kernel).run("import os\nprint(os.environ['GREETING'])")
        assert block.text == "hello\n"
        monkeypatch.setenv("LC_ALL", "C")
        changed = await source.take(settings)
        assert parent_of(changed.pid) != parent_of(first.pid)


async def test_a_ready_kernel_that_has_died_or_does_not_answer_is_given_to_nobody(settings, bench_of):
    async with KernelSource(ready=2) as source:
        first = await source.take(settings)
        ready = sorted(await is_filled(source, parent_of(first.pid), 2) - {first.pid})
        os.kill(ready[0], signal.SIGKILL)
        os.kill(ready[1], signal.SIGSTOP)
        kernel = await source.take(settings)
        assert kernel.pid not in ready
        assert (await bench_of(kernel).run("print(1)")).text == "1\n"
        assert not any(map(alive, ready))


async def test_preparing_makes_kernels_ready_before_the_first_is_asked_for(settings):
    async with KernelSource(ready=1) as source:
        await source.prepare(settings)
        await until(lambda: any(stock._ready for stock in source._stocks.values()))
        (ready,) = (process.pid for stock in source._stocks.values() for process in stock._ready)
        assert (await source.take(settings)).pid == ready


async def test_wrong_settings_are_said_as_of_any_kernel(tmp_path):
    async with KernelSource() as source:
        with pytest.raises(ConfigError, match="no folder"):
            await source.take(KernelSettings(cwd=tmp_path / "nowhere"))
        with pytest.raises(ConfigError, match="no interpreter"):
            await source.prepare(KernelSettings(python=str(tmp_path)))


async def test_a_kernel_of_a_source_that_dies_gets_its_next_process_from_there(settings, bench_of):
    async with KernelSource(ready=1) as source, await source.take(settings) as kernel:
        await kernel.seed({"rows": [1, 2]})
        parent = parent_of(kernel.pid)
        ready = await is_filled(source, parent, 1) - {kernel.pid}
        bench = bench_of(kernel)
        with pytest.raises(KernelDied):
            await bench.run("import os\nos._exit(3)")
        assert (await bench.run("print(rows)")).text == "[1, 2]\n"
        assert {kernel.pid} == ready


# -- ends ----------------------------------------------------------------------------------------------------


async def test_leaving_a_source_ends_all_it_has_given_and_all_that_is_ready(settings):
    async with KernelSource(ready=1) as source:
        entered, left = await source.take(settings), await source.take(settings)
        async with left:
            pass
        parent = parent_of(entered.pid)
        processes = [parent, *await is_filled(source, parent, 1)]
        ready = [process for stock in source._stocks.values() for process in stock._ready]
        folders = [process.folder for process in (entered.process, left.process, *ready)]
    assert (len(processes), len(folders)) == (3, 3)
    assert not any(map(alive, processes))
    assert not any(folder.exists() for folder in folders)


async def test_a_take_that_is_cancelled_leaves_nothing(settings):
    async with KernelSource(ready=0) as source:
        first = await source.take(settings)
        parent = parent_of(first.pid)
        for wait in range(0, 60, 4):
            task = asyncio.create_task(source.take(settings))
            await asyncio.sleep(wait / 1000)
            task.cancel()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
            if not isinstance(ended, asyncio.CancelledError):
                await ended.__aexit__(None, None, None)
        await until(lambda: ready_of(parent) == {first.pid})
        assert alive(first.pid)


async def test_an_end_that_nobody_waits_for_any_more_comes_all_the_same(settings):
    async with KernelSource(ready=0) as source:
        kernel = await source.take(settings)
        pid, folder = kernel.pid, kernel.process.folder
        leaving = asyncio.create_task(kernel.__aexit__(None, None, None))
        await asyncio.sleep(0)
        leaving.cancel()
        await until(lambda: not alive(pid) and not folder.exists(), 5)
        with pytest.raises(asyncio.CancelledError):
            await leaving


HOST = """
import asyncio, sys
from pathlib import Path
from codeact_kernel.blocks import CodeBlock, Job
from codeact_kernel.kernels import KernelRunner, KernelSettings, KernelSource
from codeact_kernel.kernels.janitor import janitor
from sources import until

class Watcher:
    def started(self, lane, at): pass
    def output(self, output): print(output.text, end="", flush=True)

async def main():
    settings = KernelSettings(cwd=Path(sys.argv[1]))
    async with KernelSource(ready=1) as source, await source.take(settings) as kernel:
        stock, = source._stocks.values()
        await until(lambda: stock._ready)
        ready, = stock._ready
        janitor_pid = next(child.pid for child in psutil.Process().children() if "janitor.py" in child.cmdline()[-1])
        print(janitor_pid, kernel.pid, kernel.process.folder, ready.pid, ready.folder, flush=True)
        await KernelRunner(kernel).run(Job("b", CodeBlock(sys.argv[2]), 1), Watcher())
        await asyncio.sleep(60)

import psutil
asyncio.run(main())
"""
CHILDREN = (
    "import subprocess, time\n"
    "a = subprocess.Popen(['sleep', '300'])\nb = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
    "print('ready', flush=True)\ntime.sleep(0.3)\n"
)


async def started_host(workspace, code):
    """A host with a kernel at work and one that is ready: its process, the janitor, the others, and their folders."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}
    host = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", HOST, str(workspace), code], stdout=subprocess.PIPE, text=True, env=env
    )
    with host.stdout:
        line = await asyncio.to_thread(host.stdout.readline)
        janitor, kernel, folder, ready, other = line.split()
        assert await asyncio.to_thread(host.stdout.readline) == "ready\n"
    family = psutil.Process(parent_of(int(kernel)))
    pids = [family.pid, *(child.pid for child in family.children(recursive=True))]
    assert {int(kernel), int(ready)} < set(pids)
    return host, int(janitor), pids, [Path(folder), Path(other)]


@pytest.mark.parametrize("code", ["", "while True: pass", "x = 10 ** (10 ** 8)"])
async def test_a_killed_host_leaves_no_parent_no_kernel_no_child_and_no_folder(tmp_path, code):
    host, _, pids, folders = await started_host(tmp_path, CHILDREN + code)
    assert len(pids) >= 5
    host.kill()
    host.wait(10)
    await until(lambda: not any(map(alive, pids)) and not any(folder.exists() for folder in folders), 5)


async def test_a_host_that_is_killed_with_its_janitor_leaves_no_kernel(tmp_path):
    host, janitor, pids, _ = await started_host(tmp_path, "print('ready', flush=True)")
    os.kill(janitor, signal.SIGKILL)
    host.kill()
    host.wait(10)
    await until(lambda: not any(map(alive, pids)), 5)


# -- warm parents that fail ----------------------------------------------------------------------------------


async def test_kernels_outlive_their_warm_parent_and_the_next_ones_come_from_another(
    settings, bench_of, caplog
):
    async with KernelSource(ready=0) as source:
        first, second = await source.take(settings), await source.take(settings)
        benches = [bench_of(first), bench_of(second)]
        await benches[0].run("import os\nkept = 41")
        await benches[1].run("import os")
        parent = parent_of(first.pid)
        os.kill(parent, signal.SIGKILL)
        await until(lambda: not alive(parent))
        third = await source.take(settings)
        assert (await benches[0].run("print(kept + 1)")).text == "42\n"
        with pytest.raises(KernelDied, match="process is gone") as died:
            await benches[1].run("os._exit(3)")
        assert died.value.returncode is None
        assert parent_of(third.pid) not in (parent, os.getpid())
        assert (await bench_of(third).run("print(1)")).text == "1\n"


async def test_a_warm_parent_that_keeps_dying_is_given_up_and_kernels_are_spawned(settings, bench_of, caplog):
    async with KernelSource(ready=0) as source:
        for _ in range(3):
            kernel = await source.take(settings)
            parent = parent_of(kernel.pid)
            assert parent != os.getpid()
            os.kill(parent, signal.SIGKILL)
            await until(lambda parent=parent: not alive(parent))
        kernel = await source.take(settings)
        assert parent_of(kernel.pid) == os.getpid()
        block = await bench_of(kernel).run("print(1)")
    assert (block.text, block.outcome.notes) == ("1\n", ())
    assert "spawned" in caplog.text


async def test_a_warm_parent_that_does_not_answer_costs_seconds_and_no_kernel(settings, bench_of, caplog):
    async with KernelSource(ready=0) as source:
        first = await source.take(settings)
        os.kill(parent_of(first.pid), signal.SIGSTOP)
        async with asyncio.timeout(10):
            kernel = await source.take(settings)
        assert parent_of(kernel.pid) == os.getpid()
        assert "does not answer" in caplog.text
        assert (await bench_of(kernel).run("print(1)")).text == "1\n"
        assert (await bench_of(first).run("print(2)")).text == "2\n"


async def test_a_death_that_a_stopped_parent_cannot_tell_is_told_within_a_second_or_so(settings, bench_of):
    async with KernelSource(ready=0) as source, await source.take(settings) as kernel:
        parent = parent_of(kernel.pid)
        os.kill(parent, signal.SIGSTOP)
        try:
            os.kill(kernel.pid, signal.SIGKILL)
            await until(lambda: kernel.death is not None, 2)
        finally:
            os.kill(parent, signal.SIGCONT)


# -- modules that are preloaded ------------------------------------------------------------------------------

MODULES = {
    "starts_threads": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
        "1 thread",
    ),
    "opens_files": ("kept = open('/dev/null')", "opens files"),
    "fails": ("raise RuntimeError('no luck')", "no luck"),
    "ends": ("import os\nos._exit(4)", "ended the process"),
    "is_fine": ("import os\nos.environ['SET_BY_IMPORT'] = 'yes'\npid = os.getpid()", ""),
}


async def test_what_cannot_be_preloaded_is_left_out_and_said_and_the_rest_is_shared(
    tmp_path, bench_of, caplog, monkeypatch
):
    for name, (code, _) in MODULES.items():
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    settings = KernelSettings(cwd=tmp_path, preload=(*MODULES, "is_not_there"))
    async with KernelSource(ready=0) as source:
        kernel = await source.take(settings)
        block = await bench_of(kernel).run(
            f"import os, sys\nprint([name for name in {list(MODULES)} if name in sys.modules])\n"
            "import is_fine\nprint(is_fine.pid == os.getppid(), os.environ['SET_BY_IMPORT'])"
        )
        assert block.text == "['is_fine']\nTrue yes\n"
    for name, (_, words) in MODULES.items():
        assert (f"{name} is not preloaded" in caplog.text) == bool(words)
        assert words in caplog.text
    assert "is_not_there is not preloaded: ModuleNotFoundError" in caplog.text


async def test_numpy_is_preloaded_and_computes_with_as_many_threads_as_elsewhere_and_pyplot_shows_figures(
    settings, tmp_path, bench_of
):
    code = (
        "import sys, os\nthere = 'numpy' in sys.modules\nimport numpy\na = numpy.ones((600, 600))\nb = a @ a\n"
        "print(there, b[0, 0], len(os.listdir('/proc/self/task')))"
    )
    async with KernelSource(ready=0) as source:
        without = await source.take(settings)
        plain = (await bench_of(without).run(code)).text.split()
        preload = ("numpy", "pandas", "matplotlib.pyplot")
        kernel = await source.take(KernelSettings(cwd=tmp_path, preload=preload))
        shared = (await bench_of(kernel).run(code)).text.split()
        drawn = await bench_of(kernel).run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone")
        assert parent_of(kernel.pid) != parent_of(without.pid)
    assert (plain[0], shared[0]) == ("False", "True")
    assert plain[1:] == shared[1:]
    assert ["image/png" in output.data for output in drawn.outputs] == [True]


async def parents_of_two(settings):
    async with (
        KernelSource(0, kept_parents()) as source,
        Kernel(settings, begin=source.begin) as first,
        await source.take(settings) as second,
    ):
        return parent_of(first.pid), parent_of(second.pid)


def test_kept_warm_parents_serve_one_loop_after_the_other_and_end_with_their_keeping(settings):
    def keep():
        with keep_warm() as kept, keep_warm() as again:
            assert again is kept
            return {pid for _ in range(2) for pid in asyncio.run(parents_of_two(settings))}

    with ThreadPoolExecutor(1) as apart:  # where the tests' own are not
        assert apart.submit(kept_parents).result() is None
        (parent,) = apart.submit(keep).result()
        assert parent != os.getpid()
        assert not psutil.pid_exists(parent)
        first, second = apart.submit(lambda: asyncio.run(parents_of_two(settings))).result()
    assert (first == os.getpid()) != (second == os.getpid())


def test_a_warm_parent_is_started_with_no_variable_that_only_one_kernel_may_see():
    host = {"PATH": "/bin", "LANG": "C", "TZ": "UTC", "SECRET": "x"}
    env = {"PATH": "/usr/bin", "LANG": "de", "SECRET": "x", "LD_PRELOAD": "y", "PYTHONHASHSEED": "1"}
    given = {"PATH": "/bin", "TZ": "UTC", "LANG": "de", "LD_PRELOAD": "y", "PYTHONHASHSEED": "1"}
    assert parent_environment(host, env, preload=False) == given
    assert parent_environment(host, env, preload=True) == env
