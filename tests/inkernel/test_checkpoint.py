"""Checkpoints of a namespace, written and read in one process: what comes back does what the original did."""

from __future__ import annotations

import functools
import json
import signal
import textwrap
import time
import traceback
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from codeact_kernel.inkernel.checkpoint import pickling, writing
from codeact_kernel.inkernel.checkpoint.restoring import restore
from codeact_kernel.inkernel.checkpoint.writing import Writer

MOST = 10**9


class Place:
    """A namespace in which names come back."""

    def __init__(self, **names):
        self.namespace = {"__name__": "__main__", **names}


def here(code, **names):
    """A namespace in which code has run."""
    namespace = {"__name__": "__main__", **names}
    exec(compile(textwrap.dedent(code), "<block>", "exec", dont_inherit=True), namespace)
    return namespace


def names_of(namespace):
    return [name for name in namespace if not name.startswith("__")]


def save(folder, namespace, *, busy=(), have=(), most=MOST):
    """Write a checkpoint of a namespace; returns its manifest."""
    folder.mkdir(exist_ok=True)
    note = SimpleNamespace(number=-1)
    Writer(str(folder), namespace, dict(busy), {}, most, 2**40, have, note).write(names_of(namespace))
    return json.loads((folder / "manifest.json").read_text())


def digests_of(manifest):
    return {digest for group in manifest["groups"] for digest in (group["object"], *group["buffers"])}


def groups_of(manifest):
    return sorted(sorted(group["names"]) for group in manifest["groups"])


@pytest.fixture
def brought_back(tmp_path):
    """Saves what code makes, and brings it back elsewhere."""

    def bring(code, **names):
        save(tmp_path / "saved", here(code, **names))
        place = Place()
        back, missing = restore(str(tmp_path / "saved"), place, ())
        assert set(back) <= place.namespace.keys()
        return place.namespace, missing

    return bring


def run(code, namespace):
    return eval(textwrap.dedent(code), namespace)


def test_functions_read_the_live_namespace_when_they_are_back(brought_back):
    there, missing = brought_back("""
        import math
        rate = 2
        def helper(x):
            return math.floor(x * rate)
        def outer(xs, step=1):
            return [helper(x) + step for x in xs]
    """)
    assert not missing
    assert run("outer([1.5, 2])", there) == [4, 5]
    there["rate"] = 10
    assert run("outer([1.5, 2], step=0)", there) == [15, 20]


def test_what_names_share_they_share_again(brought_back):
    there, _ = brought_back("""
        rows = [1]
        same = rows
        table = {"rows": rows, "more": lambda: rows}
        class Box: pass
        box = Box()
        box.rows, box.me = rows, box
    """)
    there["rows"].append(2)
    assert run("same is rows and table['rows'] is rows and box.rows is rows and box.me is box", there)
    assert run("table['more']()", there) == [1, 2]


def test_closures_go_on_sharing_their_variable(brought_back):
    there, _ = brought_back("""
        def counter():
            n = 0
            def add():
                nonlocal n
                n += 1
            return add, lambda: n
        add, count = counter()
        add()
    """)
    run("add()", there)
    assert run("count()", there) == 2


def test_classes_and_their_instances_stay_together(brought_back):
    there, missing = brought_back("""
        import dataclasses, enum, functools
        class Base:
            made = []
            def __init__(self): self.made.append(self)
            def twice(self): return helper(self.value)
        class Point(Base):
            value = 3
            def __init__(self):
                super().__init__()
        def helper(x): return 2 * x
        point = Point()
        @dataclasses.dataclass(frozen=True)
        class Row: n: int
        class Colour(enum.Enum):
            RED = 1
        rows = {Row(1): Colour.RED}
        @functools.cache
        def slow(n): return helper(n)
    """)
    assert not missing
    assert run("isinstance(point, Point) and issubclass(Point, Base) and Base.made == [point]", there)
    assert run("point.twice()", there) == 6
    assert run("rows[Row(1)] is Colour.RED and isinstance(Point(), Base)", there)
    assert run("slow(4), slow(4), slow.cache_info().hits", there) == (8, 8, 1)


def test_instances_of_a_class_that_was_made_anew_keep_the_old_one(brought_back):
    there, _ = brought_back("""
        class P:
            def which(self): return "old"
        old, older = P(), P()
        class P:
            def which(self): return "new"
        new = P()
    """)
    assert run("old.which(), new.which(), isinstance(old, P), type(old) is type(older)", there) == (
        "old",
        "new",
        False,
        True,
    )


