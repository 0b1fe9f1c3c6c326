"""Arguments held against hints."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from codeact_kernel.errors import ToolError
from codeact_kernel.inkernel import wire
from codeact_kernel.tools.checks import Checks


@dataclasses.dataclass
class Order:
    number: int
    lines: list[str] = dataclasses.field(default_factory=list)


class Issue(BaseModel):
    title: str
    order: Order | None = None


class Handle:
    """A class that pydantic knows nothing of."""


def search(
    query: str,
    limit: int = 5,
    *more: int,
    kind: Literal["a", "b"] = "a",
    size: Annotated[int, Field(ge=1)] = 1,
    order: Order | None = None,
    issues: list[Issue] | None = None,
    handle: Handle | None = None,
    unhinted=None,
    **rest: float,
):
    return query, limit, more, kind, size, order, issues, handle, unhinted, rest


def called(*args, **kwargs):
    args, kwargs = Checks("search", search)(args, kwargs)
    return search(*args, **kwargs)


def test_good_arguments_pass_as_they_are():
    assert called("x", 3, 4, 5, kind="b", size=2, unhinted=object, a=1.5)[:5] == ("x", 3, (4, 5), "b", 2)


def test_what_pydantic_takes_for_a_type_counts():
    assert called("x", limit="3")[1] == 3
    assert called("x", order={"number": "7"})[5] == Order(7)


def test_records_of_the_kernel_become_the_host_s_objects():
    sent = json.loads(wire.to_json(wire.pack([Issue(title="t", order=Order(1, ["a"]))])))
    assert called("x", issues=wire.unpack(sent))[6] == [Issue(title="t", order=Order(1, ["a"]))]


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        (
            ("x",),
            {"limit": "abc"},
            r"argument 'limit' of search is wrong: input should be a valid integer.*'abc'",
        ),
        ((3,), {}, "argument 'query' of search is wrong: input should be a valid string, not 3"),
        (("x", 1, "y"), {}, r"argument 'more\[0\]' of search"),
        (("x",), {"kind": "c"}, "argument 'kind' of search is wrong: input should be 'a' or 'b', not 'c'"),
        (
            ("x",),
            {"size": 0},
            "argument 'size' of search is wrong: input should be greater than or equal to 1",
        ),
        (("x",), {"a": "much"}, "argument 'a' of search"),
        (("x",), {"order": {"nr": 1}}, r"argument 'order' of search is wrong: \['Order'\]|\['number'\]"),
        (("x",), {"handle": 1}, "argument 'handle' of search.*instance of Handle"),
        ((), {}, "search: missing a required argument: 'query'"),
        (("x",), {"query": "y"}, "search: multiple values for argument 'query'"),
    ],
)
def test_a_wrong_argument_is_named(args, kwargs, said):
    with pytest.raises(ToolError, match=said):
        called(*args, **kwargs)


def test_many_faults_and_long_values_are_told_shortly():
    def take(numbers: list[int]): ...

    with pytest.raises(ToolError) as caught:
        Checks("take", take)((["x" * 1000] * 9,), {})
    assert len(caught.value.message) < 800
    assert caught.value.message.endswith("and 6 more")


def test_a_hint_that_cannot_be_read_leaves_the_others():
    def take(known: int, unknown: NotThere): ...  # noqa: F821

    check = Checks("take", take)
    assert check((1, "any"), {}) == ((1, "any"), {})
    with pytest.raises(ToolError, match="argument 'known'"):
        check(("x", "any"), {})


def test_methods_and_callable_objects_are_checked_too():
    class Box:
        def put(self, what: int): ...

        def __call__(self, what: int): ...

    for function in (Box().put, Box()):
        assert Checks("put", function)(("3",), {}) == ((3,), {})
        with pytest.raises(ToolError, match="argument 'what'"):
            Checks("put", function)(("x",), {})


def test_parameters_that_are_files_are_left_alone():
    def see(files: list[str]): ...

    assert Checks("see", see, ("files",))(([{"name": "a"}],), {}) == (([{"name": "a"}],), {})


def test_a_dataclass_with_fields_of_any_class_is_made_of_a_record():
    @dataclasses.dataclass
    class Held:
        handle: Handle

    def take(held: list[Held]): ...

    handle = Handle()
    record = wire.unpack({"$codeact": "record", "of": ["Held", [["handle", None]]]})
    record.handle = handle
    globals()["Held"] = Held
    try:
        ((held,),) = Checks("take", take)(([record],), {})[0]
    finally:
        del globals()["Held"]
    assert (type(held), held.handle) == (Held, handle)


def test_arguments_by_name_are_checked_and_passed_as_those_by_place():
    def function(a: int, b: int = 2, *, c: int = 3) -> int:
        return a

    checks = Checks("function", function)
    assert checks((), {"b": "5", "a": "4"}) == checks(("4", "5"), {}) == ((4, 5), {})
    assert checks((), {"a": 4}) == checks((4,), {}) == ((4,), {})
    assert checks((), {"c": "6", "a": 4}) == checks((4,), {"c": 6}) == ((4,), {"c": 6})
    for kwargs in ({}, {"b": 1}, {"a": 1, "d": 2}, {"a": "x"}):
        with pytest.raises(ToolError):
            checks((), kwargs)
