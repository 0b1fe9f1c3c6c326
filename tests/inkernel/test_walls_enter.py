"""A workspace that is lent to another user, and ways through folders that are closed to it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from walls_bench import PASSED, POOL, Place

from codeact_kernel.inkernel.walls import CannotConfine, entering, mounts

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root on Linux lends a workspace"
)
THIRD = 64_200


@pytest.fixture(scope="module")
def place():
    made = Path(tempfile.mkdtemp(prefix="walls-"))
    yield Place(made)
    shutil.rmtree(made)


@pytest.fixture
def closed(place):
    """A closed folder, as a home is."""
    made = Path(tempfile.mkdtemp(dir=place.folder))
    assert made.stat().st_mode & 0o777 == 0o700
    return made


@pytest.fixture
def workspace(closed):
    made = closed / "deep" / "workspace"
    made.mkdir(parents=True)
    made.chmod(0o700)
    (made / "private").write_text("the owner's")
    (made / "private").chmod(0o600)
    (made / "third").write_text("a third user's")
    os.chown(made / "third", THIRD, THIRD)
    (made / "third").chmod(0o644)
    return made


def lend(workspace, *expose, **more):
    enter = {"workspace": str(workspace), "uid": POOL, "gid": POOL, "expose": [str(path) for path in expose]}
    return {"enter": enter, "uid": POOL, "gid": POOL, "seccomp": {}, **more}


SAY = """
import json, os, sys
def tried(function):
    try: return function()
    except OSError as error: return error.strerror
"""


def say(place, spec, code, **more):
    done = place.python_code(spec, SAY + f"\nprint(json.dumps({code}))", **more)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_the_owners_files_are_the_users_and_new_ones_the_owners(place, workspace):
    said = say(place, lend(workspace), f"""[
        os.getuid(), open("{workspace}/private").read(), os.stat("{workspace}/private").st_uid,
        tried(lambda: open("{workspace}/new", "w").write("x")), tried(lambda: os.makedirs("{workspace}/a/b")),
        tried(lambda: open("{workspace}/private", "a").write("!")), os.stat("{workspace}/new").st_uid]""")  # fmt: skip
    assert said == [POOL, "the owner's", POOL, 1, None, 1, POOL]
    assert (workspace / "private").read_text() == "the owner's!"
    for name in ("private", "new", "a", "a/b"):
        assert ((workspace / name).stat().st_uid, (workspace / name).stat().st_gid) == (0, 0)


def test_a_third_users_file_is_not_the_users(place, workspace):
    said = say(place, lend(workspace), f"""[
        os.stat("{workspace}/third").st_uid, open("{workspace}/third").read(),
        tried(lambda: open("{workspace}/third", "a")),
        tried(lambda: os.chmod("{workspace}/third", 0o777))]""")  # fmt: skip
    assert said == [THIRD, "a third user's", "Permission denied", "Operation not permitted"]


def test_a_workspace_of_an_ordinary_user_is_lent_as_well(place, workspace):
    for path in (workspace, workspace / "private"):
        os.chown(path, THIRD, THIRD + 1)
    (workspace / "roots").write_text("root's")
    (workspace / "roots").chmod(0o600)
    said = say(place, lend(workspace), f"""[
        open("{workspace}/private").read(), tried(lambda: open("{workspace}/new", "w").write("x")),
        os.stat("{workspace}/new").st_gid, tried(lambda: open("{workspace}/roots").read())]""")  # fmt: skip
    assert said == ["the owner's", 1, POOL, "Permission denied"]
    assert ((workspace / "new").stat().st_uid, (workspace / "new").stat().st_gid) == (THIRD, THIRD + 1)


def test_a_workspace_that_is_the_users_already_is_left_as_it_is(place, workspace):
    for path in (workspace, workspace / "private"):
        os.chown(path, POOL, POOL)
    assert say(place, lend(workspace), f'open("{workspace}/private").read()') == "the owner's"


def test_nothing_stays_mounted_outside(place, workspace):
    before = Path("/proc/self/mountinfo").read_text()
    code = f"import sys; print(open('/proc/self/mountinfo').read().count('{workspace}'), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        place.command(lend(workspace), [place.python, "-I", "-c", code]), stdin=-1, stdout=-1, env=PASSED
    ) as process:
        assert int(process.stdout.readline()) >= 1
        # While it runs, too.
        assert Path("/proc/self/mountinfo").read_text() == before
        process.stdin.close()
    assert Path("/proc/self/mountinfo").read_text() == before


def test_what_is_closed_stays_closed_but_for_what_is_exposed(place, workspace, closed):
    for name in ("tools", "secrets", "deep/other"):
        (closed / name).mkdir(parents=True)
        (closed / name / "file").write_text(name)
    (closed / "file").write_text("a single one")
    (closed / "key").write_text("secret")
    said = say(place, lend(workspace, closed / "tools", closed / "file", closed / "there-is-none"), f"""[
        open("{closed}/tools/file").read(), open("{closed}/file").read(), sorted(os.listdir("{closed}")),
        os.listdir("{closed}/deep"), tried(lambda: open("{closed}/tools/file", "w")),
        tried(lambda: os.mkdir("{closed}/new")),
        tried(lambda: open("{workspace}/new", "w").write("x"))]""")  # fmt: skip
    assert said == [
        "tools", "a single one", ["deep", "file", "tools"], ["workspace"], "Read-only file system",
        "Read-only file system", 1,
    ]  # fmt: skip
    assert sorted(path.name for path in closed.iterdir()) == ["deep", "file", "key", "secrets", "tools"]


def test_the_exposed_is_read_only_for_a_mode_that_lets_everybody_write(place, workspace, closed):
    (closed / "tools").mkdir()
    (closed / "tools").chmod(0o777)
    said = say(place, lend(workspace, closed / "tools"), f'tried(lambda: open("{closed}/tools/new", "w"))')
    assert said == "Read-only file system"


def test_links_on_the_way_to_what_is_exposed_lead_there(place, workspace, closed):
    """As a virtual environment's interpreter is: a link to a link to a file in another closed folder."""
    (closed / "real" / "bin").mkdir(parents=True)
    (closed / "real" / "bin" / "python3.11").write_text("the program")
    (closed / "venv" / "bin").mkdir(parents=True)
    (closed / "versions").symlink_to("real")
    (closed / "venv" / "bin" / "python3").symlink_to(closed / "versions" / "bin" / "python3.11")
    (closed / "python").symlink_to("venv/bin/python3")
    shown = [closed / "python", closed / "venv", closed / "versions", closed / "real"]
    said = say(place, lend(workspace, *shown), f"""[
        open("{closed}/python").read(), os.readlink("{closed}/python"), os.path.realpath("{closed}/python"),
        os.readlink("{closed}/versions")]""")  # fmt: skip
    assert said == ["the program", "venv/bin/python3", str(closed / "real" / "bin" / "python3.11"), "real"]


