"""Who was allowed no less than another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codeact_kernel.allowance import Allowance

PARENT = Allowance(
    "landlock", 7, "/project", frozenset({"a.org", "b.org"}), frozenset({"search", "fetch"}), "ask"
)


def test_the_same_is_no_less():
    assert PARENT.lacks(PARENT) == ()
    assert Allowance().lacks(Allowance()) == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sandbox": "bwrap"}, "a sandbox as wide (landlock)"),
        ({"sandbox": "a container"}, "a sandbox as wide (landlock)"),
        ({"uid": 8}, "the same user"),
        ({"uid": None}, "the same user"),
        ({"workspace": "/project/part"}, "the workspace /project"),
        ({"workspace": "/projects"}, "the workspace /project"),
        ({"workspace": ""}, "the workspace /project"),
        ({"network": frozenset()}, "the network: a.org, b.org"),
        ({"network": frozenset({"a.org"})}, "the network: b.org"),
        ({"tools": frozenset({"search"})}, "the tool fetch"),
        ({"tools": frozenset()}, "the tools fetch, search"),
        ({"approvals": "deny-writes"}, "the approvals (ask)"),
    ],
)
def test_less_of_anything_is_less_and_is_named(change, words):
    assert replace(PARENT, **change).lacks(PARENT) == (words,)


@pytest.mark.parametrize(
    "change",
    [
        {"sandbox": "none"},
        {"sandbox": "limits"},
        {"workspace": "/"},
        {"network": frozenset({"*"})},
        {"network": frozenset({"a.org", "b.org", "c.org"})},
        {"tools": frozenset({"search", "fetch", "run_command"})},
        {"approvals": "auto"},
    ],
)
def test_more_is_no_less_and_the_other_way_round_it_is(change):
    more = replace(PARENT, **change)
    assert more.lacks(PARENT) == ()
    assert PARENT.lacks(more) != ()


def test_all_of_the_network_and_many_tools_are_told_in_few_words():
    all_of_it = Allowance(tools=frozenset(f"t{n:02}" for n in range(20)))
    none = replace(all_of_it, network=frozenset({"a.org"}), tools=frozenset())
    network, tools = none.lacks(all_of_it)
    assert network == "all of the network"
    assert tools.endswith("t07 and 12 more")
