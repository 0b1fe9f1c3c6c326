"""Reading a reply as it streams: what every codec has in common.

Comes in: characters. Goes out: prose, as soon as it can be nothing else, and no reasoning; what begins a
block is left to the subclass. A step of the reader takes the text from a position and returns the position
up to which it is decided; the rest is kept and looked at again when the character comes that can decide it.
So each character is looked at a bounded number of times, however small the pieces are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from codeact_kernel.blocks import Fault, Part, Prose
from codeact_kernel.dialogue.attributes import Desk
from codeact_kernel.dialogue.payload import BLANK, SPACE
from codeact_kernel.dialogue.vocabulary import TO_MODEL
from codeact_kernel.messages import CallPiece, ToolCall

Items = list[Part | Fault]
Step = Callable[[str, int, Items], int]

CUT = (None, "length")
"""The finish reasons of a reply that was cut."""
_THINK, _THOUGHT = "<think>", "</think>"
_ANY = ""
"""What a step waits for that wants every piece."""


class TextReader:
    """Reads prose and leaves out reasoning; the base of the readers of all codecs.

    Args:
        desk: What makes the blocks.
    """

    opener = r"(?!)"
    """A pattern of what begins a block at the start of a line."""
    opening_words: tuple[str, ...] = ()
    """The words that it can begin with, so that a part of one is waited for."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._received: list[str] = []
        self._fresh: list[str] = []
        self._rest = ""
        self._blank: list[str] = []
        self._at_line_start = True
        self._spoke = False
        self._acted = False
        self._over = False
        self._cut = False
        self._inline = False
        self._step: Step = self._begin
        self._awaited = _ANY

    def __init_subclass__(cls) -> None:
        invented = rf"<(?P<invented>{'|'.join(TO_MODEL)})(?=[\s/>])"
        cls._here = re.compile(rf"[{SPACE}]*(?P<tag>{cls.opener}|{invented})")
        cls._next = re.compile(rf"\n[{SPACE}]*(?P<tag>{cls.opener}|{invented})")
        cls._words = tuple(f"<{name}" for name in TO_MODEL) + cls.opening_words

    _here: re.Pattern[str]
    _next: re.Pattern[str]
    _words: tuple[str, ...]

    # The joint.

    def feed(self, piece: str | CallPiece) -> Sequence[Part | Fault]:
        """Take the next characters; see `ReplyReader.feed`."""
        if not isinstance(piece, str) or self._over:
            return ()
        self._received.append(piece)
        out: Items = []
        if self._awaited in piece:
            self._scan(piece, out)
        elif self._inline:
            self._say(piece, out)
        else:
            self._fresh.append(piece)
        return out

    def finish(self, reason: str | None) -> Sequence[Part | Fault]:
        """Take the end of a stream; see `ReplyReader.finish`."""
        out: Items = []
        if self._over:
            return out
        self._scan("", out)
        self._cut = reason in CUT and self._unfinished
        if not self._cut:
            self._end(reason, out)
        return out

    @property
    def cut(self) -> bool:
        """Whether the rest of the reply has to be asked for.

        A reply that was cut in the prose behind its blocks is not asked for: the blocks bring the model back.
        """
        return self._cut

    def resume(self) -> None:
        """Go on at the cut point; see `ReplyReader.resume`."""
        self._cut = False

    def give_up(self) -> Sequence[Part | Fault]:
        """Stop waiting for the rest; see `ReplyReader.give_up`."""
        out: Items = []
        if not self._over:
            self._cut = False
            self._abandon(out)
        return out

    @property
    def writing(self) -> tuple[str, str] | None:
        """No block: there is none, or it comes as a call, which nobody sees before it is whole."""
        return None

    @property
    def text(self) -> str:
        """What of the reply stays in the context."""
        return "" if self._reasons else "".join(self._received).strip(BLANK)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """No calls: they are in the text."""
        return ()

    # What a subclass says.

    def _open(self, tag: re.Match[str]) -> int:
        """Begin what the opener begins; returns up to where the text is decided."""
        raise NotImplementedError

    @property
    def _in_block(self) -> bool:
        """Whether a block has begun and is not complete."""
        return not self._reasons and self._step not in (self._begin, self._prose)

    def _end(self, reason: str | None, out: Items) -> None:
        """Close a reply whose stream ended for a reason."""
        del reason
        if self._reasons:
            message = (
                "Your reply ended inside <think>. Close it with </think>, then write your blocks or answer."
            )
            out.append(Fault("unclosed", message))
        else:
            self._say(self._take_rest(), out)
        self._over = True

    def _abandon(self, out: Items) -> None:
        """Close a reply that was cut and whose rest never came."""
        if not self._reasons:
            self._say(self._take_rest(), out)
        self._over = True
        if not self._acted:
            message = "Your reply was cut off before it was complete. Say it again, and shorter."
            out.append(Fault("cut", message))

    # The steps.

    def _enter(self, step: Step, awaited: str = _ANY) -> None:
        self._step, self._awaited = step, awaited

    def _scan(self, piece: str, out: Items) -> None:
        text = "".join((self._rest, *self._fresh, piece)) if self._rest or self._fresh else piece
        self._fresh.clear()
        self._inline = False
        at = 0
        step: Step | None = None
        while step is not self._step:
            step = self._step
            at = step(text, at, out)
        self._rest = text[at:]

    def _begin(self, text: str, at: int, out: Items) -> int:
        """White space, and then reasoning or the reply itself."""
        del out
        solid = len(text) - len(text[at:].lstrip(BLANK))
        self._blank.append(text[at:solid])
        if text.startswith(_THINK, solid):
            self._enter(self._think, ">")
            return solid + len(_THINK)
        if not _THINK.startswith(text[solid : solid + len(_THINK)]):
            self._enter(self._prose)
        return solid

    def _think(self, text: str, at: int, out: Items) -> int:
        del out
        end = text.find(_THOUGHT, at)
        if end < 0:
            return max(at, len(text) - len(_THOUGHT) + 1)
        self._received = [text[end + len(_THOUGHT) :]]
        self._blank.clear()
        self._enter(self._prose)
        return end + len(_THOUGHT)

    def _prose(self, text: str, at: int, out: Items) -> int:
        self._awaited = _ANY
        tag = self._find(text, at)
        if tag is None:
            decided = self._decided(text, at)
            self._say(text[at:decided], out)
            if not self._at_line_start:
                self._awaited, self._inline = "\n", True
            return decided
        self._say(text[at : tag.start("tag")], out)
        return self._drop(text, tag, out) if tag["invented"] else self._open(tag)

    def _find(self, text: str, at: int) -> re.Match[str] | None:
        """The next tag at the start of a line; before the first block, an invented one is prose."""
        tag = self._here.match(text, at) if self._at_line_start else None
        tag = tag or self._next.search(text, at)
        while tag and tag["invented"] and not self._acted:
            tag = self._next.search(text, tag.end())
        return tag

    def _decided(self, text: str, at: int) -> int:
        """Up to where text without a tag is prose for certain; the last line may become a tag."""
        line = text.rfind("\n", at) + 1
        if not line:
            if not self._at_line_start:
                return len(text)
            line = at
        start = len(text) - len(text[line:].lstrip(SPACE))
        begun = text[start : start + 40]
        self._at_line_start = any(word.startswith(begun) for word in self._words)
        return start if self._at_line_start else len(text)

    def _drop(self, text: str, tag: re.Match[str], out: Items) -> int:
        received = "".join(self._received)
        self._received = [received[: len(received) - len(text) + tag.start("tag")]]
        self._over = True
        message = (
            f"Your reply was dropped from <{tag['invented']}> on: only the runtime writes that tag, after "
            "your code has run. End your reply behind your last block."
        )
        out.append(Fault("invented", message))
        return len(text)

    def _say(self, text: str, out: Items) -> None:
        """Put out prose; white space waits until more prose comes, and is dropped before the first."""
        solid = text.rstrip(BLANK)
        if not solid:
            if text:
                self._blank.append(text)
            return
        whole = "".join((*self._blank, solid)) if self._blank else solid
        self._blank.clear()
        if not self._spoke:
            body = whole.lstrip(BLANK)
            whole = whole[: len(whole) - len(body)].rpartition("\n")[2] + body
            self._spoke = True
        if len(solid) < len(text):
            self._blank.append(text[len(solid) :])
        out.append(Prose(whole))

    # What they share.

    @property
    def _reasons(self) -> bool:
        return self._step == self._think

    @property
    def _unfinished(self) -> bool:
        return bool(self._in_block or not self._acted or self._rest)

    def _take_rest(self) -> str:
        rest, self._rest = self._rest, ""
        return rest
