"""Which sandbox a run gets: what was asked for, or the strongest that works here.

Comes in: what is wanted, the kernel's command, the workspace. Goes out: a `Sandbox`, tried with the real recipe in the
real workspace; or an error that says what an administrator can do. A mode that was asked for is never replaced by a
weaker one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from codeact_kernel.allowance import weaker
from codeact_kernel.errors import ConfigError
from codeact_kernel.kernels.interpreter import Launch
from codeact_kernel.kernels.sandbox.cell import OWN, PROXY, WALLS, Cell, make_kernel_folder
from codeact_kernel.kernels.sandbox.holder import spawning
from codeact_kernel.kernels.sandbox.places import given, roots
from codeact_kernel.kernels.sandbox.recipe import Place
from codeact_kernel.kernels.sandbox.settings import AUTO, MODES, SandboxSettings

TRIAL = 20.0
"""Seconds that a trial may take; it takes some ten milliseconds."""
DATA = 0.8
"""What part of the machine's memory one process of a kernel may hold as data."""
PLATFORM = (
    "sandboxes are for Linux; elsewhere run it in a container or a virtual machine (on Windows: in WSL2)"
)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The sandbox of a run's kernels: what was chosen, and what it was chosen from."""

    mode: str
    settings: SandboxSettings
    workspace: Path
    python: str
    roots: tuple[Path, ...]
    data: int
    own_uid: bool = False
    """Whether each kernel runs as a user of its own."""
    ours: bool = True
    """Whether its kernels are ours."""
    proc: bool = True
    """Whether kernels have a /proc of their own."""
    not_had: tuple[tuple[str, str], ...] = ()
    """The stronger modes, and why each cannot be had."""
    missing: tuple[str, ...] = ()
    """What this machine's Landlock is too old to hold, where that is the mode."""
    shared_uid: str = field(default="")
    """Why kernels run under their host's user, where that is root."""

    def cell(
        self, folder: Path, *, for_programs: bool = False, lives: bool = False, uid: int | None = None
    ) -> Cell:
        """Make one kernel's sandbox, or one for programs that are no kernels.

        Args:
            folder: The kernel's folder.
            for_programs: Whether it is the latter.
            lives: Whether a kernel lives in it already.
            uid: The user number that this one has; None where it has none of its own.
        """
        place = Place(
            self.settings,
            self.mode,
            self.workspace,
            folder,
            folder / OWN,
            self.roots,
            self.data,
            ours=self.ours or for_programs,
            # Landlock leaves sockets open that lie in folders: the user's bus, Docker's.
            sealed=for_programs and self.mode == "landlock",
            proxy=folder / PROXY if self.settings.allow_hosts else None,
            as_root=os.geteuid() == 0,
            proc=self.proc,
            uid=uid,
        )
        return Cell(place, self.python, self.own_uid, lives=lives)


async def choose_sandbox(
    settings: SandboxSettings, launch: Launch, workspace: Path, env: dict[str, str]
) -> Sandbox | None:
    """Choose the sandbox of a run.

    Args:
        settings: What is wanted.
        launch: How its kernels are started.
        workspace: The folder in which blocks run, without links on the way.
        env: The environment of its kernels.

    Returns:
        The sandbox; None for none. Where a provisioner starts the kernels, it is for programs that tools start.

    Raises:
        ConfigError: If what was asked for cannot be had; says why, and what an administrator can do.
    """
    if launch.provisioner and (ours := {settings.mode, settings.least} - {AUTO, "none", None}):
        raise ConfigError(
            f"the sandbox {ours.pop()} cannot be had: {launch.provisioner} starts the kernels, and their walls are its "
            "affair; leave --sandbox and --sandbox-min away"
        )
    if sys.platform != "linux":
        return _elsewhere(settings)
    if settings.mode == "none":
        return None
    python = launch.command[0] if launch.command else sys.executable
    found = (*await roots(python), *given(env), *settings.allow_read)
    base = Sandbox(
        "limits",
        settings,
        workspace,
        python,
        found,
        int(psutil.virtual_memory().total * DATA),
        own_uid=os.geteuid() == 0,
        ours=launch.ours or bool(launch.provisioner),
    )
    wanted = MODES[:0:-1] if settings.mode == AUTO else (settings.mode,)
    problems: list[tuple[str, str]] = []
    for mode in wanted:
        sandbox = await _tried(replace(base, mode=mode, not_had=tuple(problems)), problems)
        if sandbox is not None:
            if settings.least is not None and weaker(mode, settings.least):
                break
            return sandbox
    asked = settings.mode if settings.mode != AUTO else settings.least or "limits"
    why = "; ".join(f"{mode}: {problem}" for mode, problem in problems)
    raise ConfigError(f"the sandbox {asked} cannot be had here ({why})")


