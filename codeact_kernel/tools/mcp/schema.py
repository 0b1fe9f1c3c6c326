"""JSON schemas as Python types.

Comes in: a JSON schema of any dialect, of a stranger: it may refer to itself, contradict itself, or be none. Goes out:
type expressions as text, and the TypedDicts that they name.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any

from codeact_kernel.tools.mcp.names import clean, one_line

DEPTH = 12
"""Levels below which a type is `Any`."""
STEPS = 3_000
"""Schemas that are looked at for one tool: references can stand for more than there are atoms. What is beyond is
`Any`."""
ALL_STEPS = 200_000
"""The same for all tools of a server: half a second or so. Ours: a thousand ordinary tools take half of it."""
RECORDS = 40
"""TypedDicts of one tool; what is beyond is a dict. Ours: nobody reads more."""
PROPERTIES = 200
"""Properties of one object that are written."""
CHOICES = 40
"""Values of an enum that are written; of a longer one the type of the values."""
SHORT = 60
"""Characters of an enum in a signature, where it is on one line with all the others."""
COMMENT = 120
"""Characters of a property's description."""

_SIMPLE = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
    "array": "list[Any]",
}
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null", list: "array"}
_TAKEN = frozenset({"Any", "Literal", "NotRequired", "TypedDict", "None", "True", "False"})
_ANY = ("Any",)
Schema = Mapping[str, Any]
Choices = tuple[str, ...]
"""The types that a value can have, each once."""


class Budget:
    """How many schemas may be looked at.

    Args:
        steps: How many.
        whole: What they are part of.
    """

    def __init__(self, steps: int, whole: Budget | None = None) -> None:
        self._left = steps
        self._whole = whole

    def take(self) -> bool:
        """Take one; returns whether it was there."""
        self._left -= 1
        return self._left >= 0 and (self._whole is None or self._whole.take())