def test_the_workspace_may_lie_in_what_is_exposed_and_the_other_way_round(place, closed):
    (closed / "all" / "workspace" / "venv").mkdir(parents=True)
    workspace = closed / "all" / "workspace"
    (workspace / "venv" / "module.py").write_text("x")
    said = say(place, lend(workspace, closed / "all", workspace / "venv"), f"""[
        tried(lambda: open("{closed}/all/new", "w")), tried(lambda: open("{workspace}/new", "w").write("x")),
        tried(lambda: open("{workspace}/venv/module.py", "w")),
        tried(lambda: os.rename("{workspace}/venv", "{workspace}/v")),
        open("{workspace}/venv/module.py").read()]""")  # fmt: skip
    assert said == ["Read-only file system", 1, "Read-only file system", "Device or resource busy", "x"]


def test_the_closed_folder_may_be_the_workspace_itself(place, closed):
    (closed / "file").write_text("x")
    assert say(place, lend(closed), f'[open("{closed}/file").read(), os.listdir("{closed}")]') == [
        "x",
        ["file"],
    ]


def test_the_current_folder_is_the_one_that_is_lent(place, workspace):
    said = say(place, lend(workspace), 'tried(lambda: open("private").read())', cwd=workspace)
    assert said == "the owner's"


def test_the_current_folder_does_not_lead_past_what_covers_it(place, workspace, closed):
    (closed / "key").write_text("secret")
    said = say(
        place, lend(workspace), """[tried(lambda: open("../../key").read()), os.getcwd()]""", cwd=workspace
    )
    assert said == ["No such file or directory", str(workspace)]
    assert say(place, lend(workspace), "os.getcwd()", cwd=closed / "deep") == str(closed / "deep")


