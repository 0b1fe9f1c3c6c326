"""The signature of a journal's line, made together with that of the line before it.

Comes in: lines of JSON. Goes out: the same with a last field `mac`; whether that of a line is right. So none can be
changed, added, moved or taken out of the middle by somebody who does not have the installation's key. Lines that were
cut off the end are not missed: a crash does that, too.
"""

from __future__ import annotations

import re

from codeact_kernel.signing import Signer

_LINE = re.compile(rb'(\{.*), "mac": "([0-9a-f]{64})"\}', re.DOTALL)
_PURPOSE = b"codeact journal 1\n"
"""So that nothing else that was signed passes for a line of a journal."""


class Seal:
    """Signs the lines of one journal, in order, or looks at them.

    Args:
        signer: Whose signature it is.
        last: The signature of the line before the next one; empty at the beginning.
    """

    def __init__(self, signer: Signer, last: str = "") -> None:
        self._signer = signer
        self.last = last

    def sealed(self, line: bytes) -> bytes:
        """A line with its signature.

        Args:
            line: A JSON object, without a line end.
        """
        body = line[:-1]
        self.last = self._signer.sign(self._signed(body))
        return body + b', "mac": "%s"}' % self.last.encode()

    def is_right(self, line: bytes) -> bool:
        """Whether a line is signed as it should be, behind the last one of which that was so.

        Args:
            line: As it stands in the file, without its line end.
        """
        match = _LINE.fullmatch(line)
        if match is None or not self._signer.is_right(self._signed(match[1]), match[2].decode()):
            return False
        self.last = match[2].decode()
        return True

    def _signed(self, body: bytes) -> bytes:
        return _PURPOSE + self.last.encode() + b"\n" + body
