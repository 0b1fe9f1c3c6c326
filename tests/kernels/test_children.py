"""Children of blocks: their output, their signals, their end."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

from codeact_kernel.blocks import StreamOutput
from codeact_kernel.inkernel import wire

pytestmark = pytest.mark.kernel

HEAD = "import asyncio, os, signal, subprocess, sys, time\nimport multiprocessing as mp\n"
LANES = ("main", "worker", "async")

SAYINGS = {
    "subprocess": "subprocess.run(['echo', 'said'])",
    "subprocess, shell": "subprocess.run('echo said', shell=True)",
    "subprocess, its own session": "subprocess.run(['echo', 'said'], start_new_session=True)",
    "subprocess, preexec_fn": "subprocess.run(['echo', 'said'], preexec_fn=lambda: os.nice(1))",
    "subprocess, posix_spawn": "subprocess.run(['/bin/echo', 'said'], close_fds=False)",
    "subprocess, to sys.stdout": "subprocess.run(['echo', 'said'], stdout=sys.stdout, stderr=sys.stderr)",
    "subprocess, an own environment": "subprocess.run(['/bin/sh', '-c', 'echo said'], env={})",
    "a pipe between children": (
        "p = subprocess.Popen(['echo', 'said'], stdout=subprocess.PIPE)\nsubprocess.run(['cat'], stdin=p.stdout)\n"
        "p.stdout.close(); p.wait()"
    ),
    "os.system": "os.system('echo said')",
    "os.posix_spawn": "os.waitpid(os.posix_spawn('/bin/echo', ['echo', 'said'], os.environ), 0)",
    "os.posix_spawnp": "os.waitpid(os.posix_spawnp('echo', ['echo', 'said'], {}), 0)",
    "os.popen": "print(os.popen('echo said').read(), end='')",
    "os.fork": "pid = os.fork()\nif pid == 0:\n    print('said')\n    os._exit(0)\nos.waitpid(pid, 0)",
    "os.fork, leaving the block": "pid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse: print('said')",
    "os.fork and exec": (
        "pid = os.fork()\nif pid == 0: os.execvp('echo', ['echo', 'said'])\nos.waitpid(pid, 0)"
    ),
    "fork": "p = mp.get_context('fork').Process(target=print, args=('said',)); p.start(); p.join()",
    "spawn": "p = mp.get_context('spawn').Process(target=print, args=('said',)); p.start(); p.join()",
    "forkserver": "p = mp.get_context('forkserver').Process(target=print, args=('said',)); p.start(); p.join()",
    "os.write": "os.write(1, b'said\\n')",
    "%%bash": "%%bash\necho said",
    "a display in a forked child": (
        "pid = os.fork()\nif pid == 0:\n    display('said')\n    os._exit(0)\nos.waitpid(pid, 0)"
    ),
}


def stderr_of(block):
    return "".join(o.text for o in block.outputs if isinstance(o, StreamOutput) and o.name == "stderr")


def stdout_of(block):
    return "".join(o.text for o in block.outputs if isinstance(o, StreamOutput) and o.name == "stdout")


def code_for(lane, code):
    """The code, for a lane: in the async one among awaits."""
    if code.startswith("%%"):
        return code
    return HEAD + (f"await asyncio.sleep(0)\n{code}\nawait asyncio.sleep(0)" if lane == "async" else code)


def msg_id_of(bench, block_id):
    sent = [*bench.runner._ended.items(), *bench.runner._blocks.items()]
    return next(m for m, name in reversed(sent) if name == block_id)


async def end_children(bench, msg_id=None):
    content = {} if msg_id is None else {"msg_id": msg_id}
    reply = await bench.kernel.client.request(wire.END_REST, content, channel="control")
    return reply["content"]["ended"]


async def until(bench, condition):
    """Wait until an expression is true in the kernel."""
    async with asyncio.timeout(20):
        while (await bench.run(f"print(bool({condition}))")).text != "True\n":
            await asyncio.sleep(0.02)


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


# -- whose output --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", LANES)
async def test_every_way_to_start_a_child_brings_its_output_back_to_its_block(bench, lane):
    for name, code in SAYINGS.items():
        block = await bench.run(code_for(lane, code), lane=lane)
        assert (name, block.status, block.lane) == (name, "ok", lane), block.error
        assert (name, stdout_of(block).replace("'said'", "said")) == (name, "said\n")
        assert block.outcome.missing == 0


async def test_five_blocks_that_start_twenty_children_each_get_their_own(bench):
    await bench.run(HEAD)
    sync = (
        "print('begin {n}')\nps = [subprocess.Popen(f'echo {n} {{i}}; sleep 0.0{{i % 7}}; echo {n} {{i}} >&2', "
        "shell=True) for i in range(20)]\nfor p in ps: p.wait()\nprint('end {n}')"
    )
    forks = (
        "def say(i):\n    print({n}, i)\n    print({n}, i, file=sys.stderr)\nprint('begin {n}')\n"
        "ps = [mp.get_context('fork').Process(target=say, args=(i,)) for i in range(20)]\n"
        "for p in ps: p.start()\nfor p in ps: p.join()\nprint('end {n}')"
    )
    awaits = (
        "print('begin {n}')\nps = [await asyncio.create_subprocess_shell(f'echo {n} {{i}}; echo {n} {{i}} >&2') "
        "for i in range(20)]\nfor p in ps: await p.wait()\nprint('end {n}')"
    )
    codes = [sync, awaits, forks, awaits, sync]
    tasks = [bench.start(code.replace("ps", f"ps{n}").format(n=n))[1] for n, code in enumerate(codes)]
    for n, block in enumerate(await asyncio.gather(*tasks)):
        assert block.status == "ok", block.error
        out = stdout_of(block).splitlines()
        assert (out[0], out[-1]) == (f"begin {n}", f"end {n}")
        assert sorted(out[1:-1]) == sorted(f"{n} {i}" for i in range(20))
        assert sorted(stderr_of(block).splitlines()) == sorted(f"{n} {i}" for i in range(20))
        assert block.outcome.missing == 0


async def test_the_output_of_a_child_stands_where_it_was_written_among_the_block_s_own(bench):
    code = (
        HEAD + "for i in range(50):\n    print('before', i)\n    subprocess.run(['echo', f'child {i}'])\n"
        "    print('after', i)\nsubprocess.run(['echo', 'last'])\ndisplay('shown')"
    )
    block = await bench.run(code)
    expected = "".join(f"before {i}\nchild {i}\nafter {i}\n" for i in range(50)) + "last\n"
    assert block.text == expected
    assert not isinstance(block.outputs[-1], StreamOutput)


async def test_a_megabyte_on_each_stream_is_complete(bench):
    code = HEAD + (
        "subprocess.run([sys.executable, '-c', 'import sys\\nfor i in range(1000):\\n    "
        'sys.stdout.write("o" * 1000)\\n    sys.stderr.write("e" * 1000)\'])\nNone'
    )
    blocks = await asyncio.gather(*(bench.start(code)[1] for _ in range(3)))
    for block in blocks:
        assert (block.status, block.outcome.missing) == ("ok", 0), block.error
        assert (stdout_of(block), stderr_of(block)) == ("o" * 10**6, "e" * 10**6)


async def test_ten_megabytes_of_garbage_come_as_text_and_leave_the_kernel_small(bench):
    await bench.run(HEAD + "import resource\nbefore = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss")
    block = await bench.run(
        "subprocess.run(['head', '-c', '10000000', '/dev/urandom'])\nprint('|end')", timeout=60.0
    )
    assert block.status == "ok"
    # A character that the garbage ends in the middle of is marked when nobody can complete it any more.
    assert block.text.rstrip("\ufffd").endswith("|end\n")
    assert len(block.text) > 5_000_000
    grown = await bench.run("print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)")
    assert int(grown.text) < 100_000


async def test_a_child_that_writes_without_end_takes_neither_memory_nor_another_block_s_turn(bench):
    await bench.run(
        HEAD + "import resource\ndef size(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss"
    )
    before = int((await bench.run("print(size())")).text)
    flood, task = bench.start("subprocess.run(['timeout', '1.5', 'yes'])\nNone", lane="main")
    await flood.spoke.wait()
    code = "for i in range(20): subprocess.run(['echo', str(i)])\nprint('all')"
    beside = await bench.run(code)
    assert beside.text == "".join(f"{i}\n" for i in range(20)) + "all\n"
    assert not task.done()
    block = await task
    assert (block.status, block.outcome.missing) == ("ok", 0)
    assert set(block.text.split("\n")) == {"y", ""}
    assert len(block.text) > 1_000_000
    assert int((await bench.run("print(size())")).text) - before < 60_000


async def test_characters_are_never_split_and_a_broken_one_is_marked(bench):
    code = HEAD + (
        "subprocess.run([sys.executable, '-c', 'import os, time\\nfor b in \"aü€😀\".encode():\\n    "
        'os.write(1, bytes([b]))\\n    time.sleep(0.01)\\nos.write(1, b"\\\\xff|\\\\xe2\\\\x82")\'])\nNone'
    )
    assert (await bench.run(code)).text == "aü€😀\ufffd|\ufffd"


async def test_a_child_that_outlives_its_block_goes_on_writing_for_it(bench):
    await bench.run(HEAD)
    block = await bench.run("p = subprocess.Popen('echo early; sleep 0.4; printf late', shell=True)", id="a")
    other = await bench.run("print('other')\np.wait()\nprint('done')", id="b")
    assert other.text == "other\ndone\n"
    async with asyncio.timeout(5):
        while "late" not in block.text:
            await asyncio.sleep(0.02)
    assert block.text == "early\nlate"


async def test_a_thread_that_outlives_its_block_starts_children_for_it(bench):
    code = (
        HEAD + "import threading\ndef late():\n    time.sleep(0.3)\n    subprocess.run(['echo', 'late'])\n"
        "t = threading.Thread(target=late); t.start()"
    )
    block = await bench.run(code, id="a")
    other = await bench.run("t.join(); subprocess.run(['echo', 'other'])", id="b")
    assert stdout_of(other) == "other\n"
    async with asyncio.timeout(5):
        while "late" not in block.text:
            await asyncio.sleep(0.02)


async def test_what_the_code_has_redirected_stays_redirected(bench, tmp_path):
    block = await bench.run(
        HEAD + "with open('a', 'w') as f: subprocess.run('echo a; echo b >&2', shell=True, stdout=f)\n"
        "print(subprocess.run(['echo', 'c'], capture_output=True, text=True).stdout, end='')\n"
        "print(subprocess.run('echo d >&2', shell=True, capture_output=True, text=True).stderr, end='')\n"
        "subprocess.run('echo e; echo f >&2', shell=True, stdout=subprocess.DEVNULL)\n"
        "subprocess.run('echo g; echo h >&2', shell=True, stderr=subprocess.STDOUT)\n"
        "x = !echo i\nprint(x)"
    )
    assert (tmp_path / "a").read_text() == "a\n"
    assert stdout_of(block) == "c\nd\ng\nh\n['i']\n"
    assert stderr_of(block) == "b\nf\n"


async def test_a_file_descriptor_that_the_code_has_replaced_is_what_children_get(bench, tmp_path):
    code = HEAD + (
        "kept = os.dup(1)\nfd = os.open('log', os.O_CREAT | os.O_WRONLY)\nos.dup2(fd, 1)\n"
        "subprocess.run(['echo', 'into the log'])\nos.dup2(kept, 1)\nos.close(kept)\nos.close(fd)\n"
        "subprocess.run(['echo', 'seen'])"
    )
    assert stdout_of(await bench.run(code)) == "seen\n"
    assert (tmp_path / "log").read_text() == "into the log\n"


async def test_a_child_that_closes_its_stdout_and_one_without_a_line_end(bench):
    code = (
        HEAD
        + "subprocess.run('exec >&-; sleep 0.1; echo err >&2', shell=True)\nsubprocess.run(['printf', 'x'])"
    )
    block = await bench.run(code)
    assert (stdout_of(block), stderr_of(block)) == ("x", "err\n")


async def test_a_command_of_ipython_keeps_its_exit_code_its_order_and_its_capture(bench):
    block = await bench.run("print('a')\n!echo b; exit 3\nprint(_exit_code)\n!kill -9 $$\nprint(_exit_code)")
    assert block.text.replace("\r\n", "\n") == "a\nb\n3\n-9\n"
    assert (
        await bench.run("import os\nprint(os.system('exit 3') >> 8, os.system('kill -9 $$'))")
    ).text == "3 9\n"
    hidden = await bench.run("%%capture c\n!echo hidden")
    assert hidden.text == ""
    assert (await bench.run("print(c.stdout.strip())")).text == "hidden\n"
    assert (await bench.run("x = %sx echo one; echo two\nprint(x)")).text == "['one', 'two']\n"
    block = await bench.run("!(sleep 0.3; echo late) & echo now\nprint('goes on')")
    assert block.text.replace("\r\n", "\n") == "now\ngoes on\n"
    async with asyncio.timeout(5):
        while "late" not in block.text:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("lane", LANES)
async def test_nobody_waits_for_input(bench, lane):
    code = "subprocess.run(['cat'])\nos.system('cat')\n!cat\nx = !cat\nprint('ended')"
    async with asyncio.timeout(10):
        assert (await bench.run(code_for(lane, code), lane=lane)).text == "ended\n"


async def test_a_terminal_that_the_code_opens_writes_for_its_block(bench):
    _, beside = bench.start("import time\ntime.sleep(0.5)", lane="worker")
    block = await bench.run(
        "import pty\npty.spawn(['sh', '-c', 'test -t 1 && echo a terminal'])", lane="main"
    )
    assert block.text == "a terminal\r\n"
    await beside


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
async def test_pools_of_processes_work_and_print_in_their_blocks(bench, method):
    await bench.run(HEAD + "from concurrent.futures import ProcessPoolExecutor")
    code = (
        "with ProcessPoolExecutor(2, mp_context=mp.get_context('" + method + "')) as pool{n}:\n"
        "    print(list(pool{n}.map(abs, [-1, -2])), flush=True)\n    list(pool{n}.map(print, ['said {n}'] * 4))"
    )
    tasks = [bench.start(code.format(n=n))[1] for n in range(3)]
    for n, block in enumerate(await asyncio.gather(*tasks)):
        assert block.status == "ok", block.error
        assert stdout_of(block) == "[1, 2]\n" + f"said {n}\n" * 4


async def test_lines_of_forked_children_stay_whole(bench):
    code = HEAD + (
        "def say(who):\n    for i in range(300):\n        print(who, 'x' * (i % 90), i)\n"
        "ps = [mp.get_context('fork').Process(target=say, args=(who,)) for who in 'abcdef']\n"
        "for p in ps: p.start()\nfor p in ps: p.join()"
    )
    expected = sorted(f"{who} {'x' * (i % 90)} {i}" for who in "abcdef" for i in range(300))
    assert sorted((await bench.run(code)).text.splitlines()) == expected


async def test_a_forked_child_that_leaves_the_block_ends_and_is_no_second_kernel(bench):
    code = HEAD + "pid = os.fork()\nif not pid: {}\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    for leaving, status in (("sys.exit(4)", "4"), ("1/0", "1"), ("raise KeyboardInterrupt", "1")):
        block = await bench.run(code.format(leaving))
        assert stdout_of(block) == f"{status}\n"
    assert "ZeroDivisionError" in stderr_of(await bench.run(code.format("1/0")))
    code = HEAD + (
        "pid = os.fork()\nif not pid:\n    print('child')\n    await asyncio.sleep(0)\n    print('never')\n"
        "print(os.waitpid(pid, 0)[0] == pid)\nawait asyncio.sleep(0)"
    )
    assert stdout_of(await bench.run(code)) == "child\nTrue\n"


SLOW_START = """
import os, time
stock = os.register_at_fork

