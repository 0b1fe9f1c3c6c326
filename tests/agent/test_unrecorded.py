"""What only an audit knows of a run's last moments."""

from __future__ import annotations

from codeact_kernel.agent.kin import ROOT
from codeact_kernel.agent.remains import Remains
from codeact_kernel.agent.unrecorded import learn_of_audit
from codeact_kernel.blocks import CodeBlock
from codeact_kernel.events import BlockQueued, RunStarted, ToolCalled, ToolReturned, TurnStarted
from codeact_kernel.policy import Audit
from codeact_kernel.runfiles import Folder
from codeact_kernel.signing import Signer
from codeact_kernel.transcript import Transcript

SIGNER = Signer(b"x" * 32)
STARTED = BlockQueued(1, "a", CodeBlock("a = 1"), 1.0)
UNSEEN = BlockQueued(1, "b", CodeBlock("append('x')"), 1.0)


def audited(folder, *events, agent=ROOT):
    """Write them as a process does that is killed then."""
    audit, place = Audit(sync=False), Folder.make(folder)
    audit.open(place, "audit.jsonl", SIGNER)
    for event in events:
        audit(event, agent)
    place.close()
    return audit


def learned(folder, signer=SIGNER):
    transcript, remains = Transcript(), Remains()
    for event in (RunStarted("r", "t", "m", "", 1.0), TurnStarted(1, 1.0), STARTED):
        transcript.apply(event)
    learn_of_audit(folder / "audit.jsonl", signer, transcript, remains)
    return remains


def test_calls_that_did_not_return_and_blocks_that_no_journal_has_are_learned(tmp_path):
    calls = [ToolCalled(str(n), "append", "b", f"{n}") for n in range(3)]
    audited(tmp_path, STARTED, UNSEEN, *calls, ToolReturned("1", True, 0.1))
    remains = learned(tmp_path)
    assert remains.unseen == {"b": "append('x')"}
    assert list(remains.calls.values()) == [calls[0], calls[2]]


def test_other_agents_and_earlier_processes_are_another_matter(tmp_path):
    audited(tmp_path, UNSEEN, ToolCalled("1", "append", "b", "1")).close()
    audited(tmp_path, UNSEEN, ToolCalled("1", "append", "b", "1"), agent="scout").close()
    remains = learned(tmp_path)
    assert (remains.unseen, remains.calls) == ({}, {})


def test_what_somebody_else_wrote_or_nobody_is_not_believed(tmp_path):
    audited(tmp_path, UNSEEN)
    assert learned(tmp_path, Signer(b"y" * 32)).unseen == {}
    (tmp_path / "audit.jsonl").unlink()
    assert learned(tmp_path).unseen == {}
