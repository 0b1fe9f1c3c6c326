"""The command line: `codeact`.

Comes in: arguments, the terminal, signals. Goes out: the answer on stdout, everything else on stderr, an exit
code. Each command loads what it needs when it runs, so that `codeact --help` loads none of it.
"""

from __future__ import annotations

from codeact_kernel.cli.app import main

__all__ = ["main"]