def slowly(**hooks):
    time.sleep(0.5 * ("before" in hooks and "after_in_child" in hooks))
    stock(**hooks)

os.register_at_fork = slowly
"""


async def test_the_first_block_of_a_kernel_is_not_too_early_for_its_child(open_bench, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SLOW_START)
    bench = await open_bench(variables=(("PYTHONPATH", str(tmp_path)),))
    code = (
        HEAD
        + "p = await asyncio.create_subprocess_exec('echo', 'said')\nawait p.wait()\nprint(os.system.__module__)"
    )
    assert stdout_of(await bench.run(code)) == "said\ncodeact_kernel.inkernel.spawning\n"


# -- output of C code ----------------------------------------------------------------------------------------

PUTS = "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.puts(b'from C')\nNone"


class Heard:
    """Takes what is nobody's."""

    def __init__(self):
        self.text = ""

    def on_iopub(self, message):
        if message["msg_type"] == "stream":
            self.text += message["content"]["text"]

    def on_reply(self, message):
        pass

    def on_lost(self, error):
        pass


async def test_output_of_c_code_belongs_to_the_only_live_block(bench):
    for n in range(20):
        block = await bench.run(f"print({n})\n{PUTS}")
        assert block.text == f"{n}\nfrom C\n"


async def test_output_of_c_code_is_nobody_s_while_several_blocks_live(bench):
    nobody = bench.kernel.client._inlets[""] = Heard()
    beside, task = bench.start("import time\ntime.sleep(0.6)\nprint('beside')")
    await beside.running.wait()
    block = await bench.run(PUTS)
    assert block.text == ""
    assert (await task).text == "beside\n"
    async with asyncio.timeout(5):
        while nobody.text != "from C\n":
            await asyncio.sleep(0.02)


