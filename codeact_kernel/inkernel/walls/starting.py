"""The command line of `__main__`.

Comes in: its arguments. Goes out: the program in this process's place. Where that cannot be, one line on stderr and
an exit code: 125 where the walls cannot be had, 126 and 127 where the program cannot be executed or is not there.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys

from .confining import confine, enter
from .linux import CannotConfine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NO_WALLS, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127


def main(arguments: list[str]) -> NoReturn:
    """Confine this process and become a program; see `__main__.py`.

    Args:
        arguments: The command line.
    """
    if arguments == ["--holds"]:
        _print_holds()
    only_enter = arguments[:1] == ["--enter"]
    try:
        if not (sys.flags.isolated and sys.flags.no_site):
            raise CannotConfine("start it by python -I -S: else code may have run before")
        description, mark, *program = arguments[only_enter:] if len(arguments) > 2 + only_enter else ("", "")
        if mark != "--" or not program or "/" not in program[0]:
            raise CannotConfine("the command line is [--enter] DESCRIPTION -- /PATH/TO/PROGRAM ARGUMENT…")
        spec = _parsed(description)
        if only_enter:
            enter(spec)
        else:
            confine(spec)
    except CannotConfine as refusal:
        _end(NO_WALLS, f"cannot confine: {refusal.reason}")
    # Python ignores them, and a program would inherit that.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execv(program[0], program)
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        _end(NOT_FOUND if missing else NOT_EXECUTABLE, f"cannot execute {program[0]}: {error.strerror}")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CannotConfine(f"the description is no JSON: {error}") from error


def _print_holds() -> NoReturn:
    from .holding import holds

    print(json.dumps(holds(), indent=1))
    sys.exit(0)


def _end(code: int, text: str) -> NoReturn:
    # Straight to the descriptor: under Landlock no module that prints more nicely may be read.
    os.write(2, f"{text}\n".encode("utf-8", "backslashreplace"))
    os._exit(code)
