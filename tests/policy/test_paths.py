"""Where paths really lead, and which a pattern means."""

from __future__ import annotations

import pytest

from codeact_kernel.policy.paths import Places


@pytest.fixture
def places(tmp_path):
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "secrets").mkdir()
    (root / "src" / "link").symlink_to(root / "secrets")
    (root / "out").symlink_to("/etc")
    (tmp_path / "also").symlink_to(root)
    return Places(root)


@pytest.mark.parametrize(
    ("path", "pattern", "meant"),
    [
        ("src/a.py", "src/**", True),
        ("src", "src/**", True),
        ("src/a.py", "src", True),
        ("src/a/b.py", "src/*", True),
        ("srcs/a.py", "src", False),
        ("src/a.py", "**/*.py", True),
        ("a.py", "**/*.py", True),
        ("deep/er/.env", ".env", True),
        ("deep/.env/x", ".env", True),
        ("env", ".env", False),
        ("x.pyc", "*.py", False),
        ("secrets/key", "secrets/**", True),
        ("src/../secrets/key", "secrets", True),
        ("src/link/key", "secrets", True),
        ("src/link/../src/a", "secrets", False),
        ("./secrets//key", "secrets", True),
        ("missing/../secrets/key", "secrets", True),
        ("src/a.py", "./src", True),
        ("a.py", "**", True),
        (".", "**", True),
        ("out/passwd", "**", False),
        ("../x", "**", False),
        ("/etc/passwd", "**", False),
        ("/etc/passwd", "/etc", True),
        ("out/passwd", "/etc/**", True),
        ("/etc/passwd", "/**", True),
        ("SECRETS/key", "secrets", False),
    ],
)
def test_patterns_mean_where_a_path_leads(places, path, pattern, meant):
    assert places.matches(pattern, places.resolve(path), outside=False) is meant


def test_a_bare_name_means_what_lies_outside_only_where_that_is_wanted(places):
    assert places.matches("passwd", places.resolve("/etc/passwd"), outside=True)
    assert not places.matches("passwd", places.resolve("/etc/passwd"), outside=False)


def test_the_home_folder_is_known(places, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert places.matches("~/.ssh", "/home/me/.ssh/id", outside=False)


def test_a_workspace_behind_a_symlink_is_the_same_one(places, tmp_path):
    also = Places(tmp_path / "also")
    assert also.root == places.root
    assert also.matches("src", also.resolve(str(tmp_path / "also" / "src" / "a")), outside=False)
