"""Files for a tool of the host: what they hold, as bytes.

Comes in: what code names as files: paths, bytes, images and figures. Goes out: for each its name, its bytes and the
pages that are meant, as plain data that travels. Paths are read here, where the block runs, so the host opens nothing
that the kernel could not.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codeact_kernel.inkernel.bridge import ToolError
from codeact_kernel.inkernel.figures import drawing

MOST_BYTES = 32 * 2**20
"""Bytes of all files of one call; ours. They are JSON on their way, which holds up the host's loop for 0.3 to 0.5 s
(measured) when it comes in."""
_PNG_MODES = {mode: mode for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")} | {
    "I": "I;16",
    "I;16B": "I;16",
    "I;16L": "I;16",
    "La": "LA",
    "PA": "RGBA",
    "RGBa": "RGBA",
}
"""For modes of Pillow's images those that PNG holds; RGB for all others."""


def attach(files: Any) -> list[dict[str, Any]]:
    """Read what files hold.

    Args:
        files: A list of files, or one. A file is a path, bytes, an image of Pillow, a figure of matplotlib, or a pair
            of one of these and page numbers, counted from 1.

    Returns:
        For each {"name", "data", "pages"}; pages is None where all are meant.

    Raises:
        ToolError: If something is none of these, cannot be read, or is too large.
    """
    attached, size = [], 0
    for number, file in enumerate(_each(files)):
        file, pages = _pages(file)
        name = os.fsdecode(file) if _is_path(file) else f"files[{number}]"
        data = _bytes_of(file, name, MOST_BYTES - size)
        size += len(data)
        if size > MOST_BYTES:
            raise ToolError(
                f"{name} is too large: the files of one call hold {MOST_BYTES // 2**20} MiB at most"
            )
        attached.append({"name": name, "data": data, "pages": pages})
    return attached


def _each(files: Any) -> list[Any]:
    if isinstance(files, tuple) and _is_pair(files):
        return [files]
    return list(files) if isinstance(files, list | tuple | set | frozenset | Iterator) else [files]


def _is_pair(file: tuple[Any, ...]) -> bool:
    return len(file) == 2 and isinstance(file[1], int | range | list)


def _pages(file: Any) -> tuple[Any, list[int] | None]:
    if not isinstance(file, tuple):
        return file, None
    if not _is_pair(file):
        raise ToolError(f'{file!r:.80} is no file: to choose pages write ("report.pdf", [1, 3])')
    pages = [file[1]] if isinstance(file[1], int) else list(file[1])
    if not all(isinstance(page, int) for page in pages):
        raise ToolError(f"{pages!r:.80} are no page numbers: they are whole numbers, counted from 1")
    return file[0], pages


def _is_path(file: Any) -> bool:
    return isinstance(file, str | os.PathLike)


def _bytes_of(file: Any, name: str, most: int) -> bytes:
    """What a file holds, of a path one byte more than `most` at the most."""
    if _is_path(file):
        return _read(file, name, most)
    if isinstance(file, bytes | bytearray | memoryview):
        return bytes(file)
    if isinstance(file, io.BytesIO):
        return file.getvalue()
    figure: Any = file if hasattr(file, "savefig") else getattr(file, "figure", None)
    written = io.BytesIO()
    try:
        if hasattr(figure, "savefig"):
            with drawing():
                figure.savefig(written, format="png")
        elif hasattr(file, "mode") and hasattr(file, "convert"):
            _save(file, name, written)
        else:
            kind = f"{type(file).__module__}.{type(file).__qualname__}"
            raise ToolError(
                f"{name} is a {kind}; pass a path, bytes, an image of Pillow or a figure of matplotlib "
                "(an array becomes one by PIL.Image.fromarray)"
            )
    except (OSError, ValueError, SyntaxError) as error:
        raise ToolError(f"{name} cannot be written as an image: {error}") from error
    return written.getvalue()


def _save(image: Any, name: str, written: io.BytesIO) -> None:
    """Write an image of Pillow as it is: without the rotation that a camera noted, so that places can be cut out."""
    if image.mode == "F":
        raise ToolError(f'{name} has pixels that are fractions: scale them to 0 to 255 and convert it to "L"')
    mode = _PNG_MODES.get(image.mode, "RGB")
    plain = image if image.mode == mode else image.convert(mode)
    # Older Pillows would write that note by themselves.
    plain.save(written, "PNG", compress_level=1, exif=b"")


def _read(path: Any, name: str, most: int) -> bytes:
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise ToolError(f"{name} is no file")  # a named pipe would be waited for
        with open(path, "rb") as file:
            return file.read(most + 1)
    except FileNotFoundError:
        hint = "download it first" if "://" in name else f"looked for in {Path.cwd()}"
        raise ToolError(f"there is no file {name}: {hint}") from None
    except (OSError, ValueError) as error:
        raise ToolError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from error
