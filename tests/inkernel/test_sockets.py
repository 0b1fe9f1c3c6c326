"""Which sockets a thread waits for, and the end of these waits."""

import select
import socket
import sys
import threading
import time

import pytest

from codeact_kernel.inkernel.sockets import shut_down, sockets_of, waits_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a thread waits for")


def receive(one, other):
    return one.recv(1)


def receive_with_a_limit(one, other):
    one.settimeout(60)
    return one.recv(1)


def select_several(one, other):
    return select.select([one], [], [one], 60)


def poll(one, other):
    poll = select.poll()
    poll.register(one, select.POLLIN)
    return poll.poll(60_000)


def epoll(one, other):
    with select.epoll() as watch:
        watch.register(one, select.EPOLLIN)
        return watch.poll(60)


@pytest.mark.parametrize("wait", [receive, receive_with_a_limit, select_several, poll, epoll])
def test_a_wait_for_a_socket_is_seen_and_ended(wait):
    one, other = socket.socketpair()
    with one, other:
        thread = threading.Thread(target=wait, args=(one, other), daemon=True)
        thread.start()
        deadline = time.monotonic() + 10
        while waits_of(thread.native_id) != [one.fileno()] and time.monotonic() < deadline:
            pass
        assert sockets_of([thread.native_id]) == [one.fileno()]
        shut_down([one.fileno()])
        thread.join(10)
        assert not thread.is_alive()


def test_an_accept_is_ended():
    with socket.create_server(("127.0.0.1", 0)) as server:
        raised = []

        def accept():
            try:
                server.accept()
            except OSError as error:
                raised.append(error)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        while not (sockets := sockets_of([thread.native_id])):
            assert thread.is_alive()
        assert sockets == [server.fileno()]
        shut_down(sockets)
        thread.join(10)
        assert len(raised) == 1


def test_a_wait_for_what_is_no_socket_is_left_alone():
    event = threading.Event()
    thread = threading.Thread(target=event.wait, daemon=True)
    thread.start()
    assert sockets_of([thread.native_id, 2**30]) == []
    event.set()
