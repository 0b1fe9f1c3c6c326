"""A kernel that was forked is as one that was spawned. `FORKED_TOO` in conftest.py names tests of other files."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jupyter_client import BlockingKernelClient
from jupyter_core.utils import ensure_event_loop
from ordinary import OrdinaryClient
from sources import alive, parent_of, until
from test_debugger import Debugging

from codeact_kernel.errors import KernelDied
from codeact_kernel.kernels import Kernel, KernelSettings

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only"),
    pytest.mark.parametrize("open_bench", ["forked"], indirect=True),
]


STATE = """
import gc, json, locale, logging, multiprocessing, os, resource, signal, subprocess, sys, threading, time, warnings
shell = get_ipython()
app = shell.kernel.parent
lines = open('/proc/self/status').read().splitlines()
kinds = [os.readlink(f'/proc/self/fd/{fd}').split(':')[0] for fd in os.listdir('/proc/self/fd')
         if os.path.lexists(f'/proc/self/fd/{fd}')]
def handler(number):
    found = signal.getsignal(number)
    return str(found) if isinstance(found, signal.Handlers) else type(found).__name__
print(json.dumps({
    'environment': dict(os.environ),
    'folder': os.getcwd(),
    'command line': sys.argv,
    'search path': sys.path,
    'flags': str(sys.flags),
    'signals': {int(number): handler(number) for number in signal.valid_signals()},
    'mask': len(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    'status': [line for line in lines if line[:3] in ('Sig', 'Uid', 'Gid', 'Uma', 'Cap', 'Thr') and line[:4] != 'SigQ'],
    'leads a session and a group': (os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()),
    'limits': [resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith('RLIMIT')],
    'nice': os.nice(0),
    'garbage': (gc.isenabled(), gc.get_threshold()),
    'threads': len(threading.enumerate()),
    'main thread': threading.main_thread().native_id == os.getpid(),
    'shell': (shell.ipython_dir, shell.profile_dir.location, shell.history_manager.hist_file, shell.starting_dir,
              shell.home_dir, shell.history_manager.enabled, shell.history_manager.session_number),
    'configurables': [type(c).__name__ for c in shell.configurables],
    'configuration': json.loads(json.dumps(shell.config, sort_keys=True, default=str)),
    'belongs together': (shell.parent is shell.kernel, shell.kernel is app.kernel, shell.config is app.config),
    'folders': [str(folder) for folder in _dh],
    'main': (sys.modules['__main__'] is shell.user_module, __name__),
    'hooks': [str(h) for h in (sys.excepthook, shell.sys_excepthook, shell._orig_sys_module_state)],
    'before': str(shell._orig_sys_modules_main_mod),
    'streams': [type(s).__name__ for s in (sys.stdin, sys.stdout)] + [sys.__stdout__.encoding, sys.__stdout__.name],
    'locale': (locale.setlocale(locale.LC_ALL), time.tzname),
    'process': (multiprocessing.current_process().name, multiprocessing.get_start_method(allow_none=True)),
    'filters': [str(f) for f in warnings.filters],
    'handlers': [type(h).__name__ for n in (None, 'tornado') for h in logging.getLogger(n).handlers],
    'loggers': (app.log.name, shell.log.name),
    'names': sorted(shell.user_ns),
    'attributes': sorted(vars(shell)),
    'open in a child': subprocess.run(['ls', '/proc/self/fd'], close_fds=False, capture_output=True, text=True).stdout,
    'open': sorted(kind for kind in kinds if kind not in ('socket', 'pipe')),
    'pipes': kinds.count('pipe') - (app.life is not None),
}, default=str))
"""
"""What a process and its kernel are, as far as it can be seen from inside."""


async def state_of(bench):
    text = (await bench.run(STATE)).text
    text = text.replace(str(bench.kernel.process.folder), "FOLDER").replace(str(bench.kernel.pid), "PID")
    return json.loads(re.sub("0x[0-9a-f]+", "ADDRESS", text))


async def test_a_forked_kernel_s_process_is_in_all_that_can_be_seen_as_a_spawned_one(
    open_bench, bench_of, tmp_path, monkeypatch
):
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    settings = {
        "env": ("TZ",),
        "variables": (("GREETING", "hello"), ("PATH", "/bin:/usr/bin"), ("HOME", str(tmp_path))),
    }
    async with Kernel(KernelSettings(cwd=tmp_path, **settings)) as spawned:
        wanted = await state_of(bench_of(spawned))
    assert wanted["environment"]["GREETING"] == "hello"
    assert await state_of(await open_bench(**settings)) == wanted


LEAKS = """
import os, random, signal, sys, numpy
os.environ['LEAK'] = '1'
os.chdir('/')
os.umask(0o077)
sys.path.insert(0, '/leak')
sys.modules['leak'] = os
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.signal(signal.SIGUSR2, lambda *_: None)
kept = open('/dev/zero')
os.set_inheritable(kept.fileno(), True)
secret = 'leak'
random.seed(1), numpy.random.seed(1)
numpy.leak = True
get_ipython().run_line_magic('store', 'secret')
open(os.path.join(get_ipython().profile_dir.location, 'startup', 'a.py'), 'w').write("leak = 1")
secret
"""
LOOK = """
import os, random, signal, sys
found = [name for name, is_there in {
    'environment': 'LEAK' in os.environ or b'LEAK' in open('/proc/self/environ', 'rb').read(),
    'folder': os.getcwd() == '/',
    'umask': os.umask(0o022) == 0o077,
    'search path': '/leak' in sys.path,
    'modules': 'leak' in sys.modules or hasattr(sys.modules.get('numpy'), 'leak'),
    'signal mask': signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, []),
    'handler': signal.getsignal(signal.SIGUSR2) is not signal.SIG_DFL,
    'open file': '/dev/zero' in [os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')
                                 if os.path.lexists(f'/proc/self/fd/{fd}')],
    'names': bool({'secret', 'leak'} & set(globals())),
    'history': len(In) > 2 or bool(Out) or get_ipython().execution_count > 2,
    'stored': bool(list(get_ipython().db.keys())),
}.items() if is_there]
print(found)
"""
CHANCE = """
import multiprocessing, random, tempfile, uuid
values = [random.random(), tempfile.mktemp(), str(uuid.uuid4()), multiprocessing.current_process().authkey.hex()]
import numpy
print([*values, float(numpy.random.rand())])
"""


async def test_nothing_of_one_kernel_is_in_the_next(open_bench):
    first = await open_bench(preload=("numpy", "numpy.random"))
    assert (await first.run(LEAKS)).error == ""
    second = await open_bench(preload=("numpy", "numpy.random"))
    assert parent_of(first.kernel.pid) == parent_of(second.kernel.pid)
    assert (await second.run(LOOK)).text == "[]\n"
    third, fourth = (
        await open_bench(preload=("numpy", "numpy.random")),
        await open_bench(preload=("numpy", "numpy.random")),
    )
    values = [json.loads((await b.run(CHANCE)).text.replace("'", '"')) for b in (third, fourth)]
    assert [a for a, b in zip(*values, strict=True) if a == b] == []


ENDS = {
    "an exit code": ("os._exit(3)", 3, "exit code 3"),
    "success": ("os._exit(0)", 0, "exit code 0"),
    "SIGKILL": ("os.kill(os.getpid(), 9)", -9, "SIGKILL"),
    "SIGTERM": ("os.kill(os.getpid(), 15)", -15, "SIGTERM"),
    "a crash": ("import ctypes; ctypes.string_at(0)", -11, "SIGSEGV"),
}


@pytest.mark.parametrize("name", ENDS)
async def test_how_a_forked_kernel_ended_is_told_exactly_and_within_a_second(open_bench, name):
    code, returncode, words = ENDS[name]
    bench = await open_bench()
    _, task = bench.start(f"import os\n{code}")
    await until(lambda: not alive(bench.kernel.pid))
    await until(lambda: bench.kernel.death is not None, 1)
    assert (bench.kernel.death.returncode, words in bench.kernel.death.message) == (returncode, True)
    with pytest.raises(KernelDied):
        await task


async def test_a_forked_kernel_that_is_asked_to_shut_down_ends_as_any_process(open_bench):
    bench = await open_bench()
    left = "import atexit, os\natexit.register(lambda: open('left', 'w').close())\nprint(os.getcwd())"
    folder = Path((await bench.run(left)).text.strip())
    await bench.kernel.client.request("shutdown_request", {"restart": False}, channel="control")
    await until(lambda: bench.kernel.death is not None)
    assert bench.kernel.death.returncode == 0
    assert (folder / "left").exists()


async def test_many_kernels_are_forked_at_once_and_are_each_its_own(open_bench):
    async with asyncio.timeout(60):
        benches = await asyncio.gather(*(open_bench() for _ in range(12)))
        blocks = await asyncio.gather(*(b.run(f"n = {i}\nprint(n)") for i, b in enumerate(benches)))
    assert len({bench.kernel.pid for bench in benches}) == 12
    assert len({parent_of(bench.kernel.pid) for bench in benches}) == 1
    assert [block.text for block in blocks] == [f"{i}\n" for i in range(12)]


@pytest.mark.filterwarnings("ignore")
async def test_a_person_who_attaches_debugs_a_cell(open_bench):
    bench = await open_bench()
    code = "x = 20\ny = x + 1\nprint(y)\n"

    def debug():
        client = BlockingKernelClient(connection_file=str(bench.kernel.process.folder / "kernel.json"))
        client.load_connection_file()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=30)
            debugging = Debugging(OrdinaryClient(client))
            debugging.set(code, 2)
            cell = debugging.client.send(code)
            thread = debugging.stop()
            assert debugging.frames(thread) == [("<module>", 2)]
            debugging.go_on(thread)
            assert debugging.client.text(cell) == "21\n"
        finally:
            client.stop_channels()
            # jupyter_client has made one for this thread, and leaves it.
            ensure_event_loop().close()

    await asyncio.to_thread(debug)


async def test_a_configuration_of_ipython_counts_in_a_forked_kernel_too(open_bench, bench_of, tmp_path):
    """The shell that was made before the fork is another one then."""
    python = configured_python(tmp_path)
    code = "print(configured, get_ipython().ast_node_interactivity)\nlist(range(9))"
    for bench in (await open_bench(python=python), await open_bench(python=python)):
        block = await bench.run(code)
        assert (block.text, block.value) == ("yes all\n", "[0, 1, 2, ...]")


def configured_python(folder):
    """An interpreter whose environment configures IPython."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "other"], check=True)
    (target,) = (folder / "other" / "lib").glob("python*/site-packages")
    (target / "more.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    etc = folder / "other" / "etc" / "ipython"
    etc.mkdir(parents=True)
    (etc / "ipython_config.py").write_text(
        "c = get_config()\nc.InteractiveShell.ast_node_interactivity = 'all'\n"
        "c.PlainTextFormatter.max_seq_length = 3\n"
        "c.InteractiveShellApp.exec_lines = ['configured = \"yes\"']\n"
    )
    return str(folder / "other" / "bin" / "python")
