"""Files of every kind become pictures that an endpoint takes, or a sentence that says why not."""

from __future__ import annotations

import io
import os
import struct
import warnings

import pytest
from image_files import BLUE, GREEN, RED, YELLOW, alike, corners, huge_png, pdf, quarters, read, saved, turned
from PIL import Image

from codeact_kernel.errors import ToolError
from codeact_kernel.messages import ImageLimits
from codeact_kernel.tools.vision.images import MOST_BYTES, MOST_PICTURES, pictures_of
from codeact_kernel.tools.vision.pictures import Attached

ALL = [RED, GREEN, BLUE, YELLOW]


def pictures(data, pages=None, name="a.png", **limits):
    return pictures_of([Attached(name, data, pages)], ImageLimits(**limits))


def picture(data, **options):
    (one,) = pictures(data, **options)
    image = read(one.part.data)
    assert image.size == (one.part.width, one.part.height)
    assert image.mode == "RGB"
    assert image.get_format_mimetype() == one.part.media_type
    return one, image


def test_a_png_that_is_small_enough_keeps_every_pixel():
    original = quarters()
    one, image = picture(saved(original))
    assert image.tobytes() == original.tobytes()
    assert one.unchanged


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF"])
def test_the_other_formats_are_read(kind):
    one, image = picture(saved(quarters(), kind, quality=95))
    assert image.size == (40, 20)
    assert alike(corners(image), ALL)
    assert one.part.media_type == ("image/jpeg" if kind == "JPEG" else "image/png")


def test_a_large_image_is_scaled_and_keeps_its_shape():
    one, image = picture(saved(quarters(4000, 2000)))
    assert image.size == (1517, 758)  # 1.15 million pixels
    assert corners(image) == ALL
    assert one.original == (4000, 2000)


def test_a_long_image_is_scaled_to_the_longest_side():
    _, image = picture(saved(quarters(8000, 100)))
    assert image.size == (1568, 20)


def test_an_image_of_one_line_is_still_a_line():
    _, image = picture(saved(Image.new("RGB", (60_000, 1))))
    assert image.size == (1568, 1)


def test_limits_of_the_settings_count():
    _, image = picture(saved(quarters(400, 200)), side=100)
    assert image.size == (100, 50)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_stands_upright_and_knows_where_its_pixels_lie(orientation):
    one, image = picture(turned(orientation, 80, 40))
    assert image.size == ((40, 80) if orientation > 4 else (80, 40))
    stored = read(turned(orientation, 80, 40))
    for x, y in [(5, 5), (image.width - 6, 5), (5, image.height - 6), (image.width - 6, image.height - 6)]:
        there = one.point((x + 0.5) / image.width, (y + 0.5) / image.height)
        assert alike([image.getpixel((x, y))], [stored.getpixel(there)])
    upright = {
        1: ALL,
        3: [YELLOW, BLUE, GREEN, RED],
        6: [BLUE, RED, YELLOW, GREEN],
        8: [GREEN, YELLOW, RED, BLUE],
    }
    assert alike(corners(image), upright.get(orientation, corners(image)))


def test_a_scaled_photo_is_turned_too():
    one, image = picture(turned(6, 4000, 2000))
    assert image.size == (758, 1517)
    assert alike(corners(image), [BLUE, RED, YELLOW, GREEN])
    assert one.box(0, 0, 1, 1) == (0, 0, 4000, 2000)
    assert one.box(0, 0, 0.5, 0.25) == (0, 1000, 1000, 2000)


