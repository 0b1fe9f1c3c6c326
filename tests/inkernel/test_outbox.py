"""Outputs, numbered, kept until they are confirmed, and held back from a reader that is behind."""

from __future__ import annotations

import ctypes
import gc
import json
import threading
import time

import pytest

from codeact_kernel.inkernel.outbox import CHUNK, FULL, PIECE, WINDOW, Outbox
from codeact_kernel.inkernel.spool import OVERHEAD, Output, Spool

raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)


class Post:
    """Takes what is published; steps and timers are rung by hand, or at once in a thread of its own."""

    def __init__(self):
        self.sent, self.due, self.timers = [], [], []
        self.wait = float("inf")
        self._thread = None

    def make(self, kind, content, parent):
        return {"msg_type": kind, "content": content, "metadata": {}}

    def publish(self, output, number, parent):
        content = json.loads(output.content)
        self.sent.append((number, content.get("text", output.kind)))

    def soon(self, function):
        self.due.append(function)

    def later(self, delay, function):
        self.timers.append(function)

    def patience(self):
        return self.wait

    def step(self):
        """Do all that is due."""
        while self.due:
            self.due.pop(0)()

    def ring(self):
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()
        self.step()

    def serve(self):
        """Be a publishing thread until the block is left."""
        return _Serving(self)

    @property
    def text(self):
        return "".join(text for _, text in self.sent)


class _Serving:
    def __init__(self, post):
        self._post = post
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._stop.is_set():
            if self._post.due:
                self._post.due.pop(0)()
            else:
                time.sleep(0.0005)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


class Reader:
    """The owner: there, and reading as long as the test says so."""

    def __init__(self):
        self.there = True
        self.alive = True
        self.stirs = 0

    def reads(self, since):
        return self.there and self.alive

    def stir(self, msg_id):
        self.stirs += 1


@pytest.fixture
def post():
    return Post()


@pytest.fixture
def plain(post):
    """An ordinary client's outbox."""
    return Outbox(post, {})


@pytest.fixture
def reader():
    return Reader()


@pytest.fixture
def kept(post, reader):
    """An agent's outbox."""
    spool = Spool()
    yield Outbox(post, {"header": {"msg_id": "m"}}, reader, spool)
    spool.close()


@pytest.fixture(params=["plain", "kept"])
def outbox(request):
    return request.getfixturevalue(request.param)


def test_text_is_collected_until_the_timer_rings(outbox, post):
    outbox.write("stdout", "a")
    outbox.write("stdout", "b")
    post.step()
    assert post.sent == []
    assert len(post.timers) == 1
    post.ring()
    assert post.sent == [(0, "ab")]
    outbox.write("stdout", "c")
    assert len(post.timers) == 1
    post.ring()
    assert post.sent[1:] == [(1, "c")]


def test_text_goes_out_before_the_next_output_of_another_kind(outbox, post):
    outbox.write("stdout", "a")
    outbox.publish(outbox.make("display_data", {}), b"")
    outbox.write("stderr", "e")
    outbox.write("stdout", "z")
    outbox.flush()
    assert post.sent == [(0, "a"), (1, "display_data"), (2, "e"), (3, "z")]
    assert outbox.count == 4


def test_much_text_does_not_wait(outbox, post):
    outbox.write("stdout", "x")
    outbox.write("stdout", "x" * CHUNK)
    post.step()
    assert post.sent == [(0, "x" * (CHUNK + 1))]


def test_a_display_does_not_wait(outbox, post):
    outbox.publish(outbox.make("display_data", {}), b"")
    post.step()
    assert post.sent == [(0, "display_data")]


@pytest.mark.parametrize("call", ["soon", "later"])
def test_an_output_goes_out_however_soon_the_one_before_has_gone(outbox, post, call):
    setattr(post, call, lambda *about: about[-1]())  # the other thread was faster than this one
    for number in range(3):
        if call == "soon":
            outbox.publish(outbox.make("display_data", {"text": str(number)}), b"display_data")
        else:
            outbox.write("stdout", str(number))
        assert post.text == "012"[: number + 1]


