"""`codeact doctor`: is all there that an agent needs?

Comes in: the environment. Goes out: a line for each part on stdout, with one of repair for each fault; an exit code.
"""

from __future__ import annotations

from pathlib import Path

from codeact_kernel.cli import options


def doctor(
    model: options.Model = None, base_url: options.BaseUrl = None, workspace: options.Workspace = "."
) -> int:
    """Look whether all is there that an agent needs, and say how to mend what is not.

    Versions, JupyterLab's extension, where settings come from, the model, its endpoint and key, the kernel and its
    sandbox. The exit code is 1 where there is a fault.
    """
    from codeact_kernel.cli.loop import Signals, in_loop
    from codeact_kernel.cli.streams import answers, clean, masked
    from codeact_kernel.lab.doctor import examine

    place = Path(workspace).expanduser()
    with answers() as out:

        async def look(_: Signals) -> int:
            faults = 0
            async for finding in examine(place, model, base_url):
                faults += finding.state == "fault"
                out.write(masked(clean(str(finding))))
            return int(faults > 0)

        return in_loop(look)
