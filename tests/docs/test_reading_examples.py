"""An example that breaks is noticed."""

from __future__ import annotations

import pytest
from doc_examples import Reader, check, same
from doc_pages import ROOT, fences_of

PAGE = ROOT / "page.md"


@pytest.fixture
def run():
    reader = Reader(PAGE)

    def run_text(text):
        (example,) = fences_of(PAGE, f"Words.\n\n```python\n{text}\n```\n")
        return example, reader.run(example)

    yield run_text
    reader.close()


def test_what_an_example_prints_is_compared_and_dots_stand_for_anything(run):
    example, printed = run("print('took 3 s')")
    check(example, "took ... s\n", printed)
    check(example, None, printed)
    with pytest.raises(AssertionError, match=r"page\.md, line 4"):
        check(example, "took 3 m\n", printed)


def test_examples_of_a_page_share_names_and_may_await(run):
    run("import asyncio\nx = 1")
    run("x += await asyncio.sleep(0, 1)")
    assert run("print(x)")[1] == "2\n"


def test_an_example_that_raises_fails_with_the_line_of_its_page(run):
    with pytest.raises(ZeroDivisionError) as error:
        run("x = 1\n1 / 0")
    assert error.traceback[-1].lineno + 1 == 5


def test_reports_are_compared_without_times_and_in_any_order():
    one = '<run_code_result id="a" duration="1s">\n1\n</run_code_result>'
    two = '<run_code_result id="b" duration="2s">\n2\n</run_code_result>'
    assert same(f"{one}\n{two}") == same(f"{two}\n{one.replace('1s', '3s')}")
    assert same(one) != same(one.replace("\n1\n", "\n2\n"))
    assert same(one) != same(one.replace(" duration", ' status="error" duration'))
    with pytest.raises(AssertionError, match="outside"):
        same(f"words {one}")
