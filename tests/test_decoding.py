"""What comes back of an event that was written as JSON."""

import dataclasses
import json
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeact_kernel.decoding import from_json
from codeact_kernel.events import Event, TurnStarted, to_json

TEXT = st.text(st.characters(exclude_categories=[]), max_size=5)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
ATOMS = {
    str: TEXT,
    int: st.integers(),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    types.NoneType: st.none(),
}


def strategy(hint):
    origin, inner = get_origin(hint), get_args(hint)
    if hint in ATOMS:
        return ATOMS[hint]
    if hint is Any:
        return PLAIN
    if origin in (Union, types.UnionType):
        return st.one_of(*map(strategy, inner))
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is tuple:
        if inner[-1] is ...:
            return st.lists(strategy(inner[0]), max_size=3).map(tuple)
        return st.tuples(*map(strategy, inner))
    if origin is dict:
        return st.dictionaries(TEXT, PLAIN, max_size=3)
    hints = get_type_hints(hint)
    return st.builds(
        hint, **{f.name: st.deferred(lambda h=hints[f.name]: strategy(h)) for f in dataclasses.fields(hint)}
    )


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_any_event_comes_back_as_it_was(kind):
    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy(kind))
    def comes_back(event):
        assert from_json(json.loads(json.dumps(to_json(event)))) == event

    comes_back()


def test_what_a_later_version_has_added_is_passed_over():
    assert from_json({"type": "TurnStarted", "turn": 1, "at": 2, "mood": "good", "mac": "x"}) == TurnStarted(
        1, 2.0
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "TurnStarted",
        {},
        {"type": "Tomorrow"},
        {"type": "TurnStarted", "turn": 1},
        {"type": "TurnStarted", "turn": "1", "at": 0.0},
        {"type": "TurnStarted", "turn": True, "at": 0.0},
        {"type": "Prose", "text": "no event"},
        {"type": "Appended", "turn": 1, "entry": {"type": "Reply"}},
        {"type": "BlockOutput", "id": "a", "output": {"type": "StreamOutput", "name": "stdin", "text": ""}},
        {"type": ["TurnStarted"]},
    ],
)
def test_what_is_no_event_is_a_value_error(value):
    with pytest.raises(ValueError, match=r"is no|none of|lacks"):
        from_json(value)
