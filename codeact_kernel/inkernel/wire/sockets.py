"""Messages through plain ZeroMQ sockets that an event loop watches.

Comes in: a socket; frames to send. Goes out: the frames that have come. Nothing here waits.

A ZeroMQ socket's descriptor becomes readable when something happens, and does not stay so while messages wait. So who
wakes for it receives until nothing is there. Whatever else is done with the socket, sending too, may take in such a
sign without a word: who does it looks afterwards whether something `has_come`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import zmq

_AT_ONCE, _MORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS, _INCOMING = int(zmq.EVENTS), int(zmq.POLLIN)
"""Plain numbers: arithmetic with pyzmq's flags takes as long as sending a frame."""


def send(socket: zmq.Socket[bytes], frames: Sequence[Any]) -> None:
    """Send a message, in less than half of the time that `send_multipart` takes, which reckons with flags.

    Args:
        socket: The socket. It has no high-water mark, so nothing waits.
        frames: The message.

    Raises:
        zmq.ZMQError: If the socket fails, or would wait.
    """
    for frame in frames[:-1]:
        socket.send(frame, _MORE)
    socket.send(frames[-1], _AT_ONCE)


def receive(socket: zmq.Socket[bytes]) -> list[bytes] | None:
    """Receive a message, if one has come.

    Args:
        socket: The socket.

    Raises:
        zmq.ZMQError: If the socket fails.
    """
    if not has_come(socket):
        # Three times as fast as to try, and to be told by an exception.
        return None
    frame = socket.recv(_AT_ONCE, copy=False)
    frames = [frame.bytes]
    while frame.more:
        frame = socket.recv(_AT_ONCE, copy=False)
        frames.append(frame.bytes)
    return frames


def has_come(socket: zmq.Socket[bytes]) -> bool:
    """Whether there is a message to receive.

    Args:
        socket: The socket.

    Raises:
        zmq.ZMQError: If the socket fails.
    """
    return bool(socket.getsockopt(_EVENTS) & _INCOMING)  # type: ignore[operator]
