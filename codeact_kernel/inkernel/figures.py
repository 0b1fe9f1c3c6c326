"""Figures of pyplot, for each block its own.

Comes in: the import of matplotlib by user code. Goes out: a registry of figures in which each block of an agent
has its own figures and its own current one, so that two blocks that plot at once draw into two figures. Cells
of ordinary clients share one registry, as in any kernel.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from codeact_kernel.inkernel.request import Request, current

_MODULE = "matplotlib._pylab_helpers"
_drawing = threading.Lock()


class Figures:
    """Stands for `Gcf.figs`: an ordered dict of figure managers by number, the current block's."""

    def __init__(self, shared: OrderedDict[Any, Any]) -> None:
        self._shared = shared

    def _own(self) -> OrderedDict[Any, Any]:
        request = current.get()
        if request is None or request.block_id is None:
            return self._shared
        return request.figures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own(), name)

    def __getitem__(self, key: Any) -> Any:
        return self._own()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._own()[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._own()[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._own()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._own())

    def __reversed__(self) -> Iterator[Any]:
        return iter(reversed(self._own()))

    def __len__(self) -> int:
        return len(self._own())


class _Finder(importlib.abc.MetaPathFinder):
    """Sees the one import that matters, and steps aside."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, stock: Any) -> None:
        self._stock = stock

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._stock.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._stock.exec_module(module)
        module.Gcf.figs = Figures(module.Gcf.figs)


def adopt_figures() -> None:
    """From now on pyplot's figures are each block's own, once matplotlib is imported."""
    sys.meta_path.insert(0, _Finder())


@contextmanager
def drawing_of(request: Request) -> Generator[None]:
    """Let the inline backend show a block's figures at its end.

    Its flag that there is something to draw is one for the whole process, and matplotlib's renderers share
    caches between threads: one block at a time.

    Args:
        request: The block that ends.
    """
    backend = sys.modules.get("matplotlib_inline.backend_inline")
    if not hasattr(backend, "show"):
        yield
        return
    with _drawing:
        if request.figures:
            backend.show._draw_called = True  # type: ignore[union-attr]
        yield
