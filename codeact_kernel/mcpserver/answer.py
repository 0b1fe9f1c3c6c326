"""What a call is answered with, and which pictures of a block's outputs go with it.

Comes in: outputs. Goes out: the pictures in them, and the outputs with a line of text for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from codeact_kernel.blocks import DisplayOutput, Output, ResultOutput
from codeact_kernel.dialogue import bundle_text, in_the_end

PICTURES = 8
"""Pictures in one answer; ours: more are seldom looked at, and each costs some thousand tokens."""
PICTURE_DATA = 5_000_000
"""Characters of base64 of all of them; what Anthropic's API takes of one image."""
_SEEN = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The formats that models take."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a block has displayed."""

    mime: str
    data: str
    """Base64."""


@dataclass(slots=True)
class Pictures:
    """Takes pictures out of outputs, as many as an answer may hold."""

    taken: list[Picture] = field(default_factory=list)
    _data: int = 0

    def take(self, outputs: Sequence[Output]) -> list[Output]:
        """Take what of outputs would be seen in the end.

        Args:
            outputs: What a block has put out.

        Returns:
            The outputs, with a line of text for each picture that was taken. What is too much stays as it is.
        """
        return [self._take(output) for output in in_the_end(outputs)]

    def _take(self, output: Output) -> Output:
        if not isinstance(output, DisplayOutput | ResultOutput):
            return output
        mime = next((mime for mime in _SEEN if isinstance(output.data.get(mime), str)), None)
        if mime is None:
            return output
        data = "".join(output.data[mime].split())
        if len(self.taken) == PICTURES or self._data + len(data) > PICTURE_DATA:
            return output
        self.taken.append(Picture(mime, data))
        self._data += len(data)
        words = bundle_text({mime: output.data[mime]}, f"picture {len(self.taken)}")
        return DisplayOutput({"text/plain": words})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call is answered with."""

    text: str
    pictures: tuple[Picture, ...] = ()
    failed: bool = False
    """Whether the client is told that the call failed."""
    blocks: tuple[dict[str, Any], ...] = ()
    """For programs: of each block that is told of its id, status and seconds."""
