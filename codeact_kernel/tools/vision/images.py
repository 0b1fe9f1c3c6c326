"""Images and pages of PDFs, made ready for a model that sees.

Comes in: what files hold. Goes out: `Picture`s, upright, opaque and no larger than an endpoint takes them; each knows
the way back to the pixels of its original. Only the four formats below are decoded: what comes from a kernel is
foreign, and Pillow has readers that start programs.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from PIL.GifImagePlugin import GifImageFile
from PIL.Image import Image, Resampling, Transpose, new
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from codeact_kernel.errors import ToolError
from codeact_kernel.messages import ImageLimits, ImagePart
from codeact_kernel.tools.vision.pictures import Attached, Picture

MOST_PIXELS = 89_478_485
"""Pixels of an image that is decoded: what Pillow takes for a decompression bomb, a quarter of a GiB as RGB."""
MOST_PICTURES = 20
"""Pictures of one question: more make Anthropic's limits stricter."""
MOST_BYTES = 19_000_000
"""Bytes of all pictures of one question, as base64: Gemini takes requests below 20 MB."""
MOST_PER_POINT = 4.0
"""Pixels of a PDF page for each of its points: 288 dpi, what scanners call fine."""
_SMALLEST = 64
"""Pixels of the long side below which nothing is scaled down any more, to have fewer bytes."""
_ORIENTATION = 0x0112
"""The tag of EXIF that says how a camera was held."""
_TURNS = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}
_KINDS: dict[bytes, type[ImageFile]] = {
    b"\x89PNG\r\n\x1a\n": PngImageFile,
    b"\xff\xd8\xff": JpegImageFile,
    b"GIF8": GifImageFile,
    b"RIFF": WebPImageFile,
}


@dataclass(frozen=True, slots=True)
class _Drawing:
    """A picture before it is written."""

    image: Image
    original: tuple[float, float]
    orientation: int = 1
    note: str = ""
    photo: bool = False
    """Whether it was compressed with losses before."""


@dataclass(frozen=True, slots=True)
class _Sheet:
    """What will be a picture."""

    name: str
    draw: Callable[[ImageLimits], _Drawing]


