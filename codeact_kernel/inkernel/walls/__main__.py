"""Confines itself and becomes another program: `python -I -S …/walls/__main__.py SPEC -- PROGRAM ARGUMENT…`.

Comes in: a description in JSON, and a command. Goes out: the program, confined, with this process's environment.
`--enter SPEC -- …` only enters, for a program that goes on with root's rights; `--holds` prints what can be held.
It is started without `site`, and finds its own folder by its path: nothing else is imported before the walls stand.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # A package with this folder and no name that leads anywhere else; its `__init__` is for those who import it.
    package = type(sys)("walls")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules["walls"] = package
    from walls.starting import main  # type: ignore[import-not-found]

    main(sys.argv[1:])
