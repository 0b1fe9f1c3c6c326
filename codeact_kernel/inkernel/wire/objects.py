"""Objects of classes that the other side need not have: records, arrays, frames, images.

Comes in: an object. Goes out: its parts as data, and on the other side an object that is used in the same way. What a
kind needs (NumPy, pyarrow, Pillow) is imported when one comes, and never before.
"""

from __future__ import annotations

import dataclasses
import io
import keyword
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

KINDS = 4096
"""Classes of records that are remembered. Ours: more than a program has; who sends names without end fills nothing."""
_IMAGES = ("PNG", "JPEG", "GIF", "WEBP")
"""What is read as an image. Pillow knows formats that run another program (PostScript does), and many that nobody
looks after."""
_ARROW = (14, 0, 1)
"""Older ones run code that data brings along (CVE-2023-47248)."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as it is stored: what arrives where Pillow is not installed, or cannot read it."""

    data: bytes
    media_type: str = "image/png"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {self.media_type: self.data}

    def __repr__(self) -> str:
        return f"<picture, {self.media_type}, {len(self.data):,} bytes: display(it), it.data>"


# -- records ------------------------------------------------------------------------------------------------


def fields_of(value: Any) -> Mapping[str, Any] | None:
    """The fields of an object whose class declares them.

    Args:
        value: Any value.

    Returns:
        The fields by name, of an instance of a dataclass, a class of attrs or a model of pydantic; else None.
    """
    kind = type(value)
    if isinstance(value, type | Picture):
        return None
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [field.name for field in kind.__attrs_attrs__]
    elif isinstance(getattr(kind, "model_fields", None), dict):
        names = [*kind.model_fields, *(getattr(value, "model_extra", None) or {})]
    else:
        return None
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def record(name: str, fields: dict[str, Any]) -> Any:
    """Make an object that has these fields.

    Args:
        name: What its class is called.
        fields: The fields by name.

    Returns:
        An instance of a dataclass: records with one name and the same fields are of one class, so they can be compared.
    """
    return _record_class(name, tuple(fields))(*fields.values())


@lru_cache(KINDS)
def _record_class(name: str, names: tuple[str, ...]) -> Callable[..., Any]:
    if not all(map(_is_field, (name, *names))):
        raise TypeError(f"{name!r} with the fields {', '.join(names)!r:.200} cannot be a class")
    return dataclasses.make_dataclass(name, names, namespace={"__module__": "tools"})


def _is_field(name: str) -> bool:
    """Whether a name is one that a class may have for its data; such as Python itself looks for are none."""
    return name.isidentifier() and not keyword.iskeyword(name) and not (name[:2] == name[-2:] == "__")


def is_record(value: Any) -> bool:
    """Whether a value came as a record."""
    return type(value).__module__ == "tools" and dataclasses.is_dataclass(value)


# -- arrays, frames, images -----------------------------------------------------------------------------------


def take_apart(value: Any, path: str) -> tuple[str, str, bytes] | None:
    """What an array, a frame or an image holds.

    Args:
        value: Any value.
        path: How to call it in an error message.

    Returns:
        The name of its kind, a word about it, and its bytes; None for what is none of them.

    Raises:
        TypeError: If it is one that cannot travel; says why.
    """
    kind = type(value)
    try:
        if isinstance(value, Picture):
            return "picture", value.media_type, value.data
        if _is_of(kind, "numpy", "ndarray"):
            return "array", "", _array_bytes(value)
        if _is_of(kind, "pandas", "Series"):
            return "frame", "series", _arrow_bytes(value.to_frame("" if value.name is None else value.name))
        if _is_of(kind, "pandas", "DataFrame") or hasattr(value, "__arrow_c_stream__"):
            return "frame", kind.__module__.partition(".")[0], _arrow_bytes(value)
        if _is_of(kind, "PIL", "Image"):
            return "picture", "image/png", _png_bytes(value)
        if hasattr(value, "savefig"):
            written = io.BytesIO()
            value.savefig(written, format="png")
            return "picture", "image/png", written.getvalue()
    except ImportError as error:
        raise TypeError(f"{path} is a {kind.__name__}; those travel with {error.name}: install it") from error
    except Exception as error:
        # Whatever a foreign library says of a value that it cannot write.
        raise TypeError(f"{path} is a {kind.__name__} that cannot travel: {error}") from error
    return None


def _is_of(kind: type, library: str, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == library for base in kind.__mro__
    )


def _array_bytes(array: Any) -> bytes:
    written = io.BytesIO()
    import_module("numpy").save(written, array, allow_pickle=False)
    return written.getvalue()


def _read_array(data: bytes) -> Any:
    # Not `load`, which takes an archive of arrays, too, and unpacks it whenever it is used.
    return import_module("numpy.lib.format").read_array(io.BytesIO(data), allow_pickle=False)


def _arrow_bytes(frame: Any) -> bytes:
    arrow, ipc = import_module("pyarrow"), import_module("pyarrow.ipc")
    is_pandas = _is_of(type(frame), "pandas", "DataFrame")
    table = arrow.Table.from_pandas(frame) if is_pandas else arrow.table(frame)
    written = io.BytesIO()
    with ipc.new_stream(written, table.schema) as writer:
        writer.write_table(table)
    return written.getvalue()


def _read_frame(library: str, data: bytes) -> Any:
    version = import_module("pyarrow").__version__
    if tuple(map(int, re.findall(r"\d+", version)[:3])) < _ARROW:
        raise ValueError(f"pyarrow {version} runs code that comes with data: install a newer one")
    table = import_module("pyarrow.ipc").open_stream(data).read_all()
    # Lengths and places in it are whatever the sender wrote.
    table.validate(full=True)
    if library == "polars":
        return import_module("polars").from_arrow(table)
    if library in ("pandas", "series"):
        import_module("pandas")
        frame = table.to_pandas()
        if library == "pandas":
            return frame
        series = frame.iloc[:, 0]
        return series.rename(None) if series.name == "" else series
    return table


def _png_bytes(image: Any) -> bytes:
    written = io.BytesIO()
    (image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else image.convert("RGB")).save(
        written, "PNG", compress_level=1
    )
    return written.getvalue()


def _read_picture(media_type: str, data: bytes) -> Any:
    """An image of Pillow where there is one, which was not imported just for this where its code has no use for it."""
    if "PIL" not in sys.modules and not _has("PIL"):
        return Picture(data, media_type)
    try:
        image = import_module("PIL.Image").open(io.BytesIO(data), formats=_IMAGES)
        image.load()
    except Exception:
        return Picture(data, media_type)
    return image


@cache
def _has(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


MAKERS: dict[Any, Callable[[str, bytes], Any]] = {
    "array": lambda _, data: _read_array(data),
    "frame": _read_frame,
    "picture": _read_picture,
}
"""What makes each kind of object."""
