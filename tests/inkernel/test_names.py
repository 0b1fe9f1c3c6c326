"""Which names a block needs and makes."""

from __future__ import annotations

import pytest

from codeact_kernel.inkernel.names import names_of

CASES = [
    ("x = 1", "", "x"),
    ("x = y", "y", "x"),
    ("x += 1", "x", "x"),
    ("y = 1\nprint(y)", "print", "y"),
    ("print(y)\ny = 1", "print y", "y"),
    ("import numpy as np, os.path\nfrom a import b as c", "", "np os c"),
    ("from a import *", "", ""),
    ("exec('q = 1')", "exec", ""),
    ("def f(a, b=d):\n    return a + g + b", "d g", "f"),
    ("def f(): return g\ng = 1", "", "f g"),
    ("def f():\n    global t\n    t = 1", "", "f t"),
    ("def f():\n    def inner(): return out\n    return inner", "out", "f"),
    ("class A(B):\n    x = y\n    z = x\n    def m(self): return w", "B y w", "A"),
    ("[i * k for i in rows if i > low]", "rows k low", ""),
    ("{k: v for k, v in pairs}", "pairs", ""),
    ("[x for x in (y for y in z)]", "z", ""),
    ("for i, (a, b) in rows: print(i)", "rows print", "i a b"),
    ("with open(p) as f: data = f.read()", "open p", "f data"),
    ("try:\n    import q\nexcept ImportError as e:\n    print(e)", "ImportError print", "q"),
    ("df['a'] = 1", "df", "df"),
    ("obj.attr.deep = val", "val obj", "obj"),
    ("del x", "x", "x"),
    ("if (n := len(xs)) > 3: pass", "len xs", "n"),
    ("lambda a: a + b", "b", ""),
    ("x: int = 3", "int", "x"),
    ("x: int", "int", ""),
    ("*a, b = rows", "rows", "a b"),
    ("await asyncio.gather(*[f(u) for u in urls])", "asyncio f urls", ""),
    ("get_ipython().run_cell_magic('time', '', 'x = y')", "y", "x"),
    ("get_ipython().run_line_magic('time', 'x = y')", "y", "x"),
    ("get_ipython().run_cell_magic('bash', '', 'x = y')", "get_ipython", ""),
    ("not python at all", "", ""),
    ("match v:\n    case [a]: b = a", "v", "b"),
]


@pytest.mark.parametrize(("code", "needs", "makes"), CASES, ids=[c[0].replace("\n", "; ") for c in CASES])
def test_names_are_read_from_the_tree(code, needs, makes):
    names = names_of(code)
    if code.startswith("match"):
        assert {"v"} <= names.needs
        return
    assert names.needs == set(needs.split())
    assert names.makes == set(makes.split())


@pytest.mark.parametrize(
    "code", ["t = asyncio.create_task(f())", "create_task(f())", "loop = asyncio.get_running_loop()"]
)
def test_a_call_that_needs_a_running_loop_is_seen(code):
    assert names_of(code).calls_loop
    assert not names_of("asyncio.run(f())").calls_loop
