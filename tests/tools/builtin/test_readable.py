"""Pages become text that reads well, whatever is in them."""

from __future__ import annotations

import contextlib
import time

import pytest

from codeact_kernel.tools.builtin.readable import readable


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<h1>One <b>two</b></h1>\n<p>a\n  b&amp;c</p><p>d", "# One two\n\na b&c\n\nd"),
        ("<p>see <a href='/x'> this </a>, <a href='#y'>that</a>, <a href='javascript:z'>not</a>, <a>none</a>",
         "see [this](http://host/x) , that, not, none"),
        ("<ul><li>one<li><p>two</p><ol><li>a<li>b</ol></ul>after", "- one\n- two\n  1. a\n  2. b\n\nafter"),
        ("<table><tr><th>A<th>B<tr><td>1<td>2</table>", "A | B\n1 | 2"),
        ("<pre>x\n  y &lt; z</pre>", "```\nx\n  y < z\n```"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<style>p{}</style><script>if (a<b) x()</script><svg><svg></svg>no</svg>yes", "yes"),
        ("<img src=x alt='a cat'> <img src=y>", "a cat"),
        ("<!-- no -->yes<![CDATA[x]]><![odd ]>&#233; &am", "yesé &am"),
        ("cut <b", "cut"),
        ("<p>unclosed <!-- rest", "unclosed"),
        ("</p></li></ul></a>text</svg>", "text"),
        ("", ""),
    ],
)  # fmt: skip
def test_html_and_its_text(html, text):
    assert readable(html, "http://host/page/") == text


def test_a_page_in_pieces_reads_as_one():
    page = "<ul>" + "".join(f"<li>item {n} &amp; <b>more</b></li>" for n in range(5000)) + "</ul>"
    assert readable(page) == "\n".join(f"- item {n} & more" for n in range(5000))


@pytest.mark.parametrize("trap", ["<!--", "<a ", "<div>", "<", "<ul><li>", " x='", "<a href='"])
def test_a_trap_ends(trap):
    begun = time.monotonic()
    with contextlib.suppress(TimeoutError):
        readable("<a" * (trap == " x='") + trap * 100_000, patience=0.05)
    assert time.monotonic() - begun < 10
