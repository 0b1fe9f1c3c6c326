"""Which interpreter a kernel runs in, and whether it can be ours.

Comes in: the user's choice (`--kernel NAME`, `--python PATH`, or nothing). Goes out: a `Launch`: the command
line, and whether the kernel is ours or one that only runs a block at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import sys
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from codeact_kernel.errors import ConfigError

NEEDS_PYTHON = (3, 11)
NEEDS_IPYKERNEL = (7, 4)
"""The oldest versions in which our kernel class is tested."""

_PROBE = """
import json, sys
try:
    from importlib.metadata import version
    ipykernel = version("ipykernel")
except Exception:
    ipykernel = None
print(json.dumps({"python": list(sys.version_info[:3]), "ipykernel": ipykernel}))
"""
_PROBE_TIMEOUT = 30.0
_LOCAL = "local-provisioner"
"""The name of the one that starts a kernel as we do: as a process of this machine."""
_MODULE = "codeact_kernel.inkernel"
"""What our kernels run."""
OPTIONS = ("--HistoryManager.enabled=False",)
"""What our kernel is told besides its connection file."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a kernel."""

    argv: tuple[str, ...]
    """The command line; `{connection_file}` stands for the connection file."""
    ours: bool
    command: tuple[str, ...] = ()
    """What of the command line starts our code; empty where it is not ours."""
    options: tuple[str, ...] = ()
    """What of it stands behind the connection file."""
    language: str = "python"
    env: dict[str, str] = field(default_factory=dict)
    """Variables that its kernelspec asks for."""
    python: tuple[int, ...] | None = None
    """The interpreter's version, where it is a Python that was asked."""
    note: str = ""
    """Why it is not ours, in half a sentence."""
    description: str = ""
    """What it will be, in words, where that is known before it runs."""
    interrupts: str = "message"
    """How it is interrupted: by a "message", or by a "signal"."""
    provisioner: str = ""
    """Who starts its process, where that is not us: a provisioner of jupyter_client, by its name."""
    config: dict[str, Any] = field(default_factory=dict)
    """What the kernelspec tells the provisioner."""

    @property
    def forks(self) -> bool:
        """Whether it can be forked, and be ready before anybody asks for it."""
        return self.ours and not self.provisioner


async def choose(kernel: str | None = None, python: str | None = None) -> Launch:
    """Find out how to start the kernel that the user chose.

    Args:
        kernel: The name of a kernelspec: its interpreter runs our kernel where it can, else that kernel runs as
            it is. One that names a provisioner is started by that, with its own command line.
        python: The path of an interpreter, which must be able to run our kernel.

    Returns:
        How to start it. Neither given means the interpreter that runs this code.

    Raises:
        ConfigError: If there is no such kernel or interpreter, or if it lacks what our kernel needs.
    """
    if kernel is not None and python is not None:
        raise ConfigError("give --kernel or --python, not both: each chooses the interpreter")
    if python is not None:
        return await _with_interpreter(python)
    if kernel is None or kernel == "codeact":
        return _ours(sys.executable, _Found(tuple(sys.version_info[:3]), _our_ipykernel()))
    return await _from_spec(kernel)


@cache
def _our_ipykernel() -> str:
    # Some milliseconds each time, otherwise.
    return version("ipykernel")


async def _with_interpreter(python: str) -> Launch:
    path = _executable(python)
    if path is None:
        raise ConfigError(f"{python} is no interpreter: --python takes the path of a python executable")
    found = await _probe(path)
    if found.problem:
        raise ConfigError(found.problem)
    return _ours(path, found)


def _executable(python: str) -> str | None:
    return shutil.which(str(Path(python).expanduser()))