@pytest.mark.parametrize("call", ["soon", "later"])
def test_an_output_goes_out_though_an_interrupt_came_when_the_one_before_was_announced(outbox, post, call):
    def interrupted(*_):
        raise KeyboardInterrupt

    def put(text):
        if call == "soon":
            outbox.publish(outbox.make("display_data", {"text": text}), b"display_data")
        else:
            outbox.write("stdout", text)

    before = getattr(post, call)
    setattr(post, call, interrupted)
    with pytest.raises(KeyboardInterrupt):
        put("a")
    setattr(post, call, before)
    put("b")
    post.ring()
    assert post.text == "ab"


def test_a_display_is_what_it_was_when_it_was_shown(outbox, post):
    data = {"text": "then"}
    outbox.publish(outbox.make("display_data", data), b"")
    data["text"] = "later"
    outbox.flush()
    assert post.sent == [(0, "then")]


def test_nothing_written_is_nothing_sent(outbox, post):
    outbox.write("stdout", "")
    outbox.publish(outbox.make("display_data", {}), b"")
    outbox.write("stderr", "")
    outbox.flush()
    assert post.sent == [(0, "display_data")]


def test_an_enormous_text_goes_out_in_pieces_and_whole(plain, post):
    text = "0123456789" * (PIECE // 3)
    plain.write("stdout", "before\n")
    plain.write("stdout", text)
    plain.write("stderr", "after\n")
    plain.flush()
    assert post.text == f"before\n{text}after\n"
    assert max(len(text) for _, text in post.sent) <= 2 * PIECE


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\x00", "\ud83d\ude00"])
def test_what_no_message_can_hold_is_replaced_and_the_rest_arrives(outbox, post, text):
    outbox.write("stdout", f"<{text}>")
    outbox.publish(outbox.make("display_data", {"text": f"<{text}>"}), b"")
    outbox.flush()
    expected = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    assert [said for _, said in post.sent] == [f"<{expected}>"] * 2


def test_data_that_is_no_json_is_shown_as_what_it_is(outbox, post):
    outbox.publish(outbox.make("display_data", {"text": "x", "odd": {1: object, "nan": float("nan")}}), b"")
    outbox.flush()
    assert post.sent == [(0, "x")]


def test_threads_that_write_at_once_lose_nothing_and_share_no_number(outbox, post):
    def work(name):
        for i in range(500):
            outbox.write("stdout", f"{name}{i}\n")
            if i % 50 == 0:
                outbox.publish(outbox.make("display_data", {}), b"")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    with post.serve():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        outbox.flush()
    post.step()
    assert [n for n, _ in post.sent] == list(range(outbox.count))
    lines = "".join(t for _, t in post.sent if t != "display_data").splitlines()
    assert sorted(lines) == sorted(f"{name}{i}" for name in "abcd" for i in range(500))


# -- an agent's block -------------------------------------------------------------------------------------


def fill(outbox, text):
    """Write a long text in pieces that each find room, as blocks that end do."""
    for at in range(0, len(text), CHUNK):
        outbox.write("stdout", text[at : at + CHUNK])
        outbox.flush()


def test_no_more_than_a_window_is_on_its_way_unconfirmed(kept, post):
    fill(kept, "x" * (3 * WINDOW))
    post.step()
    assert WINDOW - 2 * PIECE < len(post.text) < WINDOW + 2 * PIECE
    before = len(post.sent)
    kept.confirm(1)
    post.step()
    assert len(post.sent) == before + 1


def test_every_confirmation_lets_more_go_until_all_is_there(kept, post):
    text = "0123456789" * WINDOW
    fill(kept, text)
    post.step()
    while kept.confirmed < kept.count:
        kept.confirm(kept.sent)
        post.step()
    assert post.text == text


def test_the_end_numbers_all_and_publishes_it_as_it_is_confirmed(kept, post):
    fill(kept, "x" * (2 * WINDOW))
    count = kept.count
    assert kept.sent < count
    while kept.confirmed < count:
        kept.confirm(kept.sent)
        post.step()
    assert (kept.sent, kept.count) == (count, count)
    assert len(post.text) == 2 * WINDOW


def test_outputs_are_given_again_in_pages_until_they_are_confirmed(kept):
    for n in range(10):
        kept.write("stdout" if n % 2 else "stderr", str(n))
    kept.flush()
    first, page = kept.again(3, 100, most=2 * OVERHEAD)
    assert first == 3
    assert [json.loads(item)["n"] for item in page] == [3, 4]
    assert json.loads(page[0]) == {"n": 3, "msg_type": "stream", "content": {"name": "stdout", "text": "3"}}
    assert [json.loads(item)["n"] for item in kept.again(3, 5, most=10**6)[1]] == [3, 4]
    kept.confirm(7)
    assert kept.again(3, 8, most=10**6)[0] == 7


def test_a_writer_waits_for_a_reader_that_reads_and_holds_no_lock(kept, post):
    done = threading.Event()

    def work():
        kept.write("stdout", "x" * (WINDOW + 2 * FULL + PIECE))
        done.set()

    with post.serve():
        thread = threading.Thread(target=work)
        thread.start()
        assert not done.wait(0.3)
        assert kept.again(0, 1, 1)[0] == 0
        for _ in range(100):
            kept.confirm(kept.sent)
            if done.wait(0.01):
                break
        thread.join(10)
    assert done.is_set()
    assert kept._spool._file is None


def test_nobody_waits_for_a_reader_that_is_silent_and_all_of_it_is_kept(kept, post, reader):
    reader.alive = False
    text = "0123456789" * (3 * WINDOW // 10)
    with post.serve():
        kept.write("stdout", text)
        kept.flush()
    assert len(post.text) < WINDOW + 2 * PIECE
    assert kept._spool._file is not None
    while kept.confirmed < kept.count:
        kept.confirm(kept.sent)
        post.step()
    assert post.text == text
    assert kept._spool._file is None


def test_without_an_owner_all_is_published_and_kept(kept, post, reader):
    reader.there = False
    with post.serve():
        kept.write("stdout", "x" * (2 * WINDOW))
        kept.flush()
    assert len(post.text) == 2 * WINDOW
    assert kept.again(0, 1, 1)[1] != []


@pytest.mark.parametrize("patience", [0.0, 0.01])
def test_a_thread_that_others_need_does_not_wait_long(kept, post, patience):
    post.wait = patience
    begun = time.monotonic()
    with post.serve():
        for _ in range(20):
            kept.write("stdout", "x" * FULL)
    assert time.monotonic() - begun < 3
    kept.flush()
    assert kept.count >= 10


def test_what_the_spool_cannot_hold_is_counted_and_told_where_it_is_missing(post, reader):
    outbox = Outbox(post, {"header": {"msg_id": "m"}}, reader, Spool(memory=3000, limit=3000))
    for n in range(20):
        outbox.write("stdout" if n % 2 else "stderr", f"{n:998}\n")
        outbox.flush()
    given = [json.loads(item) for item in outbox.again(0, 99, 10**6)[1]]
    held = [item["content"]["text"] for item in given if item["msg_type"] == "stream"]
    assert held == [f"{n:998}\n" for n in range(len(held))]
    assert given[len(held)]["msg_type"] == "codeact_lost"
    lost = [item["content"] for item in given[len(held) :]]
    assert sum(item["outputs"] for item in lost) == 20 - len(held)
    assert sum(item["characters"] for item in lost) == 999 * (20 - len(held))
    assert sum(item["lines"] for item in lost) == 20 - len(held)
    outbox.confirm(outbox.count)
    outbox.write("stdout", "after")
    outbox.flush()
    assert json.loads(outbox.again(0, 99, 10**6)[1][-1])["content"]["text"] == "after"


def test_late_output_is_numbered_on(kept, post, reader):
    kept.write("stdout", "a")
    kept.flush()
    kept.confirm(1)
    stirs = reader.stirs
    kept.write("stdout", "late")
    post.ring()
    assert post.sent == [(0, "a"), (1, "late")]
    assert reader.stirs == stirs + 1


@pytest.fixture
def no_collections():
    """No finalizer of another test runs in a thread that is being interrupted."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_interrupts_at_any_bytecode_leave_no_gap_and_no_writer_hanging(kept, post, no_collections):
    """The writer is hit, a hundred times, anywhere in its own code, as a lane's thread is."""
    hit, stop, n, sent = [], threading.Event(), 0, 0

    def write():
        nonlocal n
        while not stop.is_set():
            text = f"{n}\n"
            n += 1
            kept.write("stdout", text)
            if n % 7 == 0:
                kept.publish(kept.make("display_data", {}), b"")
            if n % 5000 == 0:
                kept.write("stdout", "x" * FULL)

    def work():
        while not stop.is_set():
            try:
                # A call, because in Python 3.13 the end of a loop lies outside of the `try` around it.
                write()
            except KeyboardInterrupt:
                hit.append(n)

    thread = threading.Thread(target=work)
    with post.serve():
        thread.start()
        end = time.monotonic() + 20
        while len(hit) < 100 and time.monotonic() < end:
            # Hit before it is back at its work, the writer would end.
            if len(hit) == sent and n > (hit[-1] if hit else 0):
                raise_in(thread.ident, KeyboardInterrupt)
                sent += 1
            kept.confirm(kept.sent)
            time.sleep(0.001)
        stop.set()
        while thread.is_alive():
            kept.confirm(kept.sent)
            thread.join(0.01)
        kept.flush()
    while kept.confirmed < kept.count:
        kept.confirm(kept.sent)
        post.step()
    assert len(hit) >= 100
    assert [n for n, _ in post.sent] == list(range(kept.count))
    said = "".join(text for _, text in post.sent if text != "display_data").replace("x", "")
    numbers = [int(line) for line in said.split()]
    # What was being written when it was hit may be missing, and nothing else.
    assert numbers == sorted(set(numbers))
    assert len(numbers) >= hit[-1] - len(hit)


# -- the spool --------------------------------------------------------------------------------------------


def output(text):
    return Output("stream", b"", text.encode())


def test_a_spool_goes_on_in_a_file_that_has_no_name_and_gives_its_room_back(tmp_path):
    spool = Spool(str(tmp_path), memory=2 * (OVERHEAD + 1), limit=1000)
    for text in "abcdef":
        assert spool.put(output(text))
    assert list(tmp_path.iterdir()) == []
    assert [spool.get(n).content for n in range(6)] == [text.encode() for text in "abcdef"]
    assert spool.drop(4) == [OVERHEAD + 1] * 4
    assert (spool.first, spool.get(5).content) == (4, b"f")
    spool.drop(99)
    assert spool._file is None
    assert spool.put(output("g"))
    assert spool.get(6).content == b"g"


def test_a_spool_takes_one_output_of_any_size_and_says_when_it_is_full(tmp_path):
    spool = Spool(str(tmp_path), memory=10, limit=10)
    assert spool.put(output("x" * 1000))
    assert spool.fits(output("y" * 10))
    assert spool.put(output("y" * 10))
    assert not spool.fits(output("z"))
    assert not spool.put(output("z"))
    assert spool.put(output("z"), small=True)
    assert spool.next == 3
    spool.close()


def test_a_spool_whose_folder_is_gone_uses_another(tmp_path):
    spool = Spool(str(tmp_path / "gone"), memory=0)
    assert spool.put(output("a"))
    assert spool.put(output("b"))
    assert spool.get(1).content == b"b"
    spool.close()
