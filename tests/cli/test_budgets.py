"""Budgets and stand-ins, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeact_kernel.testing.endpoint import failing

pytestmark = pytest.mark.kernel


def run_dir(place):
    (path,) = (Path(place) / ".codeact" / "runs").iterdir()
    return path


def test_a_run_out_of_tokens_exits_with_3_and_goes_on_with_more(place, scripted, codeact, block):
    options = scripted([block("x = 1"), "It is 1."])
    said = codeact("run", *options, "--max-tokens", "1500", "What is x?")
    assert (said.code, said.out) == (3, "")
    assert (
        f"`codeact resume {run_dir(place).relative_to(place)} --max-tokens N` goes on with more" in said.err
    )
    assert codeact("resume", run_dir(place)).code == 3
    said = codeact("resume", run_dir(place), "--max-tokens", "40k")
    assert (said.code, said.out) == (0, "It is 1.\n")


def test_a_limit_of_money_needs_a_price(place, scripted, codeact):
    said = codeact("run", *scripted(["never"]), "--max-cost", "1", "Hello.")
    assert (said.code, said.out) == (2, "")
    assert "which is not known: say prices = { input" in said.err


def test_another_model_stands_in_and_stderr_says_so(place, scripted, codeact):
    def says(request):
        return "I stand in." if request.body["model"] == "other" else failing(401, "who are you?")

    said = codeact("run", *scripted(says), "--fallback-model", "other", "Hello.")
    assert (said.code, said.out) == (0, "I stand in.\n")
    assert "other answers instead, and the first is asked again in 5m" in said.err
