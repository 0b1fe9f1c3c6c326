"""Values on their way into a kernel's namespace, and once more into that of its next process.

Comes in: values by name, and what another kernel has packed. Goes out: requests that bind them. Functions and classes
travel by value (cloudpickle) to a kernel of the host's own Python version; to another version only data can go.
"""

from __future__ import annotations

import pickle
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cloudpickle

from codeact_kernel.errors import ConfigError
from codeact_kernel.inkernel import wire
from codeact_kernel.kernels.client import KernelClient
from codeact_kernel.kernels.mailbox import Mailbox

CLOUDPICKLE = str(Path(cloudpickle.__file__).parent)
"""The host's cloudpickle, for interpreters that have none."""


class Seeds:
    """What a kernel's namespace was given from outside."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._parcels: dict[str, tuple[str, ...]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it has given."""
        return (*self._values, *(name for names in self._parcels.values() for name in names))

    async def bind(self, client: KernelClient, values: dict[str, Any], python: tuple[int, ...]) -> None:
        """Bind values of the host's.

        Args:
            client: The kernel's process.
            values: The values by name.
            python: As for `pickle_values`.

        Raises:
            ConfigError: If one cannot be passed; says which and why. None is bound then.
        """
        pickled = pickle_values(values, python)
        await _bind(client, pickled)
        self._values |= pickled

    async def bind_parcel(self, client: KernelClient, mail: Mailbox, file: str, names: Iterable[str]) -> None:
        """Bind what another kernel has packed.

        Args:
            client: The kernel's process.
            mail: How the parcel gets there.
            file: The parcel.
            names: The names that are in it.

        Raises:
            ConfigError: If something of it cannot be read there; says what and why.
        """
        self._parcels[file] = tuple(names)
        await _bind_parcel(client, mail, file)

    async def bind_again(self, client: KernelClient, mail: Mailbox) -> None:
        """Bind all of it in a process that has nothing.

        Args:
            client: The process.
            mail: How parcels get there.
        """
        await _bind(client, self._values)
        for file in self._parcels:
            await _bind_parcel(client, mail, file)


async def _bind(client: KernelClient, pickled: dict[str, bytes]) -> None:
    if not pickled:
        return
    content = {"names": list(pickled), "cloudpickle": CLOUDPICKLE}
    reply = await client.request(wire.SEED, content, channel="control", buffers=list(pickled.values()))
    for name, reason in reply["content"]["failed"].items():
        raise ConfigError(f"{name} cannot be passed to the kernel: {reason}")


async def _bind_parcel(client: KernelClient, mail: Mailbox, file: str) -> None:
    content = {"names": [], "parcel": mail.put(file)}
    reply = await client.request(wire.SEED, content, channel="control")
    for reason in reply["content"]["failed"].values():
        raise ConfigError(f"the namespace cannot be passed: {reason}")


def pickle_values(values: dict[str, Any], python: tuple[int, ...] = ()) -> dict[str, bytes]:
    """Pickle values for a kernel.

    Args:
        values: The values by name.
        python: The version of the kernel's Python; empty means the host's own.

    Returns:
        The pickles by name.

    Raises:
        ConfigError: If one cannot be passed; says which and why.
    """
    same = not python or python[:2] == tuple(sys.version_info[:2])
    pickled = {}
    for name, value in values.items():
        if not name.isidentifier():
            raise ConfigError(f"{name!r} cannot be a name in the namespace: it is no identifier")
        if not same and isinstance(value, types.FunctionType | type | types.ModuleType):
            theirs, ours = ".".join(map(str, python[:2])), ".".join(map(str, sys.version_info[:2]))
            raise ConfigError(
                f"{name} is code, and the kernel runs Python {theirs} while this process runs {ours}: "
                "between versions only data can be passed"
            )
        try:
            dump = cloudpickle.dumps if same else pickle.dumps
            pickled[name] = dump(value, protocol=5)
        except Exception as exception:
            raise ConfigError(
                f"{name} ({type(value).__module__}.{type(value).__qualname__}) cannot be passed to the kernel: "
                f"{type(exception).__name__}: {exception}"
            ) from exception
    return pickled
