"""What the audit writes, when, and what happens where it cannot."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import typing

import pytest

from codeact_kernel.blocks import AgentBlock, BlockResult, CodeBlock, Outcome, StreamOutput
from codeact_kernel.errors import RecordError
from codeact_kernel.events import (
    ApprovalAsked,
    BlockChanged,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    Decided,
    Event,
    KernelEnded,
    NoteReceived,
    ReplyDelta,
    RunEnded,
    RunStarted,
    ToolCalled,
    ToolReturned,
)
from codeact_kernel.messages import Usage
from codeact_kernel.policy import audit as module
from codeact_kernel.policy import verify
from codeact_kernel.policy.audited import AUDITED
from codeact_kernel.signing import Signer
from codeact_kernel.testing.clock import jumping

CALL = ToolCalled("1", "search", "b1", '"cats", limit=2')


def lines(stage):
    return [json.loads(line) for line in stage.path.read_text().splitlines()]


def queued(code="print(1)", name="b1"):
    return BlockQueued(1, name, CodeBlock(code, id=name), 5.0)


@pytest.fixture
def disk(monkeypatch):
    """A disk whose syncs are counted, and that may be full."""

    class Disk:
        syncs = 0
        writes = 0
        full = False

        def sync(self, fd):
            self.syncs += 1
            os.fsync(fd)

        def write(self, fd, data):
            self.writes += 1
            if self.full:
                os.write(fd, data[:7])
                raise OSError(28, "No space left on device")
            os.write(fd, data)

    disk = Disk()
    monkeypatch.setattr(module, "_to_disk", disk.sync)
    monkeypatch.setattr(module, "write_all", disk.write)
    return disk


def test_each_line_says_whose_it_is_and_is_signed_with_the_one_before(stage):
    audit = stage.open()
    audit(RunStarted("r1", "Count.", "m", "a long prompt", 1.0, "Python 3"), "the agent")
    audit(queued(), "the agent")
    audit(CALL, "scout")
    first, started, block, call = lines(stage)
    assert (first["event"], first["n"], first["prev"], first["version"]) == ("AuditBegun", 1, "", 1)
    assert [line["prev"] for line in (started, block, call)] == [
        line["mac"] for line in (first, started, block)
    ]
    assert (started["task"], "system" in started) == ("Count.", False)
    assert block["block"] == {"kind": "CodeBlock", "code": "print(1)", "id": "b1"}
    assert (call["agent"], call["name"], call["arguments"], call["block_id"]) == (
        "scout",
        "search",
        '"cats", limit=2',
        "b1",
    )
    assert {line["audit"] for line in lines(stage)} == {audit.name}
    assert (audit.lines, audit.head) == (4, call["mac"])
    assert verify(stage.path, stage.signer).is_right


LEFT_OUT = {
    "Appended", "Audited", "BlockHeld", "BlockOutput", "Drafted", "Heartbeat", "ModelRetry", "ModelUsed", "Notice",
    "ReplyDelta", "Spent", "TurnStarted", "WakeUpEnded", "WakeUpSet",
}  # fmt: skip
"""What is asked of models and said by them, and what blocks put out: the journal has it."""


def test_every_kind_of_event_is_audited_or_left_out_on_purpose():
    there = {kind.__name__ for kind in typing.get_args(Event)}
    audited = {kind.__name__ for kind in AUDITED}
    assert audited | LEFT_OUT == there, "a new event is a line of AUDITED, or stands here"
    assert audited & LEFT_OUT == set()


def test_what_only_matters_live_is_left_out(stage):
    audit = stage.open()
    audit(ReplyDelta(1, "x"), "the agent")
    audit(BlockOutput("b1", StreamOutput("stdout", "x")), "the agent")
    assert audit.lines == 1


def test_ends_are_told_without_outputs(stage):
    audit = stage.open()
    block = CodeBlock("x")
    audit(
        BlockFinished(BlockResult("b1", block, Outcome("error", "boom"), (StreamOutput("stdout", "o"),))), "a"
    )
    audit(ToolReturned("1", False, 0.5, "refused: no"), "a")
    audit(KernelEnded("the kernel's process was ended by SIGKILL", -9, 1.0), "a")
    audit(NoteReceived("user", "hurry"), "a")
    audit(RunEnded("limit", None, Usage(), 3, 2.0, "the time is up"), "a")
    _, end, returned, kernel, note, run = lines(stage)
    assert (end["status"], end["error"], "outputs" in end) == ("error", "boom", False)
    assert (returned["ok"], returned["error"]) == (False, "refused: no")
    assert kernel["returncode"] == -9
    assert note["text"] == "hurry"
    assert (run["stop"], run["message"]) == ("limit", "the time is up")


def test_decisions_are_in_it_with_what_was_changed_and_that_of_a_block_is_on_the_disk_at_once(stage, disk):
    audit = stage.open()
    audit(ApprovalAsked("block", "the agent", "b1", "run_code", "the mode ask"), "the agent")
    audit(
        Decided("block", "the agent", "b1", None, "run_code", True, "person", "", "print(2)", 3.25, 9.0),
        "the agent",
    )
    assert disk.syncs == 1
    audit(BlockChanged("b1", CodeBlock("print(2)")), "the agent")
    assert disk.syncs == 2
    audit(Decided("call", "scout", "b1", "7", "fetch", False, "rule", "deny: hosts"), "scout")
    assert disk.syncs == 2
    _, asked, block, changed, call = lines(stage)
    assert (asked["door"], asked["why"]) == ("block", "the mode ask")
    assert (block["allowed"], block["by"], block["changed"], block["waited"]) == (
        True,
        "person",
        "print(2)",
        3.25,
    )
    assert changed["block"]["code"] == "print(2)"
    assert (call["agent"], call["call_id"], call["allowed"], call["why"]) == (
        "scout",
        "7",
        False,
        "deny: hosts",
    )
    assert verify(stage.path, stage.signer).is_right


def test_code_is_kept_whole_and_other_long_texts_with_a_digest(stage):
    audit = stage.open()
    audit(queued("x = 1\n" * 10_000), "a")
    audit(BlockQueued(1, "s", AgentBlock("Look."), 1.0), "a")
    audit(NoteReceived("user", "ä" * 20_000), "a")
    _, code, agent, note = lines(stage)
    assert len(code["block"]["code"]) == 60_000
    assert agent["block"]["task"] == "Look."
    digest = hashlib.sha256(("ä" * 20_000).encode()).hexdigest()
    assert note["text"] == {"beginning": "ä" * 16_384, "characters": 20_000, "sha256": digest}


def test_events_before_it_is_opened_are_written_then_and_none_where_it_never_is(stage):
    audit = module.Audit()
    audit(NoteReceived("user", "early"), "a")
    audit.open(stage.folder, "audit.jsonl", stage.signer)
    assert [line["event"] for line in lines(stage)] == ["AuditBegun", "NoteReceived"]
    audit.close()
    never = module.Audit()
    never.leave()
    never(queued(), "a")
    assert not never.is_open
    never.close()


def test_a_block_is_on_the_disk_before_anybody_hears_of_it(stage, disk):
    audit = stage.open()
    audit(queued(), "a")
    assert disk.syncs == 1
    audit(ToolReturned("1", True, 0.1), "a")
    assert disk.syncs == 1
    audit(queued(name="b2"), "a")
    assert disk.syncs == 2


async def test_calls_of_one_round_of_the_loop_share_one_sync_and_none_goes_on_before(stage, disk):
    audit, gone_on = stage.open(), []

    async def call(number):
        audit(ToolCalled(str(number), "f", "b1", ""), "a")
        await audit.settled()
        gone_on.append((number, disk.syncs))

    await asyncio.gather(*map(call, range(50)))
    assert sorted(gone_on) == [(number, 1) for number in range(50)]
    await audit.settled()
    assert disk.syncs == 1


async def test_a_call_that_is_given_up_takes_no_sync_from_the_others(stage, disk):
    audit = stage.open()
    audit(CALL, "a")
    first = asyncio.ensure_future(audit.settled())
    second = asyncio.ensure_future(audit.settled())
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert (first.cancelled(), disk.syncs) == (True, 1)


@jumping
async def test_a_return_waits_for_the_next_call_and_both_are_written_at_once(stage, disk):
    audit = stage.open()
    before = disk.writes
    audit(ToolReturned("1", True, 0.1), "a")
    assert [line["event"] for line in lines(stage)] == ["AuditBegun"]
    audit(ToolCalled("2", "search", "b1", ""), "b")
    assert disk.writes == before + 1
    _, returned, called = lines(stage)
    assert (returned["call_id"], returned["agent"], called["call_id"], called["agent"]) == (
        "1",
        "a",
        "2",
        "b",
    )
    assert returned["at"] < called["at"]
    assert verify(stage.path, stage.signer, [stage.head(audit)]).is_right


@jumping
async def test_a_return_that_nothing_follows_is_written_in_a_moment(stage):
    audit = stage.open()
    began = asyncio.get_running_loop().time()
    for number in range(3):
        audit(ToolReturned(str(number), True, 0.1), "a")
    while audit.lines == 1:
        await asyncio.sleep(0.001)
    assert asyncio.get_running_loop().time() - began < 0.02
    assert [line["event"] for line in lines(stage)] == ["AuditBegun", *["ToolReturned"] * 3]


@pytest.mark.parametrize("end", ["flush", "close"])
@jumping
async def test_what_waits_is_written_at_a_turns_end_and_at_the_end(stage, end):
    audit = stage.open()
    audit(ToolReturned("1", True, 0.1), "a")
    getattr(audit, end)()
    assert [line["event"] for line in lines(stage)][1] == "ToolReturned"
    assert verify(stage.path, stage.signer, [stage.head(audit)]).is_right


@jumping
async def test_where_two_lines_cannot_be_written_two_are_missed_and_the_call_is_not_made(stage, disk):
    audit = stage.open()
    audit(ToolReturned("1", True, 0.1), "a")
    disk.full = True
    with pytest.raises(RecordError):
        audit(CALL, "a")
    disk.full = False
    audit(CALL, "a")
    assert [line.get("lost") for line in lines(stage)] == [None, 2]


@jumping
async def test_without_sync_nothing_waits_blocks_are_written_at_once_and_calls_in_a_moment(stage, disk):
    audit = stage.open(sync=False)
    audit(queued(), "a")
    before, began = disk.writes, asyncio.get_running_loop().time()
    for _ in range(3):
        audit(CALL, "a")
        await audit.settled()
        audit(ToolReturned("1", True, 0.1), "a")
    assert (disk.syncs, len(lines(stage))) == (0, 2)
    while audit.lines == 2:
        await asyncio.sleep(0.001)
    assert asyncio.get_running_loop().time() - began < 0.02
    assert [line["event"] for line in lines(stage)][2:] == ["ToolCalled", "ToolReturned"] * 3
    assert (disk.writes, disk.syncs) == (before + 1, 0)
    assert verify(stage.path, stage.signer, [stage.head(audit)]).is_right


@jumping
async def test_without_sync_a_call_that_could_not_be_written_is_told_and_the_next_block_does_not_run(
    stage, disk
):
    errors = []
    audit = stage.open(sync=False, on_failure=errors.append)
    disk.full = True
    audit(CALL, "a")
    while not errors:
        await asyncio.sleep(0.001)
    with pytest.raises(RecordError):
        audit(queued(), "a")
    assert len(errors) == 2


def test_where_the_disk_is_full_what_is_about_to_happen_does_not_and_no_half_line_stays(stage, disk):
    errors = []
    audit = stage.open(on_failure=errors.append)
    disk.full = True
    with pytest.raises(RecordError, match=r"No space left on device\), so nothing more is run"):
        audit(queued(), "a")
    with pytest.raises(RecordError):
        audit(CALL, "a")
    audit(ToolReturned("1", True, 0.1), "a")
    assert len(errors) == 3
    assert len(lines(stage)) == 1
    disk.full = False
    audit(queued(), "a")
    assert lines(stage)[-1]["lost"] == 3
    verdict = verify(stage.path, stage.signer)
    assert (verdict.wrong, "3 lines before it could not be written" in verdict.reason) == (2, True)


def test_a_lenient_audit_goes_on_says_it_once_and_counts_what_it_lacks(stage, disk):
    errors = []
    audit = stage.open(strict=False, on_failure=errors.append)
    disk.full = True
    audit(queued(), "a")
    audit(CALL, "a")
    disk.full = False
    audit(CALL, "a")
    assert len(errors) == 1
    assert "The run goes on" in errors[0].message
    assert [line.get("lost") for line in lines(stage)] == [None, 2]


def test_a_sync_that_fails_is_a_line_that_is_not_there(stage, monkeypatch):
    audit = stage.open()

    def fail(fd):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(module, "_to_disk", fail)
    with pytest.raises(RecordError, match="Input/output error"):
        audit(queued(), "a")


def test_an_audit_goes_on_where_the_last_one_ended(stage):
    first = stage.open()
    first(queued(), "a")
    first.close()
    second = stage.open()
    second(queued(name="b2"), "a")
    assert [line["n"] for line in lines(stage)] == [1, 2, 3, 4, 5]
    assert [line["event"] for line in lines(stage)][2:4] == ["AuditEnded", "AuditContinued"]
    assert second.name == first.name
    assert verify(stage.path, stage.signer).is_right


def test_a_line_that_a_crash_tore_is_taken_off_and_said(stage):
    first = stage.open()
    first(queued("x" * 100_000), "a")
    os.close(first._fd)
    first._fd = None
    with stage.path.open("ab") as file:
        file.write(b'{"n":3,"prev')
    second = stage.open()
    assert lines(stage)[-1]["torn"] == 12
    assert second.lines == 3
    assert verify(stage.path, stage.signer).is_right


@pytest.mark.parametrize("spoil", ["changed", "another key", "a link", "written by another"])
def test_what_is_no_audit_of_ours_is_not_gone_on_with(stage, spoil, tmp_path):
    first = stage.open()
    signer = stage.signer
    if spoil != "written by another":
        first.close()
    match spoil:
        case "changed":
            stage.path.write_text(stage.path.read_text().replace("AuditEnded", "AuditEndeD"))
        case "another key":
            signer = Signer(b"o" * 32)
        case "a link":
            stage.path.rename(tmp_path / "elsewhere")
            stage.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RecordError, match=r"as this installation wrote it|no file of ours|by another run"):
        stage.open(signer=signer)


def test_only_its_owner_can_read_it(stage):
    stage.open()
    assert stage.path.stat().st_mode & 0o777 == 0o600
