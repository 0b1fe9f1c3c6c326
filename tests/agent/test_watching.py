"""What is seen of a run from outside, by its journals alone."""

from __future__ import annotations

import json
import math
import os

import pytest

from codeact_kernel.agent import WatchedRun, find_run
from codeact_kernel.agent.runlock import RunLock
from codeact_kernel.blocks import AgentBlock, BlockResult, ClearOutput, CodeBlock, Outcome, StreamOutput
from codeact_kernel.errors import ConfigError
from codeact_kernel.events import (
    Appended,
    ApprovalAsked,
    BlockFinished,
    BlockOutput,
    BlockQueued,
    BlockStarted,
    Decided,
    ModelRetry,
    Reply,
    RunEnded,
    RunResumed,
    RunStarted,
    Spent,
    TurnStarted,
    to_json,
)
from codeact_kernel.messages import Usage
from codeact_kernel.runfiles import Folder

BLOCK = CodeBlock("x = 1", id="dl", timeout=60.0)
STARTED = RunStarted("r", "Count.", "m", "s", 100.0)


class Fake:
    """A run whose journals are written here, at a time of ours."""

    def __init__(self, folder):
        self.folder = folder
        self.now = 100.0
        folder.mkdir()
        (folder / "journal.jsonl").touch()
        self.run = WatchedRun(folder, wall=lambda: self.now)
        self.lock = None

    def hold(self):
        """A process begins to work on it: this one."""
        self.lock = RunLock(Folder.make(self.folder))

    def tell(self, *events, agent=""):
        folder = self.folder / agent
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "journal.jsonl", "a") as file:
            file.writelines(json.dumps(to_json(event)) + "\n" for event in events)
        self.look()

    def look(self):
        """Poll it, a while later."""
        self.now += 2.0
        assert not self.run.poll()


@pytest.fixture
def fake(tmp_path):
    fake = Fake(tmp_path / "run")
    fake.hold()
    yield fake
    fake.lock.release()


def test_a_block_is_seen_from_its_launch_over_its_lines_to_its_end(fake):
    agent = fake.run.agent
    fake.tell(STARTED, TurnStarted(1, 100.0, 1000, 4000), BlockQueued(1, "dl", BLOCK, 101.0))
    (block,) = agent.blocks
    assert (block.id, block.state, block.last_line) == ("dl", "waiting", "")
    assert (agent.context_tokens, agent.window, agent.asked) == (1000, 4000, 100.0)
    fake.tell(ApprovalAsked("block", "the agent", "dl", "run_code", "ask"))
    assert agent.blocks[0].state == "waiting for approval"
    fake.tell(Decided("block", "the agent", "dl", None, "run_code", True, "person", "yes"))
    fake.tell(
        Appended(1, Reply(1, "x", (BLOCK,), usage=Usage(10, 0, 5, 1))), BlockStarted("dl", "main", 102.0)
    )
    assert (agent.blocks[0].state, agent.blocks[0].started, agent.asked) == ("running", 102.0, None)
    for text in ("page 1\npa", "ge 2", "\n\n", "10%\r20%\x1b[2J\r"):
        fake.tell(BlockOutput("dl", StreamOutput("stdout", text)))
    assert agent.blocks[0].last_line == "20%"
    fake.tell(BlockOutput("dl", ClearOutput()))
    assert agent.blocks[0].last_line == ""
    fake.tell(
        BlockFinished(BlockResult("dl", BLOCK, Outcome())), BlockOutput("dl", StreamOutput("stdout", "late"))
    )
    assert agent.blocks == []
    assert not agent._tails


def test_a_run_is_running_while_a_process_holds_it_and_crashed_when_none_does(fake):
    fake.tell(STARTED, TurnStarted(1, 100.0))
    assert (fake.run.state, fake.run.pid, fake.run.is_over) == ("running", os.getpid(), False)
    fake.lock.release()
    fake.look()
    assert (fake.run.state, fake.run.pid, fake.run.is_over) == ("crashed", None, True)


def test_what_was_written_before_the_process_went_is_no_crash(fake):
    fake.tell(STARTED)
    with open(fake.folder / "journal.jsonl", "a") as file:
        file.write(json.dumps(to_json(RunEnded("answered", "42", Usage(7, 0, 2, 1), 1, 109.0))) + "\n")
    fake.lock.release()
    fake.look()
    assert (fake.run.state, fake.run.is_over) == ("answered", True)
    assert fake.run.usage == Usage(7, 0, 2, 1)
    assert fake.run.seconds == 9.0


def test_a_conversation_goes_on_after_an_answer_as_long_as_its_process_lives(fake):
    fake.tell(STARTED, RunEnded("answered", "one", Usage(), 1, 105.0))
    assert (fake.run.state, fake.run.is_over) == ("answered", False)
    fake.tell(RunStarted("r2", "More.", "m", "s", 110.0), TurnStarted(2, 110.0))
    assert (fake.run.state, fake.run.agent.turns, fake.run.agent.turn) == ("running", 1, 2)


