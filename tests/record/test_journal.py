"""The file that survives a crash."""

import errno
import json
import os

import pytest

from codeact_kernel.blocks import CodeBlock, DisplayOutput, StreamOutput
from codeact_kernel.errors import RecordError
from codeact_kernel.events import BlockOutput, BlockQueued, NoteReceived, ReplyDelta, TurnStarted, to_json
from codeact_kernel.record import Journal, Seal, read_journal, write_journal
from codeact_kernel.runfiles import Folder
from codeact_kernel.signing import Signer


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def never(error):
    raise AssertionError(error)


def test_each_event_is_a_line_on_disk_before_the_next_one_happens(tmp_path):
    path = tmp_path / "runs" / "journal.jsonl"
    with Journal(path, report=never) as journal:
        journal(TurnStarted(1, 5.0))
        assert lines(path) == [to_json(TurnStarted(1, 5.0))]
        journal(BlockQueued(1, "dl", CodeBlock("a\nb", id="dl"), 6.0))
        assert lines(path)[1]["block"]["type"] == "CodeBlock"
        assert lines(path)[1]["block"]["code"] == "a\nb"


def test_the_pieces_of_a_reply_are_left_out(tmp_path):
    with Journal(tmp_path / "j", report=never) as journal:
        journal(ReplyDelta(1, "x"))
    assert (tmp_path / "j").read_text() == ""


def test_a_journal_goes_on_where_the_last_one_ended(tmp_path):
    for number in (1, 2):
        with Journal(tmp_path / "j", report=never) as journal:
            journal(TurnStarted(number, 0.0))
    assert [line["turn"] for line in lines(tmp_path / "j")] == [1, 2]


def test_a_line_that_a_crash_cut_off_does_not_spoil_the_next(tmp_path):
    (tmp_path / "j").write_text('{"type": "TurnStarted", "turn": 1}\n{"type": "Tur')
    with Journal(tmp_path / "j", report=never) as journal:
        journal(TurnStarted(2, 0.0))
    whole = (tmp_path / "j").read_text().splitlines()
    assert whole[1] == '{"type": "Tur'
    assert json.loads(whole[2])["turn"] == 2


def test_any_text_comes_back_as_it_was(tmp_path):
    text = "a\u2028b\x00c\ud800d\r\ne\x85f"
    with Journal(tmp_path / "j", report=never) as journal:
        journal(BlockOutput("dl", StreamOutput("stdout", text)))
        journal(BlockOutput("dl", DisplayOutput({"application/json": {"x": [1, None]}})))
    first, second = (tmp_path / "j").read_bytes().split(b"\n")[:2]
    assert json.loads(first)["output"]["text"] == text
    assert json.loads(second)["output"]["data"] == {"application/json": {"x": [1, None]}}


def test_a_file_that_cannot_be_opened_is_reported_once_and_ends_nothing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    errors = []
    with Journal(tmp_path / "file" / "j", report=errors.append) as journal:
        journal(TurnStarted(1, 0.0))
        journal(TurnStarted(2, 0.0))
    assert len(errors) == 1
    assert journal.error is errors[0]
    assert "cannot be resumed" in errors[0].message


class FullDisk:
    """A file on a disk that takes a few bytes and then no more, until there is room again."""

    def __init__(self, file):
        self.file = file
        self.room = 10

    def write(self, data):
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self.file.write(bytes(data[: self.room]))
        self.room -= written
        return written

    def fileno(self):
        return self.file.fileno()

    def close(self):
        self.file.close()


def test_a_full_disk_is_reported_once_and_leaves_no_gap_when_there_is_room_again(tmp_path):
    errors = []
    with Journal(tmp_path / "j", report=errors.append) as journal:
        journal._file = FullDisk(journal._file)
        journal(NoteReceived("user", "one"))
        journal(NoteReceived("user", "two"))
        assert len((tmp_path / "j").read_text()) == 10
        journal._file.room = 10_000
        journal(NoteReceived("user", "three"))
    assert len(errors) == 1
    assert [line["text"] for line in lines(tmp_path / "j")] == ["one", "two", "three"]


def test_a_disk_that_stays_full_costs_no_memory_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("codeact_kernel.record.journal.KEPT", 1000)
    with Journal(tmp_path / "j", report=lambda error: None) as journal:
        journal._file = FullDisk(journal._file)
        for _ in range(100):
            journal(NoteReceived("user", "x" * 100))
        assert len(journal._rest) < 1500


def test_what_waited_is_written_at_the_end_if_there_is_room_by_then(tmp_path):
    with Journal(tmp_path / "j", report=lambda error: None) as journal:
        journal._file = FullDisk(journal._file)
        journal(NoteReceived("user", "one"))
        journal._file.room = 10_000
    assert [line["text"] for line in lines(tmp_path / "j")] == ["one"]


def test_where_too_much_has_waited_that_is_written_and_nothing_behind_the_gap(tmp_path, monkeypatch):
    monkeypatch.setattr("codeact_kernel.record.journal.KEPT", 1000)
    with Journal(tmp_path / "j", report=lambda error: None) as journal:
        journal._file = FullDisk(journal._file)
        for number in range(100):
            journal(NoteReceived("user", f"{number}"))
        journal._file.room = 10_000
        for number in range(100, 110):
            journal(NoteReceived("user", f"{number}"))
    texts = [line["text"] for line in lines(tmp_path / "j")]
    assert 5 < len(texts) < 50
    assert texts == [str(number) for number in range(len(texts))]


def test_a_journal_that_is_written_whole_is_there_in_one_step_and_gone_on_with(tmp_path):
    signer, path = Signer(b"x" * 32), tmp_path / "j"
    path.write_text("old")

    def events():
        for number in range(3):
            assert path.read_text() == "old", "a kill at any moment leaves the old one"
            yield NoteReceived("user", f"{number}")

    last = write_journal(Folder.make(tmp_path), "j", events(), signer)
    with Journal(path, report=never, seal=Seal(signer, last)) as journal:
        journal(NoteReceived("user", "3"))
    heard = []
    assert read_journal(path, heard.append, signer).is_ours
    assert [event.text for event in heard] == ["0", "1", "2", "3"]


def test_a_journal_that_cannot_be_written_whole_leaves_the_old_one(tmp_path):
    (tmp_path / "j").write_text("old")

    def events():
        yield NoteReceived("user", "one")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(RecordError, match="No space left"):
        write_journal(Folder.make(tmp_path), "j", events(), None)
    assert [path.name for path in tmp_path.iterdir()] == ["j"]
    assert (tmp_path / "j").read_text() == "old"
