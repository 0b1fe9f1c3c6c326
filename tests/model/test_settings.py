from __future__ import annotations

import dataclasses
import json

import pytest

from codeact_kernel.errors import ConfigError
from codeact_kernel.events import to_json
from codeact_kernel.messages import ImageLimits
from codeact_kernel.model import resolve, resolve_for_agent, resolve_vision
from codeact_kernel.model.address import Key, check_url, is_loopback, public_url
from codeact_kernel.model.settings import DEFAULT_ENDPOINT
from codeact_kernel.prices import FREE, Prices

KEYS = {"OPENAI_API_KEY": "sk-openai"}
ALIASES = {
    "flash": "gpt-5-mini",
    "strong": {
        "model": "big",
        "base_url": "https://big.example/v1/",
        "key_env": "BIG_KEY",
        "window": 200000,
        "prices": {"input": 3, "output": 15.0},
        "extra": {"reasoning_effort": "high"},
        "encoding": "o200k_base",
        "timeout": 60,
        "max_tokens": 9000,
    },
    "small": {"model": "local:1.5b", "window": 4096, "extra": {"temperature": 0.7}},
}


def test_the_name_is_the_first_of_option_environment_and_settings():
    env = {**KEYS, "CODEACT_MODEL": "from-env"}
    assert resolve("from-option", {}, None, env, default="from-file").model == "from-option"
    assert resolve(None, {}, None, env, default="from-file").model == "from-env"
    assert resolve(None, {}, None, {**KEYS, "CODEACT_MODEL": " "}, default="from-file").model == "from-file"


def test_no_name_at_all_says_what_to_do():
    with pytest.raises(ConfigError, match="--model local") as caught:
        resolve(None, {}, None, KEYS)
    assert caught.value.exit_code == 2


def test_the_endpoint_is_the_first_of_option_alias_and_environment():
    env = {**KEYS, "BIG_KEY": "k", "LLM_BASE_URL": "http://llm/v1", "OPENAI_BASE_URL": "http://openai/v1"}
    assert resolve("strong", ALIASES, "http://option/v1", env).base_url == "http://option/v1"
    assert resolve("strong", ALIASES, None, env).base_url == "https://big.example/v1"
    assert resolve("flash", ALIASES, None, env).base_url == "http://llm/v1"
    del env["LLM_BASE_URL"]
    assert resolve("flash", ALIASES, None, env).base_url == "http://openai/v1"
    assert resolve("flash", ALIASES, None, KEYS).base_url == DEFAULT_ENDPOINT


def test_the_key_is_the_first_that_is_set():
    both = {"LLM_API_KEY": "sk-llm", **KEYS}
    assert resolve("m", {}, None, both).key == Key("sk-llm")
    assert resolve("m", {}, None, {"LLM_API_KEY": "", **KEYS}).key == Key("sk-openai")
    assert resolve("m", {}, None, {"LLM_API_KEY": "  sk-llm\n"}).key == Key("sk-llm")
    assert resolve("m", {}, None, both).key_from == "LLM_API_KEY"
    assert resolve("strong", ALIASES, None, {**both, "BIG_KEY": "big"}).key == Key("big")


def test_a_missing_key_for_openai_is_one_line_with_the_ways_out():
    with pytest.raises(ConfigError) as caught:
        resolve("gpt-5-mini", {}, None, {})
    message = caught.value.message
    assert "\n" not in message
    for word in ("LLM_API_KEY", "OPENAI_API_KEY", "--base-url", "--model local"):
        assert word in message


@pytest.mark.parametrize("url", ["http://localhost:8000/v1", "http://127.0.0.1:1", "http://[::1]:11434/v1"])
def test_loopback_needs_no_key(url):
    assert resolve("m", {}, url, {}).key is None


def test_a_key_that_an_alias_names_must_be_there():
    with pytest.raises(ConfigError, match="BIG_KEY"):
        resolve("strong", ALIASES, None, KEYS)


@pytest.mark.parametrize("value", ["two words", "schlüssel", "line\nbreak", "tab\there"])
def test_what_cannot_be_a_key_is_refused_without_showing_it(value):
    with pytest.raises(ConfigError, match="LLM_API_KEY") as caught:
        resolve("m", {}, None, {"LLM_API_KEY": value})
    assert value not in caught.value.message


