"""A notebook as one page: Markdown, or HTML that needs nothing else.

Comes in: a notebook that `to_notebook` made, so that no Markdown in it does anything. Goes out: text. In the HTML what
blocks put out is text or a picture; HTML of theirs stands in a frame that may do nothing.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from codeact_kernel.controls import plain
from codeact_kernel.record.notebook import Notebook

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_STYLE = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { overflow-x: auto; padding: .6rem .8rem; border-radius: .3rem; background: #8881; }
pre.code { border-left: 3px solid #3987cf; } pre.error { border-left: 3px solid #d9574a; }
img { max-width: 100%; } iframe { width: 100%; height: 20rem; border: 1px solid #8884; resize: vertical; }
table { border-collapse: collapse; } td, th { border: 1px solid #8884; padding: .2rem .5rem; }
.about { color: #808080; font-size: .85rem; margin: 1rem 0 0; }"""


def markdown_page(notebook: Notebook) -> str:
    """Write a notebook as Markdown.

    Args:
        notebook: The notebook.
    """
    return "\n\n".join(part for cell in notebook["cells"] for part in _markdown(cell)) + "\n"


def html_page(notebook: Notebook) -> str:
    """Write a notebook as one page of HTML, with pictures in it.

    Args:
        notebook: The notebook.
    """
    title = str(notebook["metadata"]["codeact"].get("task", "A run")).partition("\n")[0]
    return whole_page(title, "\n".join(part for cell in notebook["cells"] for part in _html(cell)))


def whole_page(title: str, body: str) -> str:
    """A page that needs nothing else.

    Args:
        title: Its title, as text.
        body: What it shows, as HTML.
    """
    title = html.escape(title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f"<style>\n{_STYLE}\n</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _markdown(cell: dict[str, Any]) -> Iterator[str]:
    if cell["cell_type"] == "markdown":
        yield cell["source"]
        return
    yield _fenced(cell["source"], "python" if cell["cell_type"] == "code" else "text")
    for output in cell.get("outputs", ()):
        kind, value = _shown(output)
        yield (
            f"![output](data:{kind};base64,{value})" if kind in _PICTURES else _fenced(_text(output), "text")
        )


def _html(cell: dict[str, Any]) -> Iterator[str]:
    about = cell["metadata"].get("codeact", {})
    if cell["cell_type"] == "markdown":
        # Its import takes 40 ms, which no run has to wait for.
        from markdown_it import MarkdownIt

        yield str(MarkdownIt("commonmark").enable("table").render(cell["source"]))
        return
    took = about.get("volatile", {}).get("duration")
    said = [str(about.get("id", "")), str(about.get("status", "")), "" if took is None else f"{took:.1f} s"]
    yield f'<p class="about">{html.escape(" · ".join(filter(None, said)))}</p>'
    yield f'<pre class="code">{html.escape(cell["source"])}</pre>'
    for output in cell.get("outputs", ()):
        kind, value = _shown(output)
        if kind in _PICTURES:
            yield f'<img alt="output" src="data:{kind};base64,{html.escape("".join(value.split()))}">'
        elif kind == "text/html":
            yield f'<iframe sandbox="" srcdoc="{html.escape(value)}"></iframe>'
        else:
            name = "error" if output["output_type"] == "error" else "out"
            yield f'<pre class="{name}">{html.escape(_text(output))}</pre>'


def _shown(output: dict[str, Any]) -> tuple[str, str]:
    """The richest that a page can show of an output, with its MIME type."""
    data = output.get("data", {})
    for kind in (*_PICTURES, "text/html"):
        if isinstance(data.get(kind), str):
            return kind, data[kind]
    return "text/plain", _text(output)


def _text(output: dict[str, Any]) -> str:
    match output["output_type"]:
        case "stream":
            return plain(output["text"])
        case "error":
            return plain("\n".join(output["traceback"]) or f"{output['ename']}: {output['evalue']}")
        case _:
            return plain(str(output["data"].get("text/plain", "")))


def _fenced(text: str, language: str) -> str:
    """A block of code whose fence is longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
