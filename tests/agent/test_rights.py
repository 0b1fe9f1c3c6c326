"""Sub-agents that may do less than their parent: what they hand back is data, and nothing of theirs is run there."""

from __future__ import annotations

import pytest
from talk import block, delegate, heard, play, when

pytestmark = pytest.mark.kernel


def search(word: str) -> list[str]:
    """Search."""
    return [word, word]


def read(page: str) -> str:
    """Read."""
    return page.upper()


CLASSES = """
import dataclasses
@dataclasses.dataclass
class Point:
    x: int
class Parser:
    pass
"""


async def hands_back(tmp_path, code, look="print(scout)", *, namespace="search", classes=""):
    attributes = {"namespace": namespace} if namespace else {}
    return await play(
        tmp_path,
        {
            "ROOT": when(
                delegate("SCOUT", name="scout", **attributes),
                ("agent_result", block(look, id="look")),
                ('id="look"', "Done."),
            ),
            "SCOUT": [block(f"{classes}\n{code}"), "Handed back."],
        },
        tools=[search, read],
    )


async def test_who_has_fewer_tools_hands_back_data(tmp_path):
    code = """
import numpy as np, pandas as pd, datetime
self.return_value({"rows": [Point(3)], "array": np.arange(3), "frame": pd.DataFrame({"a": [1, 2]}),
                   "day": datetime.date(2026, 1, 2), "found": search("x"), "big": b"x" * 10_000})
"""
    look = """
print(type(scout["rows"][0]).__name__, scout["rows"][0].x, scout["array"].sum(), scout["frame"].a.sum())
print(scout["day"], scout["found"], len(scout["big"]), self.result("scout") is scout)
"""
    model, *_ = await hands_back(tmp_path, code, look, classes=CLASSES)
    root = heard(model, "ROOT")
    assert "it handed back a dict of length 6, as data: scout]" in root
    assert "Point 3 3 3\n2026-01-02 ['x', 'x'] 10000 True" in root


async def test_what_is_no_data_is_refused_where_it_is_with_what_can_be_done(tmp_path):
    code = "self.return_value([1, Parser()])"
    model, *_ = await hands_back(tmp_path, code, "print('scout' in globals())", classes=CLASSES)
    scout = heard(model, "SCOUT")
    assert "value[1] is a __main__.Parser, which cannot travel as data" in scout
    assert "(it lacks the tool read)" in scout
    assert "write a file into the workspace and hand over its path" in scout
    assert "False" in heard(model, "ROOT")


async def test_who_has_the_same_tools_hands_back_anything(tmp_path):
    code = "p = Parser()\np.f = lambda: 7\nself.return_value(p)"
    model, *_ = await hands_back(
        tmp_path, code, "print(scout.f())", namespace="search, read", classes=CLASSES
    )
    root = heard(model, "ROOT")
    assert "it handed back a __main__.Parser: scout]" in root
    assert "7" in root


FORGES = """
import os, pickle, json
class Exploit:
    def __reduce__(self):
        return os.mkdir, ("OWNED",)
bridge = get_ipython().kernel.family._bridge
place = bridge.call("self.parcel", ("parent",))
"""
GUARD = "import os\nprint('owned:', [n for n in os.listdir('.') if 'OWNED' in n.upper()])"
LOOK = f"try:\n    print(self.result('scout'))\nexcept Exception as error:\n    print('no:', error)\n{GUARD}"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("get_ipython().kernel.family.write(place['file'], {'value': Exploit()})", id="a parcel of code"),
        pytest.param("open(place['file'], 'wb').write(pickle.dumps(Exploit()))", id="a bare pickle"),
        pytest.param("open(place['file'], 'wb').write(b'ckvalues' + b'\\xff' * 50)", id="rubbish"),
    ],
)  # fmt: skip
async def test_a_forged_parcel_is_an_error_and_runs_nothing(tmp_path, code):
    code = f"{FORGES}{code}\nbridge.call('self.return_value', (place['file'],))"
    model, *_ = await hands_back(tmp_path, code, LOOK)
    root = heard(model, "ROOT")
    assert "[what it handed back cannot be read here: " in root
    assert "no: " in root
    assert "owned: []" in root


