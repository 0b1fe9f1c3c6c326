"""The range of versions that is declared is the range that is tested."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def lowest(requirement):
    """A requirement's name and the lowest version that it allows."""
    (bound,) = (part.version for part in requirement.specifier if part.operator == ">=")
    return requirement.name, Version(bound)


def test_the_oldest_versions_in_ci_are_the_lowest_that_are_declared():
    declared = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]
    lines = (ROOT / ".ci" / "oldest.txt").read_text().splitlines()
    pins = [line.partition("==") for line in lines if line and not line.startswith("#")]
    assert {name: Version(version) for name, _, version in pins} == dict(
        lowest(Requirement(d)) for d in declared
    )


def test_the_classifiers_name_the_versions_from_the_lowest_to_the_newest_in_ci():
    named = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    newest = max(re.findall(r"python(3\.\d+)", (ROOT / ".ci" / "common.sh").read_text()), key=Version)
    assert named[0] == PROJECT["requires-python"].removeprefix(">=")
    assert named[-1] == newest


def test_this_python_is_in_the_range():
    assert Version(".".join(map(str, sys.version_info[:2]))) >= Version(
        PROJECT["requires-python"].removeprefix(">=")
    )
