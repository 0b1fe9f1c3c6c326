"""`--sandbox` and its kin on the command line."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--sandbox", "jail"], "'jail' is no sandbox; it is one of auto, none, limits, landlock, bwrap"),
        (
            ["--sandbox", "none", "--sandbox-min", "bwrap"],
            "the sandbox none is asked for, and at least bwrap",
        ),
        (["--allow-host", "a/b"], "--allow-host: 'a/b' is no host; write example.org"),
        (["--allow-read", "nowhere"], "--allow-read: there is no "),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(codeact, options, why):
    said = codeact("run", "--model", "replay:nothing.jsonl", *options, "Look.")
    assert said.code == 2
    assert why in said.err
    assert len(said.err.splitlines()) == 1
    assert said.out == ""


@pytest.mark.kernel
def test_the_first_lines_of_a_run_say_what_the_sandbox_is(codeact, scripted, block):
    said = codeact("run", "--sandbox", "limits", *scripted([block("print(1)"), "Done."]), "Look.")
    assert said.code == 0
    assert said.walls.startswith("codeact: sandbox: limits")


@pytest.mark.kernel
def test_no_sandbox_is_said_loudly(codeact, scripted, block):
    said = codeact("run", "--sandbox", "none", *scripted([block("print(1)"), "Done."]), "Look.")
    assert said.code == 0
    assert "sandbox: NONE. Blocks run as you" in said.walls


@pytest.mark.kernel
def test_a_mode_that_cannot_be_had_is_never_replaced(codeact, scripted, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for options in (["--sandbox", "bwrap"], ["--sandbox-min", "bwrap"]):
        said = codeact("run", *options, *scripted(["Done."]), "Look.")
        assert said.code == 2
        assert (
            "the sandbox bwrap cannot be had here (bwrap: bubblewrap is not installed: install the package"
            in said.err
        )
        assert said.out == ""