async def test_output_of_c_code_is_no_copy_of_a_forked_child(bench):
    code = HEAD + (
        "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.printf(b'once ')\n"
        "p = mp.get_context('fork').Process(target=libc.fflush, args=(None,)); p.start(); p.join()\nlibc.fflush(None)"
    )
    assert (await bench.run(code)).text.count("once") == 1


# -- signals -------------------------------------------------------------------------------------------------

WAITS = {
    "subprocess": "subprocess.run(['sleep', '60'])",
    "a shell": "subprocess.run('sleep 60; echo no', shell=True)",
    "os.system": "os.system('sleep 60')",
    "!": "!sleep 60",
    "x = !": "x = !sleep 60",
    "fork": "p = mp.get_context('fork').Process(target=time.sleep, args=(60,)); p.start(); p.join()",
    "forkserver": "p = mp.get_context('forkserver').Process(target=time.sleep, args=(60,)); p.start(); p.join()",
    "%%bash": "%%bash\necho on\nsleep 60",
}


@pytest.mark.parametrize("lane", LANES)
async def test_an_interrupt_ends_the_wait_for_a_child_at_once_and_no_other_block_s_child(bench, lane):
    await bench.run(HEAD + "kept = subprocess.Popen(['sleep', '60'])")
    for name, wait in WAITS.items():
        if (name, lane) == ("%%bash", "async"):
            continue
        code = f"print('on')\n{wait}\nprint('never')" if name != "%%bash" else wait
        stuck, task = bench.start(code_for(lane, code), id="stuck", lane=lane)
        await stuck.spoke.wait()
        begun = time.monotonic()
        await bench.runner.interrupt("stuck")
        async with asyncio.timeout(10):
            await task
        assert time.monotonic() - begun < 2, name
        assert (name, stuck.status) == (name, "error")
        assert "never" not in stuck.text
    assert (await bench.run("print(kept.poll())\nkept.kill(); kept.wait()")).text == "None\n"
    assert (await bench.run("%%bash\necho goes on", lane=lane)).text == "goes on\n"


