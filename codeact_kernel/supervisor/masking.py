"""A block's outputs, with known secrets masked before anything keeps them.

Comes in: outputs as a runner reports them, cut anywhere. Goes out: the same without secrets. An end of a stream that
may begin a secret is kept back until the stream goes on or the block ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from codeact_kernel.blocks import Output, StreamOutput
from codeact_kernel.masking import Mask, StreamMask


class OutputMask:
    """Masks what one block puts out.

    Args:
        mask: Knows the secrets.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._streams = {"stdout": StreamMask(mask), "stderr": StreamMask(mask)}
        self._over = False

    def feed(self, output: Output) -> Iterator[Output]:
        """Take an output; gives what can be kept now."""
        if not self._mask:
            yield output
        elif not isinstance(output, StreamOutput):
            yield from self._kept()
            yield self._mask.of(output)
        else:
            stream = self._streams[output.name]
            text = stream.feed(output.text) + (stream.rest() if self._over else "")
            if text or not output.text:
                yield replace(output, text=text)

    def finish(self) -> Iterator[Output]:
        """Take that the block has ended; gives what is left. Late output is masked piece by piece."""
        self._over = True
        yield from self._kept()

    def _kept(self) -> Iterator[Output]:
        for name, stream in self._streams.items():
            if kept := stream.rest():
                yield StreamOutput("stdout" if name == "stdout" else "stderr", kept)