def test_what_a_camera_noted_besides_is_not_sent():
    exif = Image.Exif()
    exif[0x010E] = "at home"
    one, _ = picture(saved(quarters(), "JPEG", exif=exif))
    assert b"at home" not in one.part.data
    assert b"Exif" not in one.part.data


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_a_broken_note_of_a_camera_is_passed_over():
    _, image = picture(saved(quarters(), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff"))
    assert image.size == (40, 20)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_laid_on_white(mode):
    original = Image.new("RGBA", (20, 20), (0, 0, 0, 0))
    original.paste((0, 0, 0, 255), (10, 0, 20, 20))
    _, image = picture(saved(original.convert(mode)))
    assert image.getpixel((2, 2)) == (255, 255, 255)
    assert image.getpixel((15, 2)) == (0, 0, 0)


def test_a_colour_that_is_named_transparent_is_white():
    _, image = picture(saved(quarters(), transparency=RED))
    assert corners(image) == [(255, 255, 255), GREEN, BLUE, YELLOW]


def test_grey_of_16_bits_becomes_grey_of_8():
    original = Image.new("I;16", (4, 1))
    for x, value in enumerate((0, 0x40FF, 0x8000, 0xFFFF)):
        original.putpixel((x, 0), value)
    _, image = picture(saved(original))
    assert [image.getpixel((x, 0))[0] for x in range(4)] == [0, 0x40, 0x80, 0xFF]


def test_colours_for_print_become_colours_for_a_screen():
    data = saved(quarters().convert("CMYK"), "JPEG", quality=95, subsampling=0)
    assert read(data).mode == "CMYK"
    _, image = picture(data)
    assert alike(corners(image), ALL, 40)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame_is_shown_and_told_so(kind):
    frames = [quarters(), *(Image.new("RGB", (40, 20), color) for color in ("black", "white"))]
    data = saved(
        frames[0],
        kind,
        save_all=True,
        append_images=frames[1:],
        **({"lossless": True} if kind == "WEBP" else {}),
    )
    one, image = picture(data)
    assert corners(image) == ALL
    assert one.part.label == "a.png, the first frame of an animation"


def test_an_image_without_colour_or_depth_is_read():
    for mode in ("1", "L"):
        _, image = picture(saved(Image.new(mode, (8, 8), 1 if mode == "1" else 255)))
        assert image.getpixel((0, 0)) == (255, 255, 255)


# -- bytes ---------------------------------------------------------------------------------------------------


def noise(width, height):
    return Image.effect_noise((width, height), 100).convert("RGB")


def test_what_has_too_many_bytes_is_written_with_losses_and_then_smaller():
    data = saved(noise(300, 300))
    whole, _ = picture(data)
    lossy, image = picture(data, bytes=100_000)
    small, smaller = picture(data, bytes=10_000)
    assert whole.part.media_type == "image/png"
    assert (lossy.part.media_type, image.size) == ("image/jpeg", (300, 300))
    assert len(lossy.part.data) * 4 / 3 <= 100_000
    assert smaller.width < 300
    assert len(small.part.data) * 4 / 3 <= 10_000
    assert small.box(0, 0, 1, 1) == (0, 0, 300, 300)


def test_bytes_into_which_nothing_fits_are_told():
    with pytest.raises(ToolError, match=r"no image fits into 100 bytes.*image_bytes"):
        pictures(saved(noise(300, 300)), bytes=100)


def test_many_pictures_share_the_bytes_of_a_request():
    side = 500
    file = Attached("a.png", saved(Image.frombytes("RGB", (side, side), os.urandom(3 * side * side))))
    (alone,) = pictures_of([file], ImageLimits())
    assert len(alone.part.data) * MOST_PICTURES * 4 / 3 > MOST_BYTES
    total = sum(-(-len(one.part.data) // 3) * 4 for one in pictures_of([file] * MOST_PICTURES, ImageLimits()))
    assert total <= MOST_BYTES


# -- PDF -----------------------------------------------------------------------------------------------------


def test_each_page_of_a_pdf_is_a_picture():
    data = pdf(quarters(400, 200), Image.new("RGB", (200, 400), BLUE))
    first, second = pictures(data, name="report.pdf")
    assert (first.part.label, second.part.label) == ("report.pdf, page 1", "report.pdf, page 2")
    assert alike(corners(read(first.part.data)), ALL)
    assert alike(corners(read(second.part.data)), [BLUE] * 4)
    assert first.original == (400, 200)
    assert (first.part.width, first.part.height) == (1517, 759)
    assert first.box(0, 0, 1, 0.5) == (0, 0, 400, 100)


def test_pages_are_chosen_by_number_and_come_in_that_order():
    data = pdf(*(Image.new("RGB", (50, 50), color) for color in ALL))
    third, first = pictures(data, (3, 1))
    assert alike(corners(read(third.part.data)), [BLUE] * 4)
    assert alike(corners(read(first.part.data)), [RED] * 4)


def test_a_small_page_is_not_blown_up_without_end():
    (one,) = pictures(pdf(quarters(40, 20)))
    assert (one.part.width, one.part.height) == (160, 80)


def test_a_page_that_is_not_there_is_told():
    with pytest.raises(ToolError, match=r"a\.png has 1 page; there is no page 2"):
        pictures(pdf(quarters()), (2,))
    with pytest.raises(ToolError, match="there is no page 0"):
        pictures(pdf(quarters()), (0,))


def test_pages_of_an_image_are_refused():
    with pytest.raises(ToolError, match="is no PDF: it has no pages"):
        pictures(saved(quarters()), (1,))


def test_a_pdf_with_too_many_pages_says_how_to_choose():
    data = pdf(*[quarters()] * (MOST_PICTURES + 1))
    with pytest.raises(
        ToolError, match=r"21 images and pages are too many: 20 .* \(\"report.pdf\", \[1, 2\]\)"
    ):
        pictures(data)
    assert len(pictures(data, tuple(range(1, MOST_PICTURES + 1)))) == MOST_PICTURES


def test_a_broken_pdf_is_told():
    with pytest.raises(ToolError, match=r"a\.png cannot be read: Failed to load document"):
        pictures(b"%PDF-1.7\nnothing")
    with pytest.raises(ToolError, match=r"a\.png cannot be read: "):
        pictures(pdf(quarters())[:-200])


# -- what is no image ----------------------------------------------------------------------------------------


def test_an_empty_file_is_told():
    with pytest.raises(ToolError, match=r"^a\.png is empty$"):
        pictures(b"")


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"<svg/>",
        b"RIFF\0\0\0\0WAVE",
        b"%!PS-Adobe-3.0 EPSF-3.0",
        saved(quarters(), "BMP"),
        b"II*\0\x08",
    ],
)
def test_what_is_no_image_is_told(data):
    with pytest.raises(ToolError, match=r"^a\.png is no PNG, JPEG, WebP, GIF or PDF$"):
        pictures(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
@pytest.mark.parametrize("left", [0.02, 0.5, 0.9])
def test_a_file_that_breaks_off_is_told(kind, left):
    data = saved(noise(200, 200), kind)
    with pytest.raises(ToolError, match=r"^a\.png cannot be read: "):
        pictures(data[: int(len(data) * left)])


def huge_webp(kind):
    side = 16383
    bits = (side - 1) | (side - 1) << 14
    body = {
        b"VP8X": bytes(4) + (side - 1).to_bytes(3, "little") * 2,
        b"VP8L": b"\x2f" + bits.to_bytes(4, "little"),
        b"VP8 ": b"\0\0\0\x9d\x01\x2a" + side.to_bytes(2, "little") * 2,
    }[kind]
    return b"RIFF" + struct.pack("<I", 12 + len(body)) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    "data",
    [huge_png(30_000, 30_000), huge_png(2**31 - 1, 2**31 - 1), *map(huge_webp, (b"VP8X", b"VP8L", b"VP8 "))],
)
def test_a_decompression_bomb_is_refused_unopened_and_without_a_warning(data):
    with warnings.catch_warnings(record=True) as heard, pytest.raises(ToolError, match="which is too large"):
        pictures(data)
    assert heard == []


def test_a_jpeg_and_a_gif_that_claim_to_be_huge_are_refused():
    gif = bytearray(saved(quarters(), "GIF"))
    gif[6:10] = b"\xff\xff\xff\xff"
    with pytest.raises(ToolError, match="65535 x 65535 pixels, which is too large"):
        pictures(bytes(gif))
    jpeg = bytearray(saved(quarters(), "JPEG"))
    at = jpeg.index(b"\xff\xc0") + 5
    jpeg[at : at + 4] = b"\xff\xff\xff\xff"
    with pytest.raises(ToolError, match="which is too large"):
        pictures(bytes(jpeg))


def test_the_size_in_a_webps_header_is_its_size():
    for options in (
        {"lossless": True},
        {"quality": 80},
        {"quality": 80, "exact": True, "icc_profile": b"x" * 200},
    ):
        data = saved(quarters(123, 45), "WEBP", **options)
        one, _ = picture(data)
        assert one.original == (123, 45)
        assert io.BytesIO(data).read(4) == b"RIFF"
