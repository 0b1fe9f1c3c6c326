"""How much memory a kernel holds, and what is done about it."""

from __future__ import annotations

import asyncio

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.errors import KernelDied
from codeact_kernel.kernels import Kernel, KernelSettings
from codeact_kernel.kernels.memory import Curve, Limit, Memory, Together, least_limit

MB = 10**6


def memory(limit, *, max_memory=None, names=("df", "rows")):
    told = []
    return Memory(max_memory, lambda: names, told.append, Limit(limit, "max_memory")), told


@given(st.lists(st.integers(0, 10**9), max_size=300), st.integers(2, 20))
def test_a_curve_keeps_its_whole_life_and_its_peak_in_few_points(sizes, most):
    curve = Curve(most)
    for at, size in enumerate(sizes):
        curve.add((float(at), size))
    points = curve.points
    assert len(points) <= most
    assert list(points) == sorted(points)
    assert set(points) <= {(float(at), size) for at, size in enumerate(sizes)}
    if sizes:
        assert max(size for _, size in points) == max(sizes)
        step = curve._each
        assert all(int(at) // step == place for place, (at, _) in enumerate(points))
        assert len(points) == -(-len(sizes) // step)


def test_the_model_is_warned_once_and_again_only_after_memory_fell():
    watched, told = memory(100 * MB)
    counts = []
    for share in (50, 79, 80, 99, 81, 75, 85, 71, 80, 69, 79, 90, 120):
        assert watched.take(0.0, share * MB) is None
        counts.append(len(told))
    assert counts == [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2]


def test_kernels_of_one_run_have_one_limit_and_the_one_that_holds_most_ends():
    together, told = Together(), []
    one, other = (
        Memory(1000 * MB, lambda: (), told.append, Limit(1000 * MB, "max_memory"), together=together)
        for _ in range(2)
    )
    assert one.take(0.0, 600 * MB) is None
    assert other.take(0.0, 500 * MB) is None
    assert "hold 500 MB of the 1.1 GB of all kernels of the run" in told[0]
    reason = one.take(1.0, 600 * MB)
    assert reason == (
        "was ended at 600 MB of memory, the most of all kernels of the run, which hold 1.1 GB, more than the 1.0 GB of "
        "max_memory"
    )
    together.leave(one)
    assert other.take(2.0, 700 * MB) is None
    assert other.left == 300 * MB


async def test_a_kernel_that_is_gone_holds_nothing_of_the_limit():
    together = Together()
    process = await asyncio.create_subprocess_exec("sleep", "0.2")
    watched = Memory(None, lambda: (), print, Limit(1000 * MB, "max_memory"), together=together)
    assert await watched.watch(process.pid) is None
    await process.wait()
    assert together.take(watched, 1 * MB) == (1 * MB, True)


def test_a_warning_says_how_much_the_limit_the_names_and_what_to_do():
    watched, told = memory(4000 * MB, names=tuple(f"name{n}" for n in range(25)))
    watched.take(0.0, 3400 * MB)
    for words in (
        "hold 3.4 GB",
        "max_memory is 4.0 GB",
        "del name",
        "gc.collect()",
        "smaller pieces",
        "name19",
    ):
        assert words in told[0]
    assert "and 5 more" in told[0]
    assert "name20" not in told[0]


def test_past_max_memory_it_has_to_be_ended_and_the_reason_names_both_sizes():
    watched, _ = memory(250 * MB, max_memory=250 * MB)
    assert watched.take(0.0, 250 * MB) is None
    reason = watched.take(1.0, 371 * MB)
    assert "ended at 371 MB of memory, more than the 250 MB of max_memory" in reason
    assert watched.curve.points == ((0.0, 250 * MB), (1.0, 371 * MB))


def test_in_a_sandbox_a_share_of_what_there_is_is_the_limit_where_nobody_has_given_one():
    told = []
    watched = Memory(None, lambda: (), told.append, Limit(1000 * MB, "the machine's memory"), share=True)
    assert watched.take(0.0, 719 * MB) is None
    assert told == []
    assert watched.take(0.0, 900 * MB) is None
    assert "a sandbox's share of the machine's memory is 900 MB" in told[0]
    reason = watched.take(0.0, 901 * MB)
    assert "901 MB of memory, more than the 900 MB of a sandbox's share of the machine's memory" in reason
    given = Memory(950 * MB, lambda: (), told.append, Limit(950 * MB, "max_memory"), share=True)
    assert given.take(0.0, 940 * MB) is None
    alone = Memory(None, lambda: (), told.append, Limit(1000 * MB, "the machine's memory"))
    assert alone.take(0.0, 2000 * MB) is None


def files(root, **texts):
    for path, text in texts.items():
        file = root / path.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


GROUP = "sys__fs__cgroup__"


@pytest.mark.parametrize(
    ("cgroup", "limits", "least"),
    [
        ("0::/a/b\n", {"a__b__memory_dot_max": "500000\n", "a__memory_dot_max": "400000\n"}, 400_000),
        ("0::/a/b\n", {"a__b__memory_dot_max": "max\n", "memory_dot_max": "300000\n"}, 300_000),
        ("0::/docker/1f\n", {"memory_dot_max": "200000\n"}, 200_000),
        ("5:cpu:/x\n4:memory:/m\n0::/\n", {"memory__m__memory_dot_limit_in_bytes": "100000\n"}, 100_000),
        ("4:memory:/m\n", {"memory__m__memory_dot_limit_in_bytes": "9223372036854771712\n"}, None),
        ("0::/a\n", {"a__memory_dot_max": "what?\n"}, None),
        ("nonsense\n", {}, None),
    ],
)
def test_the_limit_of_a_control_group_is_read_in_both_versions(tmp_path, cgroup, limits, least):
    root = files(tmp_path, proc__self__cgroup=cgroup, **{GROUP + name: text for name, text in limits.items()})
    found = least_limit(None, root)
    if least is None:
        assert found == Limit(psutil.virtual_memory().total, "the machine's memory")
    else:
        assert found == Limit(least, "the limit of its control group")


def test_the_least_of_all_limits_counts(tmp_path):
    root = files(tmp_path, proc__self__cgroup="0::/\n", sys__fs__cgroup__memory_dot_max="3000")
    assert least_limit(2000, root) == Limit(2000, "max_memory")
    assert least_limit(3000, root).name == "max_memory"
    assert least_limit(4000, root) == Limit(3000, "the limit of its control group")
    assert least_limit(10**15, tmp_path / "nowhere").name == "the machine's memory"


async def grown(kernel, size, since=0.0):
    """Wait until a reading says that a kernel holds as much."""
    async with asyncio.timeout(60):
        while not any(held >= size for at, held in kernel.memory if at > since):
            await asyncio.sleep(0.05)


@pytest.mark.kernel
async def test_a_kernel_s_memory_is_read_while_it_lives_its_children_included(bench):
    await grown(bench.kernel, 20 * MB)
    (_, alone), *_ = bench.kernel.memory[-1:]
    await bench.run(
        "import subprocess, sys\n"
        "code = 'x = b\"x\" * 200_000_000; input()'\n"
        "child = subprocess.Popen([sys.executable, '-c', code], stdin=-1)"
    )
    # Not all of it: what processes share counts less, the more of them there are.
    await grown(bench.kernel, alone + 150 * MB)
    assert [at for at, _ in bench.kernel.memory] == sorted(at for at, _ in bench.kernel.memory)


@pytest.mark.kernel
async def test_copies_of_the_process_do_not_count_what_they_share(bench):
    await bench.run("big = b'x' * 200_000_000")
    await grown(bench.kernel, 200 * MB)
    code = "import os, time\npids = [os.fork() for _ in range(1)]\nif not pids[0]:\n    time.sleep(60)\n    os._exit(0)"
    await bench.run(code)
    since = bench.kernel.memory[-1][0]
    await grown(bench.kernel, 200 * MB, since)
    assert bench.kernel.memory[-1][1] < 380 * MB


@pytest.mark.kernel
async def test_past_max_memory_the_kernel_is_ended_told_and_followed_by_a_fresh_one(open_bench):
    bench = await open_bench(max_memory=250 * MB)
    await bench.run("valuable = 1")
    waiting, other = bench.start("import asyncio\nawait asyncio.sleep(60)")
    await waiting.running.wait()
    with pytest.raises(
        KernelDied, match=r"ended at \d+ MB of memory, more than the 250 MB of max_memory"
    ) as died:
        await bench.run("import time\nbig = b'x' * 300_000_000\ntime.sleep(60)")
    assert "valuable" in died.value.lost
    with pytest.raises(KernelDied, match="max_memory"):
        await other
    block = await bench.run("print('valuable' in globals())")
    assert block.text == "False\n"
    assert "max_memory" in block.outcome.notes[0]


@pytest.mark.kernel
async def test_with_max_memory_processes_of_blocks_end_with_the_kernel(open_bench):
    bench = await open_bench(max_memory=250 * MB)
    block = await bench.run("import subprocess\nchild = subprocess.Popen(['sleep', '600'])\nprint(child.pid)")
    child = psutil.Process(int(block.text))
    with pytest.raises(KernelDied, match="max_memory"):
        await bench.run("big = b'x' * 300_000_000\nimport time\ntime.sleep(60)")
    async with asyncio.timeout(20):
        while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(0.05)


@pytest.mark.kernel
async def test_a_kernel_that_dies_of_something_else_says_so(tmp_path):
    async with Kernel(KernelSettings(cwd=tmp_path, max_memory=2000 * MB)) as kernel:
        await grown(kernel, 1)
        psutil.Process(kernel.pid).kill()
        async with asyncio.timeout(20):
            while kernel.death is None:
                await asyncio.sleep(0.05)
        assert "SIGKILL" in kernel.death.message
