"""A notebook that is written again and again while it grows, and of which most lies on the disk."""

import errno
import os
import random
import resource

import nbformat
import pytest

from codeact_kernel.blocks import BlockResult, CodeBlock, DisplayOutput, Outcome, Prose, StreamOutput
from codeact_kernel.events import (
    Appended,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Knowledge,
    NoteReceived,
    Observation,
    Reply,
    Report,
    RunEnded,
    RunStarted,
    Task,
    TurnStarted,
)
from codeact_kernel.messages import Usage
from codeact_kernel.record import NotebookFile, is_ours, notebook_text, to_notebook
from codeact_kernel.runfiles import Folder
from codeact_kernel.signing import Signer
from codeact_kernel.transcript import Transcript

SIGNER = Signer(b"k" * 32)


def turn(number, *, ends=True, odd=""):
    """One turn: a block that prints and shows, a note, what the model reads."""
    block = CodeBlock(f"print({number})", id=f"b{number}")
    yield TurnStarted(number, float(number))
    yield BlockQueued(number, block.id, block, float(number))
    yield BlockStarted(block.id, "main", number + 0.1)
    yield BlockOutput(block.id, StreamOutput("stdout", f"{number}\n{odd}"))
    yield BlockOutput(block.id, DisplayOutput({"text/plain": odd, "text/html": "<b>"}, {}))
    yield Appended(number, Reply(number, f"Now {number}.{odd}", (Prose(f"Now {number}.{odd}"), block)))
    if number % 7 == 0:
        yield NoteReceived("user", f"note {number}")
    if ends:
        yield from end(number)


def end(number):
    block = CodeBlock(f"print({number})", id=f"b{number}")
    outcome = Outcome(execution_count=number)
    yield BlockFinished(BlockResult(block.id, block, outcome, (), number, number + 0.1, number + 0.5))
    yield Appended(number, Observation((Report("run_code_result", str(number), block.id),)))
    if number % 10 == 0:
        yield Appended(number, Knowledge(f"known at {number}"))


def run(first, last, name="r", **options):
    yield RunStarted(name, f"The task {name}.", "m", "system", float(first))
    yield Appended(first - 1, Task(f"The task {name}."))
    for number in range(first, last + 1):
        yield from turn(number, **options)
    yield TurnStarted(last + 1, float(last + 1))
    yield Appended(last + 1, Reply(last + 1, "Done.", (Prose("Done."),)))
    yield RunEnded("answered", "Done.", Usage(), last + 1 - first, last + 2.0)


def told(transcript, *events):
    for event in events:
        transcript.apply(event)
    return transcript


def kept(path, events, *, every, latest=3, signer=None):
    """Write a file after each so many events, as a recorder does, and last of all."""
    transcript, file = Transcript(), NotebookFile(path, signer=signer)
    for at, event in enumerate(events):
        transcript.apply(event)
        if at % every == 0:
            assert file.write(transcript, transcript.take_settled(latest)) is None
    assert file.write(transcript, transcript.take_settled(latest)) is None
    file.close()
    return transcript


ODD = "é\u2028\ud800\x00\x9b" + '"],\n "x": [' + "a\r\nb\n"


@pytest.mark.parametrize("odd", ["", ODD])
@pytest.mark.parametrize("every", [4, 30])
def test_the_file_is_the_same_however_often_something_was_taken_out(tmp_path, every, odd):
    events = [*run(1, 20, odd=odd), *run(30, 40, "s", odd=odd), *run(45, 46, "t")]
    transcript = kept(tmp_path / "run.ipynb", events, every=every)
    assert len([turn for run in transcript.runs for turn in run.turns]) < 10
    assert (tmp_path / "run.ipynb").read_text("utf-8") == notebook_text(
        to_notebook(told(Transcript(), *events))
    )


def test_cells_of_a_block_that_runs_for_long_stay_where_they_are(tmp_path):
    started = [*run(1, 3)][:20]
    others = [event for number in range(10, 25) for event in turn(number)]
    more = [event for number in range(25, 35) for event in turn(number)]
    events = [*started, *turn(500, ends=False), *others, *end(500), *more]
    transcript = kept(tmp_path / "run.ipynb", events, every=9)
    assert "b500" not in transcript.blocks
    assert (tmp_path / "run.ipynb").read_text("utf-8") == notebook_text(
        to_notebook(told(Transcript(), *events))
    )


def test_each_version_is_valid_and_signed(tmp_path):
    path = tmp_path / "run.ipynb"
    transcript, file = Transcript(), NotebookFile(path, signer=SIGNER)
    for at, event in enumerate(run(1, 20)):
        transcript.apply(event)
        if at % 19 == 0:
            assert file.write(transcript, transcript.take_settled(3)) is None
            nbformat.validate(nbformat.read(path, as_version=4))
            assert is_ours(path, SIGNER)
    file.close()
    text = path.read_text()
    for old, new in (
        ("print(3)", "print(4)"),
        ("Now 5.", "Now 6."),
        ("note 7", "note 8"),
        ("known at 10", "known at 11"),
    ):
        assert old in text
        path.write_text(text.replace(old, new, 1))
        assert not is_ours(path, SIGNER)


