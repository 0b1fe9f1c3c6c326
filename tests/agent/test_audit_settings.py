"""What the settings say of the audit, and whose may."""

from __future__ import annotations

import pytest

from codeact_kernel.agent import load_settings
from codeact_kernel.errors import ConfigError


def read(tmp_path, mine, theirs=""):
    (tmp_path / "own.toml").write_text(mine)
    (tmp_path / "codeact.toml").write_text(theirs)
    return load_settings(tmp_path, tmp_path / "own.toml")


def test_the_user_s_own_file_says_it(tmp_path):
    settings = read(tmp_path, 'audit = "lenient"\naudit_sync = false\n')
    assert (settings.audit, settings.audit_sync) == ("lenient", False)
    settings = read(tmp_path, "")
    assert (settings.audit, settings.audit_sync) == ("strict", True)


@pytest.mark.parametrize("line", ['audit = "off"', 'audit = "strict"', "audit_sync = true"])
def test_a_workspace_s_file_which_blocks_can_write_may_not(tmp_path, line):
    with pytest.raises(
        ConfigError, match=r"codeact\.toml: audit\w* counts only in your own settings, .*own\.toml"
    ):
        read(tmp_path, "", line)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('audit = "on"', "audit is 'on'; it is one of strict, lenient, off"),
        ("audit = true", 'audit is True; it takes "strict", "lenient" or "off"'),
        ("audit_sync = 1", "audit_sync is 1; it takes true or false"),
        ("max_turns = true", "max_turns is True; it takes a whole number"),
    ],
)
def test_a_wrong_value_is_said(tmp_path, line, words):
    with pytest.raises(ConfigError) as error:
        read(tmp_path, line)
    assert words in error.value.message
