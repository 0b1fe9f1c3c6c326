"""What a run is told of its sandbox: in one line, what it does not hold.

Comes in: the sandbox. Goes out: a line for people, and one for the model.
"""

from __future__ import annotations

import sys

from codeact_kernel.kernels.sandbox.choose import PLATFORM, Sandbox

_NONE = "run as you: they can read and change your files, use the network and end your processes"
_OPEN = {
    "limits": (
        "your files",
        "your other processes",
        "the network",
    ),
    "landlock": (
        "modes, owners and times of your files",
        "which files and processes there are",
        "hooks and environments in the workspace",
        "how many processes it starts",
        "shared memory (/dev/shm)",
    ),
    "bwrap": (),
}
"""What a mode leaves open."""
_OWN_USER = {
    "your files",
    "your other processes",
    "modes, owners and times of your files",
    "how many processes it starts",
}
"""What of that is closed where a kernel runs as a user of its own."""
_SOCKETS = "sockets that lie in folders"
"""What Landlock leaves open, and our kernels close by themselves."""
_ALWAYS = "the disk below the workspace"


def name_sandbox(sandbox: Sandbox | None, provisioner: str = "") -> str:
    """What kernels are walled in by, in a word.

    Args:
        sandbox: The run's; None for none.
        provisioner: Who starts the kernels, where that is not us.
    """
    if provisioner:
        return f"provisioner:{provisioner}"
    return "none" if sandbox is None else sandbox.mode


def describe_sandbox(sandbox: Sandbox | None, provisioner: str = "") -> str:
    """Tell a person.

    Args:
        sandbox: The run's; None for none.
        provisioner: Who starts the kernels, where that is not us. The sandbox is that of tools' programs then.
    """
    if provisioner:
        about = f"NONE, they {_NONE}" if sandbox is None else _described(sandbox)
        return (
            f"sandbox: that of {provisioner}, which starts the kernels and whose walls are not ours: what they hold is "
            f"not known here. Programs that tools start on this machine have one of ours: {about}"
        )
    if sandbox is None:
        return f"sandbox: NONE. Blocks {_NONE}" + (f" ({PLATFORM})" if sys.platform != "linux" else "")
    return f"sandbox: {_described(sandbox)}"


def _described(sandbox: Sandbox) -> str:
    open_to = [
        *_net(sandbox),
        *sandbox.missing,
        *([_SOCKETS] if sandbox.mode == "landlock" and not sandbox.ours else []),
        *(part for part in _OPEN[sandbox.mode] if not _is_closed(part, sandbox)),
        _ALWAYS,
    ]
    text = f"{sandbox.mode}{', a user of its own' * sandbox.own_uid}; not held: {', '.join(open_to)}"
    if sandbox.mode == "limits" and not sandbox.own_uid:
        text = f"limits, which is NO boundary against code that means harm; not held: {', '.join(open_to)}"
    stronger = [f"{mode}: {why}" for mode, why in sandbox.not_had]
    if sandbox.shared_uid:
        stronger.append(f"a user of its own: {sandbox.shared_uid}")
    return text + (f" (not to be had here: {'; '.join(stronger)})" if stronger else "")


def sandbox_for_model(sandbox: Sandbox | None, provisioner: str = "") -> str:
    """Tell the model what its code cannot do.

    Args:
        sandbox: The run's; None for none.
        provisioner: As for `describe_sandbox`.
    """
    if provisioner:
        return (
            f"Your kernel runs in a place of its own that {provisioner} has made: be sure of the files in the working "
            "directory only, and of no network. Tools run outside of it."
        )
    if sandbox is None or sandbox.mode == "limits":
        return ""
    settings, temporary = (
        sandbox.settings,
        "/tmp" if sandbox.mode == "bwrap" else "the folder of the tempfile module",
    )
    network = "there is no network"
    if settings.allow_net:
        network = "the network is open"
    elif settings.allow_hosts:
        network = f"of the network only {', '.join(settings.allow_hosts)} can be reached, over HTTP(S)"
    more = f", {', '.join(map(str, settings.allow_read))} can be read" if settings.allow_read else ""
    written = f"only the working directory and {temporary} can be written"
    return f"Your kernel runs in a sandbox: {written}{more}, and {network}."


def _net(sandbox: Sandbox) -> list[str]:
    settings = sandbox.settings
    if settings.allow_net:
        return ["the network, which you have allowed"] if sandbox.mode != "limits" else []
    return [f"what goes to {', '.join(settings.allow_hosts)}"] if settings.allow_hosts else []


def _is_closed(part: str, sandbox: Sandbox) -> bool:
    return sandbox.own_uid and part in _OWN_USER
