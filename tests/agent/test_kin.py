"""What an agent and its sub-agents say to each other, and use of each other."""

from __future__ import annotations

import pytest
from talk import block, delegate, play, told, when

from codeact_kernel.agent import Settings

pytestmark = pytest.mark.kernel


async def test_a_child_asks_and_its_parent_answers(tmp_path):
    model, run, notes = await play(
        tmp_path,
        {
            "ROOT": when(
                delegate("SCOUT", name="scout"),
                ("Which one?", block("self.steer('scout', 'the blue one')")),
                ("agent_result", "It took the blue one."),
            ),
            "SCOUT": [block("print('said:', await self.ask_parent('Which one?'))"), "Done."],
        },
    )
    assert run.answer == "It took the blue one."
    assert "said: the blue one" in told(model, "SCOUT")
    assert '<note from="scout">' in told(model, "ROOT")
    assert 'Which one?\n(It waits for your answer: self.steer("scout", "…") in a block.)' in told(
        model, "ROOT"
    )
    assert [note.sender for note in notes] == ["scout"]


async def test_a_note_of_the_parent_is_read_before_the_next_reply_and_splits_no_block(tmp_path):
    wait = "import time, pathlib\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nprint('whole')"
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": [
                delegate("SCOUT", name="scout", heartbeat="0.1s"),
                block("self.steer('scout', 'skip page 7')\nimport pathlib; pathlib.Path('go').touch()"),
                *["I wait."] * 9,
            ],
            "SCOUT": [block("print('begun')", id="a") + "\n" + block(wait, id="b"), *["I wait."] * 9],
        },
    )
    said = told(model, "SCOUT")
    assert '<note from="parent">skip page 7</note>' in said
    assert "whole" in said


async def test_heartbeats_carry_what_a_sub_agent_says_and_does_in_short_form(tmp_path):
    slow = "import time\nprint('x' * 5000)\ntime.sleep(1.2)"
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": [delegate("SCOUT", name="scout", heartbeat="0.4s"), *["I wait."] * 5],
            "SCOUT": ["First I look around. " + "Really. " * 60 + "\n" + block(slow, id="look"), "Seen."],
        },
    )
    said = told(model, "ROOT")
    beat = said[said.index('<running id="scout"') : said.index("</running>")]
    assert "First I look around. Really." in beat
    assert "▸ look: import time\n" in beat
    assert len(beat) < 400
    assert "Seen.\n</agent_result>" in said


async def test_what_runs_is_told_and_cancelled_by_name(tmp_path):
    look = (
        "import asyncio, json\n"
        "while not (self.agents and self.agents[0]['blocks']): await asyncio.sleep(0.05)\n"
        "a = self.agents[0]\nprint(a['name'], a['state'], a['task'], a['blocks'], a['left'] > 50, a['last'])\n"
        "print([b['id'] for b in self.blocks], self.cancel('scout'), self.cancel('nobody'))"
    )
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": when(
                delegate("SCOUT", name="scout", timeout="60s") + "\n" + block(look, id="me"),
                ('id="me"&agent_result', "Done."),
            ),
            "SCOUT": [block("import time\ntime.sleep(600)", id="sleeps"), "I wait."],
        },
    )
    said = told(model, "ROOT")
    assert "scout running SCOUT ['sleeps'] True ▸ sleeps: import time\n['me'] True False" in said
    assert '<agent_result name="scout" status="cancelled"' in said


async def test_limits_of_depth_and_number_are_told(tmp_path):
    ask = "try:\n    await self.run_agent('DEEPER')\nexcept AgentError as e:\n    print(e.status, '|', e.message)"
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": when(
                delegate("SCOUT", name="a") + "\n" + delegate("SCOUT", name="b"),
                ('agent_result name="a"&agent_result name="b"', "Done."),
            ),
            "SCOUT": [block(ask), "Done."],
        },
        settings=Settings(max_agents=1, max_agent_depth=1),
    )
    assert "rejected | Sub-agents are not available in this run" in told(model, "SCOUT")
    assert "1 sub-agents are alive, and no more may be" in told(model, "ROOT")
    first = next(request for request in model.requests if "SCOUT" in request.messages[1].content)
    assert "run_agent" not in first.messages[0].content


async def test_two_of_the_same_name_under_two_parents_share_nothing(tmp_path):
    inner = delegate("LEAF {}", name="scout", namespace="mine")
    model, run, _ = await play(
        tmp_path,
        {
            "ROOT": when(
                delegate("LEFT", name="l") + "\n" + delegate("RIGHT", name="r"),
                ('agent_result name="l"&agent_result name="r"', "Done."),
            ),
            "LEFT": when(
                block("mine = 'left'") + "\n" + inner.format(1),
                ("agent_result", block("print(scout)", id="p")),
                ('id="p"', "L."),
            ),
            "RIGHT": when(
                block("mine = 'right'") + "\n" + inner.format(2),
                ("agent_result", block("print(scout)", id="p")),
                ('id="p"', "R."),
            ),
            "LEAF": [block("self.return_value(mine * 2)"), "Done."],
        },
    )
    assert "leftleft" in told(model, "LEFT")
    assert "rightright" in told(model, "RIGHT")
    for path in ("l/agents/scout", "r/agents/scout"):
        assert (run.record.parent / "agents" / path / "run.ipynb").exists()


async def test_without_a_parent_there_is_nobody_to_ask_or_to_hand_anything(tmp_path):
    code = (
        "import asyncio\n"
        "tries = [lambda: self.return_value(1), lambda: asyncio.run(self.ask_parent('?')),\n"
        "         lambda: self.steer('x', 'y'), lambda: self.result('x')]\n"
        "for one in tries:\n    try:\n        one()\n    except ToolError as e:\n        print(e)"
    )
    model, *_ = await play(tmp_path, {"ROOT": [block(code), "Done."]})
    said = told(model, "ROOT")
    for words in (
        "nobody has started you, so there is nobody to hand anything to",
        "nobody has started you, so there is nobody to ask",
        "there is no sub-agent 'x' at work; at work: none",
        "no sub-agent 'x' has answered; these have: none yet",
    ):
        assert words in said


async def test_a_result_is_bound_where_its_name_is_free_and_outlives_a_restart(tmp_path):
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": when(
                block("taken = 1")
                + "\n"
                + delegate("SCOUT", name="taken")
                + "\n"
                + delegate("SCOUT", name="free"),
                (
                    'agent_result name="taken"&agent_result name="free"',
                    block(
                        "print(taken, free['n'], self.result('taken'), self.result('free') is free)", id="a"
                    ),
                ),
                ('id="a"', block("self.restart()", id="b")),
                ('id="b"', block("print(self.result('free'), 'free' in globals())", id="c")),
                ('id="c"', "Done."),
            ),
            "SCOUT": [block("self.return_value({'n': 5})"), "Done."],
        },
    )
    said = told(model, "ROOT")
    assert 'it handed back a dict of length 1: self.result("taken")' in said
    assert "it handed back a dict of length 1: free]" in said
    assert "1 5 {'n': 5} True" in said
    assert "{'n': 5} False" in said


async def test_an_answer_alone_is_the_result(tmp_path):
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": when(
                delegate("SCOUT", name="scout"),
                ("agent_result", block("print(len(self.result('scout')))", id="long")),
                ('id="long"', "Done."),
            ),
            "SCOUT": ["word " * 9000],
        },
    )
    said = told(model, "ROOT")
    assert 'self.result("scout")' in said
    assert "44999" in said
