"""Hostile programs, one small function each: `python attacks.py [NAME…] < FACTS`, inside whatever is to be tried.

Comes in: on stdin, in JSON, what an attacker might know (`Facts` below says what); which attacks, or all. Goes out: on
stdout, in JSON, for each attack "got through", or "stopped: " and by what, "left: " and what the host has to look at
afterwards, "not tried: " and why; on stderr the same as it goes. Needs the standard library only. An attack that gets
through does no harm: it opens and does not write, sets what is set already, signals what is ignored, and removes what
it made. "broken: " is a mistake in the attack.

What is known:
    host             process ids of the host and of what it started besides this process. Where they are not visible
                     they should be none that is in use there
    needle           a text that stands in the host's environment and nowhere else
    workspace        the folder where this process may write
    outside          a folder of the host with a file `file` in it, whose text is `needle`
    other            a folder as another kernel's, with `kernel.json` and a socket `kernel.sock` in it
    run              this kernel's own folder
    protected        files in the workspace that must not be written: hooks, settings, the running environment
    read_only        a folder that is mounted read-only here
    tcp, udp         [address, port] of servers that answer, on the host's loopback
    outer            [address, port] of a TCP server that answers, elsewhere
    abstract, named  unix sockets of servers that answer
    data, file_size, processes    what the limits are said to be
    room             bytes that may be tried to fill a disk with
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

Facts = dict[str, Any]
Attack = Callable[[Facts], Any]
THROUGH = "got through"

attacks: dict[str, Attack] = {}


def attack(function: Attack) -> Attack:
    """Add a function to the attacks: it gets through unless it raises, or says otherwise by a text."""
    attacks[function.__name__] = function
    return function


class Stopped(Exception):
    """An attack that raises this was stopped, and says by what."""


def try_one(name: str, facts: Facts) -> str:
    """Try an attack.

    Args:
        name: Its name.
        facts: What it knows.

    Returns:
        How it went, as the module says.
    """
    try:
        said = attacks[name](facts)
    except KeyError as missing:
        return f"not tried: nothing is known of {missing}"
    except (OSError, Stopped, MemoryError) as error:
        text = (
            error.strerror
            if isinstance(error, OSError) and error.strerror
            else str(error) or type(error).__name__
        )
        return f"stopped: {text}"
    return said if isinstance(said, str) else THROUGH


def main() -> None:
    """Try those that the command line names, or all, each in its own process."""
    # They lie beside this file, and add to its list.
    import attacks_files  # noqa: F401
    import attacks_floods  # noqa: F401
    import attacks_sockets  # noqa: F401
    import attacks_system  # noqa: F401
    from attacks_processes import in_a_child

    facts = json.load(sys.stdin)
    said = {}
    for name in sys.argv[1:] or attacks:
        began = time.monotonic()
        said[name] = in_a_child(try_one, name, facts)
        print(f"{time.monotonic() - began:.2f} s {name}: {said[name]}", file=sys.stderr, flush=True)
    print(json.dumps(said, indent=1))


if __name__ == "__main__":
    # The modules beside it import it by its name.
    sys.modules["attacks"] = sys.modules["__main__"]
    main()
