"""What an agent shall be, as the caller says it.

Comes in: the caller's words. Goes out: `Options`, the fields of `Agent`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from codeact_kernel.agent.config import Settings
from codeact_kernel.approval import Approver
from codeact_kernel.protocols import Model, Observer
from codeact_kernel.tools import Tool, Toolset

LIMIT_FIELDS = {"turns": "max_turns", "seconds": "max_time", "tokens": "max_tokens", "cost": "max_cost"}
"""By the name of a limit the field that sets it."""

REPLAY = "replay"
"""In the place of a model that goes on after a replay: the recorded replies, whatever the conversation has become."""

Person = Callable[[str], Any]
"""Asks a person a question and returns the answer; plain or async."""


@dataclass(eq=False)
class Options:
    """What an agent shall be."""

    model: str | Model | None = None
    """What `--model` takes (a model's name, an alias, "local", "replay:FILE"), or a `Model`. None takes
    `CODEACT_MODEL` or the settings' model."""
    _: KW_ONLY
    fork: tuple[Path | str, int] | None = None
    """A record, and one of its turns: the replies before that turn are said again, and from it on the model answers."""
    then: str | Model | None = None
    """Where `model` is a record: the model that goes on where the conversation is no longer as recorded, or its replies
    end; "replay" says the recorded replies all the same. None ends the run there with `Diverged`."""
    tools: Iterable[Callable[..., Any] | Tool | Toolset] = ()
    """Functions that blocks can call by their names, and sets of them."""
    mcp: Path | str | Mapping[str, Any] | None = None
    """MCP servers whose tools blocks can call: the path of a file with `mcpServers`, or what it would hold. They are
    added to those of the settings."""
    dry_run: bool = False
    """Whether tools that write are not called: the block prints what it would have called, and gets None."""
    max_calls: int | None = None
    """The most tool calls of a run, of all its agents together; None takes the settings'."""
    max_turns: int | None = None
    """Replies that a run may take, those of sub-agents included; as the three after it, None takes the settings'."""
    max_time: str | float | None = None
    """How long a run may take: "2h", or seconds."""
    max_tokens: str | int | None = None
    """Tokens that a run may use, those of sub-agents included: "200k", or a number."""
    max_cost: float | None = None
    """What a run may cost, sub-agents included, in US dollars. The price of each model has to be known."""
    namespace: Mapping[str, Any] = field(default_factory=dict)
    """Values to bind in the kernel, by name."""
    files: Mapping[str, Path | str | bytes] = field(default_factory=dict)
    """Files to put into the workspace: by relative path, a `Path` to copy from, or the content."""
    workspace: Path | str = "."
    """The folder in which blocks run."""
    run_dir: Path | str | bool | None = None
    """Where the record goes. None makes a folder in the workspace's `.codeact/runs`; False keeps no record."""
    audit: Path | str | None = None
    """The file in which all that is done is noted, signed; it may hold audits of earlier runs. None for `audit.jsonl`
    in the record's folder, and none where no record is kept."""
    base_url: str | None = None
    """The endpoint."""
    vision: str | Model | None = None
    """The model that `ask_vision(question, files=[…])` in blocks asks about images: as `model`. None takes the alias
    `vision` of the settings, and without that there is none."""
    fallback: str | Model | None = None
    """The model that answers while the first does not: as `model`. None takes the settings', else none."""
    patience: str | float | None = None
    """How long a model that does not answer is tried again: "2h", or seconds. None takes the settings'."""
    lease: str | float | None = None
    """How long the kernel outlives this process, if that is killed: "2h", or seconds; "none" for not at all. None takes
    the settings'."""
    protocol: str | None = None
    """"tags", "tools" or "json"; None takes the settings'."""
    kernel: str | None = None
    """The name of a kernelspec, whose interpreter runs the kernel."""
    python: str | None = None
    """The path of an interpreter, instead."""
    env: Sequence[str] = ()
    """Names of the host's environment variables that blocks may see."""
    max_memory: str | int | None = None
    """What the kernel's processes may hold ("4GB", or bytes); past it they are ended. None takes the settings'."""
    sandbox: str | None = None
    """What blocks are walled in by: "auto", "none", "limits", "landlock" or "bwrap". None takes the settings'."""
    sandbox_min: str | None = None
    """What "auto" must at least come to. None takes the settings'."""
    allow_net: bool = False
    """Whether blocks may use the network."""
    allow_hosts: Sequence[str] = ()
    """Hosts that blocks may reach over HTTP and HTTPS; the rest of the network stays closed."""
    allow_read: Sequence[Path | str] = ()
    """Folders and files outside of the workspace that blocks may read, in a sandbox that hides them."""
    system: str | bool | None = None
    """A system prompt instead of ours; False for none."""
    output_type: Any = None
    """What answers have to be, for pydantic; they are validated into `Run.value`."""
    returns: Callable[[str], None] | None = None
    """Takes what blocks hand back with `self.return_value(obj)`: the path of a file as kernels write them for each
    other, which has to be copied or read before this returns. None where nobody takes anything."""
    returns_objects: bool = False
    """Whether that may be objects of any kind, and not data only: who reads those runs code of the blocks."""
    hooks: Sequence[object] = ()
    """Objects with methods of `Hooks`."""
    person: Person | None = None
    """Asks a person; blocks can then call `ask_person(question)`."""
    approve: str | None = None
    """What is asked before it happens: "auto", "ask", "deny-writes" or "rules"; None takes the settings'."""
    approver: Approver | None = None
    """Decides about what is asked; without one, what would be asked is denied."""
    trust_workspace: bool = False
    """Whether the workspace's `codeact.toml` may say everything, as the user's may."""
    observers: Sequence[Observer] = ()
    """Called with every event."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that the record keeps for who resumes it: where the tools came from, say."""
    settings: Settings | None = None
    """Settings instead of those of the files."""