def test_a_resumed_run_counts_its_time_on_and_forgets_what_lived(fake):
    fake.tell(STARTED, TurnStarted(1, 100.0), BlockQueued(1, "dl", BLOCK, 101.0))
    fake.tell(RunResumed("r", 1000.0, "other", worked=50.0))
    fake.now = 1003.0
    assert fake.run.seconds == 53.0
    assert fake.run.agent.blocks == []
    assert fake.run.agent.now.model == "other"


def test_sub_agents_are_seen_at_work_and_counted_when_they_have_ended(fake):
    scout = AgentBlock("Look.", id="scout")
    fake.tell(STARTED, BlockQueued(1, "scout", scout, 101.0), Spent(Usage(100, 0, 10, 2), 3))
    fake.tell(RunStarted("a", "Look.", "m", "s", 102.0), TurnStarted(1, 102.0), agent="agents/scout")
    fake.tell(RunStarted("b", "Look.", "m", "s", 103.0), agent="agents/scout/agents/inner")
    (below,) = fake.run.agent.below.values()
    assert (below.turn, list(below.below)) == (1, ["inner"])
    ended = RunEnded("answered", "x", Usage(), 1, 104.0)
    fake.tell(ended, agent="agents/scout/agents/inner")
    assert (below.below, below.gone) == ({}, 1)
    fake.tell(ended, agent="agents/scout")
    assert (fake.run.agent.below, fake.run.agent.gone) == ({}, 1)
    assert fake.run.usage == Usage(100, 0, 10, 2), "the whole tree's"


def test_a_sub_agent_that_a_crash_has_left_is_not_at_work_after_a_resume(fake):
    scout = AgentBlock("Look.", id="scout")
    fake.tell(STARTED, BlockQueued(1, "scout", scout, 101.0))
    fake.tell(RunStarted("a", "Look.", "m", "s", 102.0), agent="agents/scout")
    assert list(fake.run.agent.at_work) == ["scout"]
    fake.tell(RunResumed("r", 1000.0, "m"), BlockQueued(2, "Scout#2", scout, 1001.0))
    assert fake.run.agent.at_work == {}
    fake.tell(RunStarted("b", "Look.", "m", "s", 1002.0), agent="agents/scout-2")
    assert list(fake.run.agent.at_work) == ["Scout#2"]


def test_links_among_the_sub_agents_are_not_followed(fake):
    (fake.folder / "agents").mkdir()
    (fake.folder / "agents" / "loop").symlink_to(fake.folder, target_is_directory=True)
    fake.tell(STARTED)
    assert fake.run.agent.below == {}


def test_a_call_that_failed_is_told_until_it_is_answered(fake):
    fake.tell(STARTED, TurnStarted(1, 100.0), ModelRetry(1, "429: later", 20.0))
    assert fake.run.agent.trouble == "429: later"
    fake.tell(Appended(1, Reply(1, "x")))
    assert fake.run.agent.trouble == ""


def test_events_that_do_not_fit_and_lines_that_are_none_disturb_nobody(fake):
    fake.tell(
        BlockStarted("never", "main", 1.0),
        BlockOutput("never", StreamOutput("stdout", "x")),
        RunEnded("answered", None, Usage(), 0, math.inf),
        RunStarted("r", "Count.", "m", "s", -math.inf),
    )
    with open(fake.folder / "journal.jsonl", "ab") as file:
        file.write(b'{"type": "Nothing"}\n[' + b"[" * 100_000 + b"\n\xff\xfe\n\x00\n")
    fake.look()
    assert fake.run.agent.blocks == []


def test_of_a_long_run_only_what_lives_is_kept(fake):
    for number in range(300):
        block_id = f"b{number}"
        fake.tell(
            TurnStarted(number + 1, 1.0),
            BlockQueued(number + 1, block_id, BLOCK, 1.0),
            BlockOutput(block_id, StreamOutput("stdout", "x" * 5000)),
            BlockFinished(BlockResult(block_id, BLOCK, Outcome())),
        )
    agent = fake.run.agent
    assert agent.turns == 300
    assert agent.live == agent._tails == {}


def test_the_latest_run_of_a_workspace_is_found_and_others_are_by_folder_or_notebook(tmp_path):
    with pytest.raises(ConfigError, match="there is no run"):
        find_run(None, tmp_path)
    for at, name in enumerate(("b", "a")):
        folder = tmp_path / ".codeact" / "runs" / name
        folder.mkdir(parents=True)
        (folder / "journal.jsonl").touch()
        os.utime(folder / "journal.jsonl", (at, at))
    assert find_run(None, tmp_path) == folder
    assert find_run(folder, tmp_path) == find_run(folder / "run.ipynb", tmp_path) == folder
    with pytest.raises(ConfigError, match="missing"):
        find_run(tmp_path, tmp_path)


def test_who_takes_a_run_does_not_take_a_look_at_it_for_another_worker(tmp_path):
    import fcntl

    folder = Folder.make(tmp_path)
    RunLock(folder).release()
    with open(tmp_path / "lock", "rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        with pytest.raises(ConfigError):
            RunLock(folder)  # one that never ends counts as being held
    lock = RunLock(folder)
    with pytest.raises(ConfigError, match="being worked on"):
        RunLock(folder)
    lock.release()
