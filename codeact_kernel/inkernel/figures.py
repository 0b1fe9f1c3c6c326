"""Figures of pyplot, for each block its own.

Comes in: the import of matplotlib by user code. Goes out: a registry of figures in which each block of an agent
has its own figures and its own current one, so that two blocks that plot at once draw into two figures. Cells
of ordinary clients share one registry, as in any kernel.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from codeact_kernel.inkernel.request import Plotting, current

INLINE_BACKEND = "matplotlib_inline.backend_inline"

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


def _adopt_pyplot(_: Any) -> None:
    """Set up the inline backend, if it is the chosen one, before anybody can draw.

    Pyplot does so with the first figure, in many steps. What another block draws meanwhile finds a backend that makes
    figures, while nothing shows them yet, or would show them as text.
    """
    # Not `import_module`: where two threads wait for each other's imports, that raises.
    __import__(INLINE_BACKEND)


def _adopt_backend(module: Any) -> None:
    module.show = Show(module.show)


_ADOPTED: dict[str, Callable[[Any], None]] = {
    "matplotlib._pylab_helpers": _adopt_registry,
    "matplotlib.pyplot": _adopt_pyplot,
    INLINE_BACKEND: _adopt_backend,
}


class _Finder(importlib.abc.MetaPathFinder):
    """Sees each import that matters, since one that fails or is interrupted comes again, and lets the others pass."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        adopt = _ADOPTED.get(fullname)
        if adopt is None:
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, adopt)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, stock: Any, adopt: Callable[[Any], None]) -> None:
        self._stock = stock
        self._adopt = adopt

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._stock.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._stock.exec_module(module)
        self._adopt(module)


def adopt_figures() -> None:
    """From now on pyplot's figures are each block's own, if matplotlib is imported or once it is."""
    sys.meta_path.insert(0, _Finder())
    # One that was imported before there was a shell is not set up for it. Pyplot's adoption imports it anew.
    sys.modules.pop(INLINE_BACKEND, None)
    for name in [name for name in _ADOPTED if name in sys.modules]:
        _ADOPTED[name](sys.modules[name])


@contextmanager
def drawing() -> Generator[None]:
    """Draw one block's figures at a time: matplotlib's renderers share caches between threads."""
    if INLINE_BACKEND not in sys.modules:
        yield
        return
    with _drawing:
        yield
