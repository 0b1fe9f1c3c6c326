"""Makes files of images and pages, whose every quarter has a colour of its own.

Comes in: sizes, modes and formats. Goes out: bytes; and `shown`, which reads an image back out of a request.
"""

from __future__ import annotations

import base64
import io
import struct
import zlib

from PIL import Image

RED, GREEN, BLUE, YELLOW = (255, 0, 0), (0, 128, 0), (0, 0, 255), (255, 255, 0)
"""The quarters: upper left, upper right, lower left, lower right."""


def quarters(width=40, height=20, mode="RGB"):
    image = Image.new("RGB", (width, height), RED)
    image.paste(GREEN, (width // 2, 0, width, height // 2))
    image.paste(BLUE, (0, height // 2, width // 2, height))
    image.paste(YELLOW, (width // 2, height // 2, width, height))
    return image.convert(mode)


def saved(image, kind="PNG", **options):
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


def turned(orientation, width=40, height=20):
    """A JPEG whose camera noted how it was held."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(quarters(width, height), "JPEG", exif=exif, quality=95, subsampling=0)


def pdf(*pages):
    """A PDF with a page for each image, a point for each pixel."""
    return saved(pages[0], "PDF", resolution=72, save_all=True, append_images=pages[1:])


def read(data):
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def corners(image):
    """The colours of the quarters, in the order above."""
    image = image.convert("RGB")
    width, height = image.size
    places = [(x, y) for y in (height // 4, height * 3 // 4) for x in (width // 4, width * 3 // 4)]
    return [image.getpixel(place) for place in places]


def alike(ours, theirs, most=12):
    """Whether colours differ by no more than a compression with losses makes them."""
    return all(
        abs(a - b) <= most for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True)
    )


def shown(message):
    """The labels and images of a message as an endpoint got it, and its text."""
    *parts, text = message["content"]
    labels = [part["text"] for part in parts if part["type"] == "text"]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert [part["type"] for part in parts] == ["text", "image_url"] * len(urls)
    return labels, [read(base64.b64decode(url.partition(";base64,")[2])) for url in urls], text["text"]


def huge_png(width, height):
    """A PNG that says that it has this size, and has next to no pixels."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
