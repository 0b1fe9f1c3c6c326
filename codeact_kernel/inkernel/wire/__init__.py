"""What host and kernel agree on: names on the wire, and values as JSON.

Comes in: nothing. Goes out: message types, metadata keys, messages as frames, and `pack`/`unpack` for the arguments and
results of calls over the bridge. The only part of this room that the host imports.

Our own fields travel under one key, `codeact`, in the metadata of Jupyter's ordinary messages:

- execute_request: `id` (the block's name), `reply` (the number of the model's reply it came in), `order`
  ("names" or "free"), `lane` (a pinned lane, or None)
- every output on iopub: `n`, its number within the block, counted from 0. One of type `LOST` stands for outputs
  that were dropped: `outputs`, `characters`, `lines` say how many
- execute_input: `lane`
- execute_reply: `outputs` (how many there were), `lane`, `started`, `ended`, `error` (the traceback for the
  model), `notes`, `names` (what the namespace holds), `skipped` (why it did not run), `insisted_on` (whether it had to
  be ended line by line), `shut_down` (whether sockets that it waited for were shut down)

Our own message types travel on the control channel. The host opens the bridge; from then on the kernel sends
`CALL` to the identity that opened it, and the host answers with `RETURN`. The same identity says with `ACK`
what it has of each request, (phase, next output's number) by msg_id; what it does not confirm is told again with
`STATE`, and can be asked for with `RESEND` and `REPLY_AGAIN`.
"""

from __future__ import annotations

import base64
import hmac
import json
import math
import numbers
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any

from codeact_kernel.inkernel.wire.frames import HEAD, from_body, length_of, read_frame, to_frame
from codeact_kernel.inkernel.wire.objects import Picture, is_record
from codeact_kernel.inkernel.wire.sockets import has_come, receive, send
from codeact_kernel.inkernel.wire.values import Way, describe, pack, pack_name, size_of, unpack

__all__ = [
    "HEAD",
    "Picture",
    "Way",
    "describe",
    "from_body",
    "has_come",
    "is_record",
    "length_of",
    "pack",
    "pack_name",
    "read_frame",
    "receive",
    "send",
    "size_of",
    "to_frame",
    "unpack",
]

KEY = "codeact"
PROTOCOL = 4
"""Raised when one side no longer understands the other's fields."""

OPEN = "codeact_open_request"
OPEN_REPLY = "codeact_open_reply"
"""To {"tools", "self", "agent", "cloudpickle", "cwd", "seal", "host": which of the kernel's hosts it is, "again"}.
Again is true where the kernel has outlived its host: its namespace stays as it is then, and the answer has "requests":
by msg_id {"id", "held"} and what `STATE` tells, of all blocks that may still put something out."""
GONE_PIPE = "gone"
"""Beside the connection file: a pipe with a line for each host that is gone though the kernel lives on, its number."""
SEED = "codeact_seed_request"
SEED_REPLY = "codeact_seed_reply"
VARIABLES = "codeact_variables_request"
VARIABLES_REPLY = "codeact_variables_reply"
"""To {}: {"status": "ok", "variables": [{"name", "type", "size", "bytes", "value"}, …], all texts, empty where it is
not known without running anybody's code; "processes": [{"pid", "command", "block" or null}, …]}."""
PARCEL_NOTE = ".json"
"""What a kernel says of a parcel lies beside it, under its name with this at the end."""
CALL = "codeact_call"
"""From kernel to host: {"calls": [{"call": its number, "name", "args", "kwargs", "lane", "of": the msg_id of the
request whose code calls, or null}, …]}, as many as have come together."""
RETURN = "codeact_return"
"""From host to kernel: {"returns": [{"call", "status": "ok" or "error", "value", "large" or "error"}, …]}; large is
{"number", "file", "bytes", "what"} of a result that is fetched by `PAGE`. Between them
{"call", "status": "note", "text"}: a line that the block which called shall print."""
PAGE = "tools.page"
"""The call by which code takes a page of a large result: (its number, the first byte)."""
MOST_ARGUMENTS = 32 * 2**20
"""Bytes of the arguments of one call, about; ours. As JSON they hold up the host's loop for 0.3 to 0.5 s (measured)."""
ABANDON = "codeact_abandon"
"""From kernel to host: {"calls": [numbers]}; nobody waits for these calls any more."""
CALLS_AGAIN = "codeact_calls_again"
"""From host to kernel: {}; each call that is still waited for comes again, under its number."""
ACK = "codeact_ack"
"""From host to kernel: {"have": {msg_id: [phase, next]}}, what it has taken in."""
STATE = "codeact_state"
"""From kernel to host: {"states": {msg_id: {"phase", "outputs": how many there are, "lane", "ran": the seconds since
its first line of code}}}, where it has not heard that the host knows."""
GONE = "codeact_gone"
"""From kernel to host: {"requests": [msg_ids]}. They have ended, and nothing is left in the kernel that could put
anything out for them, or call: no thread, task or process."""
RESEND = "codeact_resend_request"
RESEND_REPLY = "codeact_resend_reply"
"""To {"msg_id", "from", "to"}: {"status": "ok" or "unknown", "first": the first number that is there, "outputs":
[{"n", "msg_type", "content"}, …]: as many as make a page}."""
REPLY_AGAIN = "codeact_reply_again_request"
REPLY_AGAIN_REPLY = "codeact_reply_again_reply"
"""To {"msg_id"}: {"status": "ended", "running", "waiting" or "unknown", "state": as in `STATE`, "content" and
"metadata": the execute_reply's, of one that ended}."""
LOST = "codeact_lost"
CHECKPOINT = "codeact_checkpoint_request"
CHECKPOINT_REPLY = "codeact_checkpoint_reply"
"""To {"folder", "most": bytes, "room": bytes of memory, "have": [digests]}: {"status": "ok", "error": why there is
none, or null}. The folder has `manifest.json` then, and the files that it names but those that the host has."""
RESTORE = "codeact_restore_request"
RESTORE_REPLY = "codeact_restore_reply"
"""To {"folder"}: {"status": "ok", "back": [names], "missing": {name: why}}."""

