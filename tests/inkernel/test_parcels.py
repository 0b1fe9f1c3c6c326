"""Values that travel from one namespace to another, in one process: what a copy does, not what it equals."""

from __future__ import annotations

import sys
import textwrap
import threading
import types

import numpy as np
import pandas as pd
import pytest

from codeact_kernel.inkernel import parcels


class Place:
    """A namespace in which values arrive."""

    def __init__(self, **names):
        self.namespace = dict(names)

    def proxy(self, *about):
        return ("proxy", *about)


def here(code, **names):
    """A namespace in which code has run."""
    namespace = {"__name__": "__main__", **names}
    exec(compile(textwrap.dedent(code), "<block>", "exec", dont_inherit=True), namespace)
    return namespace


def sent(tmp_path, source, *names, place=None, hidden=(), stand_in=lambda name, value: None):
    """Send values of a namespace to a place, and bind them there as a sub-agent's are."""
    trip = parcels.Trip(source, {name: source[name] for name in hidden}, stand_in)
    file = str(tmp_path / "parcel")
    parcels.write(file, trip.pack({name: source[name] for name in names}))
    place = place or Place()
    values, *needed = parcels.read(file, place)
    for more in needed:
        for name, value in more.items():
            place.namespace.setdefault(name, value)
    place.namespace.update(values)
    return place.namespace


def run(code, namespace):
    return eval(code, namespace)


def test_a_function_brings_what_it_reads_and_reads_it_where_it_is(tmp_path):
    source = here("""
        import math
        rate = 2
        def helper(x):
            return math.floor(x * rate)
        def outer(xs):
            return [helper(x) for x in xs]
    """)
    there = sent(tmp_path, source, "outer")
    assert run("outer([1.5, 2])", there) == [3, 4]
    there["rate"] = 10
    assert run("outer([1.5, 2])", there) == [15, 20]
    assert run("outer([1.5, 2])", source) == [3, 4]
    assert there["helper"].__globals__ is there


def test_what_is_there_already_is_what_functions_use(tmp_path):
    source = here("rate = 2\ndef double(x):\n    return x * rate")
    there = sent(tmp_path, source, "double", place=Place(rate=100))
    assert run("double(3)", there) == 300


def test_what_values_share_they_share_where_they_arrive(tmp_path):
    source = here("""
        seen = []
        def note(x):
            seen.append(x)
        table = {"seen": seen, "note": note}
        def counter():
            n = 0
            def up():
                nonlocal n
                n += 1
                return n
            def get():
                return n
            return up, get
        up, get = counter()
    """)
    there = sent(tmp_path, source, "table", "seen", "note", "up", "get")
    run("note(1)", there)
    run("up()", there)
    assert run("(seen, table['seen'] is seen, table['note'] is note, get())", there) == ([1], True, True, 1)
    assert run("(seen, get())", source) == ([], 0)


def test_functions_of_every_kind_work(tmp_path):
    source = here('''
        import functools
        def recursive(n):
            return 1 if n < 2 else n * recursive(n - 1)
        def inner():
            def fact(n):
                return 1 if n < 2 else n * fact(n - 1)
            return fact
        fact = inner()
        def defaults(a, b=[1], *, c={"x": 1}, **more):
            """Says so."""
            return a, b, c, more
        defaults.note = "kept"
        twice = functools.partial(defaults, 1)
        def wrap(f):
            @functools.wraps(f)
            def wrapped(*args):
                return "wrapped", f(*args)
            return wrapped
        @wrap
        def decorated(x: "int") -> "str":
            return x
        square = lambda x: x * x
        def generates(n):
            yield from range(n)
        async def awaited():
            return 5
    ''')
    names = ["recursive", "fact", "defaults", "twice", "decorated", "square", "generates", "awaited"]
    there = sent(tmp_path, source, *names)
    assert run("recursive(5), fact(5), square(3), list(generates(3))", there) == (120, 120, 9, [0, 1, 2])
    assert run("defaults(1, z=2), twice(), decorated(4)", there) == (
        (1, [1], {"x": 1}, {"z": 2}),
        (1, [1], {"x": 1}, {}),
        ("wrapped", 4),
    )
    assert run("defaults.__doc__, defaults.note, decorated.__name__, decorated.__annotations__", there) == (
        "Says so.",
        "kept",
        "decorated",
        {"x": "int", "return": "str"},
    )


def test_classes_with_all_that_they_have_work(tmp_path):
    source = here("""
        import dataclasses, enum
        prefix = "<"
        class Base:
            made = 0
            def __init__(self, x):
                self.x = x
                type(self).made += 1
            def show(self):
                return prefix + str(self.x)
        class Child(Base):
            def __init__(self, x):
                super().__init__(x + 1)
            @property
            def twice(self):
                return self.x * 2
            @classmethod
            def zero(cls):
                return cls(0)
            @staticmethod
            def name():
                return "child"
            def me(self):
                return __class__
        @dataclasses.dataclass
        class Point:
            x: int
            y: int = 2
        class Colour(enum.Enum):
            RED = 1
        one, colours = Child(3), [Colour.RED]
    """)
    there = sent(tmp_path, source, "Child", "Point", "one", "colours", "Colour")
    assert run("one.show(), one.twice, Child.zero().x, Child.name(), one.me() is Child", there) == (
        "<4",
        8,
        1,
        "child",
        True,
    )
    assert (
        run("isinstance(one, Child), Point(1) == Point(1, 2), colours[0] is Colour.RED", there) == (True,) * 3
    )
    there["prefix"] = ">"
    assert run("one.show()", there) == ">4"


