"""Tools by the name of a module or a file (`--tools`).

Comes in: "my_package.tools" or "my_tools.py". Goes out: the functions that it offers: those in its `TOOLS`
list or its `__all__`, else every public function that it defines itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from codeact_kernel.errors import ConfigError


def load_tools(source: str) -> list[Callable[..., Any]]:
    """Load the tools that a module or file offers.

    Args:
        source: A module's dotted name, or a path that ends in ".py".

    Returns:
        Its functions, in the order of their definition.

    Raises:
        ConfigError: If it cannot be loaded or offers nothing.
    """
    module = _load(source)
    if hasattr(module, "TOOLS"):
        functions = list(module.TOOLS)
    elif hasattr(module, "__all__"):
        functions = [
            f for f in (getattr(module, name, None) for name in module.__all__) if inspect.isfunction(f)
        ]
    else:
        functions = [
            value
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
        ]
    if not functions:
        raise ConfigError(f"{source} offers no tools: define public functions there, or a list TOOLS")
    return functions


def _load(source: str) -> ModuleType:
    try:
        if source.endswith(".py"):
            return _load_file(Path(source))
        return importlib.import_module(source)
    except Exception as exception:
        raise ConfigError(
            f"the tools {source} cannot be loaded: {type(exception).__name__}: {exception}"
        ) from exception


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