async def test_an_interrupt_ends_an_asyncio_child(bench):
    code = HEAD + "p = await asyncio.create_subprocess_exec('sleep', '60')\nprint('on')\nawait p.wait()"
    stuck, task = bench.start(code, id="stuck")
    await stuck.spoke.wait()
    await bench.runner.interrupt("stuck")
    async with asyncio.timeout(5):
        assert "KeyboardInterrupt" in (await task).error
    await until(bench, "p.returncode is not None")
    assert (await bench.run("print(await p.wait())")).text == "-2\n"


async def test_children_are_not_born_deaf_to_sigint(open_bench):
    """A host that a shell has put into the background ignores SIGINT, and its children inherit that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        bench = await open_bench()
    finally:
        signal.signal(signal.SIGINT, before)
    show = "grep SigIgn /proc/self/status"
    code = (
        HEAD + f"subprocess.run('{show}', shell=True)\nos.system('{show}')\n!{show}\nx = !{show}\nprint(x[0])"
    )
    masks = [int(line.split()[1], 16) for line in (await bench.run(code)).text.splitlines()]
    assert len(masks) == 4
    assert not any(mask & 1 << (signal.SIGINT - 1) for mask in masks)
    code = HEAD + (
        "p = mp.get_context('fork').Process(target=lambda: print(signal.getsignal(signal.SIGINT).__name__))\n"
        "p.start(); p.join()"
    )
    assert (await bench.run(code)).text == "default_int_handler\n"


# -- trees ---------------------------------------------------------------------------------------------------

DAEMON = (
    "subprocess.run([sys.executable, '-c', 'import os, sys\\nif os.fork(): os._exit(0)\\nos.setsid()\\n"
    "if os.fork(): os._exit(0)\\nn = os.open(os.devnull, os.O_RDWR)\\n[os.dup2(n, i) for i in (0, 1, 2)]\\n"
    'os.execvp("sleep", ["sleep", "77"])\'])'
)


async def test_the_whole_tree_of_a_block_is_found_and_ended_and_no_other(bench):
    await bench.run(HEAD)
    mine = (
        "ps = [subprocess.Popen('sleep 71 & sleep 72', shell=True), "
        "subprocess.Popen(['setsid', 'sh', '-c', 'sleep 73; true']), "
        "subprocess.Popen([sys.executable, '-c', 'import signal, time\\nsignal.signal(signal.SIGTERM, "
        'signal.SIG_IGN)\\nprint("deaf", flush=True)\\ntime.sleep(74)\'])]\n'
        "fs = [mp.get_context('forkserver').Process(target=time.sleep, args=(75,))]; fs[0].start()\n"
        "os.system('setsid sleep 76 >/dev/null 2>&1 &')\n" + DAEMON
    )
    other, other_task = bench.start(
        "q = await asyncio.create_subprocess_exec('sleep', '78')\nprint(q.pid)\nawait q.wait()", id="other"
    )
    block = await bench.run(mine, id="mine")
    await other.spoke.wait()
    async with asyncio.timeout(5):
        while "deaf" not in block.text:
            await asyncio.sleep(0.02)
    # Orphans' parents have to end first.
    await asyncio.sleep(0.3)
    listed = await bench.run(
        "from codeact_kernel.inkernel.request import current\nkernel = get_ipython().kernel\n"
        f"r = kernel.children.find({msg_id_of(bench, 'mine')!r})\nfor pid, command in kernel.children.of(r): "
        "print(pid, command)"
    )
    found = dict(line.split(" ", 1) for line in listed.text.splitlines())
    sleeps = sorted(command for command in found.values() if command.startswith("sleep"))
    assert sleeps == [f"sleep {n}" for n in (71, 72, 73, 76, 77)]
    assert len(found) == 9, found
    assert other.text.strip() not in found
    begun = time.monotonic()
    ended = await end_children(bench, msg_id_of(bench, "mine"))
    assert time.monotonic() - begun < 2
    assert sorted(map(str, ended)) == sorted(found)
    assert not any(map(is_alive, ended))
    assert is_alive(int(other.text))
    assert await end_children(bench, msg_id_of(bench, "mine")) == ended
    assert (await bench.run("print(ps[2].wait(), fs[0].exitcode)")).text == "-9 -15\n"
    await bench.runner.interrupt("other")
    await other_task


async def test_a_block_without_children_has_none_to_end(bench):
    await bench.run("1", id="a")
    assert await end_children(bench, msg_id_of(bench, "a")) == []
    assert await end_children(bench, "nobody") == []


async def test_ended_orphans_are_waited_for_and_exit_codes_are_left_to_who_asks(bench):
    await bench.run(HEAD)
    code = (
        "p = subprocess.Popen('exit 7', shell=True)\npid = os.fork()\nif not pid: os._exit(9)\n"
        "for _ in range(30): os.system('(sleep 0.01 &)')\n"
        "def zombies():\n    return [s.split()[0] for s in os.popen('ps -o pid=,stat= --ppid %d' % os.getpid())"
        " if s.split()[1].startswith('Z')]"
    )
    await bench.run(code)
    await until(bench, "len(zombies()) == 2")
    assert (await bench.run("print(p.wait(), os.waitpid(pid, 0)[1] >> 8, zombies())")).text == "7 9 []\n"


async def test_five_hundred_children_leave_no_descriptor_and_no_record_behind(bench):
    await bench.run(
        HEAD + "subprocess.run(['true'])\ndef pipes():\n    names = [f'/proc/self/fd/{n}' for n in "
        "os.listdir('/proc/self/fd')]\n    return sum('pipe' in os.readlink(n) for n in names if os.path.lexists(n))"
    )
    before = int((await bench.run("print(pipes())")).text)
    code = "for i in range(100): subprocess.run(['echo', str(i)])"
    blocks = await asyncio.gather(
        *(bench.start(code.replace("i ", f"i{n} ").replace("(i)", f"(i{n})"))[1] for n in range(5))
    )
    assert [block.text for block in blocks] == ["".join(f"{i}\n" for i in range(100))] * 5
    await until(bench, f"pipes() <= {before}")
    await until(bench, "not [b for b in get_ipython().kernel.children._broods.values() if b.left]")


async def test_a_kernel_that_goes_takes_all_children_with_it(open_bench):
    bench = await open_bench()
    block = await bench.run(
        HEAD
        + "print(subprocess.Popen(['sleep', '79']).pid)\nprint(subprocess.Popen(['setsid', 'sleep', '79']).pid)\n"
        "os.system('setsid sleep 79 >/dev/null 2>&1 & echo $!')\n"
        "print(subprocess.Popen(['sh', '-c', 'trap \"\" TERM; while :; do sleep 0.1; done']).pid)"
    )
    pids = [int(line) for line in block.text.split()]
    assert len(pids) == 4
    assert all(map(is_alive, pids))
    begun = time.monotonic()
    await bench.kernel.__aexit__(None, None, None)
    assert time.monotonic() - begun < 3
    assert not any(map(is_alive, pids))


async def test_a_child_left_running_is_not_touched(bench):
    await bench.run(HEAD + "server = subprocess.Popen(['sleep', '60'])", id="a")
    await bench.runner.interrupt("a")
    stuck, task = bench.start("print('on')\nsubprocess.run(['sleep', '60'])", id="b")
    await stuck.spoke.wait()
    await bench.runner.interrupt("b")
    await task
    assert (await bench.run("print(server.poll())\nserver.kill()\nserver.wait()")).text == "None\n"


# -- ordinary clients ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_an_ordinary_client_gets_the_output_of_children_with_its_cell_and_a_shutdown_ends_them(tmp_path):
    manager, client = start_new_kernel(kernel_name="codeact", cwd=str(tmp_path))
    try:
        code = HEAD + (
            "subprocess.run(['echo', 'said'])\nleft = subprocess.Popen('exit 3', shell=True)\n"
            "print(subprocess.Popen(['setsid', 'sleep', '79']).pid)\n"
            "print(subprocess.Popen(['sh', '-c', 'trap \"\" TERM INT; while :; do sleep 0.1; done']).pid)"
        )
        seen = []
        client.execute_interactive(code, timeout=20, output_hook=seen.append)
        text = "".join(m["content"]["text"] for m in seen if m["msg_type"] == "stream")
        said, *pids = text.splitlines()
        assert said == "said"
        assert all(is_alive(int(pid)) for pid in pids)
        begun = time.monotonic()
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    assert time.monotonic() - begun < 4
    assert len(pids) == 2
    assert not any(is_alive(int(pid)) for pid in pids)
