"""Hosts that are killed in the middle of a run, again and again, and runs that go on until they are answered."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import time
from collections import Counter

import pytest
from crash_plan import ANSWER, STEPS, TASK, make_tools, reply

from codeact_kernel.events import Appended, Observation, Reply, TurnStarted
from codeact_kernel.policy import verify
from codeact_kernel.record import notebook_text, read_journal, to_notebook
from codeact_kernel.signing import host_signer
from codeact_kernel.testing import ScriptedEndpoint
from codeact_kernel.transcript import Transcript

pytestmark = [pytest.mark.stress, pytest.mark.kernel]

KILLS = 4
"""How often the hosts of one run are killed before it may come to its end."""
PATIENCE = 90.0


class Stage:
    """One run, and the processes that work on it."""

    def __init__(self, place, base_url):
        self.place = place
        self.run = place / "run"
        self.tools, self.log = make_tools(place)
        (place / "work").mkdir()
        self._options = ["--model", "scripted", "--base-url", base_url, "--sandbox", "limits"]
        self._options += ["--workspace", str(place / "work"), "--tools", str(self.tools)]

    def start(self, room=None):
        """Start a host: of a run that was never begun, or one that goes on with it.

        With a bound, no file of its grows past that many bytes.
        """
        words = ["resume", str(self.run)]
        if not self._begun:
            words = ["run", *self._options, "--run-dir", str(self.run), TASK]
        command = [sys.executable, "-m", "codeact_kernel.cli", *words]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=None
            if room is None
            else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
        )

    @property
    def _begun(self):
        return b"\n" in self._journal()

    def _journal(self):
        path = self.run / "journal.jsonl"
        return path.read_bytes() if path.exists() else b""

    def kill(self, host, chance):
        """Kill a host some events from now; gives whether it still lived."""
        goal = self._journal().count(b"\n") + chance.randint(1, 40)
        end = time.monotonic() + PATIENCE
        while host.poll() is None and self._journal().count(b"\n") < goal:
            assert time.monotonic() < end, "nothing happens any more"
            time.sleep(0.001)
        time.sleep(chance.random() * 0.05)
        lives = host.poll() is None
        host.kill()
        host.communicate()
        return lives

    def tear(self, chance):
        """Take the end off the journal, as a machine without power does with what was not on the disk itself.

        What is brought to the disk itself stays.
        """
        data = self._journal()
        kept = max((data.rfind(kind) for kind in _ON_DISK), default=-1)
        end = data.find(b"\n", kept) + 1
        (self.run / "journal.jsonl").write_bytes(data[: chance.randint(end, len(data))])

    def finish(self):
        """Let it come to its end; gives the answer."""
        host = self.start()
        out, err = host.communicate(timeout=PATIENCE)
        assert host.returncode == 0, err
        return out.strip()


_ON_DISK = [
    b'{"type": "%s"' % kind
    for kind in (b"RunStarted", b"RunResumed", b"Drafted", b"Appended", b"BlockFinished", b"RunEnded")
]


@pytest.fixture
def stage(tmp_path):
    with ScriptedEndpoint(reply) as endpoint:
        yield Stage(tmp_path, endpoint.base_url)


def check(stage, answer, *, lost=False):
    """No turn is lost or doubled, no effect either, and the record is whole."""
    assert answer == ANSWER
    assert Counter(stage.log.read_text().split()) == Counter(STEPS)
    events, transcript = [], Transcript()
    about = read_journal(
        stage.run / "journal.jsonl", lambda e: (events.append(e), transcript.apply(e)), host_signer()
    )
    assert about.is_ours
    replies = [e.entry for e in events if isinstance(e, Appended) and isinstance(e.entry, Reply)]
    assert [r.turn for r in replies] == list(range(1, len(replies) + 1))
    assert replies[-1].text == ANSWER
    assert {e.turn for e in events if isinstance(e, TurnStarted)} == {r.turn for r in replies}
    told = Counter(
        report.id
        for e in events
        if isinstance(e, Appended) and isinstance(e.entry, Observation)
        for report in e.entry.reports
        if report.kind in ("run_code_result", "agent_result")
    )
    assert told == Counter(dict.fromkeys(transcript.blocks, 1))
    assert (stage.run / "run.ipynb").read_text() == _signed_as(stage, transcript)
    assert verify(stage.run / "audit.jsonl", host_signer(), lost=lost).is_right


def _signed_as(stage, transcript):
    """The notebook that the journal makes, with the signature of the one that is there."""
    notebook = to_notebook(transcript)
    there = json.loads((stage.run / "run.ipynb").read_text())["metadata"]["codeact"]
    notebook["metadata"]["codeact"]["signature"] = there["signature"]
    return notebook_text(notebook)


@pytest.mark.parametrize("power_fails", [False, True], ids=["kill", "power"])
def test_whatever_kills_the_host_nothing_is_lost_and_nothing_happens_twice(
    stage, times, power_fails, tmp_path
):
    for number in range(times(1, 25)):
        chance = random.Random(f"{power_fails} {number}")
        one = stage if number == 0 else Stage(_new(tmp_path, number), stage._options[3])
        killed = 0
        for _ in range(KILLS):
            killed += one.kill(one.start(), chance)
            if power_fails and one._begun:
                one.tear(chance)
        answer = one.finish()
        print(f"{number}: {killed} hosts were killed")
        check(one, answer)


def test_where_the_disk_is_full_nothing_is_lost_that_happened_and_nothing_happens_twice(
    stage, times, tmp_path
):
    for number in range(times(2, 20)):
        chance = random.Random(f"full {number}")
        one = stage if number == 0 else Stage(_new(tmp_path, number), stage._options[3])
        host = one.start(room=chance.randint(8_000, 20_000))
        _, err = host.communicate(timeout=PATIENCE)
        print(f"{number}: {host.returncode} {err[-300:]}")
        check(one, one.finish(), lost=True)  # an audit says how many of its lines had no room


def _new(folder, number):
    place = folder / str(number)
    place.mkdir()
    return place
