"""What code names as files becomes bytes in the kernel."""

from __future__ import annotations

import io
import os

import pytest
from image_files import BLUE, GREEN, RED, YELLOW, corners, quarters, read, saved, turned
from matplotlib.figure import Figure
from PIL import Image

from codeact_kernel.inkernel.attach import MOST_BYTES, attach
from codeact_kernel.inkernel.bridge import ToolError
from codeact_kernel.inkernel.tools import make_tool

PNG = saved(quarters())


def test_a_path_is_read_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(PNG)
    monkeypatch.chdir(tmp_path)
    for path in ("a.png", tmp_path / "a.png", os.fsencode(tmp_path / "a.png").decode()):
        assert attach([path]) == [{"name": str(path), "data": PNG, "pages": None}]


@pytest.mark.parametrize("file", [PNG, bytearray(PNG), memoryview(PNG), io.BytesIO(PNG)])
def test_bytes_are_taken_as_they_are(file):
    assert attach([file]) == [{"name": "files[0]", "data": PNG, "pages": None}]


def test_an_image_keeps_every_pixel():
    original = quarters()
    (one,) = attach([original])
    assert read(one["data"]).tobytes() == original.tobytes()


@pytest.mark.parametrize(
    ("mode", "sent"),
    [
        *((mode, mode) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")),
        ("I", "I;16"),
        ("CMYK", "RGB"),
        ("HSV", "RGB"),
        ("PA", "RGBA"),
    ],
)
def test_images_of_every_mode_travel(mode, sent):
    (one,) = attach([Image.new(mode, (5, 4))])
    assert (read(one["data"]).mode, read(one["data"]).size) == (sent, (5, 4))


def test_an_image_of_fractions_is_refused_since_nobody_knows_their_range():
    with pytest.raises(ToolError, match=r"files\[0\] has pixels that are fractions"):
        attach([Image.new("F", (2, 2))])


def test_an_image_is_sent_as_its_pixels_lie_and_not_as_a_camera_was_held():
    photo = Image.open(io.BytesIO(turned(6)))
    (one,) = attach([photo])
    sent = read(one["data"])
    assert sent.size == photo.size
    assert sent.getexif().get(0x0112) is None


def test_a_figure_is_drawn():
    figure = Figure(figsize=(4, 2), dpi=50)
    figure.add_axes((0, 0, 1, 1)).imshow(quarters(), aspect="auto")
    (one,) = attach([figure])
    image = read(one["data"])
    assert image.size == (200, 100)
    assert corners(image) == [RED, GREEN, BLUE, YELLOW]


def test_the_axes_of_a_figure_mean_the_figure():
    figure = Figure(figsize=(4, 2), dpi=50)
    (one,) = attach([figure.add_subplot()])
    assert read(one["data"]).size == (200, 100)


@pytest.mark.parametrize("files", [PNG, (PNG, [1, 3]), (PNG, 2), (PNG, range(1, 3))])
def test_one_file_needs_no_list(files):
    (one,) = attach(files)
    assert one["data"] == PNG


@pytest.mark.parametrize(("pages", "sent"), [(2, [2]), ([3, 1], [3, 1]), (range(2, 5), [2, 3, 4])])
def test_pages_are_chosen_with_a_pair(pages, sent):
    assert [one["pages"] for one in attach([(PNG, pages), PNG])] == [sent, None]


def test_several_files_come_from_anything_that_is_gone_through(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.png").write_bytes(PNG)
    assert len(attach(tmp_path.glob("*.png"))) == 2
    assert len(attach((PNG, PNG))) == len(attach([PNG, PNG])) == 2
    assert attach([]) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("nothing.png", r"there is no file nothing\.png: looked for in /"),
        ("https://example.org/a.png", "there is no file https://example.org/a.png: download it first"),
        (".", r"^\. is no file"),
        ("a\0b", "cannot be read"),
        (object(), r"files\[0\] is a builtins\.object; pass a path, bytes, an image of Pillow"),
        (None, r"files\[0\] is a builtins\.NoneType"),
        (("a.pdf", ["x"]), "are no page numbers"),
        (("a.pdf", "b.pdf"), "is no file: to choose pages write"),
    ],
)
def test_what_is_no_file_is_told(file, text):
    with pytest.raises(ToolError, match=text):
        attach([file])


def test_a_file_that_may_not_be_read_is_told(tmp_path):
    path = tmp_path / "a.png"
    path.symlink_to(path)
    with pytest.raises(ToolError, match=r"a\.png cannot be read: Too many levels"):
        attach([path])


def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ToolError, match="is no file"):
        attach([tmp_path / "pipe"])


def test_an_image_that_cannot_be_read_is_told():
    broken = Image.open(io.BytesIO(saved(quarters(200, 200), "JPEG")[:-300]))
    with pytest.raises(ToolError, match=r"files\[0\] cannot be written as an image: .*truncated"):
        attach([broken])


def test_too_many_bytes_are_refused_before_they_travel(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        file.truncate(MOST_BYTES - 10)
    assert len(attach([bytes(10), tmp_path / "a"])) == 2
    with pytest.raises(ToolError, match=r"a is too large: the files of one call hold 32 MiB at most"):
        attach([bytes(11), tmp_path / "a"])


def test_only_the_parameters_that_are_files_are_read():
    sent = []

    class Bridge:
        def call(self, name, args, kwargs):
            sent.append((args, kwargs))

    tool = {"name": "f", "signature": "(question: str, files: list = None)", "doc": "", "files": ["files"]}
    make_tool(Bridge(), tool)("a.png", [PNG])
    make_tool(Bridge(), tool)("a.png")
    assert sent == [
        ((), {"question": "a.png", "files": [{"name": "files[0]", "data": PNG, "pages": None}]}),
        ((), {"question": "a.png"}),
    ]
