"""Values on their way between the notebook and an agent's kernel.

Comes in: names of the notebook; a file that the agent's blocks have handed back. Goes out: a file; an object. What
comes back is data, unless the person trusts the agent's objects.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from codeact_kernel.inkernel import dataparcels, parcels
from codeact_kernel.inkernel.magic.link import AgentError


class Notebook:
    """The notebook's namespace, as a place where values arrive.

    Args:
        namespace: The namespace.
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace

    def proxy(self, *about: Any) -> Any:
        """Nothing stands for an object of an agent here: its kernel may end at any time."""
        raise ValueError("it is an object of the agent's kernel, and no data")


def chosen(names: str | None, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a person wants the agent to have.

    Args:
        names: Their names, separated by commas.
        namespace: The notebook's.

    Raises:
        AgentError: If one is not there.
    """
    wanted = [name.strip() for name in (names or "").split(",") if name.strip()]
    missing = [name for name in wanted if name not in namespace]
    if missing:
        raise AgentError(f"-n: there is no {' and no '.join(missing)} in this notebook")
    return {name: namespace[name] for name in wanted}


def pack(values: dict[str, Any], folder: str, shell: Any) -> str:
    """Write copies of values for the agent's kernel.

    Args:
        values: The values by name.
        folder: Where the host takes them from.
        shell: IPython's shell.

    Returns:
        The file.

    Raises:
        AgentError: If one of them cannot be copied; says which and why.
    """
    file = str(Path(folder, f"seeds-{uuid.uuid4().hex[:10]}"))
    hidden = getattr(shell, "user_ns_hidden", {})
    try:
        parcels.write(file, parcels.Trip(shell.user_ns, hidden, lambda name, value: None).pack(values))
    except parcels.CannotTravel as error:
        raise AgentError(f"-n: this cannot be given to the agent:\n{error}") from None
    return file


def unpack(file: str, namespace: dict[str, Any], *, objects: bool) -> Any:
    """Read what the agent's blocks have handed back; the file is removed.

    Args:
        file: The file.
        namespace: The notebook's.
        objects: Whether it holds objects of any kind, which the person has said to trust.

    Raises:
        AgentError: If it cannot be read.
    """
    place = Notebook(namespace)
    try:
        values = parcels.read(file, place)[0] if objects else dataparcels.read_data(file, place)
    except Exception as error:
        raise AgentError(f"what the agent has handed back cannot be read here: {error}") from None
    finally:
        with suppress(OSError):
            Path(file).unlink()
    return next(iter(values.values()), None)
