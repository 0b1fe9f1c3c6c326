"""How a web search service is asked, and how its answer is read.

Comes in: the table `[search]` of the settings. Goes out: `SearchApi`: requests, and results of answers.

Requests to Brave ("Web Search API"), Tavily ("Search endpoint") and SearXNG ("Search API"), and the answers of the
first two, are as their documentation has them. SearXNG's answer and Serper are as published schemas and clients have
them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self
from urllib.parse import quote

from codeact_kernel.errors import ConfigError, ToolError

Result = dict[str, str]
_PLACEHOLDER = re.compile(r"\{(query|limit|key)\}")
_RESULT = ("title", "url", "text")

KNOWN: Mapping[str, Mapping[str, Any]] = {
    "searxng": {"fields": {"text": "content"}},
    "brave": {
        "url": "https://api.search.brave.com/res/v1/web/search?q={query}&count={limit}&text_decorations=false",
        "headers": {"X-Subscription-Token": "{key}", "Accept": "application/json"},
        "key_env": "BRAVE_API_KEY",
        "results": "web?.results",
        "fields": {"text": "description"},
        "most": 20,
    },
    "tavily": {
        "url": "https://api.tavily.com/search",
        "headers": {"Authorization": "Bearer {key}"},
        "body": {"query": "{query}", "max_results": "{limit}"},
        "key_env": "TAVILY_API_KEY",
        "fields": {"text": "content"},
        "most": 20,
    },
    "serper": {
        "url": "https://google.serper.dev/search",
        "headers": {"X-API-KEY": "{key}"},
        "body": {"q": "{query}", "num": "{limit}"},
        "key_env": "SERPER_API_KEY",
        "results": "organic",
        "fields": {"url": "link", "text": "snippet"},
        "most": 100,
    },
}
"""What is known of some services; what the settings say counts over it, in tables key by key."""


@dataclass(frozen=True, slots=True)
class SearchApi:
    """A service. In its url, headers and body, {query}, {limit} and {key} stand for what they say."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    """Sent as JSON, by POST; empty for GET."""
    key_env: str = ""
    """The variable of the host's environment that holds the key; empty where there is none."""
    results: str = "results"
    """Where in the answer the list of results is: names, with dots between them. One that may be missing, where nothing
    was found, ends in a question mark."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Where in a result its title, url and text are, where not under these names."""
    most: int = 100
    """The most results that it gives at once."""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Self:
        """Read the settings' table.

        Args:
            table: Its keys are the fields of this class, and `api`, one of `KNOWN`.

        Raises:
            ConfigError: If something of it is wrong.
        """
        known = [one.name for one in fields(cls)]
        for key in table:
            if key not in ("api", *known):
                near = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise ConfigError(f"search: {key!r} is no key of it; {hint}known are api, {', '.join(known)}")
        name = table.get("api")
        if name is not None and name not in KNOWN:
            raise ConfigError(f"search: api is {name!r}; it is one of {', '.join(KNOWN)}, or left out")
        merged = dict(KNOWN[name]) if name is not None else {}
        for key, value in table.items():
            if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
                merged[key] = {**merged[key], **value}
            elif key != "api":
                merged[key] = value
        _check(merged)
        return cls(**merged)

    def request(self, query: str, limit: int, key: str) -> tuple[str, dict[str, str], Any]:
        """How it is asked.

        Args:
            query: What is looked for.
            limit: How many results.
            key: The key.

        Returns:
            The address, the headers, and the body, which is None for GET.
        """
        values = {"query": query, "limit": min(limit, self.most), "key": key}
        quoted = {name: quote(str(value), safe="") for name, value in values.items()}
        headers = {name: _filled(text, values) for name, text in self.headers.items()}
        return _filled(self.url, quoted), headers, _filled_in(self.body, values) if self.body else None

    def read(self, answer: Any) -> list[Result]:
        """The results of an answer.

        Args:
            answer: Its JSON.

        Raises:
            ToolError: If there are none where the settings say that they are.
        """
        found = answer
        for part in filter(None, self.results.split(".")):
            name = part.removesuffix("?")
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, Mapping) and name != part:
                return []
            else:
                raise ToolError(f"the answer has no {name!r}, only {_shown(found)}; {_WRONG}")
        if not isinstance(found, list) or not all(isinstance(result, Mapping) for result in found):
            raise ToolError(
                f"at {self.results!r} the answer has no list of results but {_shown(found)}; {_WRONG}"
            )
        return [{name: _text(result, self.fields.get(name, name)) for name in _RESULT} for result in found]


_WRONG = "the user has to change 'results' in the settings' table [search]"


def _check(table: Mapping[str, Any]) -> None:
    for key, kind, words in (
        ("url", str, "a text"),
        ("headers", Mapping, "a table of texts"),
        ("body", Mapping, "a table"),
        ("key_env", str, "the name of a variable"),
        ("results", str, 'a path such as "data.items"'),
        ("fields", Mapping, "a table of texts"),
        ("most", int, "a whole number above zero"),
    ):
        value = table.get(key)
        texts = value.values() if key in ("headers", "fields") and isinstance(value, Mapping) else ()
        right = isinstance(value, kind) and all(isinstance(text, str) for text in texts)
        if value is not None and (not right or (key == "most" and (value is True or value < 1))):
            raise ConfigError(f"search: {key} is {value!r}; it takes {words}")
    for name in table.get("fields", ()):
        if name not in _RESULT:
            raise ConfigError(f"search: fields has {name!r}; a result has {', '.join(_RESULT)}")
    if not re.match(r"https?://", table.get("url", "")):
        raise ConfigError(
            'search: url is missing or no address; it is such as "http://localhost:8080/search?q={query}&format=json"'
        )
    used = set(_PLACEHOLDER.findall(f"{table['url']} {table.get('headers')} {table.get('body')}"))
    if "query" not in used:
        raise ConfigError("search: neither url nor body has {query}, where what is looked for goes")
    if ("key" in used) != bool(table.get("key_env")):
        raise ConfigError(
            "search: key_env names the variable with the key, and {key} is where it goes: give both"
        )


def _filled(template: str, values: Mapping[str, Any]) -> str:
    # All at once: what is looked for may itself look like a placeholder.
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), template)


def _filled_in(value: Any, values: Mapping[str, Any]) -> Any:
    """A body with its placeholders filled in; "{limit}" alone is a number."""
    if isinstance(value, Mapping):
        return {key: _filled_in(part, values) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled_in(part, values) for part in value]
    if value == "{limit}":
        return values["limit"]
    return _filled(value, values) if isinstance(value, str) else value


def _text(result: Any, path: str) -> str:
    for part in path.split("."):
        result = result.get(part) if isinstance(result, Mapping) else None
    return "" if result is None else str(result)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(map(repr, list(value)[:10])) or "an empty object"
    return f"{type(value).__name__} {value!r:.60}"
