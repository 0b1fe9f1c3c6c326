"""Starts the kernel: `python -m codeact_kernel.inkernel -f CONNECTION_FILE`, or this file by its path.

Comes in: ipykernel's command line. Goes out: a running kernel. With `--warm CHANNEL LIFE MODULES OPTION…` it is
a warm parent, and a kernel in each copy of itself. Started by its path, in an interpreter that does
not have this package, it makes only this package importable, and nothing else of the host's environment.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

if __name__ == "__main__":
    if not __package__:
        # Python has put this folder on the path. It serves for one import; user code must not see it.
        here = sys.path[0]
        from adopt import adopt  # type: ignore[import-not-found]

        sys.modules.pop("adopt")
        adopt("codeact_kernel", str(Path(here).resolve().parent))
    # This folder, or the current one: a json.py in it would be taken for the library's while the kernel starts. IPython
    # puts the current folder back, behind the standard library.
    if not sys.flags.safe_path:
        del sys.path[0]
    # What is imported stays: to look for garbage meanwhile takes a tenth of the start.
    gc.disable()
    if sys.argv[1:2] == ["--warm"]:
        from codeact_kernel.inkernel.warm import run

        run(int(sys.argv[2]), int(sys.argv[3]), sys.argv[5:], sys.argv[4].split(",") if sys.argv[4] else [])
    else:
        from codeact_kernel.inkernel.app import main

        gc.freeze()
        gc.enable()
        main()