WAITING, RUNNING, ENDED = 0, 1, 2
"""The phases of a request."""
INSIST = "codeact_insist_request"
INSIST_REPLY = "codeact_insist_reply"
"""To {"msg_id"}: {"status": "ok"}: all means are used from now on on a request that outlived interrupts."""
CUT_OFF = "codeact_cut_off_request"
CUT_OFF_REPLY = "codeact_cut_off_reply"
"""To {"msg_id"}: {"status": "ok" or "ended"}. The request's execute_reply comes now, though its code goes on; `how` in
its metadata is "cut off", and `living` says what lives on."""
ADMIT = "codeact_admit_request"
ADMIT_REPLY = "codeact_admit_reply"
"""To {"msg_id", "code": what it runs instead, or null}: {"status": "ok"}. The request came with `held` in its metadata,
and kept its place among others without running; now it runs when its turn has come."""
REFUSE = "codeact_refuse_request"
REFUSE_REPLY = "codeact_refuse_reply"
"""To {"msg_id"}: {"status": "ok"}. A request that was held will not run; its reply comes now."""
HELD = "codeact_held"
"""From kernel to host: {"by": msg_id or null, "held": [msg_ids], "seconds"}. The first keeps the others from going on,
since its code holds the thread that they share; with null they go on."""
INTERRUPT_FILE = "interrupt"
"""Beside the connection file: the msg_id of the request that the next SIGINT from the host means."""
END_REST = "codeact_end_rest_request"
END_REST_REPLY = "codeact_end_rest_reply"
"""To {"msg_id"}, of a request that has ended because it had to, or {} for the processes of all: {"status": "ok",
"ended": [process ids], "processes": [[id, command]], "threads": [names]}, when what it has left running has ended; but
for the processes that it keeps for later, and threads that nothing ends."""
WARM_ROOM = 2**18
"""Bytes that a message between the host and a warm parent may have. Each is one JSON object, a packet of a pair of Unix
sockets. First from the parent: {"ready": its process id, "left_out": {module: why it was not preloaded}}. Then from the
host: {"kernel": a number, "argv": ["-f", connection file, …], "cwd", "env"} with the descriptors for stdin, stdout and
stderr; and from the parent {"kernel"} with a descriptor that stands for the process (pidfd), or {"kernel", "refused":
why}; and at its end {"kernel", "code": as in `Popen.returncode`}."""

