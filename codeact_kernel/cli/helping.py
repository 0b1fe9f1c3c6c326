"""What the helps of commands have in common.

Comes in: example commands. Goes out: help texts.
"""

from __future__ import annotations

import typer


def example(*lines: str) -> str:
    """Write the example that a command's help ends with.

    Args:
        lines: What a user would type.
    """
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines)])


def print_help(context: typer.Context) -> None:
    """Print the help of a group of commands, where none of them is named.

    Args:
        context: The group's.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
