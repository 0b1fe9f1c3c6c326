"""How a program is started behind walls: what is refused, what ordinary programs still do, what runs before."""

import errno
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from walls_bench import AS_ROOT, PASSED, POOL, Place

from codeact_kernel.inkernel.walls import CannotConfine
from codeact_kernel.inkernel.walls.describing import complete

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")


@pytest.fixture(scope="module")
def place():
    made = Path(tempfile.mkdtemp(prefix="walls-"))
    yield Place(made)
    shutil.rmtree(made)


@pytest.fixture
def workspace(place):
    made = Path(tempfile.mkdtemp(dir=place.folder))
    if AS_ROOT:
        os.chown(made, POOL, POOL)
    return made


def walls(place, workspace, **changes):
    return {"landlock": place.landlock(workspace), "seccomp": {}, **changes}


# -- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"landlok": None}, "unknown parts: landlok"),
        ({"landlock": {"reads": []}}, "unknown parts: reads"),
        ({"landlock": {"read": "/usr"}}, "landlock.read in the description is no list"),
        ({"landlock": {"read": ["usr"]}}, "no absolute path: 'usr'"),
        ({"landlock": {"network": 0}}, "neither true nor false: 0"),
        ({"limits": {"data": -1}}, "limits.data in the description is no number"),
        ({"limits": {"data": "1G"}}, "limits.data in the description is no number"),
        ({"limits": {"cpu": 1}}, "unknown parts: cpu"),
        ({"uid": 0, "gid": 0}, "uid in the description is no number from 1"),
        ({"uid": 0xFFFFFFFF, "gid": 1}, "uid in the description is no number"),
        ({"uid": 5}, "both or none"),
        ({"uid": True, "gid": True}, "uid in the description is no number"),
        ({"enter": {"workspace": None, "uid": 5, "gid": 5}}, "enter.workspace"),
        ({"seccomp": {"network": "no"}}, "neither true nor false"),
        ({"close": [-1]}, "close in the description"),
        ([], "the description is no object"),
        (None, "the description is no object"),
    ],
)
def test_a_description_with_a_mistake_is_refused(spec, problem):
    with pytest.raises(CannotConfine, match=problem.replace("(", r"\(")):
        complete(spec)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [("{", "the description is no JSON"), ('{"landlok": {}}', "unknown parts: landlok")],
)
def test_a_refusal_is_one_line_and_a_code_of_its_own(place, spec, problem):
    done = place.run(spec, "/bin/true")
    assert done.returncode == 125
    assert done.stderr.startswith("cannot confine: ")
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_program_that_is_not_there_is_said(place):
    done = place.run({}, "/bin/there-is-none")
    assert (done.returncode, done.stderr) == (
        127,
        "cannot execute /bin/there-is-none: No such file or directory\n",
    )
    assert place.run({}, "/etc/passwd").returncode == 126


def test_a_command_line_with_a_mistake_is_refused(place):
    for arguments in (
        [],
        ["{}"],
        ["{}", "--"],
        ["{}", "/bin/true"],
        ["--", "/bin/true"],
        ["{}", "--", "true"],
    ):
        done = place.start([place.python, "-I", "-S", str(place.walls / "__main__.py"), *arguments])
        assert (done.returncode, "the command line is" in done.stderr) == (125, True)


def test_it_does_not_start_where_code_of_the_workspace_may_have_run(place):
    for options in ([], ["-I"], ["-S"]):
        done = place.start(
            [place.python, *options, str(place.walls / "__main__.py"), "{}", "--", "/bin/true"]
        )
        assert (done.returncode, "python -I -S" in done.stderr) == (125, True)


LACKING = """
import ctypes, os, struct, sys
number, program = int(sys.argv[1]), sys.argv[2:]
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("<HBBI", *step) for step in steps)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(steps), code)), 0, 0) == 0
os.execv(program[0], program)
"""
"""Starts a program without one system call, as if the system did not have it."""
SECCOMP = 317 if os.uname().machine == "x86_64" else 277


@pytest.mark.parametrize(
    ("number", "reason"), [(444, "no Landlock"), (445, "takes no rule"), (446, "Landlock refuses")]
)
def test_a_system_without_landlock_is_refused_and_nothing_starts(place, workspace, number, reason):
    command = place.command(walls(place, workspace), ["/bin/echo", "started"])
    done = place.start([place.python, "-I", "-c", LACKING, str(number), *command])
    assert (done.returncode, done.stdout) == (125, "")
    assert reason in done.stderr


