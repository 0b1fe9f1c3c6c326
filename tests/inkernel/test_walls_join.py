"""A process that was forked, and joins a sandbox that waits for it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from walls_bench import AS_ROOT, PASSED, POOL, Place

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")

HOLDER = """
import ctypes, os, sys
if ctypes.CDLL(None, use_errno=True).unshare(int(sys.argv[1])) != 0: sys.exit(os.strerror(ctypes.get_errno()))
pid = os.fork()
if pid == 0:
    print(os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
print(pid, flush=True)
os.waitpid(pid, 0)
"""
JOINER = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import walls
kinds = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
holder, spec = int(sys.argv[2]), json.loads(sys.argv[3])
pidfd = os.pidfd_open(holder)
theirs = {kind: os.readlink(f"/proc/{holder}/ns/{kind}") for kind in kinds}
try: walls.join(pidfd)
except walls.CannotConfine as refusal: sys.exit(refusal.reason)
pid = os.fork()
if pid == 0:
    ours = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in kinds} if os.path.exists("/proc/self/ns") else theirs
    walls.confine(spec)
    fields = [line.split() for line in open("/proc/self/status") if line.startswith(("Cap", "Seccomp:", "NoNew"))]
    print(json.dumps([ours == theirs, os.getpid(), os.getuid(), fields]))
    sys.stdout.flush()
    os._exit(0)
os.waitpid(pid, 0)
"""
ALL_BUT_USER = 0x02000000 | 0x08000000 | 0x00020000 | 0x40000000 | 0x20000000 | 0x04000000
USER = 0x10000000


@pytest.fixture(scope="module")
def place():
    made = Path(tempfile.mkdtemp(prefix="walls-"))
    yield Place(made)
    shutil.rmtree(made)


@contextmanager
def holder(place, flags, **more):
    command = [place.python, "-I", "-c", HOLDER, str(flags)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=PASSED, cwd="/", **more) as process:
        pids = {process.stdout.readline().strip(), process.stdout.readline().strip()}
        yield int((pids - {"1"}).pop())
        process.stdin.close()


def join(place, pid, spec, **more):
    command = [place.python, "-I", "-c", JOINER, str(place.walls.parent), str(pid), json.dumps(spec)]
    return place.start(command, **more)


@pytest.mark.skipif(not AS_ROOT, reason="this is not root")
def test_root_joins_all_namespaces_and_becomes_another_user_in_them(place):
    with holder(place, ALL_BUT_USER) as pid:
        done = join(place, pid, {"uid": POOL, "gid": POOL, "seccomp": {}})
    same, inside, uid, fields = json.loads(done.stdout or done.stderr)
    # The pid is that in the sandbox: its first process is the holder.
    assert (same, inside, uid) == (True, 2, POOL)
    assert all(int(value, 16) == 0 for name, value in fields if name.startswith("Cap"))
    assert ["Seccomp:", "2"] in fields
    assert ["NoNewPrivs:", "1"] in fields


def test_an_ordinary_user_joins_a_sandbox_of_its_own(place):
    user = {"user": POOL, "group": POOL, "extra_groups": []} if AS_ROOT else {}
    with holder(place, ALL_BUT_USER | USER, **user) as pid:
        done = join(place, pid, {"seccomp": {}}, as_user=True)
    same, inside, _, fields = json.loads(done.stdout or done.stderr)
    assert (same, inside) == (True, 2)
    # It had all capabilities in there for a moment.
    assert all(int(value, 16) == 0 for name, value in fields if name.startswith("Cap"))


def test_a_process_with_no_namespaces_of_its_own_is_refused(place):
    done = join(place, os.getpid(), {})
    assert (done.returncode, done.stderr) == (1, "the process to join has no namespaces of its own\n")


def test_a_process_that_is_gone_is_refused(place):
    code = JOINER.replace("theirs = ", "os.kill(holder, 9); os.waitpid(holder, 0); theirs = {} #")
    code = code.replace("int(sys.argv[2])", "os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '60')")
    done = place.start([place.python, "-I", "-c", code, str(place.walls.parent), "0", "{}"])
    assert (done.returncode, done.stderr) == (
        1,
        "the process to join is gone, or the descriptor stands for none\n",
    )


@pytest.mark.skipif(not AS_ROOT, reason="this is not root")
def test_an_ordinary_user_cannot_join_roots_sandbox(place):
    with holder(place, ALL_BUT_USER) as pid:
        done = join(place, pid, {}, as_user=True)
    assert done.returncode == 1
    assert "Permission" in done.stderr


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed here")
def test_a_sandbox_of_bubblewraps_is_joined(place):
    """With no further user namespaces in it: it is joined all the same."""
    read, write = os.pipe()
    command = [
        "bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--cap-drop", "ALL",
        *("--ro-bind", "/", "/"), *("--proc", "/proc"), *("--dev", "/dev"), "--info-fd", str(write),
        "sh", "-c", "echo ready; exec sleep 60",
    ]  # fmt: skip
    user = {"user": POOL, "group": POOL, "extra_groups": []} if AS_ROOT else {}
    with subprocess.Popen(command, stdout=-1, env=PASSED, cwd="/", pass_fds=[write], **user) as process:
        os.close(write)
        with open(read) as pipe:
            pid = json.loads(pipe.read())["child-pid"]
        # It has all its mounts by then.
        assert process.stdout.readline() == b"ready\n"
        done = join(place, pid, {"seccomp": {}}, as_user=True)
        process.kill()
    _, inside, _, fields = json.loads(done.stdout or done.stderr)
    assert inside > 1
    assert all(int(value, 16) == 0 for name, value in fields if name.startswith("Cap"))