def test_classes_that_name_each_other_come_back(brought_back):
    there, missing = brought_back("""
        class A: pass
        class B: other = A
        A.other = B
        a = A()
        a.it = B()
    """)
    assert not missing
    assert run("A.other is B and B.other is A and isinstance(a.it, type(a).other)", there)


def test_data_of_libraries_comes_back(brought_back):
    figure = "import matplotlib; matplotlib.use('agg'); from matplotlib.figure import Figure"
    there, missing = brought_back(
        figure + "\nfig = Figure(); fig.subplots().plot([1, 2])",
        frame=pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}),
        big=np.arange(100_000),
        few=np.arange(3),
    )
    assert not missing
    assert run("frame.b.tolist()", there) == ["x", "y"]
    there["big"][0] = 7
    assert run("big[:2].tolist(), few.sum(), len(fig.axes[0].lines)", there) == ([7, 1], 3, 1)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("x = open('/dev/null'); close = x.close", "it is an open file"),
        ("f = open('/dev/null'); x = {'f': [f]}; close = f.close", "it holds an open file"),
        ("import socket\nx = socket.socket(); close = x.close", "it is a socket"),
        ("import threading\nx = threading.Lock()", "it is a lock"),
        ("import threading\nx = threading.Thread()", "it is a thread"),
        ("import threading\nclass C: pass\nx = C(); x.lock = threading.RLock()", "it holds a lock"),
        ("x = (i for i in [])", "it is a generator"),
        ("import asyncio\nx = asyncio.Queue()", "it is a part of an event loop"),
        ("import sqlite3\nx = sqlite3.connect(':memory:'); close = x.close", "it is a connection"),
        ("import httpx\nx = httpx.Client()", "it is a session with connections"),
        ("import tempfile\nx = tempfile.NamedTemporaryFile(); close = x.close", "it holds an open file"),
        ("import weakref\nclass C: pass\nc = C(); x = weakref.ref(c)", "cannot be pickled: TypeError"),
        ("class C:\n  def __reduce__(self): raise ValueError('not me')\nx = C()", "ValueError: not me"),
        ("class C:\n  def __reduce__(self): raise SystemExit\nx = C()", "cannot be pickled: SystemExit"),
        ("x = []\nfor _ in range(100_000): x = [x]", "deep recursion"),
        ("f = open('/dev/null'); close = f.close\nx = lambda f=f: 1", "it holds an open file"),
    ],
)
def test_what_does_not_come_back_is_named_with_a_reason_and_costs_nobody_else(tmp_path, code, why):
    namespace = here(code + "\nother = [1]")
    manifest = save(tmp_path / "a", namespace)
    namespace.get("close", bool)()
    assert why in manifest["missing"]["x"]
    assert ["other"] in groups_of(manifest)


def test_the_manifest_says_what_is_missing(tmp_path):
    with Path("/dev/null").open() as x:
        manifest = save(tmp_path / "a", {"x": x, "y": {"f": x}})
    assert manifest["missing"] == {
        "x": "it is an open file, or a connection (TextIOWrapper)",
        "y": "it holds an open file, or a connection (TextIOWrapper)",
    }


def test_an_instance_whose_class_is_gone_says_so(tmp_path):
    save(tmp_path / "a", here("class C: pass\nc = C()"))
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    manifest["groups"] = [group for group in manifest["groups"] if group["names"] != ["C"]]
    (tmp_path / "a" / "manifest.json").write_text(json.dumps(manifest))
    back, missing = restore(str(tmp_path / "a"), Place(), ())
    assert (back, missing) == ([], {"c": "it needs C, which is not back"})


def test_what_has_not_changed_is_not_written_again(tmp_path):
    namespace = here("import numpy as np\na = np.arange(100_000)\nb = list(range(20_000))\nn = 1")
    first = save(tmp_path / "1", namespace)
    assert len(digests_of(first)) == 3
    namespace["n"] = 2
    second = save(tmp_path / "2", namespace, have=digests_of(first))
    written = {file.name for file in (tmp_path / "2").iterdir()} - {"manifest.json"}
    assert len(written) == 1
    assert written == digests_of(second) - digests_of(first)