def test_no_program_is_left_behind_that_lends_its_owners_rights(place, workspace):
    """On disk it would be root's, and whoever could execute it there would be root."""
    said = say(place, lend(workspace), f"""[tried(lambda: os.chmod("{workspace}/private", 0o4755)),
        tried(lambda: os.open("{workspace}/new", os.O_CREAT | os.O_WRONLY, 0o4755)),
        tried(lambda: os.chmod("{workspace}/private", 0o755))]""")  # fmt: skip
    assert said == ["Operation not permitted", "Operation not permitted", None]
    assert (workspace / "private").stat().st_mode & 0o7777 == 0o755
    spec = lend(workspace, seccomp=None)
    done = place.run(spec, "/bin/echo", "started")
    assert (done.returncode, done.stdout, "takes seccomp" in done.stderr) == (125, "", True)


def test_a_workspace_that_became_a_link_is_refused(place, workspace, closed):
    """An earlier kernel may have put it there: what it leads to would be lent."""
    (closed / "secrets").mkdir()
    for link in (workspace / "inner", closed / "outer"):
        link.symlink_to(closed / "secrets")
        done = place.run(lend(link), "/bin/echo", "started")
        assert (done.returncode, done.stdout) == (125, "")
        assert f"{link} is a symbolic link" in done.stderr
    (closed / "secrets" / "deeper").mkdir()
    assert "is a symbolic link" in place.run(lend(workspace / "inner" / "deeper"), "/bin/echo").stderr


def test_links_in_the_workspace_expose_nothing(place, workspace, closed):
    (closed / "secrets").mkdir()
    (closed / "secrets" / "file").write_text("secret")
    (closed / "secrets").chmod(0o755)
    (workspace / "venv").symlink_to(closed / "secrets")
    (closed / "python").symlink_to(workspace / "venv" / "file")
    shown = [workspace / "venv", workspace / "venv" / "file", closed / "python"]
    said = say(place, lend(workspace, *shown), f"""[sorted(os.listdir("{closed}")),
        tried(lambda: open("{workspace}/venv/file").read()),
        tried(lambda: open("{closed}/python").read())]""")  # fmt: skip
    assert said == [["deep", "python"], "No such file or directory", "No such file or directory"]


def test_devices_and_root_programs_of_the_owner_are_not_the_users(place, workspace):
    os.mknod(workspace / "null", 0o600 | 0o020000, os.makedev(1, 3))
    said = say(place, lend(workspace), f"""[tried(lambda: open("{workspace}/null").read()),
        [line.split()[5] for line in open("/proc/self/mountinfo") if "{workspace}" in line]]""")  # fmt: skip
    assert said[0] == "Permission denied"
    assert all("nosuid" in options and "nodev" in options for options in said[1])


def test_landlock_and_the_filter_go_with_it(place, workspace, closed):
    (closed / "tools").mkdir()
    landlock = place.landlock(workspace, read=[*place.roots, str(closed / "tools")])
    spec = lend(workspace, closed / "tools", landlock=landlock, seccomp={})
    said = say(place, spec, f"""[open("{workspace}/private").read(), tried(lambda: open("/etc/passwd")),
        os.listdir("{closed}/tools"), tried(lambda: os.listdir("{closed}"))]""")  # fmt: skip
    assert said == ["the owner's", "Permission denied", [], "Permission denied"]


def test_a_file_system_that_cannot_do_it_is_refused_and_nothing_starts(place):
    done = place.run(lend("/proc/sys"), "/bin/echo", "started")
    assert (done.returncode, done.stdout) == (125, "")
    assert "the file system of /proc/" in done.stderr


@pytest.mark.parametrize(
    ("path", "reason"), [("/", "no folder that can be"), ("/there-is-none", "no folder that can be")]
)
def test_what_is_no_workspace_is_refused(place, path, reason):
    done = place.run(lend(path), "/bin/echo", "started")
    assert (done.returncode, done.stdout, reason in done.stderr) == (125, "", True)


def test_what_stays_closed_by_its_own_mode_is_refused(place, workspace, closed):
    (closed / "tools").mkdir(mode=0o700)
    done = place.run(lend(workspace, closed / "tools"), "/bin/echo", "started")
    assert (done.returncode, done.stdout) == (125, "")
    assert f"{closed}/tools is closed to user {POOL}" in done.stderr


