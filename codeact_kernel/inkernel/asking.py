"""Questions of code to a person: `input()` and `getpass()`, each to the client of the request that asks.

Comes in: a question. Goes out: the answer of that client, or an error with a sentence where it allows no input.
"""

from __future__ import annotations

from typing import Any

from ipykernel.ipkernel import IPythonKernel
from IPython.core.error import StdinNotImplementedError

from codeact_kernel.inkernel.request import current

NO_INPUT = (
    "input() has nobody to ask: this block runs unattended. Put the value into the code, or ask the person in "
    "your reply."
)


class AskingKernel(IPythonKernel):  # type: ignore[misc]
    """A kernel whose requests ask their own clients."""

    def raw_input(self, prompt: object = "") -> str:
        """Ask the client of the current request for a line of text."""
        self._check_stdin()
        request = current.get()
        if request is None:
            return str(super().raw_input(prompt))
        return str(self._input_request(str(prompt), request.idents, request.parent, password=False))

    def getpass(self, prompt: str = "", stream: Any = None, **kwargs: Any) -> str:
        """Ask the client of the current request for a password."""
        self._check_stdin()
        request = current.get()
        if request is None:
            return str(super().getpass(prompt, stream, **kwargs))
        return str(self._input_request(prompt, request.idents, request.parent, password=True))

    def _check_stdin(self) -> None:
        request = current.get()
        if request is not None and not request.allow_stdin:
            raise StdinNotImplementedError(
                NO_INPUT if request.block_id else "this frontend does not support input requests"
            )
