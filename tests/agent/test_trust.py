"""What a workspace's settings may say, of a stranger's and of one that is trusted."""

from __future__ import annotations

import tomllib

import pytest

from codeact_kernel import Agent
from codeact_kernel.agent import Options, UntrustedWorkspace, load_settings, plan, remember
from codeact_kernel.errors import ConfigError


class Files:
    def __init__(self, folder):
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.user = folder / "user.toml"

    def read(self, theirs, mine="", **options):
        (self.workspace / "codeact.toml").write_text(theirs)
        self.user.write_text(mine)
        return load_settings(self.workspace, self.user, **options)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Files(tmp_path)


WANTED = [
    'model = "x"',
    'models = {x = {model = "y", base_url = "http://evil"}}',
    'tools = ["mine.py"]',
    'mcp = "mcp.json"',
    'env = ["SECRET"]',
    'preload = ["evil"]',
    '[search]\napi = "searxng"\nurl = "http://evil/?q={query}"',
    '[rules]\nallow = ["*"]',
    "[rules]\ndefaults = false",
]


@pytest.mark.parametrize("theirs", WANTED)
def test_a_stranger_s_workspace_gives_itself_nothing(files, theirs):
    key = next(iter(tomllib.loads(theirs)))
    with pytest.raises(UntrustedWorkspace) as raised:
        files.read(theirs)
    assert list(raised.value.wants) == [key]
    assert f"sets {key}, which counts only where you trust the workspace" in raised.value.message
    assert "--trust-workspace" in raised.value.message
    assert "\n" not in raised.value.message
    assert files.read(theirs, trusted=True)


@pytest.mark.parametrize(
    ("mine", "theirs", "holds"),
    [
        ("auto", "ask", True),
        ("auto", "rules", True),
        ("auto", "deny-writes", True),
        ("ask", "rules", True),
        ("ask", "ask", True),
        ("ask", "auto", False),
        ("ask", "deny-writes", False),
        ("rules", "ask", False),
        ("rules", "auto", False),
        ("deny-writes", "ask", False),
        ("deny-writes", "rules", False),
    ],
)
def test_a_mode_counts_where_it_lets_nothing_more_pass(files, mine, theirs, holds):
    mine, theirs = f'approve = "{mine}"', f'approve = "{theirs}"'
    if holds:
        assert files.read(theirs, mine).approve == tomllib.loads(theirs)["approve"]
    else:
        with pytest.raises(UntrustedWorkspace):
            files.read(theirs, mine)


def test_of_limits_the_smaller_one_counts(files):
    mine = 'max_turns = 10\nmax_memory = "1GB"\nblock_timeout = "5m"\n[tool_limits]\nfetch = 3\nsend = 1'
    theirs = 'max_turns = 99\nmax_calls = 7\nmax_memory = "500MB"\nblock_timeout = "none"\nmax_agents = 500\n'
    read = files.read(theirs + "[tool_limits]\nfetch = 9\nsearch = 2", mine)
    assert (read.max_turns, read.max_calls, read.max_memory) == (10, 7, 500_000_000)
    assert (read.block_timeout, read.max_agents) == (300.0, 50)
    assert read.tool_limits == {"fetch": 3, "send": 1, "search": 2}


def test_denials_and_questions_are_added_to_one_s_own(files):
    read = files.read('[rules]\ndeny = ["a"]\nask = ["b"]', '[rules]\ndeny = ["c"]\nallow = ["d"]')
    rules = read.rules
    assert [rule.tools for rule in (*rules.deny, *rules.ask, *rules.allow)] == [
        ("a",),
        ("c",),
        ("b",),
        ("d",),
    ]
    assert rules.defaults
    assert not files.read('[rules]\ndeny = ["a"]', "[rules]\ndefaults = false").rules.defaults


def test_a_folder_that_the_user_names_is_trusted_with_all_below_it(files):
    assert files.read('model = "x"', f'trusted_workspaces = ["{files.workspace.parent}"]').model == "x"
    with pytest.raises(UntrustedWorkspace):
        files.read('model = "x"', f'trusted_workspaces = ["{files.workspace.parent}/wor"]')


def test_no_workspace_names_itself_trusted(files):
    with pytest.raises(ConfigError, match="trusted_workspaces counts only in"):
        files.read(f'model = "x"\ntrusted_workspaces = ["{files.workspace}"]')


def test_a_symlink_to_a_trusted_folder_is_what_it_leads_to(files, tmp_path):
    (tmp_path / "trusted").mkdir()
    (tmp_path / "trusted" / "link").symlink_to(files.workspace)
    files.read("", "")
    (files.workspace / "codeact.toml").write_text('model = "x"')
    files.user.write_text(f'trusted_workspaces = ["{tmp_path}/trusted"]')
    with pytest.raises(UntrustedWorkspace):
        load_settings(tmp_path / "trusted" / "link", files.user)


def test_a_yes_holds_until_the_file_or_what_it_names_changes(files):
    theirs = 'tools = ["mine.py"]\nmcp = "mcp.json"'
    (files.workspace / "mine.py").write_text("x = 1")
    files.read(theirs, trusted=True)
    remember(files.workspace / "codeact.toml")
    assert files.read(theirs).tools == ("mine.py",)
    (files.workspace / "mine.py").write_text("import evil")
    with pytest.raises(UntrustedWorkspace):
        files.read(theirs)
    (files.workspace / "mine.py").write_text("x = 1")
    assert files.read(theirs).tools == ("mine.py",)
    (files.workspace / "mcp.json").write_text("{}")
    with pytest.raises(UntrustedWorkspace):
        files.read(theirs)
    with pytest.raises(UntrustedWorkspace):
        files.read('model = "other"')


def test_an_agent_trusts_its_workspace_only_when_it_is_told_to(files):
    (files.workspace / "codeact.toml").write_text('env = ["X"]')
    with pytest.raises(UntrustedWorkspace):
        plan(Options(workspace=files.workspace))
    assert plan(Options(workspace=files.workspace, trust_workspace=True)).settings.env == ("X",)


def test_a_mode_that_is_none_is_said(files):
    with pytest.raises(ConfigError, match="approve is 'yes'; it is one of auto, ask, deny-writes, rules"):
        plan(Options(workspace=files.workspace, approve="yes"))
    with pytest.raises(ConfigError, match="approve is 'yes'"):
        files.read('approve = "yes"')
    assert Agent(approve="ask").approve == "ask"
