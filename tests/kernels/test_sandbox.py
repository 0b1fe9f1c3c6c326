"""Kernels behind walls: they work as others do, in every mode and however they are started."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
import time

import psutil
import pytest
from sources import alive, until

from codeact_kernel.errors import ConfigError, KernelDied
from codeact_kernel.kernels import (
    SandboxSettings,
    choose,
    choose_sandbox,
)
from codeact_kernel.kernels.sandbox import AUTO, describe_sandbox

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are for Linux"),
]
MODES = ("limits", "landlock", "bwrap")
WAYS = [(mode, way) for mode in MODES for way in ("spawned", "forked")]


@pytest.mark.parametrize(("mode", "way"), WAYS)
async def test_blocks_children_pools_and_tools_work_behind_walls(open_walled, workspace, mode, way):
    async def serve(name, args, kwargs, msg_id, back):
        return [name, *args, *kwargs.values()]

    about = {"name": "tool", "called": "tool", "signature": "(x)", "doc": "", "async": False, "files": []}
    bench = await open_walled(mode, way, serve, [about])
    block = await bench.run(
        "import getpass, os, subprocess, tempfile\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "import multiprocessing\n"
        "open('made', 'w').write('by a block')\n"
        "print(os.getcwd(), getpass.getuser(), tool(7))\n"
        "print(subprocess.run('echo $((6 * 7))', shell=True, capture_output=True, text=True).stdout.strip())\n"
        "with ProcessPoolExecutor(2, multiprocessing.get_context('fork')) as pool:\n"
        "    print(list(pool.map(len, ['ab', 'c'])))\n"
        "with tempfile.TemporaryFile() as file: file.write(b'x')\n"
        "import sqlite3, ssl\n"
        "print(sqlite3.connect('data.db').execute('select 1').fetchone())\n"
        "ssl.create_default_context()"
    )
    assert block.text == f"{workspace.resolve()} {block_user()} ['tool', 7]\n42\n[2, 1]\n(1,)\n", block.text
    made = workspace / "made"
    assert made.read_text() == "by a block"
    # Whatever user the kernel is, what it makes is the workspace's owner's.
    assert made.stat().st_uid == workspace.stat().st_uid


def block_user():
    import getpass

    return getpass.getuser() if os.geteuid() else "kernel"


@pytest.mark.parametrize(("mode", "way"), WAYS)
async def test_an_interrupt_ends_the_block_it_names_and_the_names_stay(open_walled, mode, way):
    bench = await open_walled(mode, way)
    await bench.run("kept = 1")
    busy, task = bench.start("import time\nprint('in')\nwhile True: time.sleep(100)", id="busy")
    await busy.running.wait()
    begun = time.monotonic()
    await bench.runner.interrupt("busy")
    assert (await task).status == "error"
    assert time.monotonic() - begun < 5
    assert (await bench.run("print(kept)")).text == "1\n"


@pytest.mark.parametrize(("mode", "way"), WAYS)
async def test_a_signal_reaches_the_kernel_and_not_its_walls(open_walled, mode, way):
    bench = await open_walled(mode, way)
    await bench.run("kept = 1")
    busy, task = bench.start("n = 0\nprint('in')\nwhile True: n += 1", id="busy")
    await busy.running.wait()
    await bench.kernel.interrupt_by_signal(bench.runner._sent["busy"].msg_id)
    assert (await task).status == "error"
    assert (await bench.run("print(kept)")).text == "1\n"


@pytest.mark.parametrize(("mode", "way"), WAYS)
async def test_after_a_death_the_next_kernel_is_behind_the_same_walls(open_walled, mode, way):
    bench = await open_walled(mode, way)
    first = (await bench.run("import os\nprint(os.getuid(), os.access('/', os.W_OK))")).text
    with pytest.raises(KernelDied, match="SIGKILL"):
        await bench.run("os.kill(os.getpid(), 9)")
    again = (await bench.run("import os\nprint(os.getuid(), os.access('/', os.W_OK))")).text
    assert again.split()[1] == first.split()[1] == "False"
    if os.geteuid() == 0:
        assert int(again.split()[0]) >= 1_900_000_000


@pytest.mark.parametrize(("mode", "way"), WAYS)
async def test_a_child_in_a_session_of_its_own_ends_with_the_kernel(open_walled, mode, way):
    bench = await open_walled(mode, way)
    name = f"sleep-{os.getpid()}-{time.monotonic_ns()}"
    await bench.run(
        "import os, subprocess, sys\n"
        f"subprocess.Popen(['setsid', 'sh', '-c', 'sleep 1000 # {name}'], start_new_session=True)\n"
        "import time; time.sleep(0.2)"
    )
    found = [p for p in psutil.process_iter(["cmdline"]) if name in " ".join(p.info["cmdline"] or [])]
    assert found
    await bench.kernel.kill("was ended by the test")
    await until(lambda: not any(alive(process.pid) for process in found))


@pytest.mark.parametrize(("mode", "way"), WAYS)
async def test_a_processs_memory_has_an_end(open_walled, mode, way):
    bench = await open_walled(mode, way)
    limit = await bench.run("import resource\nprint(resource.getrlimit(resource.RLIMIT_DATA))")
    soft, hard = eval(limit.text)
    assert 0 < soft == hard < psutil.virtual_memory().total
    block = await bench.run("too_much = bytearray(10**12)")
    assert block.status == "error"
    assert "MemoryError" in block.error


@pytest.mark.parametrize("way", ["spawned", "forked"])
async def test_what_a_kernel_writes_is_watched(open_walled, workspace, way):
    bench = await open_walled("bwrap", way, max_growth=20_000_000)
    begun = time.monotonic()
    with pytest.raises(KernelDied, match="more than the 20 MB of max_growth"):
        await bench.run(
            "import time\n"
            "with open('big', 'wb') as file:\n"
            "    while True: file.write(b'x' * 1_000_000); file.flush(); time.sleep(0.01)"
        )
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("way", ["spawned", "forked"])
async def test_temporary_files_of_the_sandbox_have_an_end(open_walled, way):
    bench = await open_walled("bwrap", way, max_tmp=10_000_000)
    block = await bench.run(
        "for place in ('/tmp', '/dev/shm'):\n"
        "    try: open(place + '/big', 'wb').write(b'x' * 20_000_000)\n"
        "    except OSError as error: print(error.strerror)"
    )
    assert block.text == "No space left on device\n" * 2


@pytest.mark.parametrize("way", ["spawned", "forked"])
async def test_a_killed_host_side_leaves_no_process_behind(open_walled, way):
    bench = await open_walled("bwrap", way)
    process = bench.kernel.process
    inner = process.kernel_pid
    os.kill(process.pid, signal.SIGKILL)
    await until(lambda: not alive(inner))


@pytest.fixture
def many_descriptors():
    """A host that has more files open than `select` can tell apart."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("no more than 1024 files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    yield
    for descriptor in opened:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("way", ["spawned", "forked"])
