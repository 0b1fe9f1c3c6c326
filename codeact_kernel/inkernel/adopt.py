"""Makes one package of another environment importable, and nothing else of that environment.

Comes in: a package's name and folder. Goes out: that package in `sys.modules`. Stands alone, because the
kernel's start script needs it before our own package can be imported.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def adopt(name: str, folder: str) -> None:
    """Import a package from its folder without touching `sys.path`.

    Args:
        name: The package's name.
        folder: Where its `__init__.py` lies.

    Raises:
        ImportError: If there is no such package there.
    """
    start = str(Path(folder) / "__init__.py")
    spec = importlib.util.spec_from_file_location(name, start, submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no package {name} in {folder}")
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
