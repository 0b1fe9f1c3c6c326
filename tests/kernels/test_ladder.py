"""Blocks that have to end: what it takes, what is spared, and what the result says."""

from __future__ import annotations

import os
import signal
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from codeact_kernel.events import BlockFinished, BlockOutput

pytestmark = pytest.mark.kernel

SWALLOW = "while True:\n    try: time.sleep(100)\n    except KeyboardInterrupt: pass"
BOUND = 6.0
"""Five seconds are promised; one more for a loaded machine."""


def text(result):
    return "".join(getattr(output, "text", "") for output in result.outputs)


def notes(result):
    return "\n".join(result.outcome.notes)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


SWALLOWERS = {
    "sleep": SWALLOW,
    "bare except": "while True:\n    try: time.sleep(0.01)\n    except: continue",
    "busy": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "two deep": (
        "while True:\n    try:\n        while True:\n            try: time.sleep(100)\n            except: pass\n"
        "    except: pass"
    ),
    "finally": "def f():\n    while True:\n        try: time.sleep(1)\n        finally: continue\nf()",
    "suppress": (
        "import contextlib\nwhile True:\n    with contextlib.suppress(BaseException): threading.Event().wait()"
    ),
    "generator": (
        "def g():\n    while True:\n        try: yield time.sleep(0.01)\n        except BaseException: pass\n"
        "while True:\n    try:\n        for _ in g(): pass\n    except BaseException: pass"
    ),
}


@pytest.mark.parametrize("lane", ["main", "worker", "async"])
@pytest.mark.parametrize("name", SWALLOWERS)
async def test_a_block_that_swallows_interrupts_is_ended_and_everything_else_stays(stage, name, lane):
    await stage.run("before", "kept = 41\nprint(os.getpid())")
    code = f"print('on', flush=True)\n{SWALLOWERS[name]}"
    pin = None if lane == "async" else lane
    stage.launch("a", f"await asyncio.sleep(0)\n{code}" if lane == "async" else code, lane=pin)
    result, seconds = await stage.cancel("a")
    assert seconds < BOUND
    assert (result.status, text(result)) == ("cancelled", "on\n")
    if name == "sleep":
        assert "went on at the first interrupts" in notes(result)
    after = await stage.run("after", "print(kept + 1, os.getpid())", lane=pin)
    assert text(after) == f"42 {stage.bench.kernel.pid}\n"


async def test_an_await_that_swallows_its_cancellation_gets_no_further_step(stage):
    stage.launch(
        "a",
        "print('on', flush=True)\nwhile True:\n    try: await asyncio.sleep(100)\n"
        "    except asyncio.CancelledError: pass",
    )
    beside = "print('on', flush=True)\nfor i in range(40): await asyncio.sleep(0.1)\nprint('whole')"
    stage.launch("beside", beside)
    result, seconds = await stage.cancel("a")
    assert (result.status, seconds < BOUND) == ("cancelled", True)
    assert text(await stage.result("beside")) == "on\nwhole\n"


WAITS = {
    "recv": "a, b = socket.socketpair()\na.recv(1)",
    "recv with a timeout": "a, b = socket.socketpair()\na.settimeout(100)\na.recv(1)",
    "accept": "s = socket.create_server(('127.0.0.1', 0))\ns.accept()",
    "select": "a, b = socket.socketpair()\nselect.select([a], [], [], 100)",
    "epoll": "a, b = socket.socketpair()\ne = select.epoll()\ne.register(a, select.EPOLLIN)\nprint(e.poll(100))",
    "urlopen": (
        "import urllib.request\nfrom codeact_kernel.inkernel.sockets import waits_of\n"
        "s, kept, me = socket.create_server(('127.0.0.1', 0)), [], threading.get_native_id()\n"
        "def serve():\n"
        "    kept.append(s.accept()[0])\n    kept[0].recv(1)\n"
        "    while not waits_of(me): time.sleep(0.01)\n    print('on', flush=True)\n"
        "threading.Thread(target=serve).start()\n"
        "urllib.request.urlopen(f'http://127.0.0.1:{s.getsockname()[1]}/')"
    ),
    "sleep": "time.sleep(100)",
    "event": "threading.Event().wait()",
    "queue": "queue.Queue().get()",
    "join": "t = threading.Thread(target=time.sleep, args=(100,), daemon=True)\nt.start()\nt.join()",
    "future": (
        "from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor(1).submit(time.sleep, 100).result()"
    ),
    "child": "subprocess.run(['sleep', '100'])",
}


SOCKETS = ("recv", "recv with a timeout", "accept", "select", "epoll", "urlopen")


@pytest.mark.parametrize("lane", ["worker", "async"])
@pytest.mark.parametrize("name", WAITS)
async def test_a_wait_where_no_signal_comes_ends_before_anything_is_cut_off(stage, name, lane):
    code = WAITS[name] if "'on'" in WAITS[name] else f"print('on', flush=True)\n{WAITS[name]}"
    pin = None if lane == "async" else lane
    stage.launch("a", f"await asyncio.sleep(0)\n{code}" if lane == "async" else code, lane=pin)
    result, seconds = await stage.cancel("a")
    assert seconds < 4
    assert result.status == "cancelled"
    assert ("were shut down" in notes(result)) == (name in SOCKETS)
    assert (await stage.run("after", "1", lane=pin)).status == "ok"


NEVER = "r, w = os.pipe()\nprint('on', flush=True)\nos.read(r, 1)"
"""A wait in C for what is no socket: nothing in its process ends it but its end."""