@pytest.mark.parametrize(
    ("code", "why"),
    [
        pytest.param("os.mkfifo(place['file'])", "this is no parcel of yours", id="a pipe"),
        pytest.param(
            "os.symlink('/dev/zero', place['file'])",
            "this is no parcel of yours",
            id="a link to what has no end",
        ),
        pytest.param("os.mkdir(place['file'])", "this is no parcel of yours", id="a folder"),
        pytest.param("pass", "this is no parcel of yours", id="nothing"),
        pytest.param(
            "os.truncate(os.open(place['file'], os.O_CREAT | os.O_WRONLY), 2**42)",
            "File too large",
            id="four terabytes",
        ),
    ],
)
async def test_what_is_no_file_is_not_taken_from_a_kernel(tmp_path, code, why):
    code = f"{FORGES}{code}\nbridge.call('self.return_value', (place['file'],))"
    model, *_ = await hands_back(tmp_path, code, LOOK)
    assert why in heard(model, "SCOUT")
    assert "owned: []" in heard(model, "ROOT")


async def test_what_is_handed_to_the_host_is_a_parcel_of_ones_own_or_nothing(tmp_path):
    (tmp_path / "trap.py").write_text("open('OWNED', 'w')")
    code = f"""{FORGES}
from dataclasses import make_dataclass
record = make_dataclass("__import__", ["name"])("trap")
tries = [("self.return_value", (x,)) for x in
         (record, "/etc/passwd", place["file"] + "/../../1/2", "x') or open('OWNED', 'w') or ('", 7, None)]
tries += [("self.run_agent", ("HELLO", None, None, None, "/etc/passwd", {{"names": {{}}, "tools": []}})),
          ("self.run_agent", ("HELLO", record, None, None, None, None)),
          ("self.run_agent", ("HELLO", None, None, None, place["file"], {{"names": 3, "tools": []}}))]
tries += [("self.proxy", (1, number, name, None, "main")) for number, name in
          (("1, 'x', None, {{}}, data=1) or open('OWNED', 'w') or (1", "x"), (record, "x"), (1, record), (1, "x.y"),
           (True, "x"))]
tries += [("self.proxy", (1, 1, "x", "/etc/passwd", "main")), ("self.parcel", (record,)), ("self.parcel", (99,))]
for name, args in tries:
    try:
        print("TAKEN", name, args, bridge.call(name, args))
    except Exception as error:
        print("refused", name, str(error)[:60])
print(len(tries), "tries")
"""
    model, *_ = await hands_back(tmp_path, code, f"{GUARD}\nprint(self.result('scout'))")
    scout = heard(model, "SCOUT")
    assert "TAKEN" not in scout
    assert scout.count("refused self.") == 17
    assert "17 tries" in scout
    root = heard(model, "ROOT")
    assert "owned: []" in root
    assert "Handed back." in root


async def test_a_note_is_never_written_where_a_sub_agent_has_put_a_link(tmp_path):
    mine = tmp_path / "bashrc"
    mine.write_text("mine")
    code = f"{FORGES}self.return_value(1)\nimport glob\n"
    code += f"""
import pathlib
for file in pathlib.Path(place["file"]).parent.iterdir():
    os.symlink({str(mine)!r}, str(file) + ".json")
for n in range(200):
    with __import__("contextlib").suppress(FileExistsError):
        os.symlink({str(mine)!r}, os.path.join(os.path.dirname(place["file"]), f"{{n}}.json"))
"""
    model, *_ = await hands_back(tmp_path, code)
    assert "it handed back a int, as data: scout]" in heard(model, "ROOT")
    assert mine.read_text() == "mine"


LENDS = """
import threading
class Store:
    def __init__(self):
        self.lock, self.kept, self._secret = threading.Lock(), [], "s3cret"
    def keep(self, value):
        self.kept.append(value)
        return len(self.kept)
    def call(self, function, *args):
        return function(*args)
    def fails(self):
        raise KeyError("gone")
    def parser(self):
        return Parser()
class Parser:
    def parse(self):
        return 5
store = Store()
"""


