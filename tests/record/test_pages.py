"""A record as one page."""

from __future__ import annotations

import re

import pytest
from active_pages import HOSTILE, Page
from stories import SCOUT, opened, ran, story, told
from test_html import ACTIVE, TRUSTED, record

from codeact_kernel.blocks import DisplayOutput, ErrorOutput, StreamOutput
from codeact_kernel.events import Appended, Knowledge
from codeact_kernel.record import html_page, markdown_page, to_notebook


def read(page):
    """What the body of a page would do, but for the picture at its top, which is ours."""
    reader = Page()
    reader.feed(page[page.index("<body>") :])
    reader.found = [what for what in reader.found if "src=data:image/svg+xml;base64," not in what]
    return reader


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_that_anybody_has_said_is_active_in_a_page_of_html(text):
    page = html_page(record(text, StreamOutput("stdout", text), DisplayOutput({"text/plain": text})))
    assert read(page).found == []
    assert len(re.findall("<title>", page)) == 1


def test_html_of_blocks_stands_in_a_frame_that_may_do_nothing():
    page = html_page(record("x", DisplayOutput(dict(ACTIVE), dict(TRUSTED))))
    assert read(page).found == ["iframe srcdoc=<script>document.title='owned'</script>", "iframe"]
    assert '<iframe sandbox="" srcdoc=' in page


def test_a_page_tells_the_whole_run_and_needs_nothing_else():
    notebook = to_notebook(told(*story()))
    page = html_page(notebook)
    assert read(page).text.count("Which pages changed?") == 1
    for words in ("print(", "page 1", "Page 3.", "A note from user:", "dl · ok · 6.5 s", "<table>"):
        assert words in page
    assert 'src="http' not in page
    picture = DisplayOutput({"image/png": "iVBORw0=\n", "text/plain": "<Figure>"})
    page = html_page(to_notebook(opened(*ran(SCOUT, picture, ErrorOutput("E", "no", ("\x1b[31mT",))))))
    assert '<img alt="output" src="data:image/png;base64,iVBORw0=">' in page
    assert '<pre class="error">T</pre>' in page


def test_as_markdown_code_and_output_stand_in_blocks_that_they_cannot_leave():
    output = StreamOutput("stdout", "a\n```\n# no heading\n")
    page = markdown_page(to_notebook(opened(*ran(SCOUT, output), Appended(1, Knowledge("All.", "x")))))
    assert "````text\na\n```\n# no heading\n````" in page
    assert page.startswith("# Do it\n\n")
    assert "<details><summary>" in page
