"""What walls can be had on this machine, and what they hold, in plain words.

Comes in: nothing but the machine. Goes out: texts for people: no program reads them.
"""

from __future__ import annotations

import os

from . import filtering, landlock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BY_LANDLOCK = {
    1: "reading, writing and making files outside of what was granted",
    3: "emptying files outside (truncate)",
    4: "TCP connections and servers",
    5: "commands to devices (ioctl)",
    6: "signals to processes outside, and abstract unix sockets",
}
"""By the version that brings it."""
BY_FILTER = (
    "UDP, raw, vsock and other sockets, and TCP in ways that Landlock does not see",
    "namespaces, mounts, tracing, kernel keys, io_uring, and typing into terminals",
    "limits of other processes",
    "programs that lend their owner's rights (set-user-id)",
)
NEVER = (
    "mode, owner, times and attributes of files outside that belong to the same user (chmod, chown, utime, setfattr)",
    "seeing which files there are outside, their size, owner, times and attributes, and their use (stat, inotify)",
    "connecting to unix sockets with a path that the user may open, until the kernel is sealed",
    "System V shared memory and message queues of the same user",
    "slowing down other processes of the same user (nice, affinity)",
    "seeing other processes, where /proc was granted",
)
"""What neither of the two looks at. A user of its own holds the first, third, fourth and fifth."""


def holds() -> dict[str, Any]:
    """What Landlock and the filter hold here, for a process that runs as the same user and has no network.

    Returns:
        `landlock`: its version, 0 for none; `filter`: whether there is one for this architecture; `architecture`;
        `held` and `not_held`: texts; `missing`: those of the latter that a newer system holds.
    """
    version, filtered = landlock.abi(), filtering.has_filter()
    held = [text for since, text in BY_LANDLOCK.items() if version >= since]
    not_held = [text for since, text in BY_LANDLOCK.items() if version < since]
    (held if filtered else not_held).extend(BY_FILTER)
    machine = os.uname().machine
    return {
        "landlock": version,
        "filter": filtered,
        "architecture": machine,
        "held": held,
        "not_held": [*not_held, *NEVER],
        "missing": not_held,
    }
