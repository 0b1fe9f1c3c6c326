"""`codeact audit verify`: exit codes and the one line that it says."""

from __future__ import annotations

import os
import select

import pytest

from codeact_kernel.events import Audited, NoteReceived, RunStarted
from codeact_kernel.policy import Audit, Ledger
from codeact_kernel.record import Journal, write_notebook
from codeact_kernel.runfiles import Folder
from codeact_kernel.signing import data_dir, host_signer
from codeact_kernel.transcript import Transcript


@pytest.fixture
def run(place, tmp_path, monkeypatch):
    """A run's folder, with all three files and this user's own notes."""
    monkeypatch.setenv("CODEACT_DATA_DIR", str(tmp_path / "data"))
    folder = Folder.make(place / "run")
    audit = Audit()
    audit.open(folder, "audit.jsonl", host_signer(), Ledger(data_dir()))
    for number in range(4):
        audit(NoteReceived("user", f"note {number}"), "the agent")
    audit.close()
    head, transcript = Audited(audit.lines, audit.head), Transcript()
    transcript.apply(RunStarted("r", "x", "m", "", 1.0))
    transcript.apply(head)
    with Journal(folder.path / "journal.jsonl", report=pytest.fail) as journal:
        journal(head)
    write_notebook(folder.path / "run.ipynb", transcript)
    return folder.path


def spoil(run, change):
    path = run / "audit.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    change(lines)
    path.write_text("".join(lines))


@pytest.mark.parametrize("what", ["", "run.ipynb", "audit.jsonl"])
def test_an_audit_that_nobody_touched_is_right(codeact, run, what):
    said = codeact("audit", "verify", run / what)
    assert (said.code, said.err) == (0, "")
    assert "6 lines, as they were written" in said.out
    assert "the ledger of this user, the journal, the notebook" in said.out


def test_the_first_line_that_is_wrong_is_named(codeact, run):
    spoil(run, lambda lines: lines.__setitem__(2, lines[2].replace("note 1", "note 7")))
    said = codeact("audit", "verify", run)
    assert (said.code, said.out) == (1, "")
    assert "line 3: it was changed" in said.line


def test_lines_cut_off_the_end_are_missed_by_any_witness(codeact, run):
    spoil(run, lambda lines: lines.__delitem__(slice(3, None)))
    for witness in ("the ledger", "the journal", "the notebook"):
        said = codeact("audit", "verify", run)
        assert said.code == 1
        assert "line 4: it is missing: there were 6, as " + witness in said.line
        if witness == "the ledger":
            (data_dir() / "audits.jsonl").unlink()
        else:
            (run / "journal.jsonl").unlink(missing_ok=True)
    (run / "run.ipynb").unlink()
    said = codeact("audit", "verify", run)
    assert said.code == 0
    assert "some may have been cut off its end" in said.out


def test_an_audit_that_is_gone_is_missed(codeact, run):
    (run / "audit.jsonl").unlink()
    said = codeact("audit", "verify", run)
    assert said.code == 1
    assert "is missing: it had 6 lines, as the notebook has it" in said.line


def test_where_there_is_nothing_to_check_or_no_key_that_is_said(codeact, run, tmp_path, monkeypatch):
    said = codeact("audit", "verify", tmp_path)
    assert said.code == 2
    assert "there is no audit" in said.line
    monkeypatch.setenv("CODEACT_DATA_DIR", str(tmp_path / "none"))
    said = codeact("audit", "verify", run)
    assert said.code == 2
    assert "there is no key in" in said.line
    assert not (tmp_path / "none").exists()
    host_signer(tmp_path / "none")
    said = codeact("audit", "verify", run)
    assert said.code == 1
    assert "signed with another key" in said.line
    assert codeact("audit", "verify").code == 2


@pytest.mark.kernel
def test_what_a_killed_run_left_behind_is_right_as_far_as_it_goes(codeact, piped, scripted, block, place):
    os.mkfifo(place / "ready")
    ready = os.open(place / "ready", os.O_RDONLY | os.O_NONBLOCK)
    waiting = block(f"open({str(place / 'ready')!r}, 'w').write('x')\nimport time\ntime.sleep(600)")
    command = piped("run", *scripted([block("print(1)"), waiting]), "--run-dir", "run", "Wait.")
    assert select.select([ready], [], [], 60)[0], "the block never ran"
    os.close(ready)
    command.process.kill()
    command.process.wait()
    said = codeact("audit", "verify", "run")
    assert (said.code, said.err) == (0, "")
    assert "others may have been cut off behind the last" in said.out
    text = (place / "run" / "audit.jsonl").read_text()
    assert "time.sleep(600)" in "".join(text.splitlines()[-3:])
    (place / "run" / "audit.jsonl").write_text(text[:-20])
    said = codeact("audit", "verify", "run")
    assert said.code == 1
    assert "it is cut off in the middle" in said.line


@pytest.mark.parametrize("name", ["audit.jsonl", "journal.jsonl", "run.ipynb"])
def test_a_pipe_in_the_place_of_a_file_holds_nobody(codeact, run, name):
    (run / name).unlink()
    os.mkfifo(run / name)
    said = codeact("audit", "verify", run)
    assert said.code == 1
    assert "it is no plain file" in said.line


@pytest.mark.parametrize(
    "text", ["{", '{"metadata": {"codeact": {"audit": {"lines": Infinity, "head": ""}}}}', "[" * 99_999]
)
def test_a_notebook_that_is_none_is_an_error_of_one_line(codeact, run, text):
    (run / "run.ipynb").write_text(text)
    said = codeact("audit", "verify", run)
    assert said.code == 1
    assert "cannot be read" in said.line


def test_a_path_with_control_characters_steers_no_terminal(codeact, place):
    said = codeact("audit", "verify", place / "\x1b[2J")
    assert said.code == 2
    assert "\x1b" not in said.err
