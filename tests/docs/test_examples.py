"""The documentation's examples run, and print what the pages say that they print."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import os
import re

import pytest
from doc_pages import DOCS, ROOT, Fence, examples_of, exchanges_of, fences_of

from codeact_kernel import Agent
from codeact_kernel.testing import ScriptedEndpoint, ScriptedModel

pytestmark = pytest.mark.kernel

PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]
_LIBRARY = re.compile(r"(?<=\.py, )line \d+")
_REPORT = re.compile(r"^<(\w+)[^>\n]*>\n?.*?</\1>$", re.MULTILINE | re.DOTALL)
_CHANGING = re.compile(r' (duration|current|now|deadline)="[^"]*"')


def pages_with(what):
    pages = [page for page in PAGES if what(fences_of(page))]
    return pytest.mark.parametrize("page", pages, ids=[str(page.relative_to(ROOT)) for page in pages])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder to run in, and none of the user's own settings, models and keys."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    before = dict(os.environ)
    for name in ("CODEACT_MODEL", "LLM_API_KEY", "OPENAI_API_KEY", "LLM_BASE_URL", "OPENAI_BASE_URL"):
        os.environ.pop(name, None)
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    yield workspace
    os.environ.clear()
    os.environ.update(before)


class Reader:
    """Runs the examples of one page, as a person who types them into one session."""

    def __init__(self, page):
        self.names = {"__name__": "__main__"}
        self._page = page
        self._runner = asyncio.Runner()

    def run(self, example: Fence) -> str:
        """Run one example, and return what it printed."""
        with contextlib.ExitStack() as stack:
            if example.replies:
                endpoint = stack.enter_context(ScriptedEndpoint(example.replies))
                os.environ["LLM_BASE_URL"] = endpoint.base_url
            printed = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            # Line numbers of a traceback are then those of the page.
            source = "\n" * (example.line - 1) + example.text
            code = compile(source, str(self._page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            if code.co_flags & inspect.CO_COROUTINE:
                self._runner.run(self._awaited(code))
            else:
                exec(code, self.names)
            if example.replies:
                assert endpoint.left == 0, "the page lets the model say more than it is asked"
        return printed.getvalue()

    async def _awaited(self, code):
        await eval(code, self.names)

    def close(self):
        self._runner.close()


def check(example: Fence, shown: str | None, printed: str) -> None:
    """Compare what an example printed with what its page shows."""
    if shown is None:
        return
    want = shown if shown.endswith("\n") else shown + "\n"
    checker = doctest.OutputChecker()
    if not checker.check_output(want, printed, doctest.ELLIPSIS):
        example_of_doctest = doctest.Example("", want)
        difference = checker.output_difference(example_of_doctest, printed, doctest.ELLIPSIS)
        raise AssertionError(f"{example.page.name}, line {example.line}:\n{difference}")


@pages_with(examples_of)
def test_the_examples_of_a_page_run_and_print_what_it_shows(page, place):
    reader = Reader(page)
    try:
        for example, shown in examples_of(fences_of(page)):
            check(example, shown, reader.run(example))
    finally:
        reader.close()


@pages_with(exchanges_of)
async def test_what_the_model_writes_and_reads_on_a_page_is_what_happens(page, place):
    for number, (reply, reading) in enumerate(exchanges_of(fences_of(page))):
        folder = place / str(number)
        folder.mkdir()
        read = await read_back(reply.text, folder)
        where = f"{page.name}, line {reading.line}"
        assert same(read) == same(reading.text), f"{where}: the model reads\n{read}"


async def read_back(reply: str, folder) -> str:
    """All that a model reads of its reply until everything that it started has ended."""
    model = ScriptedModel([reply, *["I wait."] * 20])
    async with Agent(model, workspace=folder, run_dir=False) as agent:
        run = await agent.run("Show it.")
    assert run.stop == "answered"
    return "\n".join(request.messages[-1].content for request in model.requests[1:])


def same(text: str) -> list[str]:
    """The reports of a text, without times, the lines of libraries, and the order of what ends at once."""
    text = _LIBRARY.sub("line …", _CHANGING.sub(r' \1="…"', text))
    reports = [match[0] for match in _REPORT.finditer(text)]
    assert "".join(_REPORT.sub("", text).split()) == "", "there is something outside of the reports"
    return sorted(reports)
