"""How many tokens a text is.

Comes in: texts and messages, and what endpoints report. Goes out: counts, exact where tiktoken knows the
model's encoding and its vocabulary lies on this machine, else estimates that get better with each reply. The
network is never touched: a vocabulary that is not here is an estimate, not a download.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.util
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from codeact_kernel.messages import Message

BYTES_PER_TOKEN = 4
"""OpenAI's rule of thumb is four characters of English a token. Bytes of UTF-8 say the same for English, and
are nearer for scripts whose characters are a token each."""
TOKENS_PER_MESSAGE = 3
"""What the chat format of OpenAI's models puts round each message, and once before the reply (OpenAI's
cookbook on counting tokens)."""
_SLICE = 50_000
"""Characters that are encoded at once: a run of a million spaces makes tiktoken's regular expression end the
process's thread with a panic (0.14). A cut costs a token at most."""
_RATIOS = (0.2, 5.0)
"""Bounds of the correction that one report can make; past them the report is about something else."""


class Counter:
    """Counts the tokens of one model. Loading an encoding takes up to 0.7 s, once a process.

    Args:
        model: The model, as its endpoint knows it.
        encoding: The encoding's name where the model's does not tell it; None asks tiktoken.
        vocabularies: A folder of vocabularies under the names that tiktoken gives them; looked at after
            `TIKTOKEN_CACHE_DIR`. Files with a wrong hash are not used, and nothing is written or deleted.
        env: The environment; None takes that of the process.
    """

    def __init__(
        self,
        model: str = "",
        encoding: str | None = None,
        vocabularies: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        name = encoding or _encoding_of(model)
        cache = (os.environ if env is None else env).get("TIKTOKEN_CACHE_DIR")
        folders = (*([Path(cache)] if cache else []), *([vocabularies] if vocabularies else []))
        self._encoding: Any = _load(name, folders) if name else None
        self._ratio = 1.0
        self._unseen = 0

    @property
    def exact(self) -> bool:
        """Whether counts of text are exact; else they are estimates, and should be labelled so."""
        return self._encoding is not None

    def count(self, text: str) -> int:
        """Count a text's tokens.

        Args:
            text: Any text.
        """
        if self._encoding is None:
            return round(_estimate(text) * self._ratio)
        return self._encode(text)

    def count_messages(self, messages: Iterable[Message]) -> int:
        """Count a prompt's tokens, with what the chat format adds.

        Args:
            messages: The prompt.
        """
        if self._encoding is None:
            return round(self._raw(messages) * self._ratio)
        return self._raw(messages) + self._unseen

    def calibrate(self, messages: Sequence[Message], input_tokens: int) -> None:
        """Learn from what an endpoint says a prompt was. The next counts are corrected by it.

        Estimates learn a ratio. Exact counts learn only what comes on top of the messages: the schemas of
        tools, a template's own words.

        Args:
            messages: The prompt, whole.
            input_tokens: What the endpoint counted. Never pass an estimate here (`Usage.estimated`).
        """
        raw = self._raw(messages)
        if raw <= 0 or input_tokens <= 0:
            return
        if self._encoding is None:
            low, high = _RATIOS
            self._ratio = min(high, max(low, input_tokens / raw))
        else:
            self._unseen = max(0, input_tokens - raw)

    def _raw(self, messages: Iterable[Message]) -> int:
        count = _estimate if self._encoding is None else self._encode
        total = TOKENS_PER_MESSAGE
        for message in messages:
            total += TOKENS_PER_MESSAGE + count(message.role) + count(message.content)
            total += sum(count(call.name) + count(call.arguments) for call in message.tool_calls)
        return total

    def _encode(self, text: str) -> int:
        return sum(
            len(self._encoding.encode_ordinary(text[start : start + _SLICE]))
            for start in range(0, len(text), _SLICE)
        )


def _estimate(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def _encoding_of(model: str) -> str | None:
    """The encoding that tiktoken names for a model, also under a provider's prefix ("openai/gpt-5")."""
    import tiktoken

    try:
        return tiktoken.encoding_name_for_model(model.rpartition("/")[2])
    except KeyError:
        return None


@functools.cache
def _load(name: str, folders: tuple[Path, ...]) -> Any:
    """Build an encoding from files on this machine.

    tiktoken's own loader would delete a file with a wrong hash and go to the network. So its recipe for the
    encoding runs in a copy of its module in which the loader is ours.

    Args:
        name: The encoding.
        folders: Where its vocabulary may lie.

    Returns:
        The `tiktoken.Encoding`, or None where there is no such encoding, or no vocabulary.
    """
    import tiktoken

    def read(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
        key = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
        for path in (folder / key for folder in folders):
            data = path.read_bytes() if path.is_file() else b""
            if data and expected_hash in (None, hashlib.sha256(data).hexdigest()):
                pairs = (line.split() for line in data.splitlines())
                return {base64.b64decode(token): int(rank) for token, rank in pairs}
        raise FileNotFoundError(url)

    def refuse(*_: Any, **__: Any) -> dict[bytes, int]:
        raise FileNotFoundError(name)

    found = importlib.util.find_spec("tiktoken_ext.openai_public")
    assert found is not None
    assert found.loader is not None
    recipes = importlib.util.module_from_spec(found)
    found.loader.exec_module(recipes)
    vars(recipes).update(load_tiktoken_bpe=read, data_gym_to_mergeable_bpe_ranks=refuse)
    constructor = vars(recipes)["ENCODING_CONSTRUCTORS"].get(name)
    try:
        return tiktoken.Encoding(**constructor()) if constructor else None
    except OSError:
        return None
