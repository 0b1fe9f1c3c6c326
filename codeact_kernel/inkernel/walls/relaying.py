"""Passes on what programs inside a sandbox send to a proxy: from a port of their own loopback to a unix socket.

Comes in: connections. Goes out: the same bytes, both ways. It is a process of its own, confined as all others in its
sandbox are, and ends with that.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading

PIECE = 65536


def start(port: int, path: str) -> None:
    """Start it; when this returns, the port is open.

    Args:
        port: Of the loopback.
        path: The proxy's socket.

    Raises:
        OSError: If the port cannot be had.
    """
    listening = socket.create_server(("127.0.0.1", port))
    if os.fork():
        os.wait()
        listening.close()
        return
    # Nobody's child: the kernel looks after its own.
    if os.fork():
        os._exit(0)
    try:
        os.setsid()
        _serve(listening, path)
    finally:
        os._exit(1)


def _serve(listening: socket.socket, path: str) -> None:
    for descriptor in range(3):
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    while True:
        client, _ = listening.accept()
        try:
            proxy = socket.socket(socket.AF_UNIX)
            proxy.connect(path)
        except OSError:
            client.close()
            continue
        for source, sink in ((client, proxy), (proxy, client)):
            threading.Thread(target=_pass, args=(source, sink), daemon=True).start()


def _pass(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            sink.sendall(piece)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
