"""Figures of pyplot, for each block its own.

Comes in: the import of matplotlib by user code. Goes out: a registry of figures in which each block of an agent
has its own figures and its own current one, so that two blocks that plot at once draw into two figures. Cells
of ordinary clients share one registry, as in any kernel.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from codeact_kernel.inkernel.request import Plotting, current

_drawing = threading.Lock()
_shared = Plotting()


def _own() -> Plotting:
    request = current.get()
    return _shared if request is None or request.block_id is None else request.plotting


class Figures:
    """Stands for `Gcf.figs`: an ordered dict of figure managers by number, the current block's."""

    def _own(self) -> OrderedDict[Any, Any]:
        return _own().managers

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


class Show:
    """Stands for the inline backend's `show`, whose attributes say what is to be drawn: the current block's.

    Args:
        stock: The backend's own.
    """

    def __init__(self, stock: Callable[..., None]) -> None:
        functools.update_wrapper(self, stock)
        self._stock = stock

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Show the current block's figures."""
        self._stock(*args, **kwargs)

    @property
    def _draw_called(self) -> bool:
        return _own().draw_called

    @_draw_called.setter
    def _draw_called(self, value: bool) -> None:
        _own().draw_called = value

    @property
    def _to_draw(self) -> list[Any]:
        return _own().to_draw

    @_to_draw.setter
    def _to_draw(self, value: list[Any]) -> None:
        _own().to_draw = value


def _adopt_registry(module: Any) -> None:
    module.Gcf.figs = Figures()


def _adopt_backend(module: Any) -> None:
    module.show = Show(module.show)


_ADOPTED: dict[str, Callable[[ModuleType], None]] = {
    "matplotlib._pylab_helpers": _adopt_registry,
    "matplotlib_inline.backend_inline": _adopt_backend,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Sees the imports that matter, and lets the others pass."""

    def __init__(self) -> None:
        self._awaited = dict(_ADOPTED)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        adopt = self._awaited.pop(fullname, None)
        if adopt is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, adopt)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, stock: Any, adopt: Callable[[ModuleType], None]) -> None:
        self._stock = stock
        self._adopt = adopt

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._stock.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._stock.exec_module(module)
        self._adopt(module)


def adopt_figures() -> None:
    """From now on pyplot's figures are each block's own, once matplotlib is imported."""
    sys.meta_path.insert(0, _Finder())


@contextmanager
def drawing() -> Generator[None]:
    """Draw one block's figures at a time: matplotlib's renderers share caches between threads."""
    if "matplotlib_inline.backend_inline" not in sys.modules:
        yield
        return
    with _drawing:
        yield
