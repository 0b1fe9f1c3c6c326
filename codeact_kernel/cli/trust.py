"""`codeact trust`: lets Jupyter show all that a run has put out, HTML and JavaScript too.

Comes in: a run. Goes out: its notebooks' signatures among those of the user's Jupyter, and what that means, on stderr.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codeact_kernel.cli.streams import complain
from codeact_kernel.errors import ConfigError

Place = Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder, or its run.ipynb.")]
TrustRecord = Annotated[
    bool, typer.Option("--trust-record", help="Also a record that this installation of yours did not write.")
]


def trust(run: Place, trust_record: TrustRecord = False) -> int:
    """Let Jupyter trust a run's notebook, and those of its sub-agents, as they are now.

    What blocks have put out, HTML and JavaScript of pages that they have read included, does then in your browser
    what it likes, with all that you may do in Jupyter. Without this, Jupyter shows it sanitized. A change of the
    notebook ends the trust, also one by the run itself.
    """
    from codeact_kernel.agent import RecordedRun
    from codeact_kernel.record import AGENTS, is_ours, trust_in_jupyter

    notebook = RecordedRun.load(run).notebook
    found = [notebook, *sorted((notebook.parent / AGENTS).glob("**/run.ipynb"))]
    for path in found:
        if not (trust_record or is_ours(path)):
            raise ConfigError(
                f"{path} was not written by this installation of yours, or somebody has changed it: look at it, and "
                "say --trust-record if its outputs may do what they like in your browser"
            )
    for path in found:
        trust_in_jupyter(path)
    more = f" and {len(found) - 1} of its sub-agents" if len(found) > 1 else ""
    complain(
        f"Jupyter trusts {notebook}{more} as it is now: what its blocks have put out may do in your browser what "
        "it likes"
    )
    return 0
