"""Schemas of strangers as Python."""

from __future__ import annotations

import ast
import inspect
import time
from typing import Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeact_kernel.inkernel.tools import parse_signature
from codeact_kernel.tools.mcp.schema import ALL_STEPS, Budget
from codeact_kernel.tools.mcp.stubs import contract


def of(schema, output=None, **more):
    return contract("do", {"name": "do", "inputSchema": schema, "outputSchema": output, **more})


def kind(schema, **more):
    """The type of a parameter in signature and stub."""
    what = of({"type": "object", "properties": {"p": schema}, "required": ["p"], **more})
    check(what)
    return what.parameters[0].plain, what.parameters[0].typed


def check(what):
    """Signature and stub are Python, and the kernel reads the same signature."""
    ast.parse(f"def f{what.signature}: ...")
    tree = ast.parse(what.stub)
    assert isinstance(tree.body[-1], ast.FunctionDef)
    assert str(parse_signature(what.signature)).startswith("(")
    names = {parameter.name for parameter in what.parameters}
    assert names <= parse_signature(what.signature).parameters.keys()


def test_a_tool_as_it_is_shown():
    schema = {
        "type": "object",
        "properties": {
            "page": {"type": "integer", "default": 1},
            "query": {"type": "string", "description": "What to look\nfor"},
            "state": {"enum": ["open", "closed"], "description": "Which"},
            "labels": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
            "class": {"type": ["string", "null"]},
        },
        "required": ["query"],
    }
    output = {
        "title": "Search Result",
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"type": "string"}, "description": "The hits"}},
        "required": ["items"],
    }
    what = contract(
        "search", {"inputSchema": schema, "outputSchema": output, "description": 'Search "all".\n\nMore.'}
    )
    assert what.signature == (
        "(*, query: str, page: int = 1, state: Literal['open', 'closed'] = ..., labels: list[dict] = ..., "
        "class_: str | None = ...) -> dict"
    )
    assert (
        what.stub
        == '''class LabelsItem(TypedDict):
    name: NotRequired[str]

class SearchResult(TypedDict):
    items: list[str]  # The hits

def search(
    *,
    query: str,
    page: int = 1,
    state: Literal['open', 'closed'] = ...,
    labels: list[LabelsItem] = ...,
    class_: str | None = ...,
) -> SearchResult:
    """Search "all".

    More.

    Args:
        query: What to look for
        state: Which
        class_: (the server calls it 'class')
    """'''
    )
    check(what)
    space = {"TypedDict": TypedDict, "NotRequired": NotRequired, "Literal": Literal, "Any": Any}
    exec(what.stub, space)
    assert inspect.getdoc(space["search"]) == what.doc


@pytest.mark.parametrize(
    ("schema", "plain", "typed"),
    [
        ({}, "Any", "Any"),
        (True, "Any", "Any"),
        ({"type": "nothing"}, "Any", "Any"),
        ({"type": 7}, "Any", "Any"),
        ({"type": []}, "Any", "Any"),
        ({"type": "number"}, "float", "float"),
        ({"type": ["integer", "string", "null"]}, "int | str | None", "int | str | None"),
        ({"type": "string", "nullable": True}, "str | None", "str | None"),
        ({"const": "x"}, "Literal['x']", "Literal['x']"),
        ({"const": None}, "None", "None"),
        ({"enum": [1, None, True, "a"]}, "Literal[1, None, True, 'a']", "Literal[1, None, True, 'a']"),
        ({"enum": [1.5, 2.5]}, "float", "float"),
        ({"enum": [{}, []]}, "dict[str, Any] | list[Any]", "dict[str, Any] | list[Any]"),
        ({"enum": ["x" * 300]}, "str", "str"),
        ({"enum": []}, "Any", "Any"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}, {"type": "integer"}]}, "int | None", "int | None"),
        ({"oneOf": [{"type": "string"}, True]}, "Any", "Any"),
        ({"oneOf": []}, "Any", "Any"),
        ({"allOf": [{"type": "string"}, {"minLength": 3}]}, "str", "str"),
        ({"type": "array"}, "list[Any]", "list[Any]"),
        ({"items": {"type": "integer"}}, "list[int]", "list[int]"),
        ({"type": "array", "items": [{"type": "integer"}]}, "list[Any]", "list[Any]"),
        ({"type": "object"}, "dict", "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict", "dict[str, int]"),
        ({"$ref": "#/nowhere"}, "Any", "Any"),
        ({"$ref": "http://example.org/x.json"}, "Any", "Any"),
        ({"$ref": "#/properties/p"}, "Any", "Any"),
        ({"$ref": "#"}, "dict", "Record"),
        ({"$ref": 7}, "Any", "Any"),
    ],
)  # fmt: skip
def test_types(schema, plain, typed):
    assert kind(schema) == (plain, typed)


