"""The audit of dependencies says what it did not check, and fails on what it finds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

AUDIT = Path(__file__).parents[2] / ".ci" / "dependency_audit.py"
PROGRAM = """#!{python}
import json, sys
service, file = sys.argv[sys.argv.index("-s") + 1], sys.argv[sys.argv.index("-r") + 1]
says = {says!r}
if service not in says:
    sys.exit("no route to " + service)
names = [line.partition("==")[0] for line in open(file).read().splitlines()]
print(json.dumps({{"dependencies": [{{"name": name, **says[service](name)}} for name in names]}}))
"""
FAULT = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["9.9"]}


@pytest.fixture
def audit(tmp_path):
    """Runs the audit with a pip-audit whose services say this of packages; those that are not named do not answer."""

    def run(says, **env):
        program = tmp_path / "pip-audit"
        text = PROGRAM.format(python=sys.executable, says=says).replace(
            "says[service](name)", "says[service].get(name.lower(), says[service]['*'])"
        )
        program.write_text(text)
        program.chmod(0o755)
        done = subprocess.run(
            [sys.executable, str(AUDIT), sys.executable, str(program)],
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", **env},
        )
        return done.returncode, done.stdout

    return run


GOOD, SKIPPED = {"vulns": []}, {"skip_reason": "not found"}


def test_where_all_is_well_that_is_said_with_a_count(audit):
    code, said = audit({"pypi": {"*": GOOD}}, CODEACT_NEED_AUDIT="1")
    assert code == 0, said
    assert "0 have known faults" in said
    assert "WARNING" not in said


def test_a_known_fault_is_an_error_and_named(audit):
    code, said = audit({"pypi": {"*": GOOD, "pytest": {"vulns": [FAULT]}}})
    assert code == 1
    assert "pytest: PYSEC-1 (CVE-1); fixed in 9.9" in said


@pytest.mark.parametrize("says", [{}, {"pypi": {"*": SKIPPED}}])
def test_where_nobody_answers_it_says_so_and_is_an_error_only_where_it_is_needed(audit, says):
    code, said = audit(says)
    assert code == 0
    assert "WARNING: NOTHING WAS CHECKED" in said
    assert audit(says, CODEACT_NEED_AUDIT="1")[0] == 1


def test_who_answers_for_some_is_followed_by_the_next_for_the_rest(audit):
    code, said = audit(
        {"pypi": {"*": SKIPPED, "numpy": GOOD}, "osv": {"*": GOOD, "pytest": {"vulns": [FAULT]}}}
    )
    assert code == 1
    assert "WARNING" not in said
    code, said = audit({"pypi": {"*": GOOD, "pytest": SKIPPED}}, CODEACT_NEED_AUDIT="1")
    assert code == 1
    assert "WARNING: 1 OF THEM WERE NOT CHECKED" in said
    assert json.dumps(FAULT) not in said
