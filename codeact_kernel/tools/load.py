"""Tools by the name of a module, a file or an entry point, or the built-in ones (`--tools`).

Comes in: "my_package.tools", "my_tools.py", a name that an installed package gives its tools, or "builtin". Goes out:
the functions that it offers; a module those in its `TOOLS` list or its `__all__`, else every public function, and every
tool of one, that it defines itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from codeact_kernel.errors import ConfigError
from codeact_kernel.tools.builtin import workspace_tools
from codeact_kernel.tools.tool import Tool

BUILTIN = "builtin"
ENTRY_POINTS = "codeact_kernel.tools"
"""The group of entry points by which installed packages give their tools a name."""

Functions = list[Callable[..., Any] | Tool]


def load_tools(
    source: str,
    workspace: Path | str = ".",
    env: Sequence[str] = (),
    search: Mapping[str, Any] | None = None,
) -> Functions:
    """Load the tools that a module, file or entry point offers, or built-in ones.

    Args:
        source: "builtin", or "builtin:" and some of its groups, as "builtin:files,search"; a path that ends in ".py";
            the name of an entry point; or a module's dotted name. What comes first here counts first.
        workspace: The folder in which built-in tools work.
        env: Names of variables that the programs of built-in tools may see besides the plain ones.
        search: The web search service of built-in tools, as in the settings' table `[search]`.

    Returns:
        Its functions, in the order of their definition.

    Raises:
        ConfigError: If it cannot be loaded or offers nothing, or if two packages give their tools this name.
    """
    name, colon, groups = source.partition(":")
    if name == BUILTIN:
        return [*workspace_tools(workspace, *(groups.split(",") if colon else ()), env=env, search=search)]
    offered = _load(source)
    functions = _of_module(offered) if isinstance(offered, ModuleType) else _of_object(source, offered)
    if not functions:
        raise ConfigError(f"{source} offers no tools: define public functions there, or a list TOOLS")
    return functions


def _of_module(module: ModuleType) -> Functions:
    if hasattr(module, "TOOLS"):
        return list(module.TOOLS)
    if hasattr(module, "__all__"):
        named: list[Any] = [getattr(module, name, None) for name in module.__all__]
        return [value for value in named if _is_tool(value)]
    offered: list[Any] = [
        value
        for name, value in vars(module).items()
        if _is_tool(value) and _home_of(value) == module.__name__ and not name.startswith("_")
    ]
    # A tool that was made of a function of the module stands for it.
    made_of = [value.function for value in offered if isinstance(value, Tool)]
    return [value for value in offered if value not in made_of]


def _is_tool(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, Tool)


def _home_of(value: Any) -> str | None:
    """The module in which a function, or that of a tool, is defined."""
    return getattr(value.function if isinstance(value, Tool) else value, "__module__", None)


def _of_object(source: str, offered: Any) -> Functions:
    functions = list(offered) if isinstance(offered, list | tuple) else [offered]
    for function in functions:
        if not callable(function):
            raise ConfigError(
                f"the entry point {source} leads to {function!r:.80}, which is no tool: it takes a function, a Tool, "
                "a list of them, or a module"
            )
    return functions


def _load(source: str) -> Any:
    try:
        if source.endswith(".py"):
            return _load_file(Path(source))
        if (named := _entry_point(source)) is not None:
            return named.load()
        return importlib.import_module(source)
    except ConfigError:
        raise
    except Exception as exception:
        missing = isinstance(exception, ModuleNotFoundError) and exception.name == source.partition(".")[0]
        raise ConfigError(
            f"the tools {source} cannot be loaded: {type(exception).__name__}: {exception}"
            + (_entry_points_there_are() if missing else "")
        ) from exception


def _entry_point(name: str) -> EntryPoint | None:
    """The entry point of a name; one that leads to the same object in two packages counts as one."""
    found = {point.value: point for point in entry_points(group=ENTRY_POINTS, name=name)}
    if len(found) > 1:
        packages = [f"{point.value} of {point.dist.name if point.dist else '?'}" for point in found.values()]
        raise ConfigError(
            f"{name} is the name of several tools: {', '.join(packages)}; name the module instead"
        )
    return next(iter(found.values()), None)


def _entry_points_there_are() -> str:
    names = sorted({point.name for point in entry_points(group=ENTRY_POINTS)})
    return f"; installed packages offer {', '.join(names)}" if names else ""


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    spec = importlib.util.spec_from_file_location(f"codeact_tools_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
