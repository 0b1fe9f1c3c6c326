"""What is there, what is not, and how to mend it."""

from __future__ import annotations

import json

import pytest

from codeact_kernel._version import __version__
from codeact_kernel.lab.doctor import Finding, answers, examine, page_of
from codeact_kernel.model import resolve
from codeact_kernel.testing import ScriptedEndpoint


def extension(folder, version):
    file = folder / "labextensions" / "codeact-kernel" / "package.json"
    file.parent.mkdir(parents=True)
    file.write_text(version if version == "broken" else json.dumps({"version": version}))


@pytest.mark.parametrize(
    ("version", "state", "text"),
    [
        (None, "fault", "without our extension"),
        (__version__, "ok", f"with our extension {__version__}"),
        ("0.0.1", "fault", "its extension is 0.0.1, and the package"),
        ("broken", "fault", "its extension is unreadable"),
    ],
)
def test_the_pages_extension_has_to_be_that_of_the_package(tmp_path, version, state, text, monkeypatch):
    monkeypatch.setattr("codeact_kernel.lab.doctor._version", lambda package: "4.6.6")
    if version is not None:
        extension(tmp_path, version)
    found = page_of([tmp_path / "nothing", tmp_path])
    assert (found.state, text in found.text) == (state, True), found


async def asked(model="gpt", key="k", **endpoint):
    with ScriptedEndpoint([], **endpoint) as served:
        env = {"LLM_BASE_URL": served.base_url, **({"LLM_API_KEY": key} if key else {})}
        return await answers(resolve(model, {}, None, env))


async def test_an_endpoint_that_has_the_model_is_well():
    assert (await asked(models=["gpt"])).state == "ok"


@pytest.mark.parametrize(
    ("how", "state", "text", "repair"),
    [
        ({"models": ["gpt-1", "gpt-2"]}, "fault", "does not list gpt", "it has gpt-1, gpt-2, …"),
        (
            {"key": "wrong", "models": ["gpt"]},
            "fault",
            "the key is refused",
            "set LLM_API_KEY or OPENAI_API_KEY",
        ),
    ],
)
async def test_what_is_wrong_with_an_endpoint_is_said_with_what_mends_it(how, state, text, repair):
    wanted = {"key": "right"} if "key" in how else {}
    with ScriptedEndpoint([], models=how["models"], **wanted) as served:
        env = {"LLM_BASE_URL": served.base_url, "LLM_API_KEY": how.get("key", "k")}
        found = await answers(resolve("gpt", {}, None, env))
    assert (found.state, text in found.text, found.repair) == (state, True, repair), found
    assert "wrong" not in str(found)


async def test_an_endpoint_that_cannot_be_reached_is_said():
    env = {"LLM_BASE_URL": "http://127.0.0.1:9/v1", "LLM_API_KEY": "k"}
    found = await answers(resolve("gpt", {}, None, env))
    assert found.state == "fault"
    assert "cannot be reached" in found.text
    assert "HTTPS_PROXY" in found.repair


def test_a_fault_is_seen_and_its_repair_stands_below():
    assert (
        str(Finding("model", "fault", "none is named", "name one"))
        == "FAULT model: none is named\n      -> name one"
    )


@pytest.mark.kernel
async def test_all_parts_are_looked_at_and_a_fault_hides_no_other(tmp_path):
    (tmp_path / "codeact.toml").write_text("this is no TOML")
    found = {finding.part: finding async for finding in examine(tmp_path, env={})}
    assert list(found) == ["versions", "JupyterLab", "settings", "model", "signing key", "kernel"]
    assert (found["settings"].state, found["model"].state) == ("fault", "fault")
    assert "runs blocks" in found["kernel"].text