def test_a_system_that_takes_no_filter_is_refused_and_nothing_starts(place, workspace):
    command = place.command(walls(place, workspace), ["/bin/echo", "started"])
    done = place.start([place.python, "-I", "-c", LACKING, str(SECCOMP), *command])
    assert (done.returncode, done.stdout) == (125, "")
    assert "takes no filter" in done.stderr


OLDER = """
import ctypes, fcntl, os, struct, sys
version, number, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
# The question for the version, and no other, is answered by this process and not by the system.
steps = [(0x20, 0, 0, 0), (0x15, 0, 3, 444), (0x20, 0, 0, 32), (0x15, 0, 1, 1), (0x06, 0, 0, 0x7FC00000),
         (0x06, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("<HBBI", *step) for step in steps)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
questions = libc.syscall(number, 1, 8, ctypes.byref(Program(len(steps), code)))
pid = os.fork()
if pid == 0: os.execv(program[0], program)
question = bytearray(80)
fcntl.ioctl(questions, 0xC0502100, question)
fcntl.ioctl(questions, 0xC0182101, struct.pack("=QqiI", struct.unpack_from("=Q", question)[0], version, 0, 0))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
"""Starts a program that is told of an older Landlock."""


def on_older(place, version, spec):
    code = "print('started', flush=True)\ntry: open('/etc/passwd')\nexcept OSError as error: print(error.strerror)"
    command = place.command(spec, [place.python, "-I", "-c", code])
    return place.start([place.python, "-I", "-c", OLDER, str(version), str(SECCOMP), *command])


@pytest.mark.parametrize("version", range(1, 8))
def test_an_older_landlock_holds_what_it_can(place, workspace, version):
    done = on_older(place, version, walls(place, workspace, seccomp={"inet": False}))
    assert (done.stdout, done.stderr) == ("started\nPermission denied\n", "")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_landlock_that_cannot_deny_tcp_is_refused_where_nothing_else_does(place, workspace, version):
    for seccomp in ({}, {"network": True}, None):
        done = on_older(place, version, walls(place, workspace, seccomp=seccomp))
        assert (done.returncode, done.stdout) == (125, "")
        assert f"(ABI {version}) cannot deny TCP" in done.stderr
    network = place.landlock(workspace, network=True)
    assert on_older(place, version, walls(place, workspace, landlock=network)).stdout.startswith("started")


def test_an_architecture_without_a_filter_is_refused(place, workspace, tmp_path):
    for file in (place.walls / "filters").iterdir():
        shutil.copy(file, tmp_path)
    try:
        for file in (place.walls / "filters").iterdir():
            file.unlink()
        done = place.run(walls(place, workspace), "/bin/echo", "started")
    finally:
        for file in tmp_path.iterdir():
            shutil.copy(file, place.walls / "filters")
    assert (done.returncode, done.stdout) == (125, "")
    assert "no filter of system calls for" in done.stderr


def test_a_process_with_two_threads_is_refused(place):
    code = (
        "import sys, threading; sys.path.insert(0, sys.argv[1]); import walls\n"
        "wait = threading.Event(); threading.Thread(target=wait.wait).start()\n"
        "try: walls.confine({})\n"
        "except walls.CannotConfine as refusal: print(refusal.reason)\n"
        "wait.set()"
    )
    done = place.start([place.python, "-I", "-c", code, str(place.walls.parent)])
    assert done.stdout == "the process has 2 threads, and only one can be confined\n"


def test_a_user_that_this_one_cannot_become_is_refused(place):
    done = place.run({"uid": 12345, "gid": 12345}, "/bin/echo", "started", as_user=True)
    assert (done.returncode, done.stdout) == (125, "")
    assert "cannot become user 12345" in done.stderr


def test_a_path_that_cannot_be_reached_is_refused_and_one_that_is_not_there_passed_over(place, workspace):
    closed = workspace / "closed"
    closed.mkdir()
    (closed / "x").mkdir()
    closed.chmod(0)
    spec = walls(place, workspace, landlock=place.landlock(workspace, read=["/there-is-none", *place.roots]))
    assert place.run(spec, "/bin/echo", "started", as_user=True).stdout == "started\n"
    spec["landlock"]["read"].append(str(closed / "x"))
    done = place.run(spec, "/bin/echo", "started", as_user=True)
    assert (done.returncode, done.stdout) == (125, "")
    assert f"{closed}/x cannot be reached" in done.stderr


def test_a_link_in_what_is_writable_grants_nothing(place, workspace):
    """An earlier kernel has put it in the place of the folder of the next one."""
    (workspace / "run").symlink_to("/etc")
    (workspace / "link").symlink_to(workspace)
    for change in ({"write": [f"{workspace}/run"]}, {"read": [*place.roots, f"{workspace}/run"]},
                   {"write": [f"{workspace}/link"]}, {"write": [f"{workspace}/link/new"]},
                   {"write": [str(workspace)], "read": [*place.roots, f"{workspace}/link/../run"]}):  # fmt: skip
        done = place.run(
            {"landlock": place.landlock(workspace, **change)}, "/bin/echo", "started", as_user=True
        )
        assert (done.returncode, done.stdout) == (125, "")
        assert "is a symbolic link" in done.stderr
    # Elsewhere they are the system's.
    done = place.run(walls(place, workspace), "/bin/echo", "started", as_user=True)
    assert done.stdout == "started\n"


# -- nothing of the workspace runs before ------------------------------------------------------------------


def test_poisoned_modules_are_not_imported_before_the_walls_stand(place, workspace):
    poison = "import os; os.write(2, b'poisoned: ' + __name__.encode() + b'\\n')\n"
    names = ("json", "ctypes", "os", "signal", "struct", "re", "resource", "threading", "walls", "sitecustomize",
             "usercustomize", "encodings", "errno", "__main__", "importlib")  # fmt: skip
    for name in names:
        (workspace / f"{name}.py").write_text(poison)
    (workspace / "x.pth").write_text(f"import sys; {poison}")
    environment = {
        **PASSED, "PYTHONPATH": str(workspace), "PYTHONSTARTUP": str(workspace / "json.py"), "HOME": str(workspace),
        "PYTHONHOME": str(workspace), "PYTHONUSERBASE": str(workspace),
    }  # fmt: skip
    done = place.run(walls(place, workspace), "/bin/echo", "started", cwd=workspace, env=environment)
    assert (done.stdout, done.stderr) == ("started\n", "")


# -- what a program finds ----------------------------------------------------------------------------------


def test_the_program_has_the_environment_and_the_ordinary_signals(place, workspace):
    code = "import os, signal, json; print(json.dumps([dict(os.environ), open('/proc/self/status').read()]))"
    done = place.python_code(walls(place, workspace), code, env={"A": "b c", "LC_CTYPE": "C.UTF-8"})
    environment, _ = json.loads(done.stdout)
    assert environment == {"A": "b c", "LC_CTYPE": "C.UTF-8"}
    # A Python ignores two of them itself; a shell says what it was given.
    done = place.run({}, "/bin/sh", "-c", "grep SigIgn /proc/$$/status")
    assert int(done.stdout.split()[1], 16) == 0


@pytest.mark.parametrize("as_user", [False, True])
def test_there_are_no_capabilities_and_no_way_to_get_any(place, workspace, as_user):
    spec = walls(place, workspace)
    if AS_ROOT and not as_user:
        spec |= {"uid": POOL, "gid": POOL}
    done = place.python_code(spec, "print(open('/proc/self/status').read())", as_user=as_user)
    fields = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(fields[name], 16) == 0
    # An ordinary user cannot empty the last one, and needs it not: no program brings new privileges.
    assert as_user or not AS_ROOT or int(fields["CapBnd"], 16) == 0
    assert fields["NoNewPrivs"].strip() == "1"
    assert fields["Seccomp"].strip() == "2"
    if AS_ROOT:
        assert fields["Uid"].split() == fields["Gid"].split() == [str(POOL)] * 4
        assert fields["Groups"].strip() == ""


@pytest.mark.skipif(not AS_ROOT, reason="this is not root")
def test_root_without_a_user_of_its_own_has_no_capabilities_either(place, workspace):
    code = "import os; print(os.getuid(), [line for line in open('/proc/self/status') if 'Cap' in line])"
    done = place.python_code({}, code)
    uid, fields = done.stdout.split(" ", 1)
    assert uid == "0"
    assert all(int(line.split()[1], 16) == 0 for line in json.loads(fields.replace("'", '"')))


def test_limits_go_down_and_not_up_again(place, workspace):
    limits = {"data": 1 << 30, "file_size": 1 << 20, "open_files": 100, "processes": 50}
    code = """
