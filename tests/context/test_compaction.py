from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.blocks import CodeBlock, Prose
from codeact_kernel.context import compact, compact_by_force, told, written_down
from codeact_kernel.errors import ToolError
from codeact_kernel.events import Knowledge, Observation, Reply, Report, Task
from codeact_kernel.messages import ToolCall

ALIVE = "Variables, largest first:\n- x: int 3"


def words(text: str) -> int:
    return -(-len(text) // 4)


def test_what_the_model_wrote_and_what_is_alive_make_the_knowledge():
    assert compact("  the task is X\n", ALIVE) == Knowledge("the task is X", ALIVE)


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_nothing_written_down_is_told_to_the_model_and_changes_nothing(text):
    with pytest.raises(ToolError, match="Nothing was changed"):
        compact(text, ALIVE)


def long_run(turns: int) -> list:
    entries: list = [Knowledge("we know K", "old inventory"), Task("the first task"), Task("count the pages")]
    for n in range(turns):
        entries.append(Reply(n, f"reply {n} " + "r" * 2000))
        body = f"output {n} " + "o" * 8000
        entries.append(Observation((Report("run_code_result", body, f"b{n}", (("status", "error"),)),)))
    return entries


def test_a_forced_compaction_keeps_the_task_what_was_known_and_the_latest_turns():
    knowledge = compact_by_force(long_run(30), ALIVE, 4000, words)
    assert words(knowledge.text) <= 4000
    assert "count the pages" in knowledge.text
    assert "the first task" not in knowledge.text
    assert "we know K" in knowledge.text
    assert "[run_code_result b29 status=error] output 29" in knowledge.text
    assert "reply 0 " not in knowledge.text
    assert "characters left out" in knowledge.text
    assert "self.output(id)" in knowledge.text
    assert knowledge.inventory == ALIVE
    assert knowledge.text.index("reply 29") < knowledge.text.index("output 29")


def test_a_context_that_fits_is_kept_whole():
    knowledge = compact_by_force(long_run(1), "", 100_000, words)
    assert "r" * 2000 in knowledge.text
    assert "o" * 8000 in knowledge.text


@given(
    st.lists(
        st.one_of(
            st.builds(Task, st.text(max_size=3000)),
            st.builds(Reply, st.just(1), st.text(max_size=3000)),
            st.builds(lambda body: Observation((Report("note", body),)), st.text(max_size=3000)),
            st.builds(Knowledge, st.text(max_size=3000)),
        ),
        max_size=12,
    ),
    st.integers(0, 2000),
)
def test_a_forced_compaction_never_exceeds_its_budget_but_by_its_own_note(entries, budget):
    text = compact_by_force(entries, "", budget, words).text
    assert words(text) <= max(budget, 60)


def reply(*parts, calls=()):
    return Reply(3, "", parts, calls=calls)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([Prose(" the task is X\n")], "the task is X"),
        ([Prose("Here it is:"), CodeBlock('self.compact_knowledge("X is 3")')], "X is 3"),
        ([CodeBlock('text = """X\nis 3"""\nself.compact_knowledge(text)')], "X\nis 3"),
        ([CodeBlock('self.compact_knowledge(text="X is 3")')], "X is 3"),
        ([CodeBlock('self.compact_knowledge(f"{n} pages")')], 'f"{n} pages"'),
        ([CodeBlock('self.compact_knowledge("broken')], 'self.compact_knowledge("broken'),
        ([CodeBlock("print(1)")], ""),
        ([CodeBlock("print(1)"), Prose("X is 3")], "X is 3"),
        ([], ""),
    ],
)
def test_what_was_written_down_is_read_from_prose_and_from_calls(parts, text):
    assert written_down(reply(*parts)) == text


def test_a_reply_that_made_calls_is_told_with_its_code():
    calls = (ToolCall("c1", "run_code", "{}"),)
    assert told(reply(CodeBlock("x = 1", id="a"), calls=calls)) == "You wrote:\n[run_code a]\nx = 1"
