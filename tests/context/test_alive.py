from __future__ import annotations

from codeact_kernel.context import (
    Alive,
    AliveAgent,
    AliveBlock,
    AliveFile,
    AliveProcess,
    AliveVariable,
    inventory,
)

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
    ("reader",),
    (AliveFile("out/report.csv", 2_100),),
    more=("And a last line.",),
)


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
        "Variables, largest first:",
        "- pages: list of 40 (about 12 MB)",
        "- small: int (about 28 B)",
        "- f: function",
        "Files written in the workspace, latest first:",
        "- out/report.csv (2.1 kB)",
        "Outputs that self.output(id) still gives, latest first: b, a",
        "Results that self.result(name) still gives, latest first: reader",
        "And a last line.",
    ]


def test_names_of_which_nothing_else_is_known_share_a_line():
    bare = tuple(AliveVariable(f"v{i}") for i in range(200))
    assert inventory(Alive(variables=bare[:2])) == "Names in the namespace: v0, v1"
    assert inventory(Alive(variables=bare)).endswith("v79 and 120 more")
    mixed = inventory(Alive(variables=(AliveVariable("pages", "list"), bare[0])))
    assert mixed == "Variables, largest first:\n- pages: list\nOther names: v0"


def test_with_nothing_alive_the_inventory_is_empty():
    assert inventory(Alive()) == ""


def test_an_inventory_stays_short_and_counts_the_rest():
    variables = tuple(AliveVariable(f"v{i}", "x" * 1000, i) for i in range(500))
    outputs = tuple(f"b{i}" for i in range(500))
    text = inventory(Alive(variables=variables, outputs=outputs))
    assert "- v499:" in text
    assert "- v0:" not in text
    assert "Other names: v0, v1, " in text
    assert "v79 and 400 more" in text
    assert "latest first: b499, b498," in text
    assert text.endswith("b420 and 420 more")
    assert len(text) < 4000


def test_a_workspace_that_was_not_looked_through_is_told_so():
    text = inventory(Alive(files=(AliveFile("a.csv", 5),), all_files=False))
    assert text == "Files written in the workspace, latest first, as far as it was looked at:\n- a.csv (5 B)"
