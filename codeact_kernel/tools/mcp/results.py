"""What a server answers, as objects of Python.

Comes in: results of the protocol. Goes out: plain data, text, bytes and pictures, which can travel into a kernel.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

from codeact_kernel.errors import ToolError
from codeact_kernel.inkernel.wire import Picture

_NOTHING: Any = object()
_IMAGE = re.compile(r"image/[\w.+-]+")


def tool_value(result: CallToolResult, wrapped: bool) -> Any:
    """The value of a call that succeeded.

    Args:
        result: The result.
        wrapped: Whether its structured content is {"result": value}.

    Returns:
        Its structured content, where it has some; pictures and other content beside that are in it under "content".
        Else its content: None, the value of the one block, or a list of all. Text stays text, also where it is JSON.

    Raises:
        ToolError: If its base64 is none.
    """
    structured: Any = result.structured_content
    if structured is None:
        return _one_or_all([content_value(block) for block in result.content])
    value = (
        structured["result"]
        if wrapped and isinstance(structured, dict) and "result" in structured
        else structured
    )
    # The text beside it is the same once more; the rest is not.
    others = [block for block in result.content if not isinstance(block, TextContent)]
    if not others:
        return value
    rest = [content_value(block) for block in others]
    if isinstance(value, dict) and value.get("content", _NOTHING) in (_NOTHING, *_as_json(others)):
        return {**value, "content": rest}
    return [value, *rest]


def _as_json(blocks: list[Any]) -> list[Any]:
    """What a server writes under "content" that puts its blocks into its structured content, too."""
    return [[block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks]]


def error_text(result: CallToolResult) -> str:
    """What a call that failed says."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def content_value(block: ContentBlock) -> Any:
    """The value of one block of content."""
    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return _data(block.data, block.mime_type)
        case AudioContent():
            return _bytes(block.data)
        case EmbeddedResource():
            return _resource(block.resource)
        case ResourceLink():
            return described(block, "uri", "name", "title", "description", "mimeType", "size")


def resource_value(result: ReadResourceResult) -> Any:
    """The content of a resource: text, bytes or a picture; a list of them where it has several parts."""
    return _one_or_all([_resource(part) for part in result.contents])


def prompt_value(result: GetPromptResult) -> list[dict[str, Any]]:
    """The messages of a prompt, each with its role and content."""
    return [{"role": message.role, "content": content_value(message.content)} for message in result.messages]


def described(item: BaseModel, *keys: str) -> dict[str, Any]:
    """What a listing says of something, as plain data.

    Args:
        item: An entry of a listing.
        keys: What of it, as the protocol calls it; what it does not have is left out.
    """
    known = item.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: known[key] for key in keys if key in known}


def _resource(part: TextResourceContents | BlobResourceContents) -> Any:
    if isinstance(part, TextResourceContents):
        return part.text
    return _data(part.blob, part.mime_type)


def _data(text: str, media_type: str | None) -> Any:
    # By its type a frontend decides how to show it: what is called an image must not be shown as a page.
    data = _bytes(text)
    return Picture(data, media_type) if media_type and _IMAGE.fullmatch(media_type) else data


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ToolError("the answer is broken: what should be base64 is none") from None


def _one_or_all(values: Sequence[Any]) -> Any:
    if not values:
        return None
    return values[0] if len(values) == 1 else list(values)
