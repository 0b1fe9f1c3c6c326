"""The description of what a process may still do.

Comes in: what `json.loads` gives. Goes out: the same with all its parts, each of the right kind. A part that is
misspelt would be one that is not applied: it is refused.

    {
      "enter": null or {"workspace": PATH, "uid": N, "gid": N, "expose": [PATH, …]},
      "limits": {"data": BYTES, "file_size": BYTES, "open_files": N, "processes": N},   each may be null
      "oom_score_adj": null or 0 … 1000,
      "session": whether to lead a session of its own,
      "uid": null or N, "gid": null or N,      both or none
      "landlock": null or {"read": [PATH, …], "write": [PATH, …], "devices": [PATH, …], "network": false},
      "seccomp": null or {"network": false, "inet": true, "unix": true},
      "close": [descriptors to close],
      "cwd": null or PATH,      where to go
      "relay": null or {"port": N, "socket": PATH}      what comes to that port of the loopback goes to the socket
    }

Every part may be missing: it is as here, or null where it can be, or empty. Paths are absolute.
"""

from __future__ import annotations

from .linux import CannotConfine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LARGEST_ID = 0xFFFFFFFE
"""The one above means "no change"."""


def complete(spec: dict[str, Any]) -> dict[str, Any]:
    """Check a description and add what is missing.

    Args:
        spec: The description.

    Returns:
        Another one, with all parts.

    Raises:
        CannotConfine: If a part is not known or not of its kind.
    """
    whole = _parts(
        spec, "", enter=None, limits={}, oom_score_adj=None, session=False, uid=None, gid=None, landlock=None,
        seccomp=None, close=[], cwd=None, relay=None,
    )  # fmt: skip
    whole["enter"] = _enter(whole["enter"])
    whole["limits"] = _limits(whole["limits"])
    whole["landlock"] = _landlock(whole["landlock"])
    whole["seccomp"] = _seccomp(whole["seccomp"])
    if whole["oom_score_adj"] is not None:
        _number(whole["oom_score_adj"], "oom_score_adj", 0, 1000)
    _truth(whole["session"], "session")
    if (whole["uid"] is None) != (whole["gid"] is None):
        raise CannotConfine("the description has one of uid and gid; it needs both or none")
    if whole["uid"] is not None:
        _identity(whole, "")
    if whole["relay"] is not None:
        relay = _parts(whole["relay"], "relay", port=None, socket=None)
        _number(relay["port"], "relay.port", 1, 65535)
        _paths([relay["socket"]], "relay.socket")
    if whole["cwd"] is not None:
        _paths([whole["cwd"]], "cwd")
    for descriptor in _list(whole["close"], "close"):
        _number(descriptor, "close", 0, 1 << 30)
    return whole


def _enter(part: Any) -> dict[str, Any] | None:
    if part is None:
        return None
    whole = _parts(part, "enter", workspace=None, uid=None, gid=None, expose=[])
    _identity(whole, "enter.")
    _paths([whole["workspace"]], "enter.workspace")
    _paths(whole["expose"], "enter.expose")
    return whole


def _limits(part: Any) -> dict[str, Any]:
    whole = _parts(
        {} if part is None else part, "limits", data=None, file_size=None, open_files=None, processes=None
    )
    for name, value in whole.items():
        if value is not None:
            _number(value, f"limits.{name}", 0, (1 << 63) - 1)
    return whole


def _landlock(part: Any) -> dict[str, Any] | None:
    if part is None:
        return None
    whole = _parts(part, "landlock", read=[], write=[], devices=[], network=False)
    for name in ("read", "write", "devices"):
        _paths(whole[name], f"landlock.{name}")
    _truth(whole["network"], "landlock.network")
    return whole


def _seccomp(part: Any) -> dict[str, Any] | None:
    if part is None:
        return None
    whole = _parts(part, "seccomp", network=False, inet=True, unix=True)
    for name, value in whole.items():
        _truth(value, f"seccomp.{name}")
    return whole


def _parts(given: Any, where: str, **missing: Any) -> dict[str, Any]:
    place = f"{where} in the description" if where else "the description"
    if not isinstance(given, dict):
        raise CannotConfine(f"{place} is no object: {given!r}")
    if unknown := sorted(set(map(str, given)) - set(missing)):
        raise CannotConfine(f"{place} has unknown parts: {', '.join(unknown)}; it knows {', '.join(missing)}")
    return {**missing, **given}


def _identity(part: dict[str, Any], where: str) -> None:
    # Root, with or without capabilities, owns the system's files.
    _number(part["uid"], f"{where}uid", 1, LARGEST_ID)
    _number(part["gid"], f"{where}gid", 1, LARGEST_ID)


def _number(value: Any, name: str, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise CannotConfine(f"{name} in the description is no number from {least} to {most}: {value!r}")


def _truth(value: Any, name: str) -> None:
    if type(value) is not bool:
        raise CannotConfine(f"{name} in the description is neither true nor false: {value!r}")


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise CannotConfine(f"{name} in the description is no list: {value!r}")
    return value


def _paths(value: Any, name: str) -> None:
    for path in _list(value, name):
        if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
            raise CannotConfine(f"{name} in the description has what is no absolute path: {path!r}")
