"""What an agent shall be, as the caller says it.

Comes in: the caller's words. Goes out: `Options`, the fields of `Agent`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from codeact_kernel.agent.config import Settings
from codeact_kernel.protocols import Model, Observer
from codeact_kernel.tools import Tool

Person = Callable[[str], Any]
"""Asks a person a question and returns the answer; plain or async."""


@dataclass(eq=False)
class Options:
    """What an agent shall be."""

    model: str | Model | None = None
    """What `--model` takes (a model's name, an alias, "local", "replay:FILE"), or a `Model`. None takes
    `CODEACT_MODEL` or the settings' model."""
    _: KW_ONLY
    tools: Iterable[Callable[..., Any] | Tool] = ()
    """Functions that blocks can call by their names."""
    namespace: Mapping[str, Any] = field(default_factory=dict)
    """Values to bind in the kernel, by name."""
    files: Mapping[str, Path | str | bytes] = field(default_factory=dict)
    """Files to put into the workspace: by relative path, a `Path` to copy from, or the content."""
    workspace: Path | str = "."
    """The folder in which blocks run."""
    run_dir: Path | str | bool | None = None
    """Where the record goes. None makes a folder in the workspace's `.codeact/runs`; False keeps no record."""
    base_url: str | None = None
    """The endpoint."""
    protocol: str | None = None
    """"tags", "tools" or "json"; None takes the settings'."""
    kernel: str | None = None
    """The name of a kernelspec, whose interpreter runs the kernel."""
    python: str | None = None
    """The path of an interpreter, instead."""
    env: Sequence[str] = ()
    """Names of the host's environment variables that blocks may see."""
    system: str | bool | None = None
    """A system prompt instead of ours; False for none."""
    output_type: Any = None
    """What answers have to be, for pydantic; they are validated into `Run.value`."""
    hooks: Sequence[object] = ()
    """Objects with methods of `Hooks`."""
    person: Person | None = None
    """Asks a person; blocks can then call `ask_person(question)`."""
    observers: Sequence[Observer] = ()
    """Called with every event."""
    settings: Settings | None = None
    """Settings instead of those of the files."""
