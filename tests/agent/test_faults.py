"""Faults of the world, injected: what can be got over is, what cannot leaves the run resumable."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest
from talk import block

from codeact_kernel import Agent
from codeact_kernel.errors import ModelError, ModelRefused, ModelUnreachable, RateLimited
from codeact_kernel.testing import EndpointReply, ScriptedEndpoint
from codeact_kernel.testing.endpoint import failing

pytestmark = pytest.mark.kernel

WRITES = block("with open('log', 'a') as log:\n    log.write('x')")
AFTER = len(WRITES) + 5
"""Characters after which the reply below has its block, and is not at its end."""


def broken(how, at):
    return EndpointReply(WRITES + "\nAnd so I wait for it.", breaks=how, at=at, piece=8)


PASS = {
    "429 with seconds": [failing(429, "slow", retry_after=1)],
    "429 with a date": [failing(429, "slow", retry_after=formatdate(time.time() - 5, usegmt=True))],
    "429 with a date that makes no sense": [failing(429, "slow", retry_after="Smarch 13")],
    "500 twice": [failing(500, "oops"), failing(500, "oops")],
    "dropped before the first word": [EndpointReply(breaks="drop")],
    "reset before the first word": [EndpointReply("x", breaks="reset")],
    "an empty reply": [""],
    "only thoughts": [EndpointReply(thought="Hm.")],
}
BREAKS = ("reset", "close", "malformed", "error")


async def works(tmp_path, script):
    async with ScriptedEndpoint(script) as endpoint:
        fields = {"base_url": endpoint.base_url, "workspace": tmp_path, "sandbox": "none"}
        async with Agent("m", **fields, patience=20) as agent:
            run = await agent.run("Write.")
        assert endpoint.left == 0
    return run


@pytest.mark.parametrize("fault", PASS)
async def test_what_passes_is_waited_for_and_nothing_runs_twice(tmp_path, fault):
    run = await works(tmp_path, ["I wait, and say hello.\n" + WRITES, *PASS[fault], "done"])
    assert (run.stop, run.answer) == ("answered", "done")
    assert (tmp_path / "log").read_text() == "x"


@pytest.mark.parametrize("how", BREAKS)
async def test_a_reply_that_breaks_off_in_a_block_is_gone_on_with_where_it_broke(tmp_path, how):
    at = len(WRITES) // 2
    run = await works(tmp_path, [broken(how, at), WRITES[at:], "done"])
    assert (run.stop, run.answer) == ("answered", "done")
    assert (tmp_path / "log").read_text() == "x"


@pytest.mark.parametrize("how", BREAKS)
async def test_a_block_that_came_whole_before_the_break_runs_once_and_is_not_asked_for_again(tmp_path, how):
    run = await works(tmp_path, [broken(how, AFTER), "done"])
    assert (run.stop, run.answer) == ("answered", "done")
    assert (tmp_path / "log").read_text() == "x"


STOP = {
    "sixteen days": ([failing(429, "later", retry_after=16 * 86_400)], RateLimited, "384h"),
    "a bad key": ([failing(401, "who are you?")], ModelRefused, "key"),
    "nothing at all": (["", EndpointReply(thought="Hm."), ""], ModelRefused, "nothing at all"),
    "down for longer than patience": ([EndpointReply(breaks="drop")] * 40, ModelUnreachable, "cannot reach"),
}


@pytest.mark.parametrize("fault", STOP)
async def test_what_does_not_pass_stops_the_run_and_it_can_be_gone_on_with(tmp_path, fault):
    script, kind, words = STOP[fault]
    folder = tmp_path / "run"
    fields = {"workspace": tmp_path, "sandbox": "none"}
    async with ScriptedEndpoint([WRITES, *script]) as endpoint:
        async with Agent("m", base_url=endpoint.base_url, run_dir=folder, patience=2, **fields) as agent:
            with pytest.raises(ModelError, match=words) as caught:
                await agent.run("Write.")
        assert type(caught.value) is kind
    assert agent.transcript.runs[-1].stop == "failed"
    async with (
        ScriptedEndpoint(["done"]) as endpoint,
        Agent.resume(folder, base_url=endpoint.base_url) as agent,
    ):
        run = await agent.go_on()
    assert (run.stop, run.answer) == ("answered", "done")
    assert (tmp_path / "log").read_text() == "x"