def test_ten_thousand_names_lie_in_one_file(tmp_path):
    namespace = {"__name__": "__main__", **{f"n{i}": [i] for i in range(10_000)}}
    manifest = save(tmp_path / "many", namespace)
    assert len(digests_of(manifest)) == 1
    place = Place()
    restore(str(tmp_path / "many"), place, ())
    assert place.namespace == namespace


def test_what_there_is_no_room_for_is_said_and_the_small_is_kept(tmp_path):
    namespace = here("import numpy as np\na = np.arange(100_000)\nb = np.arange(10_000)\nn = [1]\nd = a[1:]")
    manifest = save(tmp_path / "a", namespace, most=900_000)
    assert {name for group in manifest["groups"] for name in group["names"]} == {"np", "n", "b", "d"}
    (why,) = manifest["missing"].values()
    assert why.endswith("are full (checkpoint_size)")
    manifest = save(tmp_path / "b", namespace, most=500_000)
    assert (
        manifest["missing"]["a"] == "it has more than the 500 kB that a checkpoint may have (checkpoint_size)"
    )


def test_what_a_block_may_be_changing_is_left_out_with_all_that_shares_it(tmp_path):
    namespace = here("rows = [1]\nalias = {'r': rows}\nother = [1]")
    manifest = save(tmp_path / "a", namespace, busy={"rows": "block dl"})
    assert groups_of(manifest) == [["other"]]
    assert manifest["busy"] == {"rows": "block dl", "alias": "block dl"}


def test_a_pickling_that_hangs_ends_and_costs_nobody_else(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "EACH", 0.5)
    code = """
        import time
        class Hangs:
            def __reduce__(self):
                while True:
                    try: time.sleep(60)
                    except Exception: pass
        x, y = Hangs(), 1
    """
    began = time.monotonic()
    manifest = save(tmp_path / "a", here(code))
    assert time.monotonic() - began < 5
    assert manifest["missing"] == {"x": "its pickling took too long"}
    assert json.loads((tmp_path / "a" / "slow.json").read_text()) == manifest["missing"]


def test_a_damaged_file_costs_what_is_in_it_and_no_more(tmp_path):
    manifest = save(tmp_path / "a", here("import numpy as np\na = np.arange(100_000)\nn = 1"))
    (buffer,) = (group["buffers"][0] for group in manifest["groups"] if group["names"] == ["a"])
    with (tmp_path / "a" / buffer).open("r+b") as file:
        file.write(b"torn")
    back, missing = restore(str(tmp_path / "a"), Place(), ())
    assert set(back) == {"np", "n"}
    assert missing == {"a": "its file is damaged"}
    (tmp_path / "a" / buffer).unlink()
    _, missing = restore(str(tmp_path / "a"), Place(), ())
    assert missing["a"].startswith("reading it failed: FileNotFoundError")


def test_names_of_tools_stay_the_tools(tmp_path):
    save(tmp_path / "a", here("search = 1\nn = 2"))
    place = Place(search="the tool")
    back, missing = restore(str(tmp_path / "a"), place, {"search"})
    assert (back, missing) == (["n"], {"search": "this name is a tool's here"})
    assert place.namespace["search"] == "the tool"


def test_what_another_python_has_pickled_is_left_alone(tmp_path):
    save(tmp_path / "a", here("x = 1"))
    manifest = tmp_path / "a" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "python": "2.7"}))
    back, missing = restore(str(tmp_path / "a"), Place(), ())
    assert back == []
    assert missing["x"].startswith("Python 2.7 has saved it")


@pytest.fixture
def alarm():
    """The alarm is a test's own."""
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def limited(again):
    limit = writing.Limit(2**62, work=0.1, again=again)
    limit.look()
    return limit


class Held:
    """Holds something whose freeing takes longer than until the next look, and runs no line of Python meanwhile."""

    __del__ = functools.partial(sum, range(30_000_000))


def test_a_limit_that_is_reached_does_not_hit_who_has_caught_it(alarm):
    limit = limited(again=60)

    def pickles():
        held = Held()
        limit.begin()
        while held:
            pass

    with pytest.raises(pickling.TooLong) as caught:
        pickles()
    traceback.clear_frames(caught.tb)
    assert limit.end() is None


def test_what_swallows_a_limit_meets_it_again(alarm):
    limit = limited(again=0.1)

    def swallows():
        with suppress(pickling.TooLong):
            while True:
                pass
        while True:
            pass

    limit.begin()
    with pytest.raises(pickling.TooLong):
        swallows()
    limit.end()
