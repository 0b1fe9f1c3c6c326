"""Confines the process that calls, for good.

Comes in: a description (`describing.py`). Goes out: a process that can do what the description leaves, and nothing
more, or a reason why that cannot be had here. After such a reason the process is no use: what came before the part
that failed stands.
"""

from __future__ import annotations

import os

from . import filtering, landlock, privileges
from .describing import complete
from .linux import CannotConfine, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def confine(spec: dict[str, Any]) -> None:
    """Confine this process and all its later children, for good.

    The process must have one thread: Landlock and the filter are a thread's, and those that it starts inherit them.
    What was opened before stays open: see `close` in the description.

    Args:
        spec: The description.

    Raises:
        CannotConfine: If a part of it cannot be had.
    """
    whole = complete(spec)
    if (count := threads()) != 1:
        raise CannotConfine(f"the process has {count} threads, and only one can be confined")
    if whole["enter"] is not None and whole["seccomp"] is None:
        raise CannotConfine(
            "a lent workspace takes seccomp: else a program could be left there with its owner's rights"
        )
    # Read while they may be.
    filters = filtering.read_filters(whole["seccomp"]) if whole["seccomp"] else []
    if whole["enter"] is not None:
        _enter(whole["enter"])
    for descriptor in whole["close"]:
        _close(descriptor)
    if whole["session"]:
        privileges.own_session()
    if whole["oom_score_adj"] is not None:
        privileges.raise_oom_score(whole["oom_score_adj"])
    privileges.lower_limits(whole["limits"])
    privileges.drop_bounding_set()
    if whole["uid"] is not None:
        privileges.become(whole["uid"], whole["gid"])
    privileges.empty_capabilities()
    if whole["cwd"] is not None:
        _go_to(whole["cwd"])
    if whole["landlock"] is not None:
        no_inet = whole["seccomp"] is not None and filtering.kind_of(whole["seccomp"]) == "unix"
        landlock.restrict(whole["landlock"], tcp_is_held=no_inet)
    for instructions in filters:
        filtering.install(instructions)
    if whole["uid"] is not None:
        privileges.allow_debugging()
    if whole["relay"] is not None:
        _relay(whole["relay"])


def enter(spec: dict[str, Any]) -> None:
    """Only see to what the process finds where: for root, before a program that goes on with root's rights.

    Args:
        spec: A description that has `enter` and nothing else: nothing else would be applied.

    Raises:
        CannotConfine: If it cannot be had.
    """
    whole = complete(spec)
    if whole["enter"] is None or set(spec) != {"enter"}:
        raise CannotConfine("what is only entered takes a description with enter and nothing else")
    if (count := threads()) != 1:
        raise CannotConfine(f"the process has {count} threads, and only one can enter")
    _enter(whole["enter"])


def _enter(part: dict[str, Any]) -> None:
    # Most processes enter nothing, and need not load it.
    from .entering import enter

    enter(**part)


def _go_to(folder: str) -> None:
    # Not before: what was entered may have put another folder in its place.
    try:
        os.chdir(folder)
    except OSError as error:
        raise CannotConfine(f"{folder} cannot be entered: {error.strerror}") from error


def _relay(part: dict[str, Any]) -> None:
    # After the walls: it is behind them, too.
    from .relaying import start

    try:
        start(part["port"], part["socket"])
    except OSError as error:
        raise CannotConfine(f"nothing can be passed on from port {part['port']}: {error.strerror}") from error


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        # It is closed; that is what was asked for.
        return
