"""A server's tool as Python sees it: a signature, a docstring and a typed stub.

Comes in: a tool as a server lists it. Goes out: a `Contract`, with which parameter the server knows by which name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codeact_kernel.tools.mcp.names import clean, identifier, one_line
from codeact_kernel.tools.mcp.schema import (
    PROPERTIES,
    STEPS,
    Budget,
    Types,
    default_of,
    properties_of,
    required_of,
)

DESCRIPTION = 2_000
"""Characters of a tool's description that are shown. Ours: the longest in use are half of it."""
PARAMETER = 400
"""Characters of a parameter's description."""
STUB = 12_000
"""Characters of a stub with all its TypedDicts; a longer one is written with dicts."""
LINE = 100
"""Characters of a stub's line, above which the parameters stand one a line."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a tool."""

    name: str
    """As code writes it."""
    wire: str
    """As the server knows it."""
    required: bool
    default: str
    """As Python code; "..." where none is known. The server fills it in."""
    plain: str
    """Its type in a signature, with nothing that would need a definition."""
    typed: str
    """Its type in a stub."""
    about: str


@dataclass(frozen=True, slots=True)
class Contract:
    """What is called how, and what it gives."""

    signature: str
    doc: str
    stub: str
    parameters: tuple[Parameter, ...]
    open: bool
    """Whether other arguments are taken, too."""
    wrapped: bool
    """Whether what it gives comes as {"result": …}, as servers wrap what is no object."""


def contract(name: str, tool: Mapping[str, Any], whole: Budget | None = None) -> Contract:
    """Read what a server says of a tool.

    Args:
        name: The tool's identifier.
        tool: As a `Listing` has it: title, description, inputSchema, outputSchema.
        whole: How many schemas may be looked at for all tools.
    """
    given, returned = tool.get("inputSchema"), tool.get("outputSchema")
    given = given if isinstance(given, Mapping) else {}
    wrapped = is_wrapped(returned)
    shown = returned["properties"]["result"] if wrapped and isinstance(returned, Mapping) else returned
    title = returned.get("title") if isinstance(returned, Mapping) and not wrapped else None
    result = one_line(title, 60) if title else f"{name} result"

    budget = Budget(STEPS, whole)
    plain, typed = Types(given, budget, records=False), Types(given, budget, records=True)
    merged = typed.merge(given)
    parameters = _parameters(merged, plain, typed)
    is_open = bool(merged.get("additionalProperties", False)) or len(properties_of(merged)) > PROPERTIES
    gives = Types(returned, budget, records=True, taken=typed.taken)
    typed_result = gives.write(shown, result) if isinstance(shown, Mapping) else ""
    plain_result = (
        Types(returned, budget, records=False).write(shown, result) if isinstance(shown, Mapping) else ""
    )

    doc = _doc(tool, parameters)
    parts = _parts([(p, p.plain) for p in parameters], is_open)
    typed_parts = _parts([(p, p.typed) for p in parameters], is_open)
    stub = _stub([*typed.definitions, *gives.definitions], name, typed_parts, typed_result, doc)
    if len(stub) > STUB:
        stub = _stub([], name, parts, plain_result, doc)
    return Contract(f"({', '.join(parts)}){_arrow(plain_result)}", doc, stub, parameters, is_open, wrapped)


def is_wrapped(schema: Any) -> bool:
    """Whether an output schema is that of {"result": …} and nothing else, as SDKs make it of what is no object."""
    return (
        isinstance(schema, Mapping)
        and list(properties_of(schema)) == ["result"]
        and required_of(schema) == {"result"}
        and not schema.get("additionalProperties")
    )


def _parameters(schema: Mapping[str, Any], plain: Types, typed: Types) -> tuple[Parameter, ...]:
    needed, found = required_of(schema), dict[str, Parameter]()
    for wire, what in list(properties_of(schema).items())[:PROPERTIES]:
        name = identifier(wire, found)
        found[name] = Parameter(
            name=name,
            wire=wire,
            required=wire in needed,
            default=default_of(what),
            plain=plain.write(what, wire),
            typed=typed.write(what, wire),
            about=one_line(what.get("description"), PARAMETER) if isinstance(what, Mapping) else "",
        )
    return tuple(sorted(found.values(), key=lambda parameter: not parameter.required))


def _parts(parameters: list[tuple[Parameter, str]], is_open: bool) -> list[str]:
    """What stands between the parentheses of a function's head."""
    parts = [f"{p.name}: {kind}" + ("" if p.required else f" = {p.default}") for p, kind in parameters]
    more = [f"**{identifier('more', [p.name for p, _ in parameters])}: Any"] if is_open else []
    return [*(["*"] if parts else []), *parts, *more]


def _arrow(result: str) -> str:
    return f" -> {result}" if result else ""


def _doc(tool: Mapping[str, Any], parameters: tuple[Parameter, ...]) -> str:
    lines = [clean(tool.get("description"), DESCRIPTION) or one_line(tool.get("title"), DESCRIPTION)]
    told = [p for p in parameters if p.about or p.name != p.wire]
    if told:
        lines += ["", "Args:"]
        lines += [f"    {p.name}: {p.about}{_renamed(p)}" for p in told]
    return "\n".join(lines).strip()


def _renamed(parameter: Parameter) -> str:
    if parameter.name == parameter.wire:
        return ""
    return f"{' ' if parameter.about else ''}(the server calls it {parameter.wire!r})"


def _stub(definitions: list[str], name: str, parts: list[str], result: str, doc: str) -> str:
    head = f"def {name}({', '.join(parts)}){_arrow(result)}:"
    if len(head) > LINE and parts:
        head = f"def {name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){_arrow(result)}:"
    safe = doc.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    safe += "\n" if "\n" in safe else " " if safe.endswith('"') else ""
    body = "\n".join(f"    {line}".rstrip() for line in f'"""{safe}"""'.splitlines()) if doc else "    ..."
    return "\n\n".join([*definitions, f"{head}\n{body}"])
