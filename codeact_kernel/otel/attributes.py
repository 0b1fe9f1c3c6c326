"""What a span says, in the names of the GenAI conventions.

Comes in: figures, calls, an endpoint. Goes out: attributes of spans. Where the conventions have no name it is our own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from codeact_kernel.messages import Usage

AGENT = "codeact"
"""What an agent is called that has no name."""


def of_usage(usage: Usage) -> dict[str, Any]:
    """What was used, as attributes; the cost has no name in the conventions, and none where it is not known."""
    cost = {} if usage.cost is None else {"codeact.cost": usage.cost}
    cached = {"gen_ai.usage.cache_read.input_tokens": usage.cached_tokens} if usage.cached_tokens else {}
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        **cached,
        **cost,
    }


def of_tool(name: str, call_id: str, arguments: str | None) -> dict[str, Any]:
    """What a block or a call of a tool is; its arguments where content is told."""
    told = {} if arguments is None else {"gen_ai.tool.call.arguments": arguments}
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call_id,
        **told,
    }


def of_server(options: Mapping[str, Any]) -> dict[str, Any]:
    """The endpoint's host and port, where it was named; nothing else of its URL, which may hold a key."""
    try:
        url = urlsplit(options.get("base_url") or "")
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        return {}
    return {"server.address": url.hostname, "server.port": port} if url.hostname else {}


def of_messages(role: str, text: str) -> str:
    """One message, as the conventions write a conversation."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])