def test_long_enums_are_their_type_where_they_would_fill_a_line():
    words = [f"word{n}" for n in range(30)]
    assert kind({"enum": words}) == ("str", f"Literal[{', '.join(map(repr, words))}]")
    assert kind({"enum": [f"word{n}" for n in range(1000)]}) == ("str", "str")


def test_a_schema_that_refers_to_itself_has_a_name():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}
    what = of({"type": "object", "properties": {"n": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}})
    assert what.stub.startswith("class Node(TypedDict):\n    next: Node\n")
    check(what)


def test_references_without_an_end_are_any():
    defs = {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": {"items": {"$ref": "#/$defs/A"}}}
    assert kind({"$ref": "#/$defs/A"}, **{"$defs": defs}) == ("list[Any]", "list[Any]")
    for name in ("allOf", "anyOf"):
        loop = {"L": {name: [{"$ref": "#/$defs/L"}]}}
        assert kind({"$ref": "#/$defs/L"}, **{"$defs": loop}) == ("Any", "Any")


def test_all_tools_of_a_server_together_take_no_more_than_their_share():
    many = {"anyOf": [{"$ref": "#/$defs/D"}] * 50}
    defs = {"D": {"anyOf": [{"$ref": "#/$defs/E"}] * 50}, "E": {"anyOf": [{"type": "string"}] * 50}}
    tool = {"inputSchema": {"properties": {"p": many}, "$defs": defs}}
    budget, begun = Budget(ALL_STEPS), time.monotonic()
    made = [contract(f"t{n}", tool, budget) for n in range(2_000)]
    assert time.monotonic() - begun < 5
    assert made[-1].signature == "(*, p: Any = ...)"


def test_more_properties_than_anybody_reads_are_taken_and_not_shown():
    what = of({"properties": {f"p{n}": {} for n in range(10_000)}})
    assert len(what.parameters) == 200
    assert what.signature.endswith("**more: Any)")


@pytest.mark.parametrize("key", ["anyOf", "allOf", "items"])
def test_references_that_stand_for_more_than_there_are_atoms_end(key):
    def inner(n):
        parts = [{"$ref": f"#/$defs/D{n + 1}"}] * 12
        return {"properties": {f"p{i}": p for i, p in enumerate(parts)}} if key == "items" else {key: parts}

    defs = {f"D{n}": inner(n) for n in range(30)}
    begun = time.monotonic()
    kind({"$ref": "#/$defs/D0"}, **{"$defs": defs})
    assert time.monotonic() - begun < 2


def test_parts_of_allof_are_one_object():
    base = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    whole = {
        "allOf": [{"$ref": "#/$defs/Base"}, {"properties": {"name": {"type": "string"}}}],
        "$defs": {"Base": base},
    }
    what = of(whole)
    assert what.signature == "(*, id: int, name: str = ...)"
    check(what)


def test_keys_that_are_no_identifiers_stay_what_they_are_in_records():
    what = of(
        {"properties": {"o": {"properties": {"a-b": {"type": "string"}, "class": {}}, "required": ["a-b"]}}}
    )
    assert "O = TypedDict(\"O\", {\n    'a-b': str,\n    'class': NotRequired[Any],\n})" in what.stub
    check(what)


def test_parameters_that_would_have_one_name_differ():
    what = of(
        {"properties": {"a-b": {}, "a_b": {}, "a b": {}, "self": {}, "more": {}}, "additionalProperties": {}}
    )
    assert [(p.name, p.wire) for p in what.parameters] == [
        ("a_b", "a-b"), ("a_b_2", "a_b"), ("a_b_3", "a b"), ("self", "self"), ("more", "more"),
    ]  # fmt: skip
    assert what.signature == (
        "(*, a_b: Any = ..., a_b_2: Any = ..., a_b_3: Any = ..., self: Any = ..., more: Any = ...)"
    )


def test_other_arguments_are_taken_where_the_schema_says_so():
    assert of({"type": "object", "additionalProperties": True}).signature == "(**more: Any)"
    assert of({"properties": {"more": {}}, "additionalProperties": {"type": "string"}}).signature == (
        "(*, more: Any = ..., **more_2: Any)"
    )
    assert of({"type": "object"}).signature == "()"
    assert of({}).signature == "()"


@pytest.mark.parametrize(
    ("default", "shown"),
    [
        (None, "None"),
        (True, "True"),
        ("a'b", '"a\'b"'),
        ([1], "[1]"),
        (float("nan"), "..."),
        ("x" * 99, "..."),
    ],
)
def test_defaults_are_shown_where_they_are_short(default, shown):
    assert of({"properties": {"p": {"default": default}}}).signature == f"(*, p: Any = {shown})"


def test_a_hundred_properties_are_all_there():
    properties = {
        f"p{n}": {"type": "object", "properties": {f"q{m}": {} for m in range(5)}} for n in range(100)
    }
    what = of({"type": "object", "properties": properties})
    assert len(what.parameters) == 100
    assert len(what.stub) < 20_000
    check(what)


@pytest.mark.parametrize(
    ("output", "plain", "wrapped"),
    [
        (
            {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]},
            " -> str",
            True,
        ),
        ({"type": "object", "properties": {"result": {"type": "string"}}}, " -> dict", False),
        (
            {"type": "object", "properties": {"result": {}, "more": {}}, "required": ["result"]},
            " -> dict",
            False,
        ),
        ({"type": "object"}, " -> dict", False),
        (None, "", False),
        (7, "", False),
    ],
)
def test_what_is_given_back(output, plain, wrapped):
    what = of({}, output)
    assert (what.signature, what.wrapped) == (f"(){plain}", wrapped)
    check(what)


