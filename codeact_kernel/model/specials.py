"""Marks of chat templates, made harmless in what a local model reads.

Comes in: messages, whose texts may hold whatever a block printed or a page said. Goes out: the same messages, in which
no text is a mark any more. llama.cpp puts the messages into the model's template and reads the whole with its special
tokens: a printed "<|im_end|>" would end the message that it stands in, and what follows could be a system message.
Endpoints on the network read texts without special tokens, or keep them apart by themselves; nothing is changed for
them.
"""

from __future__ import annotations

import re
from dataclasses import replace

from codeact_kernel.messages import Message, ModelRequest

_MARK = re.compile(
    r"<(?=[|\uff5c][^\s<>|\uff5c]{1,40}[|\uff5c]>|/?s>|(?:start|end)_of_turn>|bos>|eos>|unk>|pad>|unused\d+>)|\[(?=/?INST\])"
)
_APART = "\u200b"
"""A space without width: to a reader the text is the same."""


def harmless(request: ModelRequest) -> ModelRequest:
    """Take the meaning from marks that stand in messages.

    Args:
        request: What the model is asked.

    Returns:
        The request, with a space without width behind the first character of each mark.
    """
    return replace(request, messages=tuple(map(_harmless, request.messages)))


def _harmless(message: Message) -> Message:
    text = _MARK.sub(lambda mark: mark[0] + _APART, message.content)
    return message if text == message.content else replace(message, content=text)