def _elsewhere(settings: SandboxSettings) -> None:
    asked = settings.mode if settings.mode != AUTO else settings.least or "none"
    if asked != "none":
        raise ConfigError(f"the sandbox {asked} cannot be had here: {PLATFORM}")


async def _tried(sandbox: Sandbox, problems: list[tuple[str, str]]) -> Sandbox | None:
    """A mode as far as it works; what does not is noted."""
    if sandbox.settings.allow_hosts and sandbox.mode != "bwrap":
        problems.append(
            (sandbox.mode, "single hosts can be allowed in bwrap only; Landlock knows ports, not hosts")
        )
        return None
    said = ""
    for candidate in _variants(sandbox):
        problem = await spawning.run(_trial, candidate)
        if not problem:
            if candidate.mode == "landlock":
                candidate = replace(candidate, missing=await spawning.run(_missing, candidate.python))
            return replace(candidate, shared_uid=said if sandbox.own_uid and not candidate.own_uid else "")
        said = said or problem
    problems.append((sandbox.mode, said + _advice(sandbox.mode, said)))
    return None


def _variants(sandbox: Sandbox) -> list[Sandbox]:
    """A mode, and what it may come to where a part of it is missing that is no wall by itself."""
    if sandbox.mode == "bwrap":
        # Containers mask parts of /proc, and nobody may mount a new one then. Never without a user of its own:
        # root inside is root outside.
        return [sandbox, replace(sandbox, proc=False)]
    return [sandbox, *([replace(sandbox, own_uid=False)] if sandbox.own_uid else [])]


def _trial(sandbox: Sandbox) -> str:
    """Run the real recipe with a program that does nothing.

    Returns:
        What went wrong; empty where it works.
    """
    if sandbox.mode == "bwrap" and shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    folder = make_kernel_folder()
    cell = None
    try:
        cell = sandbox.cell(folder)
        start = cell.start(
            [sandbox.python, "-I", "-S", "-c", ""], {"PATH": os.defpath}, str(sandbox.workspace)
        )
        ended = subprocess.run(
            start.argv,
            env=start.env,
            cwd=start.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=TRIAL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        if cell is not None:
            cell.close()
        shutil.rmtree(folder, ignore_errors=True)
    said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if ended.returncode == 0 else (said[-1][:300] if said else f"exit code {ended.returncode}")


def _missing(python: str) -> tuple[str, ...]:
    """What this machine's Landlock does not hold and a newer one does."""
    command = [os.path.realpath(python), "-I", "-S", str(WALLS), "--holds"]
    asked = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL, check=True)
    return tuple(json.loads(asked.stdout)["missing"])


def _advice(mode: str, problem: str) -> str:
    if mode != "bwrap":
        return ""
    if "not installed" in problem:
        return ": install the package bubblewrap"
    if any(
        sign in problem for sign in ("uid map", "RTM_NEWADDR", "new namespace", "Operation not permitted")
    ):
        return (
            ": this system denies user namespaces; on Ubuntu an AppArmor profile for bwrap with `userns` allows them, "
            "in a container it needs to be started with them allowed"
        )
    return ""
