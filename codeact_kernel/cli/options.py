"""The options that several commands share: what they take, and what `--help` says of them."""

from __future__ import annotations

from typing import Annotated

import typer

Model = Annotated[
    str | None,
    typer.Option(
        metavar="M",
        help="The model: a name that the endpoint knows, an alias of the settings, `local` (embedded, needs no "
        "key), or `replay:FILE`. Else CODEACT_MODEL, else the settings.",
    ),
]
Then = Annotated[
    str | None,
    typer.Option(
        metavar="M",
        help="With `replay:FILE`: the model that goes on where the conversation is no longer as recorded, or the "
        "replies end; `replay` says the recorded replies all the same. Else the run ends there, and says where.",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The endpoint, any that speaks OpenAI's API. Else LLM_BASE_URL or OPENAI_BASE_URL, else OpenAI's.",
    ),
]
Protocol = Annotated[
    str | None,
    typer.Option(
        metavar="tags|tools|json",
        help="How the model writes blocks: as tags in its text, as tool calls, or as JSON. Else the settings, "
        "else tags.",
    ),
]
Workspace = Annotated[
    str, typer.Option(metavar="DIR", help="The folder in which blocks run, instead of the current one.")
]
RunDir = Annotated[
    str | None,
    typer.Option(
        metavar="DIR", help="Where the record goes, instead of a new folder in the workspace's .codeact/runs."
    ),
]
MaxTurns = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="How many replies may be given. As all limits: sub-agents included."
    ),
]
MaxTime = Annotated[
    str | None, typer.Option(metavar="D", help="How long it may take: 90s, 10m, 2h, or a number of seconds.")
]
MaxTokens = Annotated[
    str | None,
    typer.Option(
        metavar="N", help="How many tokens it may use, prompts and replies together: 200k, 2M, or a number."
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        metavar="USD", help="What it may cost, in US dollars; the settings have to say the model's prices."
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="How much memory the kernel's processes may hold, 500MB or 4GB: past it they are ended. Else the "
        "settings, else in a sandbox nine tenths of what there is.",
    ),
]
Tools = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE_OR_FILE",
        help="A Python module, or a .py file, whose public functions blocks can call; the name that an installed "
        "package gives its tools; or `builtin`, or some of those: `builtin:files,search,commands,web`. May be given "
        "more than once.",
    ),
]
Mcp = Annotated[
    str | None,
    typer.Option(
        "--mcp",
        metavar="FILE",
        help="A JSON file with `mcpServers`, whose tools blocks can call as mcp.SERVER.TOOL(…). A server is started "
        "when one of its tools is first needed.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Call no tool that writes: the blocks print what they would have called, and get None.",
    ),
]
MaxCalls = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, help="How many calls of tools the blocks may make. Else the settings, else any."
    ),
]
Kernel = Annotated[
    str | None, typer.Option(metavar="NAME", help="A Jupyter kernel, whose interpreter runs the blocks.")
]
Python = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="A Python interpreter (with ipykernel) that runs the blocks."),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A variable of this environment that blocks may see; keys and the like are hidden from them. May be "
        "given more than once.",
    ),
]
Sandbox = Annotated[
    str | None,
    typer.Option(
        metavar="auto|none|limits|landlock|bwrap",
        help="What blocks are walled in by: `auto` is the strongest that works here. One that is named and cannot be "
        "had is an error. Else the settings, else auto.",
    ),
]
SandboxMin = Annotated[
    str | None,
    typer.Option(metavar="MODE", help="What `--sandbox auto` must at least come to, or nothing runs."),
]
AllowNet = Annotated[bool, typer.Option("--allow-net", help="Let blocks use the network.")]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="H",
        help="A host that blocks may reach over HTTP and HTTPS, while the rest of the network stays closed; "
        "`*.example.org` means those below it. May be given more than once.",
    ),
]
AllowRead = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="A folder or file outside of the workspace that blocks may read. May be given more than once.",
    ),
]
VisionModel = Annotated[
    str | None,
    typer.Option(
        metavar="M",
        help="The model that blocks can ask about images and PDFs: a name or an alias. Else the alias `vision` of "
        "the settings, else none.",
    ),
]

FallbackModel = Annotated[
    str | None,
    typer.Option(
        metavar="M",
        help="The model that answers while the first cannot be reached, limits the rate or refuses: a name or an "
        "alias. Else the settings, else none.",
    ),
]
Patience = Annotated[
    str | None,
    typer.Option(
        metavar="D",
        help="How long a model that does not answer is tried again, before the run stops, to be resumed: 5m, 2h. Else "
        "the settings, else 5m.",
    ),
]
Lease = Annotated[
    str | None,
    typer.Option(
        metavar="D",
        help="How long the kernel outlives this process, if that is killed: 30m, 2h; `codeact resume` finds it then, "
        "with all that its blocks have done meanwhile. none: it ends with this process. Else the settings, else none.",
    ),
]

Approve = Annotated[
    str | None,
    typer.Option(
        metavar="auto|ask|deny-writes|rules",
        help="What is asked before it happens: nothing; each block, and each call that changes something or uses the "
        "network; nothing, and calls that change something are denied; or all that no rule of the settings allows. "
        "Where nobody can be asked it is denied. Else the settings, else auto.",
    ),
]
Otel = Annotated[
    bool,
    typer.Option(
        "--otel",
        help="Send traces over OpenTelemetry, to where the OTEL_* variables say; without "
        "content, unless they ask for it.",
    ),
]
TrustWorkspace = Annotated[
    bool,
    typer.Option(
        "--trust-workspace",
        help="Let the workspace's codeact.toml say everything this time: load tools, name models and see variables.",
    ),
]