async def _from_spec(name: str) -> Launch:
    spec = _find_spec(name)
    argv = [str(part).replace("{resource_dir}", spec.resource_dir) for part in spec.argv]
    env, language = dict(spec.env), str(spec.language).lower()
    foreign = Launch(
        tuple(argv), ours=False, language=language, env=env, interrupts=str(spec.interrupt_mode) or "signal"
    )
    stanza = spec.metadata.get("kernel_provisioner", {})
    if (provisioner := stanza.get("provisioner_name", _LOCAL)) != _LOCAL:
        return _provisioned(name, foreign, provisioner, stanza.get("config", {}))
    if language != "python" or not any("ipykernel" in part for part in argv):
        return replace(foreign, note=f"{name} is no IPython kernel")
    python = sys.executable if argv[0] in ("python", "python3") else argv[0]
    found = await _probe(python)
    if found.problem:
        return replace(foreign, argv=(python, *argv[1:]), python=found.python, note=found.problem)
    return replace(_ours(python, found), env=env)


def _find_spec(name: str) -> Any:
    logger = logging.getLogger(f"{__name__}.specs")
    logger.propagate = False  # what it would say is said here, in one line
    manager = KernelSpecManager(log=logger)
    known = manager.find_kernel_specs()
    try:
        return manager.get_kernel_spec(name)
    except NoSuchKernel:
        if name in known:
            raise ConfigError(
                f"the kernel {name} is started by a provisioner that is not installed where codeact-kernel is; it is "
                f"named in {Path(known[name]) / 'kernel.json'}"
            ) from None
        names = ", ".join(sorted({*known, "codeact"}))
        raise ConfigError(f"there is no kernel named {name!r}; `--kernel` knows: {names}") from None


def _provisioned(name: str, foreign: Launch, provisioner: str, config: dict[str, Any]) -> Launch:
    """Its interpreter may be on no path of this machine: what it is, its command line says."""
    described = replace(
        foreign,
        provisioner=provisioner,
        config=dict(config),
        description=f"{name}, started by {provisioner}",
    )
    if any(_MODULE in part for part in foreign.argv):
        return replace(described, ours=True, interrupts="message")
    return replace(described, note=f"the command of {name} does not start {_MODULE}")


@dataclass(frozen=True, slots=True)
class _Found:
    """What an interpreter says of itself, and one line that says what to do where our kernel cannot run in it."""

    python: tuple[int, ...] | None = None
    ipykernel: str | None = None
    problem: str = ""

    @property
    def shown(self) -> str:
        return ".".join(map(str, self.python or ()))


def _ours(python: str, found: _Found) -> Launch:
    described = f"Python {found.shown}, ipykernel {found.ipykernel}"
    start = Path(__file__).resolve().parent.parent / "inkernel" / "__main__.py"
    command = (python, "-Xfrozen_modules=off", str(start))
    argv = (*command, "-f", "{connection_file}", *OPTIONS)
    return Launch(
        argv, ours=True, command=command, options=OPTIONS, python=found.python, description=described
    )


async def _probe(python: str) -> _Found:
    try:
        process = await asyncio.create_subprocess_exec(
            python,
            "-P",  # nothing of the current folder: blocks may have written into it
            "-c",
            _PROBE,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=-1,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(_PROBE_TIMEOUT):
            out, _ = await process.communicate()
        said = json.loads(out)
    except (OSError, ValueError, TimeoutError):
        return _Found(problem=f"{python} does not run as a Python interpreter")
    found = _Found(tuple(said["python"]), said["ipykernel"])
    return replace(found, problem=_problem(python, found))


def _problem(python: str, found: _Found) -> str:
    if found.python is not None and found.python[:2] < NEEDS_PYTHON:
        return f"{python} is Python {found.shown}; blocks side by side need Python 3.11 or newer"
    have = found.ipykernel
    if have is None or tuple(int(p) for p in have.split(".")[:2] if p.isdigit()) < NEEDS_IPYKERNEL:
        what = f"has ipykernel {have}" if have else "has no ipykernel"
        return f"{python} {what}; run: {python} -m pip install 'ipykernel>=7.4'"
    return ""