def pictures_of(files: Sequence[Attached], limits: ImageLimits) -> list[Picture]:
    """Make pictures of files. It blocks, and PDFium is not safe in two threads at once.

    Args:
        files: The files.
        limits: What a picture may be.

    Returns:
        One picture for each image and each page, in order.

    Raises:
        ToolError: If a file cannot be read, or is too large.
    """
    with ExitStack() as opened:
        sheets = [sheet for file in files for sheet in _sheets(file, opened)]
        if len(sheets) > MOST_PICTURES:
            raise ToolError(
                f"{len(sheets)} images and pages are too many: {MOST_PICTURES} go with one question; "
                'of a PDF choose pages, ("report.pdf", [1, 2])'
            )
        share = replace(limits, bytes=min(limits.bytes, MOST_BYTES // max(1, len(sheets))))
        return [_picture(sheet, share) for sheet in sheets]


@contextmanager
def _reading(name: str) -> Generator[None]:
    try:
        yield
    except ToolError:
        raise
    except Exception as error:  # decoders raise nearly everything for files that are broken
        raise ToolError(f"{name} cannot be read: {str(error) or type(error).__name__}") from error


def _sheets(file: Attached, opened: ExitStack) -> list[_Sheet]:
    if not file.data:
        raise ToolError(f"{file.name} is empty")
    if _kind(file.data) is None and b"%PDF-" in file.data[:1024]:
        with _reading(file.name):
            return _pages(file, opened)
    if file.pages is not None:
        raise ToolError(f"{file.name} is no PDF: it has no pages to choose from")
    return [_Sheet(file.name, partial(_draw, file))]


def _pages(file: Attached, opened: ExitStack) -> list[_Sheet]:
    import pypdfium2

    document = pypdfium2.PdfDocument(file.data)
    opened.callback(document.close)
    count = len(document)
    pages = range(1, count + 1) if file.pages is None else file.pages
    for page in pages:
        if not 1 <= page <= count:
            raise ToolError(f"{file.name} has {count} page{'s'[: count != 1]}; there is no page {page}")
    return [_Sheet(f"{file.name}, page {page}", partial(_render, document, page - 1)) for page in pages]


def _render(document: Any, index: int, limits: ImageLimits) -> _Drawing:
    page = document[index]
    width, height = page.get_size()
    scale = min(MOST_PER_POINT, _scale(width, height, limits))
    image = page.render(scale=scale).to_pil().convert("RGB")
    page.close()
    return _Drawing(image, (width, height))


def _draw(file: Attached, limits: ImageLimits) -> _Drawing:
    image = _open(file)
    original = image.size
    scale = min(1.0, _scale(*original, limits))
    size = max(1, round(original[0] * scale)), max(1, round(original[1] * scale))
    note = "the first frame of an animation" if getattr(image, "is_animated", False) else ""
    orientation = _orientation(image)
    image.draft(None, size)  # a JPEG is then decoded to not much more than is needed
    flat = _flat(image)
    if flat.size != size:
        flat = flat.resize(size, Resampling.LANCZOS, reducing_gap=3.0)
    if orientation in _TURNS:
        flat = flat.transpose(_TURNS[orientation])
    return _Drawing(flat, original, orientation, note, isinstance(image, JpegImageFile))


def _open(file: Attached) -> ImageFile:
    """Open an image by what it begins with. Nothing is decoded yet."""
    kind = _kind(file.data)
    if kind is None:
        raise ToolError(f"{file.name} is no PNG, JPEG, WebP, GIF or PDF")
    # A WebP is not opened to see its size: that takes the memory for the whole picture.
    size = _webp_size(file.data) if kind is WebPImageFile else kind(io.BytesIO(file.data)).size
    width, height = size
    if width * height > MOST_PIXELS:
        raise ToolError(
            f"{file.name} has {width} x {height} pixels, which is too large: {MOST_PIXELS:,} are taken at most"
        )
    return kind(io.BytesIO(file.data))


def _kind(data: bytes) -> type[ImageFile] | None:
    kind = next((kind for magic, kind in _KINDS.items() if data.startswith(magic)), None)
    return None if kind is WebPImageFile and data[8:12] != b"WEBP" else kind


def _webp_size(data: bytes) -> tuple[int, int]:
    """The size of a WebP as its header says it (RFC 9649)."""

    def number(at: int, length: int) -> int:
        return int.from_bytes(data[at : at + length], "little")

    match data[12:16]:
        case b"VP8X":
            return number(24, 3) + 1, number(27, 3) + 1
        case b"VP8L":
            bits = number(21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case _:
            return number(26, 2) & 0x3FFF, number(28, 2) & 0x3FFF


def _orientation(image: Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # a broken note of a camera makes no image unreadable
        return 1


def _flat(image: Image) -> Image:
    """An image as opaque RGB: deeper grey made 8 bits, and what is transparent laid on white."""
    if image.mode.startswith("I"):
        return image.convert("I").point(lambda value: value * (1 / 256)).convert("L").convert("RGB")
    if "A" not in image.mode and "transparency" not in image.info:
        return image.convert("RGB")
    clear = image if image.mode == "RGBA" else image.convert("RGBA")
    ground = new("RGB", image.size, "white")
    ground.paste(clear, mask=clear)
    return ground


def _scale(width: float, height: float, limits: ImageLimits) -> float:
    """By how much a picture has to be scaled to be as large as it may be."""
    return min(limits.side / max(width, height), math.sqrt(limits.pixels / (width * height)))


def _picture(sheet: _Sheet, limits: ImageLimits) -> Picture:
    with _reading(sheet.name):
        drawing = sheet.draw(limits)
    image, kind, data = _write(drawing.image, drawing.photo, limits.bytes)
    about = ", ".join(filter(None, [sheet.name, drawing.note]))
    part = ImagePart(about, kind, data, *image.size)
    return Picture(part, drawing.original, drawing.orientation)


def _write(image: Image, photo: bool, most: int) -> tuple[Image, str, bytes]:
    """Write an image, in as many bytes as are allowed: without losses, else with some, else smaller."""
    if not photo and _fits(data := _saved(image, "PNG"), most):
        return image, "image/png", data
    while True:
        for quality in (90, 70):
            if _fits(data := _saved(image, "JPEG", quality=quality), most):
                return image, "image/jpeg", data
        if max(image.size) <= _SMALLEST:
            raise ToolError(f"no image fits into {most} bytes, which the settings allow (image_bytes)")
        image = image.resize(
            (max(1, image.width * 3 // 4), max(1, image.height * 3 // 4)), Resampling.LANCZOS
        )


def _fits(data: bytes, most: int) -> bool:
    return -(-len(data) // 3) * 4 <= most


def _saved(image: Image, kind: str, **options: Any) -> bytes:
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()