def test_modules_and_functions_of_modules_go_by_name(tmp_path):
    source = here("import json as j\nfrom os.path import join\ndef f(x):\n    return j.dumps(join(x, 'b'))")
    there = sent(tmp_path, source, "f", "j")
    assert run("f('a')", there) == '"a/b"'
    assert run("j", there) is sys.modules["json"]


def test_the_folders_of_modules_go_along(tmp_path, monkeypatch):
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "only_there_for_this.py").write_text("def f():\n    return 'found'\n")
    before = list(sys.path)
    monkeypatch.setattr(sys, "path", [*before, str(folder)])
    source = here("from only_there_for_this import f")
    trip = parcels.Trip(source, {}, lambda name, value: None)
    parcels.write(str(tmp_path / "p"), trip.pack({"f": source["f"]}))
    del sys.modules["only_there_for_this"]
    monkeypatch.setattr(sys, "path", before.copy())
    ((values),) = parcels.read(str(tmp_path / "p"), Place())
    assert values["f"]() == "found"


def test_arrays_and_frames_are_mapped_and_not_read_and_nobody_else_sees_what_is_written(tmp_path):
    array = np.arange(3_000_000.0)
    frame = pd.DataFrame({"a": np.arange(1000), "b": np.ones(1000), "c": ["x"] * 1000})
    source = here("", array=array, frame=frame, empty=np.zeros(0), part=array[10:20])
    there = sent(tmp_path, source, "array", "frame", "empty", "part")
    assert (there["array"] == array).all()
    assert there["frame"].equals(frame)
    assert there["array"].base is not None
    there["array"][0] = there["part"][0] = -1
    assert (array[0], array[10], there["array"][0]) == (0, 10, -1)
    stream = (tmp_path / "parcel").read_bytes()
    assert stream[:8] == parcels.MAGIC
    (again, *_) = parcels.read(str(tmp_path / "parcel"), Place())
    assert again["array"][0] == 0, "what is written stays with who writes it"


def test_a_parcel_may_be_removed_once_it_is_read(tmp_path):
    source = here("", array=np.arange(100_000))
    there = sent(tmp_path, source, "array")
    (tmp_path / "parcel").unlink()
    assert there["array"].sum() == np.arange(100_000).sum()


def tool(name):
    def function():
        raise AssertionError("the tool itself must not travel")

    function.lock = threading.Lock()
    setattr(function, parcels.TOOL, name)
    return function


def test_tools_go_by_name_wherever_they_are(tmp_path):
    source = here(
        "def f():\n    return search()\npair = [search, 1]", search=tool("search"), other=tool("other")
    )
    trip = parcels.Trip(source, {n: source[n] for n in ("search", "other")}, lambda name, value: None)
    parts = trip.pack({"f": source["f"], "pair": source["pair"], "other": source["other"]})
    assert sorted(trip.tools) == ["other", "search"]
    parcels.write(str(tmp_path / "p"), parts)
    place = Place(search=lambda: "found there", other=len)
    values = parcels.read(str(tmp_path / "p"), place)[0]
    assert values["f"]() == "found there"
    assert values["pair"][0] is place.namespace["search"]
    with pytest.raises(LookupError, match="search is a tool"):
        parcels.read(str(tmp_path / "p"), Place(other=len))


def test_what_cannot_be_passed_is_told_with_a_line_each(tmp_path):
    source = here("""
        import threading
        lock, ok = threading.Lock(), 1
        gen = (i for i in range(3))
        def waits():
            with lock:
                return ok
        deep = {"a": [gen]}
    """)
    with pytest.raises(parcels.CannotTravel) as caught:
        sent(tmp_path, source, "ok", "gen", "waits", "deep")
    assert str(caught.value).splitlines() == [
        "deep: a builtins.dict, TypeError: cannot pickle 'generator' object",
        "gen: a builtins.generator, TypeError: cannot pickle 'generator' object",
        "lock, which waits needs: a _thread.lock, TypeError: cannot pickle '_thread.lock' object",
    ]


def test_something_else_can_travel_instead_of_what_cannot(tmp_path):
    class Page:
        def __reduce__(self):
            raise TypeError("a page lives in one process")

    from codeact_kernel.inkernel.proxies import StandIn

    source = here("def go():\n    return page", page=Page())
    there = sent(tmp_path, source, "go", stand_in=lambda name, value: StandIn(name, 7))
    assert run("go()", there) == ("proxy", "page", 7)


def test_names_that_are_only_attributes_are_not_needed(tmp_path):
    source = here("def f(x):\n    return x.lock\nlock = gone", gone=threading.Lock())
    there = sent(tmp_path, source, "f")
    assert run("f(x)", {**there, "x": types.SimpleNamespace(lock=4)}) == 4
    assert "lock" not in there


def test_what_is_no_parcel_is_an_error(tmp_path):
    (tmp_path / "p").write_bytes(b"something else, and long enough")
    with pytest.raises(ValueError, match="no parcel"):
        parcels.read(str(tmp_path / "p"), Place())