def test_texts_are_cut_and_nothing_is_hidden_in_them():
    inner = {"type": "object", "properties": {"q": {"description": 'a\n"""'}}}
    what = of(
        {"properties": {"p": {"description": "x" * 10_000 + '"""', **inner}}},
        description='Say """hi""" \\ and \u202eno more\x1b[2J' + "y" * 100_000,
    )
    assert len(what.doc) < 3_000
    assert "\u202e" not in what.stub
    assert "\x1b" not in what.stub
    check(what)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=5), part, max_size=4),
    max_leaves=10,
)
WORDS = st.sampled_from(
    ["type", "properties", "items", "anyOf", "oneOf", "allOf", "$ref", "enum", "const", "required", "default",
     "additionalProperties", "nullable", "description", "title", "$defs", "result"]
)  # fmt: skip
KEYS = WORDS | st.sampled_from(["a", "class", "a-b"])
VALUES = st.sampled_from(
    ["object", "array", "string", "null", "#", "#/properties/a", "#/$defs/a", "a", "class"]
)
SCHEMA = st.recursive(
    VALUES | JSON,
    lambda part: st.dictionaries(KEYS, part, max_size=5) | st.lists(part, max_size=3),
    max_leaves=20,
)


@settings(max_examples=300)
@given(SCHEMA, SCHEMA)
def test_whatever_a_server_calls_a_schema_there_is_python_for_it(given_, returned):
    check(of(given_, returned))