class Types:
    """Writes the types of one tool.

    Args:
        root: What `$ref` of the schemas refers into.
        budget: How many schemas may be looked at.
        records: Write objects as TypedDicts, and collect these; else objects are `dict`, and long enums their type.
        taken: Names that TypedDicts cannot have.
    """

    def __init__(self, root: Any, budget: Budget, *, records: bool, taken: Iterable[str] = ()) -> None:
        self._root = root
        self._budget = budget
        self._records = records
        self.taken = {*_TAKEN, *taken}
        """Names that further TypedDicts cannot have."""
        self._named: dict[str, str] = {}
        self._open: set[str] = set()
        self._begun = 0
        self.definitions: list[str] = []
        """The TypedDicts, each after those that it uses, as far as they do not use each other."""

    def write(self, schema: Any, name: str) -> str:
        """Write a schema's type.

        Args:
            schema: The schema.
            name: What a TypedDict of it is to be called; any text.
        """
        return _union([self._write(schema, name, 0)])

    def _write(self, schema: Any, name: str, depth: int) -> Choices:
        if not self._budget.take() or not isinstance(schema, Mapping) or depth > DEPTH:
            return _ANY
        choices = self._choices(schema, name, depth)
        return (*choices, "None") if schema.get("nullable") is True else choices

    def _choices(self, schema: Schema, name: str, depth: int) -> Choices:
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema["$ref"], name, depth)
        if "const" in schema:
            return self._literal([schema["const"]])
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return self._literal(schema["enum"])
        for key in ("anyOf", "oneOf"):
            branches = schema.get(key)
            # Beside properties, branches say which of them go together: nothing that a type can say.
            if isinstance(branches, list) and branches and not properties_of(schema):
                return tuple(one for branch in branches for one in self._write(branch, name, depth + 1))
        if isinstance(schema.get("allOf"), list):
            return self._plain(self.merge(schema), name, depth)
        return self._plain(schema, name, depth)

    def _plain(self, schema: Schema, name: str, depth: int) -> Choices:
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = [one for one in kind if isinstance(one, str) and one in _SIMPLE]
            return (
                tuple(o for one in kinds for o in self._plain({**schema, "type": one}, name, depth)) or _ANY
            )
        if kind == "object" or (kind is None and properties_of(schema)):
            return (self._object(schema, name, depth),)
        if kind == "array" or (kind is None and "items" in schema):
            return (f"list[{_union([self._write(schema.get('items'), f'{name} item', depth + 1)])}]",)
        return (_SIMPLE.get(kind, "Any") if isinstance(kind, str) else "Any",)

    def _object(self, schema: Schema, name: str, depth: int) -> str:
        if not self._records:
            return "dict"
        if not properties_of(schema):
            more = schema.get("additionalProperties")
            if not isinstance(more, Mapping) or not more:
                return "dict[str, Any]"
            return f"dict[str, {_union([self._write(more, f'{name} value', depth + 1)])}]"
        if self._begun >= RECORDS:
            return "dict[str, Any]"
        title = self._title(name)
        self._record(title, schema, depth)
        return title

    def _record(self, title: str, schema: Schema, depth: int) -> None:
        self._begun += 1
        needed, properties, rows = required_of(schema), properties_of(schema), []
        for key, value in list(properties.items())[:PROPERTIES]:
            text = _union([self._write(value, f"{title} {key}", depth + 1)])
            rows.append((key, text if key in needed else f"NotRequired[{text}]", _comment(value)))
        if all(key.isidentifier() and not keyword.iskeyword(key) and key[:2] != "__" for key, _, _ in rows):
            lines = [f"class {title}(TypedDict):", *(f"    {key}: {text}{note}" for key, text, note in rows)]
        else:
            lines = [f'{title} = TypedDict("{title}", {{']
            lines += [f"    {key!r}: {text},{note}" for key, text, note in rows]
            lines += ["})"]
        if len(properties) > len(rows):
            lines += [f"# {len(properties) - len(rows)} more properties"]
        self.definitions.append("\n".join(lines))

    def _title(self, name: str) -> str:
        words = re.findall(r"[A-Za-z0-9]+", clean(name, 80))
        base = "".join(word[0].upper() + word[1:] for word in words)
        base = base if base[:1].isalpha() else f"Record{base}"
        title, number = base, 2
        while title in self.taken:
            title, number = f"{base}{number}", number + 1
        self.taken.add(title)
        return title

    def _reference(self, reference: str, name: str, depth: int) -> Choices:
        if reference in self._named:
            return (self._named[reference],)
        target = self._resolve(reference)
        if target is None or reference in self._open:
            return _ANY
        name = reference.rpartition("/")[2] or name
        if self._records and properties_of(target) and target.get("type", "object") == "object":
            if self._begun >= RECORDS:
                return ("dict[str, Any]",)
            self._named[reference] = title = self._title(name)
            self._record(title, target, depth)
            return (title,)
        self._open.add(reference)
        try:
            return self._write(target, name, depth + 1)
        finally:
            self._open.discard(reference)

    def _resolve(self, reference: str) -> Schema | None:
        """Find what a `$ref` refers to; None where that is nothing, or elsewhere than in the document."""
        found = self._root if reference.startswith("#") else None
        for part in reference.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, Mapping):
                found = found.get(name)
        return found if isinstance(found, Mapping) else None

    def merge(self, schema: Schema, depth: int = 0) -> Schema:
        """Join a schema with those of its `allOf`.

        Args:
            schema: The schema.
            depth: How many schemas it stands in.

        Returns:
            One schema with all properties; of other keywords, those of the outermost count.
        """
        if not self._budget.take():
            return schema
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in self._named and depth:
            schema = {**(self._resolve(reference) or {}), **{k: v for k, v in schema.items() if k != "$ref"}}
        inner = schema.get("allOf")
        if not isinstance(inner, list) or depth > DEPTH:
            return schema
        parts = [self.merge(part, depth + 1) for part in inner if isinstance(part, Mapping)]
        parts.append({key: value for key, value in schema.items() if key != "allOf"})
        joined: dict[str, Any] = {}
        for part in parts:
            joined |= part
        properties = {name: value for part in parts for name, value in properties_of(part).items()}
        if properties:
            needed = frozenset[str]().union(*(required_of(part) for part in parts))
            joined |= {"properties": properties, "required": sorted(needed)}
        return joined

    def _literal(self, values: list[Any]) -> Choices:
        simple = [repr(v) for v in values if v is None or isinstance(v, bool | int) or _is_word(v)]
        text = ", ".join(dict.fromkeys(simple))
        short = len(simple) <= CHOICES and (self._records or len(text) <= SHORT)
        if len(simple) == len(values) and short:
            return ("None" if text == "None" else f"Literal[{text}]",)
        return tuple(_SIMPLE[_KINDS.get(type(value), "object")] for value in values)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 200


def properties_of(schema: Schema) -> Mapping[str, Any]:
    """The properties of an object's schema."""
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def required_of(schema: Schema) -> frozenset[str]:
    """The names of the properties that an object must have."""
    found = schema.get("required")
    return (
        frozenset(name for name in found if isinstance(name, str)) if isinstance(found, list) else frozenset()
    )


def default_of(schema: Any) -> str:
    """A property's default as Python code; "..." where it has none that is short and plain."""
    if not isinstance(schema, Mapping) or "default" not in schema:
        return "..."
    value = schema["default"]
    try:
        json.dumps(value, allow_nan=False)
        text = repr(value)
    except (TypeError, ValueError, RecursionError):
        return "..."
    return text if len(text) <= 80 else "..."


def _union(choices: Iterable[Choices]) -> str:
    """Write the union of types: `None` at the end, and `Any` where one of them is."""
    flat = dict.fromkeys(one for some in choices for one in some)
    if not flat or "Any" in flat:
        return "Any"
    return " | ".join(sorted(flat, key=lambda one: one == "None"))


def _comment(schema: Any) -> str:
    text = one_line(schema.get("description"), COMMENT) if isinstance(schema, Mapping) else ""
    return f"  # {text}" if text else ""
