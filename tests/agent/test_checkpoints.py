"""What an agent reads of its names when its kernel has died."""

from __future__ import annotations

import time

import pytest
from talk import block, delegate, heard, play, when

from codeact_kernel import Agent
from codeact_kernel.agent import Settings
from codeact_kernel.errors import ConfigError
from codeact_kernel.testing import ScriptedModel

pytestmark = pytest.mark.kernel

MAKES = "rows = [1, 2]\ndef total():\n    return sum(rows)\nlog = open('log.txt', 'w')"
DIES = "import os\nwait()\nos._exit(3)"


def last(model, before=0):
    """The newest observation that the model was shown, or one before it."""
    return model.requests[-1 - before].messages[-1].content


@pytest.mark.parametrize("sandbox", ["none", "auto"])
async def test_names_are_back_after_a_death_and_the_model_reads_which(tmp_path, sandbox):
    def wait() -> None:
        """Wait for a checkpoint."""
        while not list(tmp_path.glob(".codeact/runs/*/checkpoint/manifest.json")):
            time.sleep(0.02)

    model = ScriptedModel([block(MAKES), block(DIES, id="crash"), block("print('sum', total())"), "done"])
    async with Agent(model, workspace=tmp_path, tools=[wait], sandbox=sandbox) as agent:
        run = await agent.run("x")
    assert run.answer == "done"
    died, after = last(model, 1), last(model)
    assert "What its names held is brought back from the checkpoint of " in died
    assert "as far as it goes: rows, total, log." in died
    assert "sum 3" in after
    assert "These names are back, as they were at " in after
    assert (
        ": rows, total, os. These names are gone: log (it is an open file, or a connection (TextIOWrapper))"
        in after
    )


async def test_a_sub_agent_gets_its_own_names_back(tmp_path):
    def wait() -> None:
        """Wait for a checkpoint."""
        while not list(tmp_path.glob(".codeact/runs/*/agents/scout/checkpoint/manifest.json")):
            time.sleep(0.02)

    scout = delegate("SCOUT", name="scout", namespace="wait, seed")
    scripts = {
        "ROOT": when(block("seed = [7]") + "\n" + scout, ("agent_result", "Done.")),
        "SCOUT": [block("seed.append(8)\n" + MAKES), block(DIES), block("print('sum', total(), seed)"), "9"],
    }
    model, _, _ = await play(tmp_path, scripts, tools=[wait])
    read = heard(model, "SCOUT")
    assert "sum 3 [7, 8]" in read
    assert "These names are back, as they were at " in read


async def test_a_run_that_is_left_keeps_its_names_and_one_without_a_record_keeps_none(tmp_path):
    for run_dir in (None, False):
        async with Agent(
            ScriptedModel([block("x = 1"), "done"]), workspace=tmp_path, run_dir=run_dir
        ) as agent:
            await agent.run("x")
    (manifest,) = tmp_path.rglob("manifest.json")
    assert '"x"' in manifest.read_text()


@pytest.mark.parametrize(("text", "size"), [('"2MB"', 2_000_000), ("0", 0)])
def test_the_size_of_checkpoints_is_a_setting(tmp_path, text, size):
    from codeact_kernel.agent.config import load_settings

    (tmp_path / "user.toml").write_text(f"checkpoint_size = {text}")
    assert load_settings(tmp_path, tmp_path / "user.toml").checkpoint_size == size
    assert Settings().checkpoint_size == 10**9
    (tmp_path / "user.toml").write_text("checkpoint_size = -1")
    with pytest.raises(ConfigError, match="checkpoint_size"):
        load_settings(tmp_path, tmp_path / "user.toml")