import resource, json
names = ["DATA", "FSIZE", "NOFILE", "NPROC"]
said = [resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in names]
for name in names:
    which = getattr(resource, "RLIMIT_" + name)
    try: resource.setrlimit(which, (-1, -1))
    except (OSError, ValueError) as error: said.append(type(error).__name__)
print(json.dumps(said))
"""
    spec = {"limits": limits} | ({"uid": POOL, "gid": POOL} if AS_ROOT else {})
    said = json.loads(place.python_code(spec, code).stdout)
    assert said[:4] == [[value, value] for value in limits.values()]
    assert said[4:] == ["ValueError"] * 4
    # One that is lower already stays, even for root, who could raise it.
    lower = place.command(
        {"limits": {"open_files": 50}}, place.command({"limits": limits}, [place.python, "-I", "-c", code])
    )
    assert json.loads(place.start(lower).stdout)[2] == [50, 50]


def test_the_session_and_the_score_are_its_own(place):
    code = "import os; print(os.getsid(0) == os.getpid(), open('/proc/self/oom_score_adj').read())"
    assert place.python_code({"session": True, "oom_score_adj": 321}, code).stdout == "True 321\n\n"
    twice = place.command(
        {"session": True, "oom_score_adj": 700},
        place.command({"session": True, "oom_score_adj": 300}, [place.python, "-I", "-c", code]),
    )
    assert place.start(twice).stdout == "True 700\n\n"


def test_descriptors_are_closed(place):
    read, write = os.pipe()
    try:
        code = f"import os; [os.fstat({read})]; os.fstat({write})"
        done = place.python_code({"close": [write, 99]}, code, pass_fds=(read, write))
        assert "Bad file descriptor" in done.stderr.splitlines()[-1]
        assert place.python_code({}, code, pass_fds=(read, write)).returncode == 0
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.skipif(not AS_ROOT, reason="this is not root")
def test_a_process_that_became_another_user_can_be_debugged(place):
    """The kernel's own program tells it apart: what is not dumpable has its /proc entry owned by root."""
    code = """
import os, sys; sys.path.insert(0, sys.argv[1]); import walls
walls.confine({"uid": 64123, "gid": 64123})
print(os.stat("/proc/self/environ").st_uid, os.listdir("/proc/self/fd") != [])
"""
    done = place.start([place.python, "-I", "-c", code, str(place.walls.parent)])
    assert done.stdout == "64123 True\n"


