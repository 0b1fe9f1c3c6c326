"""Values of every shape that travels, through a real kernel and back."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.kernel

TOOLS = [
    {"name": "echo", "signature": "(x)", "doc": ""},
    {"name": "aecho", "signature": "(x)", "doc": "", "async": True},
]
MAKE = """
import asyncio, dataclasses, datetime, decimal, fractions, math, random, string, uuid
from pathlib import Path
import numpy as np, pandas as pd, pyarrow as pa
from PIL import Image

@dataclasses.dataclass
class Point:
    x: object
    y: object = None

r = random.Random({seed})
def text():
    alphabet = string.printable + "äß中\\U0001f600\\u2028\\x00\\ud800"
    return "".join(r.choice(alphabet) for _ in range(r.randrange(12)))
def frame():
    rows = r.randrange(4)
    kinds = [lambda: r.randrange(-9, 9), r.random, text_of_pairs, lambda: r.choice([True, False]), lambda: None]
    chosen = enumerate(r.sample(kinds, r.randrange(5)))
    return pd.DataFrame({{f"c{{i}}": [kind() for _ in range(rows)] for i, kind in chosen}})
def text_of_pairs():
    return text().encode("utf-8", "replace").decode()
LEAVES = [
    lambda: None, lambda: r.random() < 0.5, lambda: r.randrange(-2**70, 2**70),
    lambda: r.random() * 10.0 ** r.randrange(-300, 300),
    lambda: r.choice([math.inf, -math.inf, 0.0, -0.0]), text, lambda: r.randbytes(r.randrange(20)),
    lambda: complex(r.random(), r.choice([math.inf, 1.0])),
    lambda: datetime.datetime.fromtimestamp(r.randrange(2**31), datetime.UTC),
    lambda: datetime.date.fromordinal(r.randrange(1, 700000)), lambda: datetime.timedelta(seconds=r.random()),
    lambda: decimal.Decimal(r.randrange(10**9)) / 1000, lambda: fractions.Fraction(r.randrange(99), 7),
    lambda: uuid.UUID(int=r.getrandbits(128)), lambda: Path(text_of_pairs()), lambda: range(r.randrange(9)),
    lambda: np.array([r.random() for _ in range(r.randrange(5))]),
    lambda: np.arange(6).reshape(r.choice([(2, 3), (6,), (1, 6, 1)])),
    frame, lambda: pa.table({{"a": [r.random(), None]}}),
    lambda: Image.frombytes("RGB", (2, 2), r.randbytes(12)),
    object, lambda: (lambda: 1), lambda: np.array([object()]), lambda: pd.DataFrame({{"a": [1, "x", object()]}}),
]
def value(depth=0):
    if depth > 3 or r.random() < 0.4:
        return r.choice(LEAVES)()
    some = [value(depth + 1) for _ in range(r.randrange(4))]
    return r.choice([
        lambda: some, lambda: tuple(some), lambda: {{text(): v for v in some}}, lambda: dict(enumerate(some)),
        lambda: Point(some),
        lambda: {{"$codeact": "bytes", "of": some}}, lambda: {{(1, text()) for _ in some}},
    ])()
def same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, pd.DataFrame):
        return a.shape == b.shape and all(same(x, y) or x != x for x, y in zip(a.values.ravel(), b.values.ravel()))
    if isinstance(a, pa.Table):
        return a.equals(b)
    if isinstance(a, Image.Image):
        return a.tobytes() == b.tobytes()
    if isinstance(a, Point):
        return same(a.x, b.x) and same(a.y, b.y)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b
ok, refused = 0, 0
for n in range({count}):
    v = value()
    came = echo.try_(v) if n % 2 else await aecho.try_(v)
    if came.ok:
        assert same(v, came.value), (v, came.value)
        ok += 1
    else:
        assert "argument 'x' of" in came.error, came.error
        refused += 1
print(ok > refused > 0, ok + refused)
"""


async def echo(name, args, kwargs, msg_id, note):
    return kwargs["x"]


@pytest.mark.parametrize("seed", range(3))
async def test_values_of_every_shape_survive_the_way_or_are_refused(open_bench, seed):
    bench = await open_bench(echo, TOOLS)
    block = await bench.run(MAKE.format(seed=seed, count=300))
    assert block.error == ""
    assert block.text == "True 300\n"


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(100, 104))
async def test_many_values_of_every_shape_survive_the_way_or_are_refused(open_bench, seed):
    bench = await open_bench(echo, TOOLS)
    block = await bench.run(MAKE.format(seed=seed, count=3000))
    assert block.error == ""


async def test_a_result_that_cannot_travel_is_a_tool_error_that_names_it(open_bench):
    async def give(name, args, kwargs, msg_id, note):
        return {"a": [object()]}

    bench = await open_bench(give, TOOLS)
    assert "the result of echo['a'][0] is a builtins.object" in (await bench.run("echo(1)")).error