def test_an_ordinary_user_cannot_enter(place, workspace):
    done = place.run(lend(place.folder), "/bin/echo", "started", as_user=True)
    assert (done.returncode, done.stdout) == (125, "")
    assert "only root" in done.stderr


def test_one_that_only_enters_keeps_roots_rights_and_takes_no_other_walls(place, workspace):
    spec = {"enter": lend(workspace)["enter"]}
    code = (
        f"import os; print(os.getuid(), os.stat('{workspace}/private').st_uid, os.access('/etc/shadow', 4))"
    )
    done = place.python_code(spec, code, options=("--enter",))
    assert done.stdout == f"0 {POOL} True\n"
    done = place.python_code({**spec, "seccomp": {}}, code, options=("--enter",))
    assert (done.returncode, "nothing else" in done.stderr) == (125, True)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed here")
def test_root_lends_a_workspace_goes_into_bubblewrap_and_there_becomes_the_user(place, workspace):
    """The whole way of a root host: no user namespace, so that nothing in the sandbox is the host's root."""
    ways = [folder for folder in reversed(workspace.parents) if str(folder) not in ("/", "/usr")]
    ways += [folder for folder in reversed(Path(place.roots[0]).parents) if str(folder) not in ("/", "/usr")]
    code = f"""
import os, json
tried = lambda path: os.access(path, os.R_OK)
print(json.dumps([os.getuid(), open("{workspace}/private").read(), open("{workspace}/new", "w").write("x"),
    tried("/proc/1/environ"), os.access("/proc/sys/kernel/core_pattern", os.W_OK),
    os.path.exists("{place.folder}/other")]))
"""
    inner = {"uid": POOL, "gid": POOL, "seccomp": {"network": True}}
    sandbox = [
        str(shutil.which("bwrap")), "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net",
        *("--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"),
        *(part for name in ("bin", "lib", "lib64") for part in ("--symlink", f"usr/{name}", f"/{name}")),
        *(part for folder in ways for part in ("--perms", "0755", "--dir", str(folder))),
        *(part for root in (place.roots[0], str(place.walls)) for part in ("--ro-bind", root, root)),
        *("--proc", "/proc", "--dev", "/dev", "--bind", str(workspace), str(workspace), "--remount-ro", "/", "--"),
        *place.command(inner, [place.python, "-I", "-c", code]),
    ]  # fmt: skip
    done = place.run({"enter": lend(workspace)["enter"]}, *sandbox, options=("--enter",))
    assert json.loads(done.stdout or done.stderr) == [POOL, "the owner's", 1, False, False, False]
    assert (workspace / "new").stat().st_uid == 0


def test_a_map_exchanges_two_ids_and_keeps_every_other():
    everything = [(0, 4294967295)]
    assert mounts._exchanged(everything, 0, 5).split("\n") == ["0 5 1", "1 1 4", "5 0 1", "6 6 4294967289"]
    assert mounts._exchanged(everything, 7, 3).split("\n") == [
        "0 0 3",
        "3 7 1",
        "4 4 3",
        "7 3 1",
        "8 8 4294967287",
    ]
    assert mounts._exchanged([(0, 2), (10, 12)], 1, 10).split("\n") == [
        "0 0 1",
        "1 10 1",
        "10 1 1",
        "11 11 1",
    ]


def test_a_place_that_is_mounted_in_the_workspace_is_there_and_keeps_its_owners(place, workspace):
    """A file system that cannot change owners, in one that can."""
    (workspace / "mounted").mkdir()
    code = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None)
assert libc.unshare(0x20000) == 0 and libc.mount(None, b"/", None, 0x44000, None) == 0
assert libc.mount(b"proc", b"{workspace}/mounted", b"proc", 0, None) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""
    look = (
        f"import os; print(os.stat('{workspace}/mounted/version').st_uid, open('{workspace}/private').read())"
    )
    command = place.command(lend(workspace), [place.python, "-I", "-c", look])
    done = place.start([place.python, "-I", "-c", code, *command])
    assert (done.stdout, done.stderr) == ("0 the owner's\n", "")


def test_a_refusal_says_what(place):
    with pytest.raises(CannotConfine, match="no folder"):
        entering.enter("/there-is-none", POOL, POOL, [])
