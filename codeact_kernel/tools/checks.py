"""Arguments held against the hints of a tool's parameters.

Comes in: a function with type hints, and the arguments of a call. Goes out: the arguments, as the hints say; or an
error that names the argument. What pydantic takes for a type counts: "3" for an int, a dict for a dataclass.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from codeact_kernel.errors import ToolError
from codeact_kernel.inkernel import wire

_ANY_CLASS = ConfigDict(arbitrary_types_allowed=True)
"""A class that pydantic knows nothing of is checked with isinstance."""
_REPORTED = 3
"""Faults of one argument that an error tells."""


class Checks:
    """Checks the arguments of one function.

    Args:
        name: The tool's name, for messages.
        function: The function.
        unchecked: Parameters that are left as they are.
    """

    def __init__(self, name: str, function: Callable[..., Any], unchecked: tuple[str, ...] = ()) -> None:
        self._name = name
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters.values()
        self._placed = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        self._required = {p.name for p in parameters if p.default is p.empty}
        self._is_plain = all(p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters)
        hints = _hints(function)
        self._adapters = {
            name: adapter
            for name in self._signature.parameters
            if name in hints and name not in unchecked and (adapter := _adapter(hints[name])) is not None
        }

    def __call__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Check a call.

        Args:
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Returns:
            The arguments, converted where a hint asks for it.

        Raises:
            ToolError: If there are too many or too few, or if one is not what its hint says.
        """
        if (
            self._is_plain
            and not args
            and self._required <= kwargs.keys() <= self._signature.parameters.keys()
        ):
            return self._by_name(kwargs)
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ToolError(f"{self._name}: {error}") from None
        given = bound.arguments
        for name in given.keys() & self._adapters.keys():
            kind, adapter = self._signature.parameters[name].kind, self._adapters[name]
            if kind is inspect.Parameter.VAR_POSITIONAL:
                given[name] = tuple(
                    self._check(adapter, f"{name}[{i}]", value) for i, value in enumerate(given[name])
                )
            elif kind is inspect.Parameter.VAR_KEYWORD:
                given[name] = {key: self._check(adapter, key, value) for key, value in given[name].items()}
            else:
                given[name] = self._check(adapter, name, given[name])
        return bound.args, bound.kwargs

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call that was checked, by name; those of `*args` as a list under its name.

        Args:
            args: The positional arguments.
            kwargs: The keyword arguments.
        """
        if self._is_plain:
            return {**dict(zip(self._placed, args, strict=False)), **kwargs}
        named: dict[str, Any] = {}
        for name, value in self._signature.bind(*args, **kwargs).arguments.items():
            match self._signature.parameters[name].kind:
                case inspect.Parameter.VAR_KEYWORD:
                    named |= value
                case inspect.Parameter.VAR_POSITIONAL:
                    named[name] = list(value)
                case _:
                    named[name] = value
        return named

    def placed(self, named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call as they are passed, of what `named` gives.

        Args:
            named: By name.
        """
        args, kwargs = list[Any](), dict(named)
        parameters = self._signature.parameters.values()
        has_more = any(p.kind is p.VAR_POSITIONAL and kwargs.get(p.name) for p in parameters)
        for p in parameters:
            if p.kind is p.VAR_POSITIONAL:
                args += kwargs.pop(p.name, ())
            elif p.name in kwargs and (
                p.kind is p.POSITIONAL_ONLY or (has_more and p.kind is p.POSITIONAL_OR_KEYWORD)
            ):
                args.append(kwargs.pop(p.name))
        return tuple(args), kwargs

    def _by_name(self, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Check a call as blocks make it, all by name: in a third of the time that binding takes."""
        given = {
            name: value
            if (adapter := self._adapters.get(name)) is None
            else self._check(adapter, name, value)
            for name, value in kwargs.items()
        }
        args = []
        for name in self._placed:
            if name not in given:
                break
            args.append(given.pop(name))
        return tuple(args), given

    def _check(self, adapter: TypeAdapter[Any], name: str, value: Any) -> Any:
        try:
            return adapter.validate_python((value,))[0]
        except ValidationError as error:
            wrong = error
        if (fields := _as_fields(value)) is not value:
            try:
                return adapter.validate_python((fields,))[0]
            except ValidationError as error:
                wrong = error
        raise ToolError(f"argument {name!r} of {self._name} is wrong: {_told(wrong)}")


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The hints that can be read: one that names what is not there leaves the others."""
    target: Any = function
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        target = getattr(function, "__call__", function)  # noqa: B004
    target = inspect.unwrap(target)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:
        names = getattr(inspect.unwrap(getattr(target, "__func__", target)), "__globals__", {})
        hints = {}
        for name, hint in getattr(target, "__annotations__", {}).items():
            try:
                hints[name] = eval(hint, names) if isinstance(hint, str) else hint
            except Exception:
                continue
        return hints


def _adapter(hint: Any) -> TypeAdapter[Any] | None:
    """Checks a tuple of one value: a dataclass takes the configuration of what it is in, and of nothing else."""
    try:
        one: Any = tuple.__class_getitem__((hint,))
        return TypeAdapter(one, config=_ANY_CLASS)
    except (PydanticUserError, TypeError, NameError):
        return None


def _as_fields(value: Any) -> Any:
    """Records as dicts, for hints that are classes of the host."""
    if isinstance(value, list | tuple):
        parts = [_as_fields(part) for part in value]
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
    if isinstance(value, Mapping):
        of = {key: _as_fields(part) for key, part in value.items()}
        return value if all(of[key] is value[key] for key in of) else of
    if wire.is_record(value):
        return {name: _as_fields(part) for name, part in vars(value).items()}
    return value


def _told(error: ValidationError) -> str:
    """What is wrong, in one line: where in the argument, what was expected, and what came."""
    faults = error.errors(include_url=False, include_context=False)
    told = []
    for fault in faults[:_REPORTED]:
        place = "".join(f"[{part!r}]" for part in fault["loc"][1:] if not str(part).startswith("function-"))
        message = fault["msg"][:1].lower() + fault["msg"][1:]
        told.append(f"{place + ': ' if place else ''}{message}, not {_shown(fault['input'])}")
    more = len(faults) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}… ({wire.describe(value)})"