# -- what ordinary programs still do -----------------------------------------------------------------------

ORDINARY = """
import asyncio, concurrent.futures, json, multiprocessing, os, socket, sqlite3, subprocess, sys, tempfile, threading
os.chdir(sys.argv[1])
os.environ["TMPDIR"] = sys.argv[1]
def square(number): return number * number
async def later():
    process = await asyncio.create_subprocess_exec("/bin/echo", "child", stdout=-1)
    return (await process.communicate())[0].decode()
if __name__ == "__main__":
    said = {}
    thread = threading.Thread(target=lambda: said.update(thread=sum(range(10)))); thread.start(); thread.join()
    said["subprocess"] = subprocess.run(["/bin/sh", "-c", "echo a | tr a b"], capture_output=True, text=True).stdout
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            said[method] = list(pool.map(square, range(4)))
    with multiprocessing.Pool(2) as pool: said["pool"] = pool.map(square, range(3))
    said["asyncio"] = asyncio.run(later())
    one, other = socket.socketpair(); one.send(b"pair"); said["pair"] = other.recv(9).decode()
    with tempfile.NamedTemporaryFile() as file: said["tempfile"] = os.path.dirname(file.name) == sys.argv[1]
    with sqlite3.connect("base.db") as base: said["sqlite"] = base.execute("select 6 * 7").fetchone()[0]
    os.makedirs("a/b"); os.rename("base.db", "a/b/moved"); os.symlink("a", "link"); os.link("a/b/moved", "hard")
    said["renamed"] = sorted(name for name in os.listdir(".") if "pymp" not in name)
    os.chmod("hard", 0o600); open("/dev/null", "w").write("x")
    said["own limits"] = __import__("resource").getrlimit(0) is not None
    print(json.dumps(said))
"""


@pytest.mark.parametrize(
    "seccomp", [{"network": True}, {"network": False}, {"network": False, "inet": False}]
)
def test_threads_children_pools_loops_and_files_work(place, workspace, seccomp):
    script = workspace / "ordinary.py"
    script.write_text(ORDINARY)
    landlock = place.landlock(workspace, write=[str(workspace), "/dev/shm"])
    spec = walls(place, workspace, landlock=landlock, seccomp=seccomp)
    done = place.run(spec, place.python, "-I", str(script), str(workspace), as_user=True)
    assert json.loads(done.stdout or done.stderr) == {
        "thread": 45, "subprocess": "b\n", "fork": [0, 1, 4, 9], "spawn": [0, 1, 4, 9], "forkserver": [0, 1, 4, 9],
        "pool": [0, 1, 4], "asyncio": "child\n", "pair": "pair", "tempfile": True, "sqlite": 42,
        "renamed": ["a", "hard", "link", "ordinary.py"], "own limits": True,
    }  # fmt: skip


