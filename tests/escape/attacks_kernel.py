"""Attacks from a block, in the kernel's own process: on the bridge, on other kernels, on whoever unpickles.

A block runs `attacks_kernel.try_here(FACTS, NAME…)`. Known are, besides those of `attacks.py`:
    tool       the name of a tool of the host, which takes one text
    argument   that text
    of         the msg_id of a request that is not this block's, perhaps of another agent's kernel
In `other` lies the connection file of another agent's kernel that runs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attacks as common
from attacks import Facts, Stopped, attack
from attacks_files import Trap

SECONDS = 2.0
"""How long another kernel's answer is waited for."""


def try_here(facts: Facts, *names: str) -> dict[str, str]:
    """Try some of the attacks of this file in this process.

    Args:
        facts: What is known.
        names: Which; all of this file's where none is named.

    Returns:
        How each went, as `attacks.py` says.
    """
    own = [name for name, function in common.attacks.items() if function.__module__ == __name__]
    return {name: common.try_one(name, facts) for name in names or own}


def kernel() -> Any:
    from IPython import get_ipython

    return get_ipython().kernel


def send_call(facts: Facts, of: Any, number: int) -> None:
    """Send a call on the bridge's own socket, past everything that the kernel does before it sends one."""
    bridge, session = kernel().bridge, kernel().session
    call = {
        "call": number,
        "name": facts["tool"],
        "args": [facts["argument"]],
        "kwargs": {},
        "lane": "main",
        "of": of,
    }
    frames = session.serialize(session.msg("codeact_call", {"calls": [call]}), ident=bridge._owner)
    bridge._soon(lambda: bridge._send(frames))


@attack
def forge_a_call(facts: Facts) -> str:
    """As nobody's: no block of the record makes it."""
    send_call(facts, None, 900_001)
    return "left: a call of the tool that no block has made. It must have passed the gate, as this agent's"


@attack
def forge_a_call_of_another_block(facts: Facts) -> str:
    send_call(facts, facts["of"], 900_002)
    return "left: a call of the tool in another request's name. It must have passed the gate, as this agent's"


@attack
def forge_what_is_no_call(facts: Facts) -> str:
    """Frames that are signed and make no sense."""
    session, bridge = kernel().session, kernel().bridge
    contents: list[Any] = [{}, {"calls": None}, {"calls": [{}]}, {"calls": [{"call": [], "name": 5}]}]
    contents += [{"calls": [{"call": 1, "name": "x", "args": [{"$": "no such kind"}], "kwargs": 7}]}]
    for kind in ("codeact_call", "codeact_state", "codeact_gone", "codeact_abandon", "codeact_held"):
        for content in contents:
            frames = session.serialize(session.msg(kind, content), ident=bridge._owner)
            bridge._soon(lambda frames=frames: bridge._send(frames))
    return "left: frames without sense on the bridge. The host must go on"


@attack
def open_another_kernels_bridge(facts: Facts) -> None:
    """Whoever opens it gets the calls of its blocks, and answers them."""
    ask_another_kernel(facts, "codeact_open_request", {"tools": [], "about": {}})


@attack
def run_code_in_another_kernel(facts: Facts) -> None:
    ask_another_kernel(facts, "kernel_info_request", {})


def ask_another_kernel(facts: Facts, kind: str, content: dict[str, Any]) -> None:
    import zmq
    from jupyter_client.session import Session

    connection = json.loads((Path(facts["other"]) / "kernel.json").read_text())
    session = Session(key=connection["key"].encode(), signature_scheme=connection["signature_scheme"])
    address = f"{connection['transport']}://{connection['ip']}"
    address += f"{'-' if connection['transport'] == 'ipc' else ':'}{connection['control_port']}"
    context = zmq.Context()
    try:
        with context.socket(zmq.DEALER) as socket:
            socket.linger = 0
            socket.connect(address)
            socket.send_multipart(session.serialize(session.msg(kind, content)))
            if not socket.poll(SECONDS * 1000):
                raise Stopped("nobody answers")
    finally:
        context.term()


@attack
def hand_a_trap_to_the_parent(facts: Facts) -> str:
    """A value that makes a file when somebody unpickles it."""
    from IPython import get_ipython

    marker = f"{facts['workspace']}/unpickled-by-the-parent"
    get_ipython().user_ns["self"].return_value(Trap(marker))
    return f"left: a value for the parent, which makes {marker} where it is unpickled"
