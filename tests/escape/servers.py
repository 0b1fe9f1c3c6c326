"""What attackers try to reach: servers of every kind that answer, and files of the host's.

Comes in: a folder that everybody may pass through. Goes out: what `attacks.py` wants to know, as long as the servers
are there.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NEEDLE = "planted-secret-5Xq"


@contextmanager
def facts_of(folder: Path, owner: int = -1) -> Generator[dict[str, Any]]:
    """Make everything that attacks are aimed at.

    Args:
        folder: Where; everybody may pass through it.
        owner: Whose all of it is; -1 for this process's user. Everybody may read and write it: what is stopped is
            not stopped by its mode.

    Yields:
        What attackers know.
    """
    for name in ("workspace", "outside", "other", "run"):
        (folder / name).mkdir()
    (folder / "outside" / "file").write_text(NEEDLE)
    (folder / "other" / "kernel.json").write_text(json.dumps({"key": NEEDLE}))
    (folder / "run" / "kernel.json").write_text("{}")
    hook = folder / "workspace" / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text("#!/bin/sh\n")
    abstract = f"codeact-escape-{os.getpid()}-{folder.name}"
    named, other = str(folder / "outside" / "named"), str(folder / "other" / "kernel.sock")
    servers = {
        "tcp": tcp("127.0.0.1"),
        "outer": tcp(_own_address()),
        "udp": udp(),
        "abstract": unix("\0" + abstract),
        "abstract datagrams": unix(f"\0{abstract}-datagrams", socket.SOCK_DGRAM),
        "named": unix(named),
        "other": unix(other),
    }
    for path in folder.rglob("*"):
        if path.relative_to(folder).parts[0] in ("workspace", "outside", "other", "run"):
            os.chown(path, owner, owner)
            path.chmod(0o777 if path.is_dir() or path.is_socket() else 0o666)
    with _answering(list(servers.values())), _victim(owner) as victim:
        yield {
            "host": [victim],
            "needle": NEEDLE,
            "workspace": str(folder / "workspace"),
            "outside": str(folder / "outside"),
            "other": str(folder / "other"),
            "run": str(folder / "run"),
            "protected": [str(hook)],
            "tcp": servers["tcp"].getsockname(),
            "outer": servers["outer"].getsockname(),
            "udp": servers["udp"].getsockname(),
            "abstract": abstract,
            "named": named,
        }


@contextmanager
def _victim(owner: int) -> Generator[int]:
    """A process of the same user, with the secret in its environment and its command line."""
    as_owner: dict[str, Any] = {} if owner == -1 else {"user": owner, "group": owner, "extra_groups": []}
    command = ["/bin/sh", "-c", "read line", NEEDLE]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, env={"SECRET": NEEDLE}, cwd="/", **as_owner
    ) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def tcp(address: str) -> socket.socket:
    """A server of TCP, that also takes connections that are made while sending."""
    server = socket.create_server((address, 0))
    with suppress(OSError):
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 16)
    return server


def udp() -> socket.socket:
    """A server of UDP."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    return server


def unix(address: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """A server of a unix socket."""
    server = socket.socket(socket.AF_UNIX, kind)
    server.bind(address)
    if kind == socket.SOCK_STREAM:
        server.listen()
    return server


def _own_address() -> str:
    """An address of this machine that is not loopback's, where there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: it only asks which way it would go.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.2"
        return str(probe.getsockname()[0])


@contextmanager
def _answering(servers: list[socket.socket]) -> Generator[None]:
    stop, stopper = socket.socketpair()
    thread = threading.Thread(target=_answer, args=(servers, stop))
    thread.start()
    try:
        yield
    finally:
        stopper.close()
        thread.join()
        for server in (stop, *servers):
            server.close()


def _answer(servers: list[socket.socket], stop: socket.socket) -> None:
    with selectors.DefaultSelector() as waiting:
        for server in (stop, *servers):
            waiting.register(server, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                server = key.fileobj
                assert isinstance(server, socket.socket)
                if server is stop:
                    return
                with suppress(OSError):
                    if server.type == socket.SOCK_DGRAM:
                        if sender := server.recvfrom(64)[1]:
                            server.sendto(b"answer", sender)
                    else:
                        with server.accept()[0] as connection:
                            connection.sendall(b"answer")