def test_a_key_shows_itself_nowhere():
    settings = resolve("m", {}, None, {"LLM_API_KEY": "sk-secret"})
    for shown in (repr(settings), str(settings.key), f"{settings.key!r}", str(dataclasses.asdict(settings))):
        assert "sk-secret" not in shown
    with pytest.raises(TypeError):
        json.dumps(to_json(settings))


def test_an_alias_fills_every_field():
    settings = resolve("strong", ALIASES, None, {"BIG_KEY": "big"})
    assert (settings.name, settings.model, settings.kind) == ("strong", "big", "endpoint")
    assert settings.window == 200000
    assert settings.prices == Prices(3.0, 15.0)
    assert settings.extra == {"reasoning_effort": "high"}
    assert (settings.encoding, settings.timeout, settings.max_tokens) == ("o200k_base", 60.0, 9000)


def test_local_is_free_repeatable_and_needs_no_key():
    settings = resolve("local", {}, "http://ignored/v1", {})
    assert (settings.kind, settings.model, settings.prices) == ("local", "0.5b", FREE)
    assert settings.extra == {"temperature": 0, "seed": 0}
    assert settings.window == 8192
    assert resolve("local:135m", {}, None, {}).model == "135m"
    assert resolve("local:/w/my.gguf", {}, None, {}).model == "/w/my.gguf"
    small = resolve("small", ALIASES, None, {})
    assert (small.model, small.window, small.extra) == ("1.5b", 4096, {"temperature": 0.7, "seed": 0})


def test_an_embedded_model_that_is_not_there_lists_those_that_are():
    with pytest.raises(ConfigError, match=r"0\.5b, 1\.5b, 135m"):
        resolve("local:7b", {}, None, {})


def test_a_replay_names_its_file():
    settings = resolve("replay:runs/a.jsonl", {}, None, {})
    assert (settings.kind, settings.model, settings.prices) == ("replay", "runs/a.jsonl", FREE)


@pytest.mark.parametrize(
    ("alias", "hint"),
    [
        ({"modle": "x"}, "'modle' is no field"),
        ({}, "says no model"),
        ({"model": " "}, "says no model"),
        ({"model": 5}, "5 is no text"),
        ({"model": "x", "window": "big"}, "'big' is no whole number"),
        ({"model": "x", "window": True}, "True is no whole number"),
        ({"model": "x", "window": 0}, "above zero"),
        ({"model": "x", "timeout": -1}, "above zero"),
        ({"model": "x", "extra": [1]}, "is no table"),
        ({"model": "x", "prices": {"input": 1}}, "million"),
        ({"model": "x", "prices": {"input": -1, "output": 1}}, "is no price"),
        ({"model": "x", "prices": {"input": 1, "output": float("nan")}}, "is no price"),
        (["x"], "a table"),
        (5, "a table"),
    ],
)
def test_a_wrong_alias_says_where_and_what(alias, hint):
    with pytest.raises(ConfigError) as caught:
        resolve("mine", {"mine": alias}, None, KEYS)
    assert "models.mine" in caught.value.message
    assert hint in caught.value.message


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "ftp://u:hidden@h/v1", "http://", "http://h:99999/v1", "http://a b/v1", "http://h:x"],
)
def test_what_is_no_endpoint_is_told_with_an_example(url):
    with pytest.raises(ConfigError, match="http://localhost:8000/v1") as caught:
        resolve("m", {}, url, KEYS)
    assert "hidden" not in caught.value.message


def test_a_url_is_shown_without_what_it_hides():
    assert public_url("https://user:pass@h:8/v1?key=x#y") == "https://h:8/v1"
    assert check_url("http://user:pass@h/v1/") == "http://user:pass@h/v1"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost", True),
        ("http://api.localhost:80/v1", True),
        ("http://127.9.9.9/v1", True),
        ("http://[::1]/v1", True),
        ("http://localhost.evil.com/v1", False),
        ("http://192.168.0.1/v1", False),
        ("https://api.openai.com/v1", False),
    ],
)
def test_loopback_is_recognised(url, expected):
    assert is_loopback(url) is expected


