"""One kernel's sandbox, from the making of its folders to the end of what ran in it.

Comes in: what was chosen for the run, and the kernel's folder. Goes out: the command that starts a process in there,
or what a warm parent's copy does to itself to get there. This is the one place that says how a kernel starts.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codeact_kernel.kernels.sandbox.holder import Holder
from codeact_kernel.kernels.sandbox.places import PACKAGE
from codeact_kernel.kernels.sandbox.proxy import ADDRESS
from codeact_kernel.kernels.sandbox.recipe import Place, bwrap_arguments, entrance, specification, users
from codeact_kernel.kernels.sandbox.uids import Lease, sweep

OWN = "own"
"""What of its folder a kernel may write. The rest of it the host writes and reads: no link can be planted there."""
PROXY = "proxy"
"""The socket in its folder by which it reaches hosts that are allowed."""
WALLS = PACKAGE / "inkernel" / "walls" / "__main__.py"
_ELSEWHERE = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "MPLCONFIGDIR", "TMPDIR", "TMP", "TEMP")
"""Variables that name folders outside."""
CACHES = ("matplotlib/fontlist-*.json",)
"""What is copied from the user's caches: matplotlib looks at every font of the system without it, for seconds."""


def make_kernel_folder() -> Path:
    """Make the folder of a kernel: temporary, short, and where a user of its own can get to where root is the host."""
    base = Path(tempfile.gettempdir()).resolve()
    if os.name == "posix" and os.geteuid() == 0 and not _is_open(base) and _is_open(Path("/tmp")):
        base = Path("/tmp")
    # Unix sockets have paths of at most about 100 characters.
    return Path(tempfile.mkdtemp(prefix="ck-", dir=base))


def _is_open(folder: Path) -> bool:
    """Whether everybody may pass through a folder."""
    return folder.is_dir() and all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))


def own_folder(folder: Path) -> Path:
    """What of a kernel's folder is its own, made if it is not there."""
    own = folder / OWN
    own.mkdir(mode=0o700, exist_ok=True)
    return own


@dataclass(frozen=True, slots=True)
class Start:
    """How a process is started: as `Popen` takes it."""

    argv: list[str]
    env: dict[str, str]
    cwd: str


class Cell:
    """One kernel's sandbox.

    Args:
        place: Where the kernel lives; its uid is not settled yet.
        python: The interpreter that builds the walls from inside.
        own_uid: Whether the kernel runs as a user of its own.
        lives: Whether the kernel lives there already; with its uid in the place.
    """

    def __init__(self, place: Place, python: str, own_uid: bool, *, lives: bool = False) -> None:
        self._python = python
        self._lease = Lease(place.uid) if own_uid else None
        self.place = replace(place, uid=self._lease.uid if self._lease else None)
        self._holder: Holder | None = None
        if not lives:
            self._make_folders()

    @property
    def mode(self) -> str:
        """Which mode it has."""
        return self.place.mode

    @property
    def locks(self) -> tuple[int, ...]:
        """Descriptors that who starts the kernel has to keep as long as it lives, and not to pass on."""
        return () if self._lease is None else self._lease.locks

    def sweep(self) -> None:
        """End all that runs as the kernel's own user, where it has one."""
        if self.place.uid is not None:
            sweep(self.place.uid)

    def environment(self, env: dict[str, str]) -> dict[str, str]:
        """A kernel's environment, without what names places that it cannot reach.

        Args:
            env: The environment that it would have without a sandbox.
        """
        if self.mode == "limits" and self._lease is None:
            return env
        home, tmp = self.place.own / "home", self.place.own / "tmp"
        kept = {name: value for name, value in env.items() if name not in _ELSEWHERE}
        kept |= {"HOME": str(home), "USER": "kernel", "LOGNAME": "kernel"}
        if self.place.proxy is not None:
            url = f"http://{ADDRESS[0]}:{ADDRESS[1]}"
            kept |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), url)
            kept |= dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1")
        return kept if self.mode == "bwrap" else kept | {"TMPDIR": str(tmp)}

    def start(self, argv: list[str], env: dict[str, str], cwd: str) -> Start:
        """The command that starts a program in it.

        Args:
            argv: The program and its arguments.
            env: Its whole environment.
            cwd: The folder in which it runs.
        """
        outside = entrance(self.place)
        inside = specification(self.place, session=True) | {"cwd": cwd}
        if self.mode != "bwrap":
            return Start(self._walls(self._python, {"enter": outside, **inside}, argv), env, "/")
        walled = self._walls(self._python, inside, argv)
        return Start(self._sandboxed(walled, outside), env, "/")

    def admit(self, file: Path) -> None:
        """Let the kernel read a file of its folder that the host has written.

        Args:
            file: The file.
        """
        if self.place.uid is not None:
            os.chown(file, -1, self.place.uid, follow_symlinks=False)
            file.chmod(0o660 if file.is_socket() else 0o640)

    async def order(self, env: dict[str, str]) -> tuple[dict[str, Any], list[int]]:
        """What a warm parent is told so that its copy gets in here.

        Args:
            env: The kernel's environment; what waits inside has it, too.

        Returns:
            A part of the order, and descriptors that go with it; the caller closes them.

        Raises:
            OSError: If nothing waits inside.
        """
        outside = entrance(self.place)
        if self.mode != "bwrap":
            return {"walls": {"enter": outside, **specification(self.place, session=False)}}, []
        self._holder = Holder(lambda program, fd: self._sandboxed(program, outside, fd), env)
        inside = await self._holder.start()
        return {"walls": specification(self.place, session=False), "join": True}, [inside]

    def close(self) -> None:
        """End what is left in it. Does nothing the second time."""
        if self._holder is not None:
            self._holder.close()
        if self._lease is not None:
            self._lease.close()

    def _sandboxed(
        self, program: list[str], outside: dict[str, Any] | None, told: int | None = None
    ) -> list[str]:
        tell = [] if told is None else ["--info-fd", str(told)]
        command = [shutil.which("bwrap") or "bwrap", *tell, *bwrap_arguments(self.place), "--", *program]
        # Root's own view of the files first; the walls themselves are built inside.
        return (
            command
            if outside is None
            else self._walls(sys.executable, {"enter": outside}, command, "--enter")
        )

    def _walls(self, python: str, description: dict[str, Any], argv: list[str], *only: str) -> list[str]:
        options = ["-I", "-S"]
        program = [shutil.which(argv[0]) or argv[0], *argv[1:]]
        # The interpreter that a virtual environment is made of: that may lie in the workspace, and says where to look.
        real = os.path.realpath(python)
        return [real, *options, str(WALLS), *only, json.dumps(description), "--", *program]

    def _make_folders(self) -> None:
        folder, own, uid = self.place.folder, own_folder(self.place.folder), self.place.uid
        for part in ("home", "tmp"):
            (own / part).mkdir(mode=0o700)
        _copy_caches(own / "home" / ".cache")
        (folder / "etc").mkdir(mode=0o755)
        for name, text in users(self.place).items():
            (folder / "etc" / name).write_text(text)
        if uid is None:
            return
        os.chown(folder, -1, uid)
        folder.chmod(0o710)
        for path in (own, *own.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)


def _copy_caches(target: Path) -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for pattern in CACHES:
        for file in cache.glob(pattern):
            with suppress(OSError):
                copy = target / file.relative_to(cache)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
