"""Whatever is done to an audit is found, and the first line that is wrong is named."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeact_kernel.blocks import CodeBlock
from codeact_kernel.events import BlockQueued, NoteReceived
from codeact_kernel.policy import Ledger, journal_heads, name_of, notebook_heads, verify
from codeact_kernel.policy.chain import seal, sealed
from codeact_kernel.signing import Signer

COUNT = 8


@pytest.fixture
def whole(stage):
    """An audit of eight lines, and who knows of them."""
    audit = stage.open()
    for number in range(COUNT - 1):
        audit(NoteReceived("user", f"note {number}"), "the agent")
    stage.heads = [stage.head(audit)]
    stage.lines = stage.path.read_bytes().splitlines(keepends=True)
    stage.check = lambda lines, heads=None: (
        stage.path.write_bytes(b"".join(lines)),
        verify(stage.path, stage.signer, stage.heads if heads is None else heads),
    )[1]
    return stage


many = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
places = st.integers(0, COUNT - 1)


def test_an_audit_that_nobody_touched_is_right(whole):
    verdict = whole.check(whole.lines)
    assert (verdict.is_right, verdict.lines, verdict.vouched, verdict.witnesses) == (
        True,
        COUNT,
        COUNT,
        ("the journal",),
    )


@many
@given(places, st.data())
def test_a_line_in_which_one_byte_was_changed_is_found(whole, place, data):
    line = bytearray(whole.lines[place])
    at = data.draw(st.integers(0, len(line) - 1))
    line[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[at]))
    verdict = whole.check([*whole.lines[:place], bytes(line), *whole.lines[place + 1 :]])
    assert verdict.wrong == place + 1
    assert verdict.lines == place


@many
@given(places, st.integers(1, COUNT))
def test_lines_that_were_taken_out_are_found(whole, place, number):
    verdict = whole.check(whole.lines[:place] + whole.lines[place + number :])
    assert verdict.wrong == place + 1
    assert "missing" in verdict.reason


@many
@given(places, places)
def test_lines_that_changed_places_are_found(whole, one, other):
    if one == other:
        return
    lines = list(whole.lines)
    lines[one], lines[other] = lines[other], lines[one]
    assert whole.check(lines).wrong == min(one, other) + 1


@many
@given(places, places)
def test_a_line_that_was_repeated_is_found(whole, line, place):
    lines = [*whole.lines[: place + 1], whole.lines[line], *whole.lines[place + 1 :]]
    assert whole.check(lines).wrong == place + 2 + (line == place + 1)


@many
@given(st.integers(1, 60), st.integers(0, COUNT))
def test_an_audit_that_was_cut_at_any_byte_is_found(whole, cut, lines):
    text = b"".join(whole.lines)
    kept = text[: max(0, len(b"".join(whole.lines[:lines])) - cut)] if lines else b""
    verdict = whole.check([kept])
    assert verdict.wrong == kept.count(b"\n") + 1


@many
@given(st.text(max_size=30))
def test_a_line_that_somebody_added_is_found(whole, text):
    body = json.dumps({"n": COUNT + 1, "prev": "0" * 64, "text": text})[:-1].encode()
    forged = body + b',"mac":"' + Signer(b"x" * 32).sign(body).encode() + b'"}\n'
    assert whole.check([*whole.lines, forged]).wrong == COUNT + 1


def test_a_line_that_could_not_stand_there_is_found_though_it_is_signed(whole, tmp_path):
    other = whole.open("other.jsonl")
    for number in range(COUNT):
        other(NoteReceived("user", f"other {number}"), "the agent")
    theirs = (whole.folder.path / "other.jsonl").read_bytes().splitlines(keepends=True)
    verdict = whole.check([*whole.lines[:3], theirs[3], *whole.lines[4:]])
    assert (verdict.wrong, verdict.reason) == (4, "line 4: it does not go on from the line before it")
    assert whole.check(theirs[:COUNT]).reason == f"line {COUNT}: it is another one than the journal has"


def test_without_witnesses_lines_cut_off_the_end_are_not_missed_and_that_is_said(whole):
    verdict = whole.check(whole.lines[:4], ())
    assert (verdict.is_right, verdict.lines, verdict.vouched, verdict.witnesses) == (True, 4, 0, ())


def test_another_key_is_said_to_be_one(whole):
    verdict = verify(whole.path, Signer(b"x" * 32))
    assert verdict.wrong == 1
    assert f"signed with another key ({whole.signer.name})" in verdict.reason


def test_the_journal_and_the_notebook_know_how_far_it_went(tmp_path):
    head = "ab" * 32
    (tmp_path / "j").write_text(
        '{"type": "TurnStarted", "turn": 1}\n'
        f'{{"type": "Audited", "lines": 3, "head": "{head}"}}\n'
        f'{{"type": "NoteReceived", "text": "{{\\"type\\": \\"Audited\\", \\"lines\\": 99"}}\n'
        f'{{"type": "Audited", "lines": 5, "head": "{head}"}}\n{{"type": "Aud'
    )
    assert [found.lines for found in journal_heads(tmp_path / "j")] == [3, 5]
    (tmp_path / "n").write_text(json.dumps({"metadata": {"codeact": {"audit": {"lines": 5, "head": head}}}}))
    assert [found.lines for found in notebook_heads(tmp_path / "n")] == [5]
    (tmp_path / "n").write_text("{}")
    assert list(notebook_heads(tmp_path / "n")) == list(journal_heads(tmp_path / "none")) == []


def test_this_user_s_notes_miss_what_a_later_run_has_cut_everywhere(stage, tmp_path):
    ledger = Ledger(tmp_path / "data")
    audit = stage.open(ledger=ledger)
    for number in range(3):
        audit(BlockQueued(1, f"b{number}", CodeBlock("x"), 1.0), "a")
    audit.close()
    stage.path.write_bytes(b"".join(stage.path.read_bytes().splitlines(keepends=True)[:2]))
    heads = ledger.heads(name_of(stage.path))
    verdict = verify(stage.path, stage.signer, heads)
    assert verdict.reason == "line 3: it is missing: there were 5, as the ledger of this user has it"


def test_notes_that_have_become_many_are_put_aside(tmp_path, monkeypatch):
    from codeact_kernel.policy import ledger

    monkeypatch.setattr(ledger, "LARGEST", 300)
    notes = Ledger(tmp_path)
    for number in range(12):
        notes.note("a", number, "0" * 64)
    assert notes.heads("a")[-1].lines == 11
    assert len(list(tmp_path.iterdir())) == 2
    assert notes.heads("b") == []


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.floats(allow_nan=False), st.none(), st.booleans())))
def test_whatever_a_line_says_is_read_as_it_was_said_and_is_ascii_on_one_line(said):
    signer = Signer(b"k" * 32)
    fields = {"n": 1, "half a character": "\ud800", "control": "\x9b2J", "said": said}
    for about in (fields, {"n": 1, "said": said}):
        line, mac = seal(about, signer)
        assert line.isascii()
        assert (line.count(b"\n"), line.endswith(b"\n")) == (1, True)
        assert sealed(line[:-1], signer) == {**about, "mac": mac}