def test_a_thread_that_is_made_later_and_a_child_are_confined(place, workspace):
    code = """
import os, subprocess, sys, threading
def look():
    try: open("/etc/passwd"); print("read")
    except OSError as error: print(error.strerror)
thread = threading.Thread(target=look); thread.start(); thread.join()
print(subprocess.run(["/bin/cat", "/etc/passwd"], capture_output=True, text=True).stderr.strip())
"""
    done = place.python_code(walls(place, workspace), code)
    assert done.stdout == "Permission denied\n/bin/cat: /etc/passwd: Permission denied\n"


@pytest.mark.parametrize(
    ("seccomp", "made"),
    [
        ({"network": True}, ["unix", "tcp", "tcp6", "udp", "netlink"]),
        ({"network": False}, ["unix", "tcp", "tcp6", "netlink"]),
        ({"network": False, "inet": False}, ["unix", "netlink"]),
        ({"network": False, "inet": False, "unix": False}, ["netlink"]),
    ],
)
def test_each_filter_leaves_its_sockets(place, seccomp, made):
    code = """
import json, socket
wanted = dict(unix=(1, 1, 0), tcp=(2, 1, 6), tcp6=(10, 1, 0), udp=(2, 2, 17), netlink=(16, 3, 0),
              vsock=(40, 1, 0), raw=(2, 3, 1), uevent=(16, 3, 15))
made = []
for name, which in wanted.items():
    try: socket.socket(*which).close(); made.append(name)
    except PermissionError: pass
print(json.dumps(made))
"""
    assert json.loads(place.python_code({"seccomp": seccomp}, code).stdout) == made


def test_a_kernel_seals_itself_and_all_of_its_threads(place, workspace):
    """It keeps the sockets that it has; what comes afterwards has pairs of streams."""
    code = """
import os, socket, sys, threading
sys.path.insert(0, sys.argv[1])
import walls
server = socket.socket(socket.AF_UNIX); server.bind(sys.argv[2]); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect(sys.argv[2])
go, said = threading.Event(), []
def later():
    go.wait()
    try: socket.socket(socket.AF_UNIX); said.append("made")
    except PermissionError: said.append("refused")
thread = threading.Thread(target=later); thread.start()
walls.seal()
go.set(); thread.join(); go.set(); later()
accepted, _ = server.accept(); client.send(b"kept"); said.append(accepted.recv(9).decode())
one, other = socket.socketpair(); one.send(b"pair"); said.append(other.recv(9).decode())
try: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
except PermissionError: said.append("no datagrams")
print(*said)
"""
    inner = [place.python, "-I", "-c", code, str(place.walls.parent), str(workspace / "socket")]
    done = place.run(walls(place, workspace), *inner, as_user=True)
    assert done.stdout == "refused refused kept pair no datagrams\n", done.stderr


def test_with_a_network_a_tcp_connection_is_made(place, workspace):
    import socket

    spec = walls(
        place, workspace, landlock=place.landlock(workspace, network=True), seccomp={"network": True}
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        code = f"import socket; socket.create_connection({address}, 5).close(); print('connected')"
        assert place.python_code(spec, code).stdout == "connected\n"


def test_what_is_not_held_is_named(place):
    done = place.start([place.python, "-I", "-S", str(place.walls / "__main__.py"), "--holds"])
    said = json.loads(done.stdout)
    assert said["landlock"] >= 1
    assert said["filter"] is True
    assert said["held"]
    assert any("chmod" in text for text in said["not_held"])
    assert ("TCP connections and servers" in said["held"]) == (said["landlock"] >= 4)


def test_a_terminal_cannot_be_typed_into(place, workspace):
    """The terminal is the process's own, so that nothing but the filter stands in the way."""
    code = """
import fcntl, os, pty
pid, descriptor = pty.fork()
if pid == 0:
    try: fcntl.ioctl(0, 0x5412, b"x"); print("typed", flush=True)
    except OSError as error: print(error.errno, flush=True)
    os._exit(0)
print(os.read(descriptor, 99).decode().strip())
"""
    spec = walls(
        place, workspace, landlock=place.landlock(workspace, devices=["/dev/null", "/dev/ptmx", "/dev/pts"])
    )
    done = place.python_code(spec, code)
    assert done.stdout == f"{errno.EPERM}\n", done.stderr
