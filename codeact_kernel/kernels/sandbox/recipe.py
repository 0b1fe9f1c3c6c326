"""How a kernel's walls are built: the arguments of bubblewrap, and what the process does to itself.

Comes in: a `Place`: which folders there are, and what may be done. Goes out: arguments, and the specification that
`inkernel/walls` carries out. Nothing in it is secret: a process inside can read both.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeact_kernel.kernels.sandbox.places import DEVICES, ETC, NETWORK, PROTECTED, SYSTEM
from codeact_kernel.kernels.sandbox.proxy import ADDRESS
from codeact_kernel.kernels.sandbox.settings import SandboxSettings

OOM_SCORE = 500
"""What is added to a kernel's badness, so that the system ends it before the host when memory runs out."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one kernel lives, and what it may do."""

    settings: SandboxSettings
    mode: str
    workspace: Path
    folder: Path
    """The kernel's folder; it may read it."""
    own: Path
    """What of that is its own; it may write it."""
    roots: tuple[Path, ...]
    """The interpreter, its packages and ours."""
    data: int
    """Bytes of data that one of its processes may hold."""
    uid: int | None = None
    """Its own user number; None where it keeps its host's."""
    as_root: bool = False
    """Whether the host is root and makes mounts itself."""
    proc: bool = True
    """Whether a /proc of its own can be had."""
    ours: bool = True
    """Whether the kernel is ours, which needs unix sockets only; another one may ask for TCP though it uses none."""
    sealed: bool = False
    """Whether nothing in it makes unix sockets. A kernel needs its own first, and seals itself then."""
    proxy: Path | None = None
    """The socket of the proxy that lets it reach some hosts."""

    @property
    def open_net(self) -> bool:
        """Whether it may use the network."""
        return self.settings.allow_net


def specification(place: Place, *, session: bool) -> dict[str, Any]:
    """What the kernel's process does to itself, in its last step before foreign code may run.

    Args:
        place: Where it lives.
        session: Whether it makes a session of its own: one that is forked has done so.
    """
    settings, counted = place.settings, place.uid is not None or place.mode == "bwrap"
    strong = place.mode in ("landlock", "bwrap")
    return {
        "limits": {
            "data": place.data,
            "file_size": settings.max_file,
            "open_files": settings.max_files,
            "processes": settings.max_processes if counted else None,
        },
        "oom_score_adj": OOM_SCORE,
        "session": session,
        "uid": place.uid,
        "gid": place.uid,
        "landlock": _landlock(place) if place.mode == "landlock" else None,
        # Without a filter a set-user-id program could be left in a workspace that is lent to another user.
        "seccomp": _filter(place) if strong or place.uid else None,
        "relay": None if place.proxy is None else {"port": ADDRESS[1], "socket": str(place.proxy)},
    }


def _filter(place: Place) -> dict[str, Any]:
    """The filter of system calls. Where there is no network at all no socket of it is left, but for foreign kernels."""
    open_net = place.open_net or place.mode != "landlock"
    return {"network": open_net, "inet": open_net or not place.ours, "unix": not place.sealed}


def entrance(place: Place) -> dict[str, Any] | None:
    """What root does before: a view of the files in which the kernel's user has what it needs.

    Args:
        place: Where the kernel lives.
    """
    if place.uid is None:
        return None
    expose = [str(path) for path in place.roots]
    return {"workspace": str(place.workspace), "uid": place.uid, "gid": place.uid, "expose": expose}


def _landlock(place: Place) -> dict[str, Any]:
    etc = (f"/etc/{name}" for name in (*ETC, *(NETWORK if place.open_net else ())))
    read = [*SYSTEM, *etc, *map(str, place.roots), str(place.folder), "/proc", "/sys/devices/system/cpu"]
    # POSIX semaphores, which pools of processes need, lie in /dev/shm and nowhere else.
    write = [str(place.workspace), str(place.own), "/dev/shm"]
    return {"read": read, "write": write, "devices": list(DEVICES), "network": place.open_net}


def bwrap_arguments(place: Place) -> list[str]:
    """Bubblewrap's arguments, but for the program that it runs. A later one covers an earlier one.

    Args:
        place: Where the kernel lives.
    """
    within = [
        path for path in place.roots if path.is_relative_to(place.workspace) and path != place.workspace
    ]
    around = [path for path in place.roots if path not in within and path != place.workspace]
    return [
        *_namespaces(place),
        *("--perms", "0755", "--dir", "/run"),
        *_system(place),
        *("--size", str(place.settings.max_tmp), "--perms", "1777", "--tmpfs", "/tmp"),
        *("--symlink", "/tmp", "/var/tmp"),
        *_bound("--ro-bind", around),
        *(("--proc", "/proc") if place.proc else ("--tmpfs", "/proc")),
        *("--dev", "/dev", "--size", str(place.settings.max_tmp), "--perms", "1777", "--tmpfs", "/dev/shm"),
        *_bound("--bind", [place.workspace]),
        *_bound("--ro-bind", [*within, *_protected(place.workspace)]),
        *_bound("--ro-bind", [place.folder]),
        *_bound("--bind", [place.own]),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", str(place.workspace)),
    ]


def _namespaces(place: Place) -> list[str]:
    shared = [] if place.open_net else ["--unshare-net"]
    common = ["--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", *shared]
    common += ["--die-with-parent", "--new-session", "--hostname", "kernel"]
    if place.as_root:
        # Root needs no user namespace, and none is made below: the filter of system calls sees to that.
        return common
    return ["--unshare-user", "--disable-userns", "--cap-drop", "ALL", *common]


def _system(place: Place) -> list[str]:
    arguments = []
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    arguments += ["--perms", "0755", "--dir", "/etc"]
    for name in (*ETC, *(NETWORK if place.open_net else ())):
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name in ("passwd", "group"):
        arguments += ["--ro-bind", str(place.folder / "etc" / name), f"/etc/{name}"]
    return [*arguments, "--ro-bind-try", "/sys/devices/system/cpu", "/sys/devices/system/cpu"]


def _bound(how: str, paths: list[Path]) -> list[str]:
    """Bind folders where they are; those on the way to them can be entered by everybody."""
    arguments = []
    for path in paths:
        for above in reversed(path.parents):
            if above != Path("/"):
                arguments += ["--perms", "0755", "--dir", str(above)]
        arguments += [how, str(path), str(path)]
    return arguments


def _protected(workspace: Path) -> list[Path]:
    found = [workspace / name for name in PROTECTED]
    return [path for path in found if path.exists() and not path.is_symlink()]


def users(place: Place) -> dict[str, str]:
    """The files of /etc that say who there is: programs ask for the name of their user.

    Args:
        place: Where the kernel lives.
    """
    uid = place.uid if place.uid is not None else os.getuid()
    gid = place.uid if place.uid is not None else os.getgid()
    home = place.own / "home"
    names = {uid: "kernel", 0: "root", 65534: "nobody"}
    passwd = "".join(
        f"{name}:x:{number}:{gid if number == uid else number}::{home if number == uid else '/'}:/bin/sh\n"
        for number, name in names.items()
    )
    group = "".join(
        f"{name}:x:{number}:\n" for number, name in {gid: "kernel", 0: "root", 65534: "nogroup"}.items()
    )
    return {"passwd": passwd, "group": group}
