"""`python -m codeact_kernel.lab FD`: the host of a notebook; its magic starts it."""

from __future__ import annotations

import asyncio
import signal
import sys

from codeact_kernel.lab.host import serve


def main() -> None:
    """Serve until the notebook's kernel is gone."""
    # Stopping is a message: the notebook's own interrupt is none of the agents'.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(serve(int(sys.argv[1])))


if __name__ == "__main__":
    main()
