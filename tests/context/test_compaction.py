from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeact_kernel.context import (
    Alive,
    AliveAgent,
    AliveBlock,
    AliveProcess,
    AliveVariable,
    compact,
    compact_by_force,
    inventory,
)
from codeact_kernel.errors import ToolError
from codeact_kernel.events import Knowledge, Observation, Reply, Report, Task

ALIVE = Alive(
    (AliveBlock("dl", "for i in range(9):\n    fetch(i)", 41.0, 79.0), AliveBlock("next", "x = 1")),
    (AliveAgent("scout", "Read every page", 78.0), AliveAgent("idle", "wait")),
    (AliveProcess(4711, "python -m http.server", "srv"), AliveProcess(12, "sleep 9")),
    (
        AliveVariable("small", "int", 28),
        AliveVariable("pages", "list of 40", 12_000_000),
        AliveVariable("f", "function"),
    ),
    ("a", "b"),
)


def words(text: str) -> int:
    return -(-len(text) // 4)


def test_what_the_model_wrote_and_what_is_alive_make_the_knowledge():
    assert compact("  the task is X\n", ALIVE) == Knowledge("the task is X", inventory(ALIVE))


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_nothing_written_down_is_told_to_the_model_and_changes_nothing(text):
    with pytest.raises(ToolError, match="Nothing was changed"):
        compact(text, ALIVE)


def test_the_inventory_names_all_that_is_alive_on_one_line_each():
    assert inventory(ALIVE).split("\n") == [
        "Blocks still running:",
        "- dl (running for 41s, timeout in 79s): for i in range(9): fetch(i)",
        "- next (waiting): x = 1",
        "Agents still at work:",
        "- scout (for 78s): Read every page",
        "- idle (waiting): wait",
        "Child processes:",
        "- 4711 (of block srv): python -m http.server",
        "- 12: sleep 9",
        "Variables:",
        "- pages: list of 40 (12 MB)",
        "- small: int (28 B)",
        "- f: function",
        "Outputs that self.output(id) still gives, latest first: b, a",
    ]


def test_names_of_which_nothing_else_is_known_share_a_line():
    bare = tuple(AliveVariable(f"v{i}") for i in range(200))
    assert inventory(Alive(variables=bare[:2])) == "Names in the namespace: v0, v1"
    assert inventory(Alive(variables=bare)).endswith("v79 and 120 more")
    mixed = inventory(Alive(variables=(AliveVariable("pages", "list"), bare[0])))
    assert mixed == "Variables:\n- pages: list\nOther names: v0"


def test_with_nothing_alive_the_inventory_is_empty():
    assert inventory(Alive()) == ""


def test_an_inventory_stays_short_and_counts_the_rest():
    variables = tuple(AliveVariable(f"v{i}", "x" * 1000, i) for i in range(500))
    outputs = tuple(f"b{i}" for i in range(500))
    text = inventory(Alive(variables=variables, outputs=outputs))
    assert "- v499:" in text
    assert "- v0:" not in text
    assert "- and 480 more" in text
    assert "latest first: b499, b498," in text
    assert text.endswith("b420 and 420 more")
    assert len(text) < 4000


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
    assert knowledge.inventory == inventory(ALIVE)
    assert knowledge.text.index("reply 29") < knowledge.text.index("output 29")


def test_a_context_that_fits_is_kept_whole():
    knowledge = compact_by_force(long_run(1), Alive(), 100_000, words)
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
    text = compact_by_force(entries, Alive(), budget, words).text
    assert words(text) <= max(budget, 60)
