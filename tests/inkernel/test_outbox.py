"""Outputs, numbered."""

from __future__ import annotations

import threading

from codeact_kernel.inkernel.outbox import CHUNK, Outbox


class Wire:
    """Takes what is sent, and timers to be rung by hand."""

    def __init__(self):
        self.sent, self.timers = [], []
        self.outbox = Outbox(
            lambda kind, content: {"type": kind, "content": content, "metadata": {}},
            lambda message, topic: self.sent.append(message),
            lambda delay, function: self.timers.append(function),
        )

    @property
    def seen(self):
        return [(m["metadata"]["codeact"]["n"], m["content"].get("text", m["type"])) for m in self.sent]


def test_text_is_collected_until_the_timer_rings():
    wire = Wire()
    wire.outbox.write("stdout", "a")
    wire.outbox.write("stdout", "b")
    assert wire.seen == []
    assert len(wire.timers) == 1
    wire.timers[0]()
    assert wire.seen == [(0, "ab")]


def test_text_goes_out_before_the_next_output_of_another_kind():
    wire = Wire()
    wire.outbox.write("stdout", "a")
    wire.outbox.publish(wire.outbox.make("display_data", {}), b"")
    wire.outbox.write("stderr", "e")
    wire.outbox.write("stdout", "z")
    wire.outbox.flush()
    assert wire.seen == [(0, "a"), (1, "display_data"), (2, "e"), (3, "z")]
    assert wire.outbox.count == 4


def test_much_text_does_not_wait():
    wire = Wire()
    wire.outbox.write("stdout", "x" * CHUNK)
    assert wire.seen == [(0, "x" * CHUNK)]


def test_an_enormous_text_goes_out_in_pieces_and_whole():
    wire = Wire()
    text = "0123456789" * (5 * CHUNK)
    wire.outbox.write("stdout", text)
    assert len(wire.sent) > 1
    assert "".join(t for _, t in wire.seen) == text


def test_threads_that_write_at_once_lose_nothing_and_share_no_number():
    wire = Wire()

    def work(name):
        for i in range(500):
            wire.outbox.write("stdout", f"{name}{i}\n")
            if i % 50 == 0:
                wire.outbox.publish(wire.outbox.make("display_data", {}), b"")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wire.outbox.flush()
    assert [n for n, _ in wire.seen] == list(range(wire.outbox.count))
    lines = "".join(t for _, t in wire.seen if t != "display_data").splitlines()
    assert sorted(lines) == sorted(f"{name}{i}" for name in "abcd" for i in range(500))