def test_a_sub_agent_has_from_its_parent_what_it_does_not_say():
    parent = resolve("m", {}, "http://127.0.0.1:9/v1", {"LLM_API_KEY": "k"})
    assert resolve_for_agent(None, parent, ALIASES, {}) is parent
    assert resolve_for_agent("vision", parent, ALIASES, {}) is parent
    other = resolve_for_agent("other", parent, ALIASES, {})
    assert (other.model, other.base_url, other.key) == ("other", parent.base_url, parent.key)
    flash = resolve_for_agent("flash", parent, ALIASES, {})
    assert (flash.model, flash.base_url) == ("gpt-5-mini", parent.base_url)
    strong = resolve_for_agent("strong", parent, ALIASES, {"BIG_KEY": "big"})
    assert (strong.base_url, strong.key) == ("https://big.example/v1", Key("big"))
    assert resolve_for_agent("local", parent, ALIASES, {}).kind == "local"


def test_a_parents_key_is_never_sent_to_an_aliass_own_endpoint():
    parent = resolve("m", {}, "http://127.0.0.1:9/v1", {"LLM_API_KEY": "k"})
    aliases = {"strong": {"model": "big", "base_url": "https://big.example/v1"}}
    assert resolve_for_agent("strong", parent, aliases, {}).key is None


def test_a_role_that_nobody_fills_is_told_to_a_person():
    with pytest.raises(ConfigError, match=r"\[models\.flash\]"):
        resolve("flash", {}, None, KEYS)


# -- the model that sees -------------------------------------------------------------------------------------


def test_without_an_alias_or_a_name_there_is_no_model_that_sees():
    assert resolve_vision(None, resolve("m", {}, None, KEYS), ALIASES, None, KEYS) is None


def test_the_alias_vision_is_taken_where_nobody_names_a_model():
    aliases = {"vision": "seer", **ALIASES}
    parent = resolve("strong", ALIASES, None, {"BIG_KEY": "k"})
    seer = resolve_vision(None, parent, aliases, None, KEYS)
    assert (seer.model, seer.base_url, seer.key) == ("seer", parent.base_url, parent.key)
    assert resolve_vision("other", parent, aliases, None, KEYS).model == "other"


def test_a_model_that_sees_has_its_own_endpoint_and_key_where_it_names_them():
    parent = resolve("m", {}, "http://localhost:1/v1", KEYS)
    seer = resolve_vision("strong", parent, ALIASES, "http://localhost:1/v1", {"BIG_KEY": "sk-big"})
    assert (seer.base_url, seer.key) == ("https://big.example/v1", Key("sk-big"))


@pytest.mark.parametrize("parent", [None, resolve("local", {}, None, {})])
def test_beside_a_model_of_another_kind_it_is_asked_where_the_command_line_says(parent):
    url = "http://localhost:1/v1"
    assert resolve_vision("seer", parent, ALIASES, url, {}).base_url == url
    assert (
        resolve_vision("strong", parent, ALIASES, url, {"BIG_KEY": "k"}).base_url == "https://big.example/v1"
    )


def test_what_an_endpoint_takes_of_images_stands_in_the_alias():
    table = {
        "model": "seer",
        "image_side": 768,
        "image_pixels": 500_000,
        "image_bytes": 1_000_000,
        "image_grid": 1000,
    }
    assert resolve_vision(None, None, {"vision": table}, None, KEYS).images == ImageLimits(
        768, 500_000, 1_000_000, 1000
    )
    assert resolve_vision(None, None, {"vision": "seer"}, None, KEYS).images == ImageLimits()
    with pytest.raises(ConfigError, match=r"models\.vision\.image_side: 0 must be above zero"):
        resolve_vision(None, None, {"vision": {"model": "seer", "image_side": 0}}, None, KEYS)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("vision", r"add \[models\.vision\]"),
        ("flash", r"add \[models\.flash\]"),
        ("local", "reads no images"),
    ],
)
def test_a_model_that_cannot_see_is_told(name, hint):
    with pytest.raises(ConfigError, match=hint):
        resolve_vision(name, resolve("m", {}, None, KEYS), {}, None, KEYS)
