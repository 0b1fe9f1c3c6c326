"""Asks whether a fault is known in a dependency that is installed.

Comes in: the interpreter whose packages are looked at, and pip-audit's program, in an environment of its own.
Goes out: a line for each known fault, and exit code 1. Where no service answers for a package that is said, loudly, and
is exit code 0: a run without the internet has to be possible. With CODEACT_NEED_AUDIT=1 it is exit code 1: releases are
made so. pip-audit itself says "No known vulnerabilities found" in that case.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

SERVICES = ("pypi", "osv")
"""Who knows of faults, in the order in which they are asked."""
NEEDED = "CODEACT_NEED_AUDIT"


def installed(python: str) -> list[str]:
    """What is installed, as requirements; what is being worked on is left out."""
    done = subprocess.run(
        [python, "-m", "pip", "freeze", "--exclude-editable"], capture_output=True, text=True, check=True
    )
    return [line for line in done.stdout.splitlines() if "==" in line]


def ask(program: str, service: str, requirements: str) -> list[dict[str, Any]] | None:
    """What a service says of each package; None where it cannot be asked."""
    options = ("--no-deps", "--disable-pip", "--progress-spinner", "off", "-f", "json", "--timeout", "20")
    done = subprocess.run(
        [program, "-s", service, "-r", requirements, *options], capture_output=True, text=True, check=False
    )
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        print(f"{service} cannot be asked: {last[0][:200]}")
        return None
    return found


def main(python: str, program: str) -> int:
    """Ask, and say what is known."""
    wanted = installed(python)
    checked: dict[str, list[dict[str, Any]]] = {}
    for service in SERVICES:
        left = [line for line in wanted if line.partition("==")[0].lower() not in checked]
        if not left:
            break
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join(left))
            file.flush()
            for package in ask(program, service, file.name) or ():
                if "skip_reason" not in package:
                    checked[package["name"].lower()] = package.get("vulns", [])
    faults = {name: found for name, found in checked.items() if found}
    for name, found in sorted(faults.items()):
        for fault in found:
            fixed = ", ".join(fault.get("fix_versions", ())) or "no version yet"
            print(f"{name}: {fault.get('id')} ({', '.join(fault.get('aliases', ()))}); fixed in {fixed}")
    unchecked = len(wanted) - len(checked)
    print(f"{len(checked)} of {len(wanted)} packages were checked, {len(faults)} have known faults")
    if unchecked:
        what = f"{unchecked} OF THEM WERE NOT CHECKED" if checked else "NOTHING WAS CHECKED"
        print(f"WARNING: {what}: no service that knows of faults answered for them")
    return int(bool(faults) or bool(unchecked and os.environ.get(NEEDED) == "1"))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
