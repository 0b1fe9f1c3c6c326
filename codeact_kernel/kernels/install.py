"""Puts the `codeact` kernelspec where Jupyter finds it, as `ipykernel install` does with its own.

Comes in: whose Jupyter it is for. Goes out: the folder of the kernelspec. Its kernel is run by the interpreter
that installs it, so that any Jupyter, of another environment too, can start it.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager

from codeact_kernel.errors import ConfigError

_DISTRIBUTION = "codeact-kernel"
_SHARED = "share/jupyter/kernels/codeact/kernel.json"


def install_kernelspec(
    name: str = "codeact", *, user: bool = False, prefix: str | None = None
) -> tuple[Path, bool]:
    """Install the kernelspec; one of that name is replaced.

    Args:
        name: What Jupyter calls it.
        user: For this user; else for the whole system, or below the prefix.
        prefix: The root of an environment.

    Returns:
        The folder of the kernelspec, and whether the Jupyter of this environment looks there.

    Raises:
        ConfigError: If the name is none for a kernelspec, or the place cannot be written.
    """
    manager = KernelSpecManager(log=_silent())
    with tempfile.TemporaryDirectory() as folder:
        # A copy: the place to install to may be the one that the spec comes from.
        copy = shutil.copytree(find_spec(), Path(folder) / "spec")
        file = copy / "kernel.json"
        spec = json.loads(file.read_text("utf-8"))
        spec["argv"][0] = sys.executable
        file.write_text(json.dumps(spec, indent=1) + "\n", "utf-8")
        try:
            place = Path(manager.install_kernel_spec(str(copy), name, user=user, prefix=prefix))
        except ValueError as error:
            raise ConfigError(f"{name!r} is no name for a kernelspec: use letters, digits, - . _") from error
        except OSError as error:
            hint = "" if user else "; --user or --sys-prefix needs no rights"
            raise ConfigError(
                f"the kernelspec cannot be written to {error.filename}: {error.strerror}{hint}"
            ) from error
    return place, str(place.parent) in manager.kernel_dirs


def find_spec() -> Path:
    """The folder of our kernelspec: what was installed with the package, or that of the source tree.

    Raises:
        ConfigError: If neither is there.
    """
    try:
        installed = [
            Path(str(file.locate())) for file in files(_DISTRIBUTION) or () if str(file).endswith(_SHARED)
        ]
    except PackageNotFoundError:
        installed = []
    for file in (*installed, Path(__file__).resolve().parents[2] / "kernelspec" / "kernel.json"):
        if file.is_file():
            return file.parent
    raise ConfigError(f"the kernelspec of {_DISTRIBUTION} is not there: install the package again")


def _silent() -> logging.Logger:
    """Takes what the manager would say on stderr: whoever calls says it in its own words."""
    logger = logging.getLogger(f"{__name__}.manager")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