async def test_what_a_call_of_a_parent_s_object_brings_is_data_and_what_it_returns_is_anything(tmp_path):
    use = f"""{FORGES}
print("kept", store.keep({{"a": (1, 2)}}), store.kept)
for what in (Exploit(), lambda: 1):
    try:
        print("kept", type(what).__name__, store.keep(what))
    except Exception as error:
        print("refused", error)
print("called back", store.call(lambda x: x * 2, 21))
try:
    store.fails()
except KeyError as error:
    print("KeyError", error)
print("parsed", store.parser().parse())
"""
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": when(
                block(LENDS) + "\n" + delegate("SCOUT", name="scout", namespace="store"),
                (
                    "agent_result",
                    block(f"print(store.kept[0], len(store.kept), store.kept[1:])\n{GUARD}", id="look"),
                ),
                ('id="look"', "Done."),
            ),
            "SCOUT": [block(use), "Done."],
        },
        tools=[search],
    )
    scout = heard(model, "SCOUT")
    assert "kept 1 [{'a': (1, 2)}]" in scout
    assert "called back 42" in scout
    assert "KeyError 'gone'" in scout
    assert "parsed 5" in scout
    root = heard(model, "ROOT")
    # What is no data stays where it is: the parent has a handle of it, and calls of it run there.
    assert (
        "{'a': (1, 2)} 3 [<proxy of a __main__.Exploit; its calls run in the main lane of scout's kernel>"
        in root
    )
    assert "owned: []" in root


async def test_no_way_leads_from_a_lent_object_to_what_its_kernel_can_do(tmp_path):
    use = f"""{FORGES}
about = store._about
for name in ("__class__", "__init__", "__globals__", "_secret", "__reduce__", "__dict__"):
    for number in (about[2], about[2] + 1, about[2] - 1):
        try:
            said = bridge.call("self.proxy", (about[0], number, name, None, "main"))
            print("GOT", name, get_ipython().kernel.family._heard(said))
        except Exception as error:
            print("refused", type(error).__name__)
print(bool(hasattr(store, "_secret")), bool(hasattr(store, "_repr_html_")))
"""
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": when(
                block(LENDS) + "\n" + delegate("SCOUT", name="scout", namespace="store"),
                ("agent_result", "Done."),
            ),
            "SCOUT": [block(use), "Done."],
        },
        tools=[search],
    )
    scout = heard(model, "SCOUT")
    assert "GOT" not in scout
    assert scout.count("refused") == 18
    assert "False False" in scout


async def test_a_grandchild_s_value_is_data_on_every_way_up(tmp_path):
    grand = "import dataclasses\n@dataclasses.dataclass\nclass Row:\n    n: int\nself.return_value([Row(4)])"
    pass_on = "try:\n    self.return_value({'f': lambda: 1})\nexcept TypeError:\n    print('refused')\n"
    pass_on += "self.return_value(grand)"
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": when(
                delegate("CHILD", name="child", namespace="search"),
                ("agent_result", block("print(type(child[0]).__name__, child[0].n)", id="look")),
                ('id="look"', "Done."),
            ),
            "CHILD": when(
                delegate("GRAND", name="grand"),
                ("agent_result", block(pass_on, id="back")),
                ('id="back"', "Done."),
            ),
            "GRAND": [block(grand), "Done."],
        },
        tools=[search, read],
    )
    assert "it handed back a list of length 1, as data: grand]" in heard(model, "CHILD")
    assert "refused" in heard(model, "CHILD")
    assert "Row 4" in heard(model, "ROOT")


async def test_from_code_the_same_rule_holds(tmp_path):
    ask = """
one = await self.run_agent("SCOUT", namespace=["search"], name="scout")
print(one, one.value)
"""
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": [block(ask), "Done."],
            "SCOUT": [block("self.return_value({1: (2, 3)})"), "Handed back."],
        },
        tools=[search, read],
    )
    assert "Handed back. {1: (2, 3)}" in heard(model, "ROOT")


async def test_a_call_back_into_a_lane_that_waits_for_it_is_an_error(tmp_path):
    use = """
import threading
class Keeper:
    def __init__(self):
        self.lock = threading.Lock()
    def keep(self):
        return 1
keeper = Keeper()
try:
    print(store.call(keeper.keep))
except Exception as error:
    print("no:", error)
"""
    calls = LENDS.replace("return function(*args)", "return function()")
    model, *_ = await play(
        tmp_path,
        {
            "ROOT": when(
                block(calls) + "\n" + delegate("SCOUT", name="scout", namespace="store"),
                ("agent_result", "Done."),
            ),
            "SCOUT": [block(use), "Done."],
        },
        tools=[search],
    )
    assert "no: this call would wait for itself: it runs in the main lane of scout's kernel" in heard(
        model, "SCOUT"
    )
