"""Requests that are held until somebody has decided about them, in every order of decisions."""

from __future__ import annotations

import itertools
import random

import pytest

from codeact_kernel.inkernel import wire
from codeact_kernel.inkernel.names import names_of
from codeact_kernel.inkernel.request import Request
from codeact_kernel.inkernel.router import Router


class Lane:
    def __init__(self):
        self.placed = []

    def submit(self, request):
        self.placed.append(request)

    def interrupt(self, request, *, insisting=False):
        raise AssertionError("nothing here runs")


class Stage:
    """A router whose lanes run nothing: a test ends what was placed."""

    def __init__(self, known=()):
        self.known = set(known)
        self.dropped = {}
        self.lane = Lane()
        lanes = dict.fromkeys(("main", "async", "worker"), self.lane)
        self.router = Router(lanes, self.known.__contains__, self._drop)

    def _drop(self, request, status, reason):
        self.dropped[request.block_id] = (status, reason)
        self.router.ended(request, False)

    def request(self, name, code, *, held=False, reply=1):
        meta = {"id": name, "reply": reply, "order": "names", "lane": None, "held": held}
        parent = {"header": {"msg_id": name}, "content": {"code": code}, "metadata": {wire.KEY: meta}}
        request = Request([], parent, None)
        request.names, request.held = names_of(code), held
        return request

    def accept(self, name, code, **options):
        request = self.request(name, code, **options)
        self.router.accept(request)
        return request

    @property
    def placed(self):
        return [request.block_id for request in self.lane.placed]

    def end(self, name, ok=True):
        (request,) = (request for request in self.lane.placed if request.block_id == name)
        self.router.leaves(request)
        self.known |= request.names.makes if ok else set()
        self.router.ended(request, ok)

    def change(self, code):
        def change(request):
            request.names = names_of(code)

        return change


@pytest.fixture
def stage():
    return Stage()


def test_a_held_request_does_not_start_and_those_that_need_it_wait(stage):
    stage.accept("a", "x = 1", held=True)
    stage.accept("b", "print(x)")
    stage.accept("c", "print(1)")
    assert stage.placed == ["c"]
    stage.router.admit("a")
    assert stage.placed == ["c", "a"]
    stage.end("a")
    assert stage.placed == ["c", "a", "b"]


def test_an_admitted_request_still_waits_for_what_it_needs(stage):
    stage.accept("a", "x = 1")
    stage.accept("b", "y = x", held=True)
    stage.end("a")
    assert stage.placed == ["a"]
    stage.accept("z", "x = 5")
    stage.router.admit("b")
    assert stage.placed == ["a", "z", "b"]


def test_a_decision_may_come_before_its_request_and_twice(stage):
    stage.router.admit("a")
    stage.accept("a", "x = 1", held=True)
    assert stage.placed == ["a"]
    stage.router.admit("a")
    stage.router.refuse("a")
    assert stage.placed == ["a"]
    stage.router.refuse("b")
    stage.accept("b", "y = 1", held=True)
    assert stage.dropped["b"] == ("rejected", "it was refused")
    stage.router.admit("b")
    assert stage.placed == ["a"]


def test_two_that_need_each_other_never_wait_for_each_other(stage):
    stage.known = {"x", "y"}
    stage.router._knows = stage.known.__contains__
    stage.accept("a", "x = y", held=True)
    stage.accept("b", "y = x")
    stage.router.admit("a")
    stage.end("a")
    assert stage.placed == ["a", "b"]


def test_new_code_has_new_names_and_looks_only_at_what_stands_before_it(stage):
    stage.accept("z", "q = 1")
    stage.accept("a", "x = 1", held=True)
    stage.accept("b", "q = 2; w = 1")
    stage.router.admit("a", stage.change("x = q + w"))
    assert stage.placed == ["z", "b"]
    stage.end("z")
    assert stage.placed == ["z", "b", "a"]


def test_what_a_refused_request_would_have_made_is_missed_by_its_reply_only(stage):
    stage.known.add("x")
    stage.accept("a", "x = 1", held=True)
    stage.accept("b", "print(x)\ny = 1")
    stage.router.refuse("a")
    assert stage.dropped["b"][0] == "skipped"
    stage.accept("c", "print(x)")
    assert stage.dropped["c"] == ("skipped", "it needs x, and block a, which makes it, did not run")
    stage.accept("d", "print(x)", reply=2)
    stage.accept("e", "x = 2")
    stage.accept("f", "print(x)")
    assert stage.placed == ["d", "e"]
    stage.end("e")
    assert stage.placed == ["d", "e", "f"]
    stage.accept("g", "print(x)")
    assert stage.placed[-1] == "g"


def test_a_held_request_can_be_interrupted(stage):
    stage.accept("a", "x = 1", held=True)
    stage.accept("b", "print(x)")
    stage.router.interrupt("a")
    assert stage.dropped["a"][0] == "cancelled"
    assert stage.dropped["b"][0] == "skipped"
    stage.router.admit("a")
    assert stage.placed == []


CODES = ["x = 1", "y = x", "z = y", "x = z", "print(x, y, z)", "w = 1"]


@pytest.mark.parametrize("seed", range(300))
def test_in_whatever_order_is_decided_everything_ends_and_nothing_runs_before_what_it_needs(seed):
    chance = random.Random(seed)
    stage = Stage({"x", "y", "z"})
    codes = [chance.choice(CODES) for _ in range(6)]
    held = [name for name in map(str, range(6)) if chance.random() < 0.6]
    ended, accepted = [], itertools.count()
    todo = [("accept", str(n)) for n in range(6)]
    decisions = [(chance.choice(["admit", "admit", "refuse"]), name) for name in held]
    chance.shuffle(decisions)
    while todo or decisions or len(ended) + len(stage.dropped) < 6:
        moves = [*todo[:1], *decisions[:1], *(("end", n) for n in stage.placed if n not in ended)]
        assert moves, (codes, held, stage.placed, stage.dropped)
        kind, name = chance.choice(moves)
        if kind == "accept":
            todo.pop(0)
            next(accepted)
            stage.accept(name, codes[int(name)], held=name in held)
        elif kind == "end":
            makers = [
                other
                for other in range(int(name))
                if names_of(codes[other]).makes & names_of(codes[int(name)]).needs
                and not any(
                    names_of(codes[between]).makes >= names_of(codes[other]).makes
                    for between in range(other + 1, int(name))
                )
            ]
            assert all(str(other) in ended for other in makers), (codes, held, name, makers)
            ended.append(name)
            stage.end(name)
        else:
            decisions.pop(0)
            getattr(stage.router, kind)(name)
    assert stage.router.live == []
