"""`python -m codeact_kernel.cli` is `codeact`."""

from __future__ import annotations

import sys

from codeact_kernel.cli import main

if __name__ == "__main__":
    sys.exit(main())
