"""How a search service is asked and understood."""

from __future__ import annotations

import pytest

from codeact_kernel.errors import ConfigError, ToolError
from codeact_kernel.tools.builtin.searchapi import KNOWN, SearchApi

SEARXNG = "http://localhost:8080/search?q={query}&format=json"
ANSWERS = {
    "searxng": {
        "query": "q",
        "results": [{"url": "http://a", "title": "A", "content": "about", "engine": "x"}],
    },
    "brave": {
        "type": "search",
        "web": {"results": [{"title": "A", "url": "http://a", "description": "about", "age": "1 day"}]},
    },
    "tavily": {
        "query": "q",
        "images": [],
        "results": [{"title": "A", "url": "http://a", "content": "about", "score": 0.8, "raw_content": None}],
    },
    "serper": {
        "searchParameters": {"q": "q"},
        "organic": [{"title": "A", "link": "http://a", "snippet": "about", "position": 1}],
    },
}


def api(name):
    return SearchApi.of({"api": name, "url": SEARXNG} if name == "searxng" else {"api": name})


@pytest.mark.parametrize("name", KNOWN)
def test_the_answer_of_a_known_service_is_understood(name):
    assert api(name).read(ANSWERS[name]) == [{"title": "A", "url": "http://a", "text": "about"}]


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("searxng", ("http://localhost:8080/search?q=a%20b%26c%3D%7Bkey%7D&format=json", {}, None)),
        (
            "brave",
            (
                "https://api.search.brave.com/res/v1/web/search?q=a%20b%26c%3D%7Bkey%7D&count=20&text_decorations=false",
                {"X-Subscription-Token": "k", "Accept": "application/json"},
                None,
            ),
        ),
        (
            "tavily",
            (
                "https://api.tavily.com/search",
                {"Authorization": "Bearer k"},
                {"query": "a b&c={key}", "max_results": 20},
            ),
        ),
        (
            "serper",
            ("https://google.serper.dev/search", {"X-API-KEY": "k"}, {"q": "a b&c={key}", "num": 50}),
        ),
    ],
)
def test_a_known_service_is_asked_as_it_wants_and_a_query_is_only_a_query(name, request_):
    assert api(name).request("a b&c={key}", 50, "k") == request_


def test_what_the_settings_say_counts_over_what_is_known():
    table = {
        "api": "tavily",
        "key_env": "MINE",
        "most": 3,
        "body": {"search_depth": "advanced", "topics": ["{query}"]},
    }
    mine = SearchApi.of(table)
    assert mine.key_env == "MINE"
    body = {"query": "q", "max_results": 3, "search_depth": "advanced", "topics": ["q"]}
    assert mine.request("q", 9, "k") == ("https://api.tavily.com/search", {"Authorization": "Bearer k"}, body)
    assert KNOWN["tavily"]["body"] == {"query": "{query}", "max_results": "{limit}"}


def test_a_service_of_one_s_own():
    table = {
        "url": "https://search.example.com/find?q={query}&n={limit}&token={key}",
        "key_env": "TOKEN",
        "results": "data.hits",
        "fields": {"title": "doc.name", "url": "doc.link", "text": "score"},
    }
    own = SearchApi.of(table)
    assert own.request("é", 5, "a/b")[0] == "https://search.example.com/find?q=%C3%A9&n=5&token=a%2Fb"
    hits = [{"doc": {"name": "N", "link": "http://n"}, "score": 0.5}, {"doc": None, "score": None}]
    assert own.read({"data": {"hits": hits}}) == [
        {"title": "N", "url": "http://n", "text": "0.5"},
        {"title": "", "url": "", "text": ""},
    ]
    assert SearchApi.of({"url": SEARXNG, "results": ""}).read([{"title": "A"}])[0]["title"] == "A"


def test_brave_says_nothing_where_it_finds_nothing():
    assert api("brave").read({"type": "search", "query": {}}) == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            {"error": "no", "code": 3},
            r"the answer has no 'results', only 'error', 'code'; the user has to change",
        ),
        ([], r"the answer has no 'results', only list \[\]"),
        ({"results": {}}, "at 'results' the answer has no list of results but an empty object"),
        ({"results": ["a"]}, "no list of results"),
        ("x" * 1000, "only str 'xxx"),
    ],
)
def test_another_answer_is_an_error_that_shows_what_there_is(answer, message):
    with pytest.raises(ToolError, match=message) as error:
        api("searxng").read(answer)
    assert len(error.value.message) < 250


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "url is missing"),
        ({"api": "searxng"}, r"url is missing or no address; it is such as .http://localhost:8080/search"),
        ({"api": "bing"}, "api is 'bing'; it is one of searxng, brave, tavily, serper, or left out"),
        ({"ulr": SEARXNG}, "'ulr' is no key of it; did you mean 'url'?"),
        ({"url": "localhost/{query}"}, "no address"),
        ({"url": "http://localhost/"}, r"neither url nor body has \{query\}"),
        ({"url": SEARXNG, "key_env": "KEY"}, "give both"),
        ({"url": SEARXNG, "headers": {"X-Key": "{key}"}}, "give both"),
        ({"url": SEARXNG, "headers": {"X-Key": 3}}, "it takes a table of texts"),
        ({"url": SEARXNG, "body": "q"}, "body is 'q'; it takes a table"),
        ({"url": SEARXNG, "fields": {"name": "title"}}, "fields has 'name'; a result has title, url, text"),
        ({"url": SEARXNG, "most": 0}, "most is 0; it takes a whole number above zero"),
        ({"url": SEARXNG, "most": True}, "most is True"),
    ],
)
def test_a_table_that_is_wrong_says_what_is(table, message):
    with pytest.raises(ConfigError, match=message):
        SearchApi.of(table)
