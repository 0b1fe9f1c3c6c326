"""An MCP server of the standard library alone, with 25 tools. Started as a program: many_server.py NAME."""

from __future__ import annotations

import json
import sys

VERBS = ("list", "get", "search", "create", "update")
THINGS = ("issues", "comments", "users", "projects", "attachments")


def tools(name):
    """What a server of this name has."""
    schema = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What is looked for."},
            "page": {"type": "integer", "default": 1},
            "state": {"type": "string", "enum": ["open", "closed"], "default": "open"},
        },
        "required": ["query"],
    }
    words = [(verb, thing) for verb in VERBS for thing in THINGS]
    return [
        {
            "name": f"{verb}_{thing}",
            "description": f"{verb.title()} {thing} in {name}.",
            "inputSchema": schema,
        }
        for verb, thing in words
    ]


def answer(method, params, name):
    """What is answered to a request."""
    if method == "initialize":
        about = {"name": name, "version": "1"}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": about,
        }
    if method == "tools/list":
        return {"tools": tools(name)}
    if method == "tools/call":
        found = {"server": name, "tool": params["name"], **params["arguments"]}
        return {"content": [{"type": "text", "text": json.dumps(found)}], "structuredContent": found}
    return {}


def main():
    """Answer until stdin ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message["method"], message.get("params"), sys.argv[1])
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
