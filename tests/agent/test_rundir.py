"""Where a run's record goes, and where it never goes."""

from __future__ import annotations

import os
import shutil
import stat

import pytest
from talk import block, heard, play

from codeact_kernel.agent.rundir import make_agent_dir, make_run_dir
from codeact_kernel.errors import ConfigError
from codeact_kernel.runfiles import Folder


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_only_its_owner_can_look_into_it(tmp_path):
    before = os.umask(0o022)
    run = make_run_dir(tmp_path, "Count the rows!")
    agent = make_agent_dir(run, "scout#2")
    os.umask(before)
    assert run.path.parent == tmp_path / ".codeact" / "runs"
    assert run.path.name.endswith("-count-the-rows")
    assert agent.path == run.path / "agents" / "scout-2"
    places = [tmp_path / ".codeact", run.path.parent, run.path, agent.path.parent, agent.path]
    assert [mode(place) for place in places] == [0o700] * 5
    assert (tmp_path / ".codeact" / ".gitignore").read_text() == "*\n"
    assert mode(tmp_path / ".codeact" / ".gitignore") == 0o600


def test_runs_of_one_second_have_folders_of_their_own(tmp_path):
    assert len({make_run_dir(tmp_path, "x").path for _ in range(3)}) == 3


@pytest.mark.parametrize("link", [".codeact", ".codeact/runs"])
def test_a_link_in_the_workspace_leads_no_run_elsewhere(tmp_path, link):
    workspace, elsewhere = tmp_path / "w", tmp_path / "elsewhere"
    (workspace / link).parent.mkdir(parents=True)
    elsewhere.mkdir()
    (workspace / link).symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="is a link"):
        make_run_dir(workspace, "x")
    with pytest.raises(ConfigError, match="is a link"):
        make_run_dir(workspace, "x", workspace / link / "mine")
    assert list(elsewhere.iterdir()) == []


def test_it_is_the_workspace_by_whatever_way_the_user_names_it(tmp_path):
    workspace, elsewhere = tmp_path / "w", tmp_path / "elsewhere"
    workspace.mkdir()
    elsewhere.mkdir()
    (tmp_path / "way").symlink_to(workspace)
    (workspace / "runs").symlink_to(elsewhere)
    assert make_run_dir(workspace, "x", tmp_path / "way" / "mine").path.is_dir()
    with pytest.raises(ConfigError, match="is a link"):
        make_run_dir(workspace, "x", tmp_path / "way" / "runs" / "mine")
    assert list(elsewhere.iterdir()) == []


def test_a_link_that_the_user_names_outside_of_the_workspace_is_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "disk")
    (tmp_path / "w").mkdir()
    assert make_run_dir(tmp_path / "w", "x", tmp_path / "runs" / "one").path.is_dir()
    assert (tmp_path / "disk" / "one").is_dir()


def test_a_link_in_a_run_s_folder_leads_no_sub_agent_elsewhere(tmp_path):
    run = make_run_dir(tmp_path, "x")
    (tmp_path / "elsewhere").mkdir()
    (run.path / "agents").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="the folder of scout cannot be made: agents is a link"):
        make_agent_dir(run, "scout")


def test_a_folder_that_holds_a_run_is_not_written_over(tmp_path):
    Folder.make(tmp_path / "r").replace("journal.jsonl", b'{"type": "RunStarted"}\n')
    with pytest.raises(ConfigError, match="holds a run already"):
        make_run_dir(tmp_path, "x", tmp_path / "r")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be made"):
        make_run_dir(tmp_path, "x", tmp_path / "file" / "r")


def test_a_folder_in_which_a_run_was_killed_before_it_began_is_taken(tmp_path):
    Folder.make(tmp_path / "r").replace("journal.jsonl", b'{"type": "RunSta')
    make_run_dir(tmp_path, "x", tmp_path / "r").close()


TRY = """
import os
for name in ('.codeact/planted', '.codeact/runs/planted', '.codeact/.gitignore'):
    try: open(name, 'w'); print('it was', 'changed', name)
    except OSError: pass
try: os.rename('.codeact', 'away'); print('it was', 'moved')
except OSError: pass
print('it was', 'tried')
"""


@pytest.mark.kernel
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
async def test_no_block_changes_the_records_of_a_workspace_in_its_first_run_either(tmp_path):
    """The kernel of the agent is spawned, that of the sub-agent forked."""
    lead = [block(TRY), block("await self.run_agent('SCOUT')"), "Done."]
    model, _, _ = await play(tmp_path, {"ROOT": lead, "SCOUT": [block(TRY), "Tried."]}, sandbox="bwrap")
    for words in ("ROOT", "SCOUT"):
        said = heard(model, words)
        assert "it was tried" in said
        assert "it was changed" not in said
        assert "it was moved" not in said
    assert (tmp_path / ".codeact" / ".gitignore").read_text() == "*\n"