def test_what_could_not_be_written_is_written_later(tmp_path):
    class Full(Folder):
        full = False

        def replace(self, name, data):
            if self.full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().replace(name, data)

    events = list(run(1, 12))
    folder = Full.make(tmp_path / "run")
    file, transcript, choose = (
        NotebookFile(tmp_path / "run/run.ipynb", folder=folder),
        Transcript(),
        random.Random(1),
    )
    errors = 0
    for event in events:
        transcript.apply(event)
        folder.full = choose.random() < 0.5
        errors += file.write(transcript, transcript.take_settled(3)) is not None
    folder.full = False
    assert errors > 5
    assert file.write(transcript, transcript.take_settled(3)) is None
    file.close()
    folder.close()
    assert (tmp_path / "run/run.ipynb").read_text() == notebook_text(to_notebook(told(Transcript(), *events)))


def test_what_comes_late_from_a_block_that_was_taken_out_changes_nothing(tmp_path):
    transcript = kept(tmp_path / "run.ipynb", [*run(1, 20)], every=10)
    before = len(transcript.blocks)
    transcript.apply(BlockOutput("b1", StreamOutput("stdout", "late"), late=True))
    assert len(transcript.blocks) == before
    with pytest.raises(KeyError):
        transcript.apply(BlockOutput("b1", StreamOutput("stdout", "not late")))


def test_a_write_of_a_long_run_costs_no_more_than_one_of_a_short_one(tmp_path):
    """Counted in what is laid out anew, not in seconds."""
    transcript, file = Transcript(), NotebookFile(tmp_path / "run.ipynb")
    most = 0
    for number in range(1, 401):
        if number == 1:
            told(transcript, *list(run(1, 1))[:2])
        told(transcript, *turn(number))
        if number % 50 == 0:
            assert file.write(transcript, transcript.take_settled()) is None
            most = max(most, sum(len(run.turns) for run in transcript.runs), len(transcript.entries))
    file.close()
    assert most <= 150
    assert len(nbformat.read(tmp_path / "run.ipynb", as_version=4).cells) > 800


def test_what_is_settled_stays_on_the_disk_of_the_record_where_no_folder_shows_it(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    file, transcript = NotebookFile(tmp_path / "run.ipynb"), told(Transcript(), *run(1, 20))
    (tmp_path / ".run.ipynb.older.part").write_text("left by one that was killed")
    assert file.write(transcript, transcript.take_settled(3)) is None
    assert [path.name for path in tmp_path.iterdir()] == ["run.ipynb"]
    file.close()


def test_what_was_half_written_of_what_is_settled_is_written_again(tmp_path):
    """The disk is full at any byte."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    events = [*run(1, 20, odd=ODD)]
    file, transcript, choose = NotebookFile(tmp_path / "run.ipynb"), Transcript(), random.Random(2)
    errors = 0
    for event in events:
        transcript.apply(event)
        settled = transcript.take_settled(3)
        resource.setrlimit(resource.RLIMIT_FSIZE, (choose.choice([3, 40]) * choose.randrange(1000), hard))
        try:
            errors += file.write(transcript, settled) is not None
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert 10 < errors < len(events) - 10
    assert file.write(transcript, transcript.take_settled(3)) is None
    file.close()
    assert (tmp_path / "run.ipynb").read_text("utf-8") == notebook_text(
        to_notebook(told(Transcript(), *events))
    )


def test_a_notebook_of_nothing_is_signed_and_laid_out_as_any(tmp_path):
    path = tmp_path / "run.ipynb"
    assert NotebookFile(path, signer=SIGNER).write(Transcript()) is None
    assert is_ours(path, SIGNER)
    assert NotebookFile(path).write(Transcript()) is None
    assert path.read_text() == notebook_text(to_notebook(Transcript()))


def test_a_run_that_goes_on_in_another_process_has_the_same_notebook(tmp_path):
    """What was taken out by the first is settled anew by the second, from the journal."""
    story, again = [*run(1, 30, odd=ODD)][:-1], [*run(40, 75, "s", odd=ODD)]
    kept(tmp_path / "run.ipynb", story, every=9, signer=SIGNER)
    transcript, file = told(Transcript(), *story), NotebookFile(tmp_path / "run.ipynb", signer=SIGNER)
    for event in again:
        transcript.apply(event)
        assert file.write(transcript, transcript.take_settled(20)) is None
    file.close()
    assert sum(len(run.turns) for run in transcript.runs) < 50
    kept(tmp_path / "live.ipynb", [*story, *again], every=20, signer=SIGNER)
    assert (tmp_path / "run.ipynb").read_text() == (tmp_path / "live.ipynb").read_text()
    assert is_ours(tmp_path / "run.ipynb", SIGNER)
