"""What a server offers, and what is known of it from an earlier run.

Comes in: a listing, as JSON. Goes out: a file in the user's cache, and the listing again. What an earlier run has seen
may be out of date: it gives names and signatures before a server is started, and is replaced at each start.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VERSION = 1
"""Raised when a file of before would be misread."""
LARGEST = 64 * 2**20
"""Bytes of a file that is read: more than is ever written."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offers."""

    tools: tuple[Mapping[str, Any], ...] = ()
    """Each name once: name, title, description, inputSchema and outputSchema as the server gave them, and its
    hints readOnly, destructive and openWorld, None where it gave none."""
    resources: bool = False
    prompts: bool = False
    about: str = ""
    """What it says of itself."""


def mend(result: dict[str, Any]) -> None:
    """Mend a page of tools, in place: for one tool that does not follow the protocol the SDK would take none.

    Args:
        result: A result as it came. A schema without a type gets that of an object, and one with another type is as
            none; what is no tool at all is left out.
    """
    if not isinstance(result.get("tools"), list):
        return
    result["tools"] = [tool for tool in result["tools"] if _is_tool(tool)]
    for tool in result["tools"]:
        for key in ("inputSchema", "outputSchema"):
            schema = tool.get(key)
            if isinstance(schema, dict) and schema.get("type", "object") == "object":
                tool[key] = {**schema, "type": "object"}
            elif key == "inputSchema":
                tool[key] = {"type": "object", "additionalProperties": True}
            else:
                tool.pop(key, None)


class ListingCache:
    """Listings on disk.

    Args:
        folder: Where; None takes `codeact-kernel/mcp` in the user's cache.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None:
            import platformdirs

            folder = platformdirs.user_cache_path("codeact-kernel") / "mcp"
        self._folder = folder

    def read(self, key: str) -> Listing | None:
        """What is known of a server; None where that is nothing, or cannot be read."""
        path = self._folder / f"{key}.json"
        try:
            if path.stat().st_size > LARGEST:
                return None
            content = json.loads(path.read_text("utf-8"))
            tools = tuple(content["tools"])
            if content["version"] != VERSION or not all(_is_tool(tool) for tool in tools):
                return None
            return Listing(tools, bool(content["resources"]), bool(content["prompts"]), str(content["about"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def write(self, key: str, listing: Listing) -> None:
        """Keep a listing; where that cannot be done, the next run knows nothing, and no more is lost."""
        text = json.dumps({"version": VERSION, **asdict(listing)})
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            # Under a name of its own first: several runs may write at once, and none may read half of it.
            with tempfile.NamedTemporaryFile(
                "w", prefix=key, suffix=".partial", dir=self._folder, delete=False
            ) as file:
                partial = Path(file.name)
                try:
                    file.write(text)
                    file.close()
                    partial.replace(self._folder / f"{key}.json")
                finally:
                    partial.unlink(missing_ok=True)


def _is_tool(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)
