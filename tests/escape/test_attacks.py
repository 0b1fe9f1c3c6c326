"""The hostile programs themselves: that they do what they say, and that nothing of them stays."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from servers import facts_of

from codeact_kernel.errors import KernelLost

ESCAPE = Path(__file__).parent
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="they attack Linux")


@pytest.fixture
def facts(tmp_path):
    with facts_of(tmp_path) as known:
        yield known


def attack(known, *names, inside=()):
    command = [*inside, sys.executable, str(ESCAPE / "attacks.py"), *names]
    done = subprocess.run(
        command, input=json.dumps(known), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_attack_that_lacks_what_it_needs_is_not_tried():
    assert attack({}, "send_udp", "read_a_file_outside") == {
        "send_udp": "not tried: nothing is known of 'udp'",
        "read_a_file_outside": "not tried: nothing is known of 'outside'",
    }


def test_attacks_that_get_through_say_so_and_change_nothing(facts):
    names = [
        "read_a_file_outside", "make_a_file_outside", "open_a_file_outside_for_writing", "empty_a_file_outside",
        "change_the_mode_of_a_file_outside", "change_the_times_of_a_file_outside", "move_a_file_outside",
        "write_protected_files", "replace_protected_files", "write_into_another_kernels_folder", "send_udp",
        "connect_to_loopback", "connect_to_an_abstract_socket", "connect_to_a_named_socket", "signal_the_host",
        "read_the_hosts_environment", "fill_the_workspace", "fill_tmp",
    ]  # fmt: skip
    outside = Path(facts["outside"])
    before = {path: (path.stat().st_mode, path.stat().st_size) for path in outside.iterdir()}
    assert attack(facts | {"room": 1}, *names) == dict.fromkeys(names, "got through")
    assert {path: (path.stat().st_mode, path.stat().st_size) for path in outside.iterdir()} == before
    assert [path.name for path in Path(facts["workspace"]).iterdir()] == [".git"]


def test_what_is_stopped_says_by_what(facts):
    (Path(facts["outside"]) / "file").unlink()
    assert attack(facts, "read_a_file_outside") == {
        "read_a_file_outside": "stopped: No such file or directory"
    }


def test_what_is_planted_is_there_to_be_looked_at(facts):
    names = ["plant_a_module", "plant_a_link_in_the_run_folder", "plant_a_pickle"]
    assert all(how.startswith("left: ") for how in attack(facts, *names).values())
    workspace, run = Path(facts["workspace"]), Path(facts["run"])
    assert (run / "kernel.json").readlink() == (run / "planted").readlink() == Path(facts["outside"]) / "file"
    assert {"json.py", "ctypes.py", "sitecustomize.py", "value.pickle"} <= {
        path.name for path in workspace.iterdir()
    }
    # They go off where nobody takes care.
    env = {"PYTHONPATH": str(workspace)}
    subprocess.run([sys.executable, "-c", "import json"], env=env, check=False, capture_output=True)
    assert list(workspace.glob("ran-*"))
    load = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"
    subprocess.run(
        [sys.executable, "-c", load, str(workspace / "value.pickle")], check=False, capture_output=True
    )
    assert (workspace / "unpickled").exists()


def test_a_survivor_outlives_who_started_it(facts):
    survivor = Path(facts["workspace"]) / "survivor"
    attack(facts, "survive_a_kill")
    deadline = time.monotonic() + 10
    seen = ""
    while not seen and time.monotonic() < deadline:
        seen = survivor.read_text() if survivor.exists() else ""
    pid = int(seen.split()[0])
    try:
        while survivor.read_text() in ("", seen) and time.monotonic() < deadline:
            pass
        assert survivor.read_text() != seen
    finally:
        os.kill(pid, signal.SIGKILL)


def test_floods_are_bounded_by_what_is_known(facts):
    known = facts | {"data": 64 << 20, "file_size": 1 << 20, "processes": 20}
    names = [
        "start_too_many_processes",
        "take_too_much_memory",
        "take_too_much_shared_memory",
        "write_too_large_a_file",
    ]
    assert attack(known, *names) == dict.fromkeys(names, "got through")


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("bwrap") is None, reason="it takes root and bubblewrap")
def test_a_sandbox_that_keeps_roots_rights_holds_none_of_these(tmp_path):
    """Root in bubblewrap, with nothing else: what a careless sandbox is."""
    for name in ("workspace", "locked"):
        (tmp_path / name).mkdir()
    careless = ["bwrap", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    careless += ["--bind", str(tmp_path / "workspace"), str(tmp_path / "workspace")]
    careless += ["--ro-bind", str(tmp_path / "locked"), str(tmp_path / "locked")]
    names = ["remount_read_only_mounts", "make_a_mount_writable_in_the_new_way", "open_core_pattern_for_writing",
             "mount_something", "mount_in_the_new_way", "unmount_something", "have_capabilities"]  # fmt: skip
    known = {"workspace": str(tmp_path / "workspace"), "read_only": str(tmp_path / "locked")}
    assert attack(known, *names, inside=careless) == dict.fromkeys(names, "got through")


TRY = """
import sys
sys.path.insert(0, {folder!r})
import attacks_kernel
print(attacks_kernel.try_here({facts!r}, *{names!r}))
"""


@pytest.mark.kernel
async def test_a_forged_call_reaches_the_host_as_a_call_of_this_kernel(open_bench):
    calls = []

    async def serve(name, args, kwargs, of, back):
        calls.append((name, list(args), of))
        return "answer"

    bench = await open_bench(serve)
    facts = {"tool": "search", "argument": "x", "of": "another"}
    code = TRY.format(
        folder=str(ESCAPE), facts=facts, names=("forge_a_call", "forge_a_call_of_another_block")
    )
    watched = await bench.run(code)
    assert watched.text.count("left: ") == 2, watched.error
    assert (await bench.run("print('goes on')")).text == "goes on\n"
    assert calls == [("search", ["x"], None), ("search", ["x"], "another")]


@pytest.mark.kernel
async def test_frames_without_sense_end_at_most_the_kernel_that_sent_them(open_bench):
    async def serve(name, args, kwargs, of, back):
        return "answer"

    bench, other = await open_bench(serve), await open_bench(serve)
    # It may be lost to its host: that a block can have in easier ways.
    with suppress(KernelLost):
        await bench.run(TRY.format(folder=str(ESCAPE), facts={}, names=("forge_what_is_no_call",)))
    assert (await other.run("print('goes on')")).text == "goes on\n"


@pytest.mark.kernel
async def test_with_its_connection_file_another_kernel_is_anybodys(open_bench, tmp_path):
    """So the file is what has to be kept: see who can read it in each mode."""
    other, bench = await open_bench(), await open_bench()
    file = Path((await other.run("import ipykernel; print(ipykernel.get_connection_file())")).text.strip())
    (tmp_path / "kernel.json").write_bytes(file.read_bytes())
    names = ("run_code_in_another_kernel", "open_another_kernels_bridge")
    watched = await bench.run(TRY.format(folder=str(ESCAPE), facts={"other": str(tmp_path)}, names=names))
    assert watched.text.count("got through") == 2, watched.text + watched.error
    (tmp_path / "kernel.json").unlink()
    watched = await bench.run(TRY.format(folder=str(ESCAPE), facts={"other": str(tmp_path)}, names=names))
    assert watched.text.count("stopped: No such file") == 2, watched.text + watched.error
