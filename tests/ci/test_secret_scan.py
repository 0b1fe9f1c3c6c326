"""The scan that CI runs finds a key that is planted, in a file and in the past. The keys here are put together when the
test runs, so that the scan does not find this file."""

from __future__ import annotations

import json
import random
import string
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("detect_secrets", reason="the extra dev is not installed")

ROOT = Path(__file__).parents[2]
SCAN = ROOT / ".ci" / "secret_scan.py"
WHO = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")


def git(folder, *arguments):
    subprocess.run(["git", *WHO, *arguments], cwd=folder, check=True, capture_output=True)


def scan(folder, *arguments):
    done = subprocess.run(
        [sys.executable, str(SCAN), str(folder), *arguments], capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def some(length, letters=string.ascii_letters + string.digits):
    return "".join(random.Random(length).choices(letters, k=length))


KEYS = {
    "a cloud's": lambda: f'KEY = "AKIA{some(16, string.ascii_uppercase + "234567")}"',
    "a model service's": lambda: f"key: sk-proj-{some(48)}",
    "another one's": lambda: f"export KEY=sk-ant-api03-{some(60)}",
    "a forge's": lambda: f'token = "ghp_{some(36)}"',
    "a private one": lambda: "-----BEGIN RSA " + f"PRIVATE KEY-----\n{some(64)}\n",
    "a bot's": lambda: f"xoxb-{some(12, string.digits)}-{some(12, string.digits)}-{some(24)}",
}


@pytest.fixture
def copy(tmp_path):
    """A repository with a few of this one's files and what is known of them."""
    folder = tmp_path / "copy"
    for name in (
        "README.md",
        "codeact_kernel/model/catalogue.py",
        ".ci/known_secrets.json",
        "tests/test_masking.py",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def test_what_is_there_is_known(copy):
    code, said = scan(copy)
    assert code == 0, said
    assert "4 files and 1 commits were looked at" in said


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("name", ["codeact_kernel/settings.py", "docs/page.md", "tests/test_x.py"])
def test_a_planted_key_is_found_wherever_it_is(copy, key, name):
    (copy / name).parent.mkdir(parents=True, exist_ok=True)
    (copy / name).write_text(f"x = 1\n{key()}\n")
    git(copy, "add", "-A")
    code, said = scan(copy)
    assert code == 1
    assert f", {name}:2" in said


def test_a_key_that_was_taken_out_again_is_found_in_the_past(copy):
    key = KEYS["a model service's"]()
    (copy / "settings.py").write_text(f"{key}\n")
    git(copy, "add", "-A")
    git(copy, "commit", "-q", "-m", "two")
    git(copy, "rm", "-q", "settings.py")
    git(copy, "commit", "-q", "-m", "three")
    code, said = scan(copy)
    assert code == 1
    assert "settings.py in " in said
    secret = key.partition(": ")[2]
    assert secret not in said
    assert scan(copy, "--accept")[0] == 0
    assert secret not in (copy / ".ci" / "known_secrets.json").read_text()
    assert scan(copy)[0] == 0


def test_a_history_that_is_cut_is_said(copy, tmp_path):
    git(copy, "commit", "-q", "--allow-empty", "-m", "two")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{copy}", "shallow")
    code, said = scan(tmp_path / "shallow")
    assert code == 0
    assert "WARNING: the history is cut here" in said


def test_the_list_of_what_is_known_holds_hashes():
    known = json.loads((ROOT / ".ci" / "known_secrets.json").read_text())
    keys = [key for keys in known.values() for key in keys]
    assert keys
    assert all(len(key) == 40 and set(key) <= set(string.hexdigits) for key in keys)
    assert len(keys) < 40
