"""`codeact stats`: runs in a table."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

import pytest


@pytest.fixture
def make_run(place):
    """Makes the folder of a run with a summary."""

    def make(name, below=".codeact/runs", **summary):
        folder = place / below / name
        folder.mkdir(parents=True)
        (folder / "journal.jsonl").write_text("{}\n")
        about = {
            "state": "answered",
            "task": "Count.",
            "model": "m",
            "turns": 1,
            "seconds": 2.0,
            "cost": 0.25,
        }
        about |= {"tokens": {"input": 900, "output": 100}, "started": 1_764_600_000.0}
        (folder / "summary.json").write_text(json.dumps(about | summary))

    return make


def test_runs_stand_in_a_table_with_bars_and_models_below_it(codeact, make_run):
    make_run("a", turns=8, task="Count\x1b[2J all")
    make_run("b", state="limit", turns=4, started=1_764_500_000.0, model="other")
    make_run(
        "c", state="failed", turns=2, tokens={"input": 1, "output": 1}, cost=None, started=1_764_700_000.0
    )
    said = codeact("stats")
    assert (said.code, said.err) == (0, "")
    first, second, third = [line for line in said.out.splitlines() if "2025-" in line]
    assert "limit" in first
    assert "████████████" in second
    assert "Count all" in second
    assert "8 ████████████" in second
    assert "4 ██████ " in first
    assert "failed" in third
    assert "m  ██████       1 of 2 answered · in the median 5 turns, 501 tokens · $0.25 in all" in said.out
    assert (
        "other               0 of 1 answered · in the median 4 turns, 1,000 tokens · $0.25 in all" in said.out
    )
    assert "\x1b" not in said.out


def test_a_folder_of_runs_serves_as_well_as_a_workspace(codeact, make_run, place):
    make_run("a", below="kept")
    assert "1 of 1 answered" in codeact("stats", "kept").out
    assert "there are no runs" in codeact("stats", "none").line
    assert codeact("stats").code == 2


def test_a_page_has_a_picture_of_each_figure_and_needs_nothing_else(codeact, make_run, place):
    make_run("a", turns=8, task="Count <b>all</b>")
    make_run("b", state="limit", turns=4, started=1_764_500_000.0, model="<i>other")
    make_run("c", state="failed", turns=2, cost=None, started=1_764_700_000.0)
    said = codeact("stats", "-o", "stats.html")
    assert (said.code, said.out, said.err) == (0, "", "")
    page = (place / "stats.html").read_text()
    pictures = [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page)]
    assert len(pictures) == 2 + 3  # of each model how its runs have ended; turns, tokens, cost
    turns = [(rect.find("title").text, float(rect.get("height"))) for rect in pictures[2].iter("rect")]
    assert turns == [("b, limit: 4", 55.0), ("a, answered: 8", 110.0), ("c, failed: 2", 27.5)]
    assert [rect.find("title").text for rect in pictures[1].iter("rect")] == ["1 answered", "1 failed"]
    assert "<td>Count &lt;b&gt;all&lt;/b&gt;</td>" in page
    assert "&lt;i&gt;other" in page
    assert "<i>" not in page
    assert not re.search(r"<script|src=|href=|url\(", page)
    assert codeact("stats", "-o", "no/such.html").code == 1


@pytest.mark.parametrize("odd", ["x", None, -1, float("nan"), float("inf"), 1e300, [], {}, True])
def test_whatever_a_summary_says_a_table_is_made(codeact, make_run, odd):
    make_run(
        "a",
        turns=odd,
        tokens={"input": odd, "output": odd},
        seconds=odd,
        cost=odd,
        started=odd,
        task=odd,
        model=odd,
    )
    make_run("b", tokens=odd)
    assert codeact("stats").code == 0
    assert codeact("stats", "-o", "stats.html").code == 0
