"""Looks for secrets in the tracked files, and in all that was ever added to them.

Comes in: a git repository. Goes out: a line for each thing that looks like a secret and is not known to be none, and
exit code 1; else a line that says what was looked at. `--accept` writes down what is found now as known: files and
hashes, so that the list itself holds nothing, and what is known in one file is found in another one. Whoever accepts a
secret that is one has to revoke it all the same.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.core.potential_secret import PotentialSecret
from detect_secrets.core.scan import scan_diff, scan_file
from detect_secrets.settings import get_settings, transient_settings

KNOWN = ".ci/known_secrets.json"
OWN = Path(__file__).with_name("model_keys.py")
MADE_UP = ("tests/", "docs/", "benchmarks/", "notebooks/", ".ci/")
"""Where examples stand: a password that is made up is no secret; only what has the form of a service's key counts."""
MADE = ("labextension/package-lock.json", "labextension/built/")
"""What programs write: full of hashes."""
VAGUE = {"Secret Keyword", "Basic Auth Credentials", "Hex High Entropy String", "Base64 High Entropy String"}
FILTERS = (
    "detect_secrets.filters.allowlist.is_line_allowlisted",
    "detect_secrets.filters.heuristic.is_indirect_reference",
    "detect_secrets.filters.heuristic.is_likely_id_string",
    "detect_secrets.filters.heuristic.is_not_alphanumeric_string",
    "detect_secrets.filters.heuristic.is_potential_uuid",
    "detect_secrets.filters.heuristic.is_sequential_string",
    "detect_secrets.filters.heuristic.is_templated_secret",
)


def plugins() -> list[dict[str, str]]:
    """Every detector that there is, and ours."""
    names = sorted(kind.__name__ for kind in get_mapping_from_secret_type_to_class().values())
    get_mapping_from_secret_type_to_class.cache_clear()  # it is asked again once ours is among the settings
    return [*({"name": name} for name in names), {"name": "ModelKeyDetector", "path": f"file://{OWN}"}]


def git(root: Path, *arguments: str) -> str:
    """What git says."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")


def in_files(root: Path) -> Iterator[tuple[str, str, PotentialSecret]]:
    """What is found in the tracked files: in which one, and where."""
    for name in git(root, "ls-files", "-z").split("\0"):
        path = root / name
        if name and name != KNOWN and path.is_file() and not path.is_symlink():
            for secret in scan_file(str(path)):
                if _counts(name, secret):
                    yield name, f"{name}:{secret.line_number}", secret


def in_history(root: Path) -> Iterator[tuple[str, str, PotentialSecret]]:
    """What is found in the lines that commits have added: in which file, and in which commit."""
    for commit in git(root, "rev-list", "--all").split():
        diff = git(root, "show", "--format=", "-m", "--first-parent", "-U0", "--no-color", "--no-ext-diff",
                   "--no-renames", "--no-textconv", commit)  # fmt: skip
        for secret in scan_diff(diff):
            if secret.filename != KNOWN and _counts(secret.filename, secret):
                yield secret.filename, f"{secret.filename} in {commit[:10]}", secret


def _counts(name: str, secret: PotentialSecret) -> bool:
    return not (name.startswith(MADE_UP + MADE) and secret.type in VAGUE)


def main() -> int:
    """Look, and say what is there."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("root", nargs="?", default=".", type=Path, help="the repository")
    parser.add_argument("--accept", action="store_true", help="take what is found now for no secrets")
    given = parser.parse_args()
    root, known = given.root.resolve(), given.root.resolve() / KNOWN
    listed: dict[str, list[str]] = json.loads(known.read_text("utf-8")) if known.is_file() else {}
    fine = {(name, key) for name, keys in listed.items() for key in keys}
    with transient_settings(
        {"plugins_used": plugins(), "filters_used": [{"path": path} for path in FILTERS]}
    ):
        # What was removed later, or lies elsewhere, is no file here, and would be passed over.
        get_settings().disable_filters("detect_secrets.filters.common.is_invalid_file")
        found: dict[tuple[str, str], str] = {}
        for name, where, secret in (*in_files(root), *in_history(root)):
            found.setdefault((name, secret.secret_hash), f"{secret.type}, {where}")
    if given.accept:
        names = sorted({name for name, _ in found})
        kept = {name: sorted(key for one, key in found if one == name) for name in names}
        known.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
        print(f"{len(found)} known: {KNOWN}")
        return 0
    new = sorted(found.keys() - fine)
    for one in new:
        print(f"this looks like a secret: {found[one]}")
    shallow = git(root, "rev-parse", "--is-shallow-repository").strip() == "true"
    commits = len(git(root, "rev-list", "--all").split())
    files = git(root, "ls-files", "-z").count("\0")
    print(f"{files} files and {commits} commits were looked at, {len(found)} findings, {len(fine)} known")
    if shallow:
        print("WARNING: the history is cut here (a shallow clone): what was added earlier was NOT looked at")
    if new:
        print(
            f"Take it out and revoke it. If it is none: python .ci/secret_scan.py --accept, and commit {KNOWN}"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