async def test_a_host_with_very_many_open_files_starts_kernels(many_descriptors, open_walled, way):
    bench = await open_walled("bwrap", way)
    assert (await bench.run("print('here')")).text == "here\n"


async def test_the_environment_running_git_hooks_and_records_cannot_be_changed(open_walled, workspace):
    for name in (".git/hooks/pre-commit", ".git/config", "codeact.toml", ".codeact/runs/x"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("mine")
    bench = await open_walled("bwrap")
    block = await bench.run(
        "import os\n"
        "for name in ('.git/hooks/pre-commit', '.git/hooks/new', '.git/config', 'codeact.toml', '.codeact/runs/x'):\n"
        "    try: open(name, 'w'); print('changed', name)\n"
        "    except OSError: pass\n"
        "for name in ('.git/hooks', '.codeact'):\n"
        "    try: os.rename(name, 'away'); print('moved', name)\n"
        "    except OSError: pass\n"
        "open('.git/other', 'w').close(); print('done')"
    )
    assert block.text == "done\n"


@pytest.mark.parametrize(
    ("mode", "way"), [("landlock", "spawned"), ("bwrap", "spawned"), ("bwrap", "forked")]
)
async def test_data_elsewhere_can_be_read_where_it_is_allowed_and_not_written(
    open_walled, tmp_path, mode, way
):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("1,2")
    (tmp_path / "other.csv").write_text("3")
    bench = await open_walled(mode, way, allow_read=((tmp_path / "data").resolve(),))
    block = await bench.run(
        f"place = {str(tmp_path)!r}\n"
        "print(open(place + '/data/rows.csv').read())\n"
        "for name, how in (('other.csv', 'r'), ('data/rows.csv', 'w'), ('data/new', 'w')):\n"
        "    try: open(place + '/' + name, how); print('opened', name)\n"
        "    except OSError: pass"
    )
    assert block.text == "1,2\n"


async def test_two_kernels_of_one_run_cannot_reach_each_others_files(open_walled):
    one, other = await open_walled("bwrap", "forked"), await open_walled("bwrap", "forked")
    there = other.kernel.process.folder
    block = await one.run(
        f"import os\nthere = {str(there)!r}\n"
        "for path in (there, there + '/kernel.json', there + '/own'): print(os.path.exists(path))"
    )
    assert block.text == "False\n" * 3


async def test_auto_takes_the_strongest_and_says_what_it_leaves_open(workspace, passed_over):
    launch = await choose()
    sandbox = await choose_sandbox(SandboxSettings(AUTO), launch, workspace.resolve(), {})
    assert sandbox is not None
    stronger = ("none", *MODES).index(sandbox.mode)
    for mode in MODES[stronger:]:
        with pytest.raises(ConfigError, match=f"the sandbox {mode} cannot be had here"):
            await choose_sandbox(SandboxSettings(mode), launch, workspace.resolve(), {})
    if sandbox.mode != "bwrap":
        passed_over(f"the strongest here is {describe_sandbox(sandbox)}")


async def test_at_least_a_mode_that_cannot_be_had_is_an_error_that_says_why(workspace, monkeypatch):
    launch = await choose()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        ConfigError, match=r"bwrap cannot be had here \(bwrap: bubblewrap is not installed: install"
    ):
        await choose_sandbox(SandboxSettings(AUTO, least="bwrap"), launch, workspace.resolve(), {})
    sandbox = await choose_sandbox(SandboxSettings(AUTO), launch, workspace.resolve(), {})
    assert sandbox is not None
    assert "bubblewrap is not installed" in describe_sandbox(sandbox)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"mode": "jail"}, "'jail' is no sandbox; it is one of auto, none, limits, landlock, bwrap"),
        ({"least": "auto"}, "'auto' is no sandbox to ask for at least"),
        ({"mode": "limits", "least": "bwrap"}, "the sandbox limits is asked for, and at least bwrap"),
        ({"allow_net": True, "allow_hosts": ("example.org",)}, "say one of them"),
        ({"allow_hosts": ("*",)}, "--allow-host: '*' is no host"),
    ],
)
def test_words_that_contradict_each_other_are_an_error(wanted, why):
    with pytest.raises(ConfigError) as raised:
        SandboxSettings(**wanted)
    assert why in str(raised.value)


def test_no_sandbox_is_said_loudly():
    assert "NONE" in describe_sandbox(None)
    assert "read and change your files" in describe_sandbox(None)


@pytest.mark.parametrize("platform", ["darwin", "win32"])
async def test_where_no_sandbox_is_to_be_had_that_is_said_with_what_to_do(workspace, monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    launch = await choose()
    assert await choose_sandbox(SandboxSettings(), launch, workspace, {}) is None
    assert re.match(
        r"sandbox: NONE\. Blocks run as you: .* \(sandboxes are for Linux; .* container",
        describe_sandbox(None),
    )
    with pytest.raises(ConfigError, match=r"sandbox limits cannot be had here: .* virtual machine"):
        await choose_sandbox(SandboxSettings(least="limits"), launch, workspace, {})
