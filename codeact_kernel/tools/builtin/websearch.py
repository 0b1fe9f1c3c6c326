"""A web search, as a tool, by the service that the user has configured.

Comes in: what is looked for, from a block. Goes out: titles, addresses and excerpts. The service's key stays here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from codeact_kernel.errors import ConfigError, ToolError
from codeact_kernel.tools.builtin.exchange import Refused, check_status, exchange
from codeact_kernel.tools.builtin.searchapi import SearchApi

TIMEOUT = 30.0
"""Seconds for all of it. Ours: as for a page."""
HIDDEN = "[key]"
"""What stands in a text where the key stood."""


class SearchTool:
    """Searches the web.

    Args:
        table: The settings' table `[search]`.
        env: The environment in which the key is.

    Raises:
        ConfigError: If something of the table is wrong, or if there is no key.
    """

    def __init__(self, table: Mapping[str, Any], env: Mapping[str, str]) -> None:
        self._api = SearchApi.of(table)
        self._key = env.get(self._api.key_env, "").strip()
        if self._api.key_env and not self._key:
            raise ConfigError(
                f"search: the variable {self._api.key_env}, which shall hold the key, is not set here"
            )
        if not (self._key.isascii() and self._key.isprintable()):
            raise ConfigError(
                f"search: what the variable {self._api.key_env} holds is no key, but other text"
            )
        forms = {
            self._key,
            quote(self._key, safe=""),
            quote_plus(self._key),
            json.dumps(self._key)[1:-1],
            repr(self._key)[1:-1],
        }
        self._forms = sorted(forms - {""}, key=len, reverse=True)

    async def web_search(self, query: str, limit: int = 10) -> list[dict[str, str]]:
        """Search the web: a list of dicts of title, url and text, an excerpt.

        Args:
            query: What is looked for.
            limit: How many results at most; most services give 20 at once, or fewer.

        Raises:
            ToolError: If the service cannot be reached, or does not answer as it should.
        """
        if not query.strip() or limit < 1:
            raise ToolError("query is a text with words in it, and limit a number above zero")
        try:
            async with asyncio.timeout(TIMEOUT):
                results = await self._search(query, limit)
        except TimeoutError:
            raise ToolError(f"the search took longer than {TIMEOUT:g} s; try later") from None
        except ToolError as error:
            # Neither the error nor what has led to it may show the key.
            raise ToolError(
                f"the web search failed: {self._hidden(error.message)}{self._advice(error)}"
            ) from None
        return [{name: self._hidden(text) for name, text in result.items()} for result in results[:limit]]

    async def _search(self, query: str, limit: int) -> list[dict[str, str]]:
        url, headers, body = self._api.request(query, limit, self._key)
        # Followed, a redirect would carry the key to another server.
        response, data = await exchange(url, headers, body=body, redirects=False)
        # Before anything of it is cut: half of a key is not found any more.
        for form in self._forms:
            data = data.replace(form.encode(), HIDDEN.encode())
        check_status(url, response, data)
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"the service sends no JSON ({error})") from error
        return self._api.read(answer)

    def _advice(self, error: ToolError) -> str:
        status = error.status if isinstance(error, Refused) else 0
        if status in (401, 403) and self._key:
            return f"; the user has to check the key in {self._api.key_env}"
        if status == 403:
            return "; SearXNG says so where its settings do not list json under search.formats"
        if status == 429:
            return "; too many searches at once: wait before the next one"
        return (
            "; the user has to give the new address in the settings' [search]" if 300 <= status < 400 else ""
        )

    def _hidden(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text
