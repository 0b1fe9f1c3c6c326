"""Prose of models is Markdown that does nothing, whoever renders it."""

from __future__ import annotations

import time

import pytest
from active_pages import HOSTILE, Page
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from nbconvert.filters.markdown_mistune import markdown2html_mistune

from codeact_kernel.record.prose import inert

MARKDOWN_IT = MarkdownIt("commonmark", {"html": True}).enable("table")
MARKDOWN_IT.validateLink = lambda url: True


def nbconvert(text):
    return markdown2html_mistune(text)


def commonmark(text):
    """A renderer that lets everything through."""
    return MARKDOWN_IT.render(text)


def no_markdown(text):
    """A reader of the notebook who takes the text for HTML as it is."""
    return text


RENDERERS = [nbconvert, commonmark, no_markdown]


def seen(text, render=commonmark):
    page = Page()
    page.feed(render(text))
    page.close()
    return page


@pytest.mark.parametrize("render", RENDERERS)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_of_it_is_active(text, render):
    assert seen(inert(text), render).found == []


def test_the_page_knows_what_is_active():
    for text in ("<script>1</script>", "![x](https://evil/y)", "[x](javascript:alert(1))", "<p onclick=x>"):
        assert seen(text).found, text


PIECES = [
    "<", "script>", "</script>", "<img src=x onerror=x>", "`", "``", "```", "```\n", "\n```\n", "\n~~~\n", "\n", "\n\n",
    "[x]", "](", ")", "(", "]: ", "javascript:alert(1)", "!", "![x](", "\\", "java&#115;cript:x", "&", "$", "\n$$\n",
    "    ", "- ", "> ", "a", " ", "|", "#", "https://e/", "<!--", "-->", "\r", "{=html}", "<pre>", "</pre>", "<code>",
]  # fmt: skip


@pytest.mark.parametrize("render", RENDERERS)
@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
def test_whatever_is_put_together_nothing_is_active(render, text):
    assert seen(inert(text), render).found == []


@pytest.mark.parametrize(
    "text",
    [
        "Plain words, *emphasis*, **more** and `code`.",
        "a < b and c > d, x<5, 1 << 2, -> and <- and <3",
        "# Heading\n\n- one\n- two\n\n1. first\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |",
        "```python\nif a < b:\n    print('x', a[1](2))\n```\n\nand\n\n~~~\nx\n~~~",
        "[a page](https://a.org/x?y=1#z), [a file](data/x.csv), [a part](#part), <https://a.org>, <mailto:a@b.org>",
        "![plot](plot.png) ![a](attachment:a.png) ![b](data:image/png;base64,AAAA)",
        "$a < b$ and $$\\frac{a}{b}$$ and \\href{https://a.org}{x}",
        "naïve 中文 🙂",
        "[1]: a footnote of a kind, [2]: b",
        "`` a ` b ``",
    ],
)
def test_honest_prose_stays_as_it_is(text):
    assert inert(text) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Use <div> and </div>.", "Use <div> and </div>."),
        ("Use `<div class='a_b*'>` & so on", "Use <div class='a_b*'> & so on"),
        ("```html\n<b>*x*</b> &amp;\n```", "<b>*x*</b> &amp;\n"),
        ("x<y and List<String>", "x<y and List<String>"),
        ("[x](javascript:y)", "[x](javascript:y)"),
        ("```\nopen", "open\n"),
    ],
)
def test_what_is_written_as_text_reads_the_same(text, read):
    assert seen(inert(text)).text.strip("\n") == read.strip("\n")


def test_code_that_is_left_open_is_closed():
    assert inert("```python\nx = 1") == "```python\nx = 1\n```"
    assert inert("~~~~\nx") == "~~~~\nx\n~~~~"


@pytest.mark.parametrize(
    "text", ["![a ![b](c.png)](https://evil/x)", "![a [b](c.png) ![d](e.png)](https://evil/x)"]
)
def test_a_picture_in_a_pictures_words_hides_no_address(text):
    assert seen(text).found
    assert seen(inert(text)).found == []


HARD = [
    "](", "![", "]:", "<", "`", "<http://", "\\href{", "\\url{", "](javascript:", "![](", "![x](", "](&#106;", "](\n",
    "]:\n", "`a``", "~~~\n", "".join("`" * n + "a" for n in range(1, 440)),
]  # fmt: skip


@pytest.mark.parametrize("text", HARD, ids=lambda text: text[:9])
def test_a_long_text_takes_no_time_to_speak_of(text):
    text = text * (100_000 // len(text))
    began = time.process_time()
    inert(text)
    assert time.process_time() - began < 1.5  # some 0.1 s
