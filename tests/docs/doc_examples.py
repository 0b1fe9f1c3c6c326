"""Runs what the pages show.

Comes in: examples, and replies of a model. Goes out: what the examples print, and what the model reads.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import os
import re

from doc_pages import Fence

from codeact_kernel import Agent
from codeact_kernel.testing import ScriptedEndpoint, ScriptedModel

_LIBRARY = re.compile(r"(?<=\.py, )line \d+")
_REPORT = re.compile(r"^<(\w+)[^>\n]*>\n?.*?</\1>$", re.MULTILINE | re.DOTALL)
_CHANGING = re.compile(r' (duration|current|now|deadline)="[^"]*"')


class Reader:
    """Runs the examples of one page, as a person who types them into one session."""

    def __init__(self, page, **names):
        self.names = {"__name__": "__main__", **names}
        self._page = page
        self._runner = asyncio.Runner()

    def run(self, example: Fence, replies: list[str] | None = None) -> str:
        """Run one example, and return what it printed; replies are what a model of an endpoint says to it."""
        replies = example.replies if replies is None else replies
        with contextlib.ExitStack() as stack:
            if replies:
                endpoint = stack.enter_context(ScriptedEndpoint(replies))
                os.environ["LLM_BASE_URL"] = endpoint.base_url
            printed = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            # Line numbers of a traceback are then those of the page.
            source = "\n" * (example.line - 1) + example.text
            code = compile(source, str(self._page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            if code.co_flags & inspect.CO_COROUTINE:
                self._runner.run(self._awaited(code))
            else:
                exec(code, self.names)
            if replies:
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