_VERSION = "5.4"
"""Jupyter's protocol's, of which our own messages are."""
_DELIMITER = b"<IDS|MSG>"
"""What stands between the identities and the signature of a message, in Jupyter's protocol."""
_TEXT = json.JSONEncoder(default=lambda value: _as_json(value), ensure_ascii=False, allow_nan=False)
_HALVES = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def clean(value: Any) -> Any:
    """Make a value plain JSON that every packer takes.

    Args:
        value: Anything.

    Returns:
        The value, with a replacement mark for each half of a surrogate pair, null for NaN and the infinities, and
        the `repr` of what is no JSON.
    """
    if isinstance(value, str):
        return _HALVES.sub(_REPLACEMENT, value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {clean(key if isinstance(key, str) else str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return clean(_as_json(value))


def _as_json(value: Any) -> Any:
    """What Jupyter's own packer makes of a value that is no JSON; its `repr` where that knows nothing."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return list(value) if isinstance(value, Iterable) else repr(value)


def to_json(content: Any) -> bytes:
    """Write content as JSON, whatever is in it.

    Args:
        content: Anything; what JSON cannot hold is replaced as `clean` does.
    """
    try:
        return _TEXT.encode(content).encode()
    except (TypeError, ValueError):
        return _TEXT.encode(clean(content)).encode()


_last_sender: tuple[object, str] = (None, "")
"""What the last session puts into each header."""
_last_parent: tuple[object, bytes] = (None, b"")
"""The parent header that was packed last: all messages of a request have the same one."""


def frames_of(session: Any, message: dict[str, Any], idents: Sequence[bytes] = ()) -> list[bytes]:
    """Write a message for its socket.

    Args:
        session: Jupyter's session, which signs it.
        message: As `session.msg` makes it; its content and metadata may hold anything.
        idents: What stands before it: the way to a peer, or a topic.
    """
    global _last_parent
    content, parent = message["content"], message["parent_header"]
    last, packed = _last_parent
    if last is not parent:
        packed = to_json(parent) if parent else b"{}"
        _last_parent = parent, packed
    metadata = message["metadata"]
    parts = [
        to_json(message["header"]),
        packed,
        to_json(metadata) if metadata else b"{}",
        content if isinstance(content, bytes) else to_json(content),
    ]
    return [*idents, _DELIMITER, session.sign(parts), *parts]


def note_of(session: Any, kind: str, content: Any, idents: Sequence[bytes] = ()) -> list[bytes]:
    """Write a message of ours that belongs to no request, in half of the time that any other takes.

    Args:
        session: Jupyter's session, which signs it.
        kind: Its type.
        content: As in `frames_of`.
        idents: What stands before it: the way to a peer.
    """
    global _last_sender
    last, sender = _last_sender
    if last is not session:
        about = {"username": session.username, "session": session.session, "version": _VERSION}
        sender = to_json(about).decode()[1:]
        _last_sender = session, sender
    now = datetime.now(UTC).isoformat()
    header = f'{{"msg_id": "{session.msg_id}", "msg_type": "{kind}", "date": "{now}", {sender}'.encode()
    parts = [header, b"{}", b"{}", to_json(content)]
    return [*idents, _DELIMITER, session.sign(parts), *parts]


def header_of(frames: Sequence[Any]) -> dict[str, Any]:
    """The header of a message, before its signature is checked.

    Args:
        frames: The message as it came, its frames copied or not.

    Returns:
        The header, with its type at least; empty for what is no message.
    """
    for at, frame in enumerate(frames[:-2]):
        if bytes(frame if isinstance(frame, bytes) else frame.buffer) == _DELIMITER:
            packed = frames[at + 2]
            try:
                header = json.loads(packed if isinstance(packed, bytes) else bytes(packed.buffer))
                return header if isinstance(header.get("msg_type"), str) else {}
            except (ValueError, AttributeError, RecursionError):
                return {}
    return {}


def content_of(session: Any, frames: Sequence[Any]) -> dict[str, Any] | None:
    """The content of a message of ours, if its signature is right.

    Four times as fast as `Session.deserialize`, which also reads what is not looked at here, and remembers signatures:
    messages that must not be taken twice carry numbers of their own.

    Args:
        session: Jupyter's session, which has the key.
        frames: The message as it came, its frames copied or not.

    Returns:
        The content, or None for what is no message, has a wrong signature, or holds no object.
    """
    parts = [frame if isinstance(frame, bytes) else bytes(frame.buffer) for frame in frames]
    try:
        at = parts.index(_DELIMITER)
        signature, *signed = parts[at + 1 : at + 6]
        if len(signed) < 4 or not (
            session.auth is None or hmac.compare_digest(session.sign(signed), signature)
        ):
            return None
        content = json.loads(signed[3])
    except (ValueError, TypeError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def idents_of(frames: Sequence[Any]) -> list[bytes]:
    """What stands before a message: the way to a peer.

    Args:
        frames: The message as it came, its frames copied or not.
    """
    idents = []
    for frame in frames:
        part = frame if isinstance(frame, bytes) else bytes(frame.buffer)
        if part == _DELIMITER:
            break
        idents.append(part)
    return idents


def kind_of(frames: Sequence[Any]) -> str:
    """The type of a message, before its signature is checked; an empty text for what is no message.

    Args:
        frames: The message as it came, its frames copied or not.
    """
    return str(header_of(frames).get("msg_type", ""))
