"""What blocks do, and which of them mattered."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeact_kernel.agent.recorded.effects import doings
from codeact_kernel.agent.recorded.mattering import Ran, lacking, mattered


@pytest.mark.parametrize(
    "code",
    [
        "import os",
        "x = [n for n in range(3) if n]",
        "print(df.head(), df.shape, df['a'].mean())",
        "with open('a.csv') as file:\n    text = file.read()",
        "open('a.csv', mode='rb')",
        "df = pd.read_csv('a.csv')",
        "for n in rows:\n    if n:\n        print(n)",
        "def f(n):\n    send(n)",
        "d.get('a')",
        "names = {k: v for k, v in pairs.items()}",
        "assert rows, 'none'",
    ],
)
def test_code_that_only_reads_counts_and_shows_does_nothing_else(code):
    assert not doings(code).acts


@pytest.mark.parametrize(
    "code",
    [
        "df.to_csv('a.csv')",
        "open('a.csv', 'w')",
        "open('a.csv', mode)",
        "send(1)",
        "rows.append(1)",
        "queue.get()",
        "await fetch()",
        "async with session() as s:\n    pass",
        "print('x', file=log)",
        "df.sort_values('a', inplace=True)",
        "del rows",
        "raise SystemExit",
        "[x async for x in rows]",
        "f()(1)",
        "file.read()",
        "Path('a').replace('b')",
        "next(rows)",
    ],
)
def test_code_of_which_that_is_not_known_may_do_anything(code):
    assert doings(code).acts


def test_what_is_a_function_of_the_run_is_none_that_is_known():
    assert doings("print(1)", {"print"}).acts
    assert doings("sorted(rows, key=weight)", {"weight"}).acts
    assert not doings("sorted(rows, key=weight)").acts


@pytest.mark.parametrize(
    ("code", "reads", "makes", "changes"),
    [
        ("x = y", "y", "x", ""),
        ("x = 1\nz = x", "", "x z", ""),
        ("x += 1", "x", "x", ""),
        ("x: int\ny: int = 1", "int", "y", ""),
        ("if a:\n    x = 1\nz = x", "a x", "z", "x"),
        ("for n in rows:\n    m = n\n    print(m)", "rows print", "", "n m"),
        ("df['a'] = 1", "df", "", "df"),
        ("a.b.c = d", "a d", "", "a"),
        ("x, (y, *z) = f", "f", "x y z", ""),
        ("[x for x in x]", "x", "", ""),
        ("print([x for x in xs], x)", "print xs x", "", ""),
        ("lambda a: a + b", "b", "", ""),
        ("with f as x:\n    y = x", "f", "x y", ""),
        ("try:\n    x = 1\nexcept E:\n    pass\nfinally:\n    y = 1", "E", "y", "x"),
        ("import a.b as c, d.e", "", "c d", ""),
        ("def f(a=b) -> C:\n    return g", "b C", "f", ""),
        ("class A:\n    x = y\n    def m(self):\n        return z", "y", "A", ""),
        ("match x:\n    case [a]:\n        pass", "x", "", "x"),
        ("exec('x = y')", "exec", "", "x y"),
        ("get_ipython().system('echo {x}')", "get_ipython", "", "echo x"),
        ("f'{x} and'", "x", "", ""),
        ("while (n := n - 1):\n    pass", "n", "", "n"),
    ],
)
def test_names_are_read_before_they_are_made_made_or_changed(code, reads, makes, changes):
    told = doings(code)
    assert (told.reads, told.makes, told.changes) == (
        set(reads.split()),
        set(makes.split()),
        set(changes.split()),
    )


def test_what_functions_read_later_is_told_apart():
    told = doings(
        "def f(a):\n    b = 1\n    def g():\n        return a + b + c\n    return [d for e in h]\nk = lambda: m"
    )
    assert told.later >= {"c", "d", "h", "m"}
    assert not told.later & {"a", "b", "e"}


def test_words_in_texts_may_be_names():
    assert doings("df.query('a > @x')\nf'{y} of b'").mentions == {"a", "x", "of", "b"}


@pytest.mark.parametrize("code", ["globals()['x'] = 1", "eval(text)", "from math import *", "vars()"])
def test_code_that_may_use_names_that_it_does_not_hold_is_known(code):
    assert doings(code).hides


def places(*blocks, answer="It is 42.", task="Do it."):
    return mattered([Ran(doings(code), output, failed) for code, output, failed in blocks], task, answer)


def test_all_is_kept_where_names_are_hidden_or_what_was_shown_before_is_used():
    looks = [("x = 1", "", False), ("print(y)", "1", False)]
    assert places(*looks, ("eval(t)", "42", False), ("1/0", "", True)) == [0, 1, 2]
    assert places(*looks, ("print(_ + 41)", "42", False)) == [0, 1, 2]
    assert places(*looks, ("print(42)", "42", False)) == [2]


def test_words_of_the_task_tell_nothing_of_what_the_answer_goes_by():
    blocks = ("print('rows')", "rows", False), ("print(42)", "42 rows", False)
    assert places(*blocks, answer="42 rows", task="How many rows?") == [1]
    assert places(*blocks, answer="42 rows") == [0, 1]


def test_names_that_no_block_makes_are_found():
    assert lacking([Ran(doings("print(x, y)"), ""), Ran(doings("def f():\n    return z\nx = 1"), "")]) == [
        "x",
        "y",
        "z",
    ]


STEPS = [
    "a = b + 1",
    "b = a",
    "c = a + b",
    "a += 2",
    "b = c if a > 2 else b",
    "if a > 2:\n    b = 1",
    "for c in range(2):\n    a = c",
    "d.append(a)",
    "d = [a, b]",
    "c = len(d)",
    "def f(n=b):\n    return a + n",
    "f = lambda n=1: c + n",
    "c = f()",
    "print('look', a)",
    "print(len(d))\na = b",
    "d[0] = c",
    "b = eval('a + c')",
    "for n in d:\n    b = n",
    "c = sum(n for n in d)",
    "try:\n    a = d[9]\nexcept IndexError:\n    b = 3",
    "with open('/dev/null') as e:\n    c = len(e.read())",
]
START = "a, b, c, d = 1, 2, 3, [4]\ndef f(n=0):\n    return n"


def shown(codes):
    names, out = {}, io.StringIO()
    outputs = []
    for code in codes:
        with contextlib.redirect_stdout(out):
            exec(code, names)
        outputs.append(out.getvalue())
        out.seek(0)
        out.truncate()
    return outputs


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=12))
def test_what_is_kept_of_any_run_shows_what_the_answer_goes_by(steps):
    codes = [START, *steps, "print('result', a, b, c, d, f())"]
    outputs = shown(codes)
    ran = [Ran(doings(code, {"f"}), output) for code, output in zip(codes, outputs, strict=True)]
    kept = mattered(ran, "Do it.", f"The {outputs[-1]}")
    assert shown([codes[at] for at in kept])[-1] == outputs[-1]
