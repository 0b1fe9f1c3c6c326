"""What can be read of a journal, whatever has happened to it."""

import json

import pytest

from codeact_kernel.blocks import BlockResult, CodeBlock, Outcome, StreamOutput
from codeact_kernel.errors import RecordError
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    NoteReceived,
    Observation,
    Reply,
    Report,
    RunStarted,
    Task,
    TurnStarted,
)
from codeact_kernel.record import Journal, JournalFollower, read_journal, to_notebook
from codeact_kernel.record.reading import PIECE
from codeact_kernel.record.seal import Seal
from codeact_kernel.signing import Signer
from codeact_kernel.transcript import Transcript

SIGNER = Signer(b"x" * 32)
BLOCK = CodeBlock("print('ä')", id="dl")
STORY = [
    RunStarted("r", "Count.", "m", "s", 1.0, options={"model": "m", "env": ["A"]}),
    Appended(0, Task("Count.")),
    TurnStarted(1, 2.0),
    BlockQueued(1, "dl", BLOCK, 3.0),
    Appended(1, Reply(1, "x", (BLOCK,))),
    BlockStarted("dl", "main", 4.0),
    BlockOutput("dl", StreamOutput("stdout", "ä\ud800\n")),
    BlockFinished(BlockResult("dl", BLOCK, Outcome(names=("a",)), (), 3.0, 4.0, 5.0)),
    Appended(1, Observation((Report("run_code_result", "ä", "dl"),))),
]


def written(path, *events, signer=SIGNER, last=""):
    def fail(error):
        raise AssertionError(error)

    with Journal(path, report=fail, seal=None if signer is None else Seal(signer, last)) as journal:
        for event in events:
            journal(event)
    return path


def read(path, signer=SIGNER):
    events = []
    return events, read_journal(path, events.append, signer)


def test_a_journal_gives_back_what_it_was_given(tmp_path):
    events, about = read(written(tmp_path / "j", *STORY))
    assert events == STORY
    assert about.is_ours
    assert (about.events, about.torn, about.foreign, about.unsigned) == (len(STORY), 0, 0, 0)


def test_the_notebook_of_a_journal_is_the_one_that_was_written_live(tmp_path):
    live, again = Transcript(), Transcript()
    for event in STORY:
        live.apply(event)
    read_journal(written(tmp_path / "j", *STORY), again.apply, SIGNER)
    assert to_notebook(again) == to_notebook(live)
    assert again == live


def test_a_cut_at_any_byte_leaves_the_lines_before_it(tmp_path):
    data = written(tmp_path / "j", *STORY).read_bytes()
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
    for size in range(len(data) + 1):
        (tmp_path / "cut").write_bytes(data[:size])
        events, about = read(tmp_path / "cut")
        whole = sum(end - 1 <= size for end in ends)
        assert events == STORY[:whole]
        assert about.is_ours


def test_a_cut_journal_goes_on_and_is_still_ours(tmp_path):
    data = written(tmp_path / "j", *STORY).read_bytes()
    for size in range(0, len(data) + 1, 7):
        (tmp_path / "cut").write_bytes(data[:size])
        before, about = read(tmp_path / "cut")
        note = NoteReceived("user", "again")
        written(tmp_path / "cut", note, note, last=about.last)
        events, about = read(tmp_path / "cut")
        assert events == [*before, note, note]
        assert about.is_ours


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [*lines[:3], lines[3].replace(b"print", b"exec "), *lines[4:]],
        lambda lines: [*lines[:3], *lines[4:]],
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [*lines[:4], b'{"type": "NoteReceived", "sender": "user", "text": "rm"}', *lines[4:]],
        lambda lines: [*lines[:4], b'{"type": "Unheard", "sender": "user"}', *lines[4:]],
    ],
)
def test_a_journal_that_somebody_has_changed_is_not_ours(tmp_path, change):
    path = written(tmp_path / "j", *STORY)
    path.write_bytes(b"\n".join([*change(path.read_bytes().splitlines()), b""]))
    assert not read(path)[1].is_ours


def test_a_journal_of_another_key_or_of_none_is_not_ours(tmp_path):
    assert not read(written(tmp_path / "a", *STORY, signer=Signer(b"y" * 32)))[1].is_ours
    assert not read(written(tmp_path / "b", *STORY, signer=None))[1].is_ours
    assert not read(written(tmp_path / "c", *STORY), signer=None)[1].is_ours


def test_foreign_and_torn_lines_are_counted_and_passed_over(tmp_path):
    path = written(tmp_path / "j", STORY[0])
    with path.open("ab") as file:
        file.write(b'\x00\x00\n[1]\n{"type": "Tomorrow"}\n{"type": "Tur\n\xff\xfe\n' + b"[" * 100_000 + b"\n")
    events, about = read(path)
    assert events == STORY[:1]
    assert (about.torn, about.foreign) == (4, 2)


def test_an_event_that_does_not_go_on_from_what_stands_before_is_passed_over(tmp_path):
    transcript = Transcript()
    about = read_journal(written(tmp_path / "j", *STORY[5:]), transcript.apply, SIGNER)
    assert about.events == 1
    assert transcript.entries == [STORY[-1].entry]


def test_an_audit_finds_how_far_it_went_in_a_signed_journal(tmp_path):
    from codeact_kernel.events import Audited
    from codeact_kernel.policy import journal_heads

    path = written(tmp_path / "j", Audited(7, "a" * 64))
    assert [head.lines for head in journal_heads(path)] == [7]
    assert "mac" in json.loads(path.read_text())


def test_a_journal_that_is_not_there_is_an_error_of_the_record(tmp_path):
    with pytest.raises(RecordError, match="cannot be read"):
        read(tmp_path / "none")


# -- while somebody writes it --------------------------------------------------------------------------------


def followed(path):
    events = []
    return events, JournalFollower(path, events.append)


def test_a_follower_takes_each_event_once_however_the_writes_are_cut(tmp_path):
    whole = written(tmp_path / "whole", *STORY).read_bytes()
    path = tmp_path / "j"
    events, follower = followed(path)
    assert not follower.poll(), "there is no file yet"
    with open(path, "ab", buffering=0) as file:
        for at in range(0, len(whole), 7):
            file.write(whole[at : at + 7])
            assert not follower.poll()
            assert len(events) == whole[: at + 7].count(b"\n")
    assert events == STORY
    assert follower.read.torn == follower.read.foreign == 0


def test_a_follower_passes_over_a_line_that_a_crash_has_torn_and_goes_on_behind_it(tmp_path):
    path = written(tmp_path / "j", *STORY[:3])
    with open(path, "ab") as file:
        file.write(b'{"type": "TurnSta')
    events, follower = followed(path)
    follower.poll()
    assert events == STORY[:3]
    written(path, *STORY[3:])
    follower.poll()
    assert events == STORY
    assert follower.read.torn == 1


def test_a_follower_reads_a_long_journal_in_pieces_a_line_longer_than_a_piece_included(tmp_path):
    long = Appended(1, Observation((Report("note", "x" * (2 * PIECE + 9)),)))
    path = written(tmp_path / "j", STORY[0], long, *STORY[1:])
    events, follower = followed(path)
    pieces = 1
    while follower.poll():
        pieces += 1
    assert pieces == path.stat().st_size // PIECE + 1
    assert events == [STORY[0], long, *STORY[1:]]


def test_what_is_no_plain_file_is_not_followed(tmp_path):
    (tmp_path / "j").mkdir()
    with pytest.raises(RecordError, match="cannot be read"):
        followed(tmp_path / "j")[1].poll()
