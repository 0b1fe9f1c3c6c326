"""`codeact install`: the kernelspec, for Jupyter.

Comes in: whose Jupyter it is for. Goes out: where the kernelspec is, on stdout.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from codeact_kernel.cli.streams import complain
from codeact_kernel.errors import ConfigError

User = Annotated[bool, typer.Option("--user", help="For this user.")]
SysPrefix = Annotated[
    bool, typer.Option("--sys-prefix", help="For the environment (venv, conda) of this Python.")
]
Prefix = Annotated[str | None, typer.Option(metavar="P", help="For the environment below this folder.")]
Name = Annotated[str, typer.Option(metavar="NAME", help="What Jupyter calls the kernel.")]


def install(
    user: User = False, sys_prefix: SysPrefix = False, prefix: Prefix = None, name: Name = "codeact"
) -> None:
    """Make the kernel known to Jupyter.

    Notebooks can choose it then. Without an option it is installed for the whole system, as `ipykernel install` does.
    This Python runs it.
    """
    if sum((user, sys_prefix, prefix is not None)) > 1:
        raise ConfigError(
            "give one of --user, --sys-prefix and --prefix: each says where the kernelspec goes"
        )
    from codeact_kernel.kernels.install import install_kernelspec

    place, found = install_kernelspec(name, user=user, prefix=sys.prefix if sys_prefix else prefix)
    typer.echo(place)
    if not found:
        complain(f"this Jupyter does not look there; JUPYTER_PATH={place.parents[1]} would tell it to")