async def test_beside_others_what_nothing_ends_is_cut_off_and_named(stage):
    beside = "print('on', flush=True)\nfor i in range(80): await asyncio.sleep(0.1)\nprint('whole')"
    stage.launch("beside", beside)
    await stage.spoke("beside")
    stage.launch("a", NEVER + "\nprint('late')", lane="worker")
    result, seconds = await stage.cancel("a")
    assert seconds < BOUND
    assert (result.status, text(result)) == ("cancelled", "on\n")
    assert "cut off" in notes(result)
    assert "thread worker-" in notes(result)
    assert "self.restart()" in notes(result)
    assert (await stage.run("after", "os.write(w, b'x')\n'next'", lane="worker")).status == "ok"
    assert text(await stage.result("beside")) == "on\nwhole\n"
    assert not [e for e in stage.events if isinstance(e, BlockOutput) and e.id == "a" and e.late]
    assert len([e for e in stage.events if isinstance(e, BlockFinished) and e.result.id == "a"]) == 1


async def test_main_and_the_async_lane_work_again_though_code_that_was_cut_off_holds_them(stage):
    masked = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n" + NEVER
    stage.launch("beside", "print('on', flush=True)\ntime.sleep(20)", lane="worker")
    stage.launch("m", masked, lane="main")
    stage.launch("a", f"await asyncio.sleep(0)\n{NEVER}")
    await stage.spoke("a")
    for name in "ma":
        assert "cut off" in notes((await stage.cancel(name))[0])
    pinned = await stage.run("pinned", "print('next')", lane="main")
    assert (text(pinned), pinned.outcome.lane) == ("next\n", "worker")
    assert "holds the main thread" in notes(pinned)
    assert text(await stage.run("awaits", "await asyncio.sleep(0.01)\nprint('next')")) == "next\n"
    assert text(await stage.run("runs", "asyncio.run(asyncio.sleep(0.01))\nprint('next')")) == "next\n"
    assert (await stage.cancel("beside"))[0].status == "cancelled"


async def test_alone_what_nothing_ends_costs_the_kernel_and_the_names_are_told(stage):
    await stage.run("before", "kept = 41")
    stage.launch("a", NEVER, lane="worker")
    result, seconds = await stage.cancel("a")
    assert seconds < BOUND
    assert (result.status, text(result)) == ("cancelled", "on\n")
    assert "restarted to stop block a" in notes(result)
    assert "kept" in notes(result)
    after = await stage.run("after", "print('kept' in globals())")
    assert text(after) == "False\n"
    assert "fresh kernel" in notes(after)


HOG = "print('on')\ntime.sleep(0.5)\nx = 10 ** (10 ** 8)"
"""A second later it lets no other thread of its process run."""


async def test_a_hog_of_the_interpreter_on_main_ends_by_a_signal_and_the_names_stay(stage):
    await stage.run("before", "kept = 41")
    result = await stage.run("a", HOG, lane="main", timeout=1)
    assert (result.status, text(result), result.duration < 1 + BOUND) == ("timeout", "on\n", True)
    assert text(await stage.run("after", "print(kept)", lane="main")) == "41\n"


async def test_a_hog_in_a_worker_costs_the_kernel_and_the_block_beside_it_is_told_why(stage):
    stage.launch("beside", "print('on', flush=True)\ntime.sleep(60)", lane="main")
    await stage.spoke("beside")
    result = await stage.run("a", HOG, lane="worker", timeout=1)
    assert (result.status, text(result), result.duration < 1 + BOUND) == ("timeout", "on\n", True)
    beside = await stage.result("beside")
    assert beside.status == "died"
    assert "restarted to stop block a" in beside.outcome.error
    assert text(await stage.run("after", "print('next')")) == "next\n"


async def test_processes_in_sessions_of_their_own_end_with_the_block_and_are_named(stage):
    code = (
        "subprocess.Popen(['setsid', 'sh', '-c', 'trap \"\" INT; sleep 100 & echo $!; wait'])\n"
        "time.sleep(0.3)\ntime.sleep(100)"
    )
    stage.launch("a", code)
    result, seconds = await stage.cancel("a")
    pid = text(result).strip()
    assert seconds < BOUND
    assert pid in notes(result)
    assert not is_alive(int(pid))


async def test_a_process_that_a_name_holds_stays_unless_the_block_waits_for_it(stage):
    stage.launch(
        "a", "server = subprocess.Popen(['sleep', '100'])\nprint(server.pid, flush=True)\ntime.sleep(100)"
    )
    result, _ = await stage.cancel("a")
    pid = int(text(result))
    assert is_alive(pid)
    assert f"still runs, because a name holds it: process {pid} (sleep 100)" in notes(result)
    stage.launch(
        "b",
        "job = subprocess.Popen(['sleep', '100'])\nprint(job.pid, flush=True)\njob.wait()",
        lane="worker",
    )
    result, _ = await stage.cancel("b")
    assert not is_alive(int(text(result)))
    assert is_alive(pid)


async def test_code_that_cleans_up_at_an_interrupt_has_the_time_for_it(stage):
    code = "print('on', flush=True)\ntry: time.sleep(100)\nfinally:\n    time.sleep(0.25)\n    print('clean')"
    stage.launch("a", code, lane="main")
    result, _ = await stage.cancel("a")
    assert text(result) == "on\nclean\n"


@asynccontextmanager
async def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


async def test_a_kernel_that_is_stopped_does_not_answer_and_is_replaced(stage):
    stage.launch("a", "print('on', flush=True)\ntime.sleep(100)")
    await stage.spoke("a")
    async with stopped(stage.bench.kernel.pid):
        result, seconds = await stage.cancel("a")
    assert (result.status, seconds < BOUND) == ("cancelled", True)
    assert text(await stage.run("after", "print('next')")) == "next\n"
