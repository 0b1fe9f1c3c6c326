"""The table of docs/security.md, made of what the attacks have found: `python tests/escape/table.py [FOLDER]`.

Comes in: `results.json`; with a folder, first what a run of the tests has left there (CODEACT_ESCAPE_RESULTS=FOLDER),
which becomes `results.json`. Goes out: the page, with the table of now between its two marks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parent.parent / "docs" / "security.md"
BEGIN, END = "<!-- attacks: begin -->\n", "<!-- attacks: end -->\n"
COLUMNS = (
    ("none", "user", "none"),
    ("limits", "user", "limits"),
    ("limits", "root", "limits, own user"),
    ("landlock", "user", "landlock"),
    ("landlock", "contained", "landlock, in a container"),
    ("landlock", "root", "landlock, own user"),
    ("bwrap", "user", "bwrap"),
    ("bwrap", "root", "bwrap, own user"),
)
"""Mode, whose host, and what stands above."""
SIGNS = {"held": "held", "watched": "watched", "not held": "**no**", "not tried": "\u2013"}


def collect(folder: Path) -> None:
    """Make `results.json` of what a run has left."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for file in sorted(folder.glob("*-forked.json")):
        who, mode, _ = file.stem.split("-")
        results = json.loads(file.read_text())["results"]
        found.setdefault(who, {})[mode] = {name: result for name, (result, _) in sorted(results.items())}
    RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def table() -> str:
    """The table, in Markdown."""
    results = json.loads(RESULTS.read_text())
    columns = [results[who][mode] for mode, who, _ in COLUMNS]
    lines = [
        f"| attack | {' | '.join(title for *_, title in COLUMNS)} |",
        "|---|" + "---|" * len(COLUMNS),
    ]
    for name in sorted({name for column in columns for name in column}):
        signs = [SIGNS[column.get(name, "not tried")] for column in columns]
        lines.append(f"| {name.replace('_', ' ')} | {' | '.join(signs)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the table of now."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        collect(Path(sys.argv[1]))
    PAGE.write_text(page())
