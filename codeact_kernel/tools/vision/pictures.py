"""Places in pictures, told in the pixels of the originals.

Comes in: what a model that sees answered, in pixels of the pictures as they were sent. Goes out: the answer, its
places in pixels of the originals; where that cannot be told, a note that says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codeact_kernel.messages import ImagePart

_MARK = re.compile(r"<(point|box)\b([^<>]*)>", re.IGNORECASE)
_NUMBER = r"(-?\d+(?:\.\d+)?)(?:\s*px)?"
_VALUE = re.compile(rf"""\b(image|x1|y1|x2|y2|x|y)\s*=\s*(?:(["'])\s*{_NUMBER}\s*\2|{_NUMBER})""")
_LOOSE = re.compile(r"[(\[]\s*\d+(?:\.\d+)?\s*,\s*\d|\b[xy][12]?\s*[=:]\s*\d")
"""What looks like coordinates that are not marked."""

_Point = tuple[float, float]
_UPRIGHT: dict[int, Callable[[float, float], _Point]] = {
    2: lambda u, v: (1 - u, v),
    3: lambda u, v: (1 - u, 1 - v),
    4: lambda u, v: (u, 1 - v),
    5: lambda u, v: (v, u),
    6: lambda u, v: (v, 1 - u),
    7: lambda u, v: (1 - v, 1 - u),
    8: lambda u, v: (1 - v, u),
}
"""By EXIF's orientation: from a place in the upright picture to the one in the file, both as shares of the sides."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A file as the kernel sends it."""

    name: str
    data: bytes
    pages: tuple[int, ...] | None = None
    """Numbers of pages, counted from 1; None for all."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as it is sent, and what it was."""

    part: ImagePart
    original: tuple[float, float]
    """Width and height of the original: pixels of an image as it lies in its file, points of a page."""
    orientation: int = 1
    """EXIF's: how the original was turned to stand upright."""

    @property
    def unchanged(self) -> bool:
        """Whether its pixels are those of the original."""
        width, height = self.original
        same = width == self.part.width and height == self.part.height
        return same and self.orientation not in _UPRIGHT

    def point(self, u: float, v: float) -> tuple[int, ...]:
        """The pixel of the original in which a place lies, which is given as shares of the sides."""
        (x, y), (width, height) = self._place(u, v), self.original
        return max(0, min(int(x), round(width) - 1)), max(0, min(int(y), round(height) - 1))

    def box(self, u1: float, v1: float, u2: float, v2: float) -> tuple[int, ...]:
        """The box of the original between two places."""
        (ax, ay), (bx, by) = self._place(u1, v1), self._place(u2, v2)
        return round(min(ax, bx)), round(min(ay, by)), round(max(ax, bx)), round(max(ay, by))

    def _place(self, u: float, v: float) -> _Point:
        if self.orientation in _UPRIGHT:
            u, v = _UPRIGHT[self.orientation](u, v)
        return u * self.original[0], v * self.original[1]


def how_to_tell(grid: int | None = None) -> str:
    """What a model is told of places.

    Args:
        grid: Into how many steps it divides each side; None where it counts pixels.
    """
    unit = (
        "in pixels of that image in the size that is told above it"
        if grid is None
        else f"in steps of which {grid} make that image's width, and {grid} its height"
    )
    return (
        'Write each place in an image as <point image="1" x="…" y="…"/> or '
        f'<box image="1" x1="…" y1="…" x2="…" y2="…"/>: {unit}, counted from its top left corner. '
        "Write coordinates in no other way."
    )


def tell_places(answer: str, pictures: Sequence[Picture], grid: int | None = None) -> str:
    """Tell the places of an answer in pixels of the originals.

    Args:
        answer: The answer; its places are marked as the model was told.
        pictures: The pictures that were sent, in order.
        grid: As in `how_to_tell`.

    Returns:
        The answer. What is marked, but is no place in a picture, stays as it is, and a note at the end says so; as it
        does where coordinates are not marked and an original has other pixels.
    """
    notes: list[str] = []

    def told(mark: re.Match[str]) -> str:
        try:
            values = _original(mark, pictures, grid)
        except ValueError as problem:
            notes.append(f"{mark[0]} {problem}.")
            return mark[0]
        return _VALUE.sub(lambda v: f'{v[1]}="{values[v[1]]}"' if v[1] in values else v[0], mark[0])

    text = _MARK.sub(told, answer)
    changed = [number for number, picture in enumerate(pictures, 1) if grid or not picture.unchanged]
    if changed and _LOOSE.search(_MARK.sub("", answer)):
        notes += [_unlike(number, pictures[number - 1]) for number in changed]
    return "\n\n".join([text, *([f"[{' '.join(notes)}]"] if notes else [])])


def _original(mark: re.Match[str], pictures: Sequence[Picture], grid: int | None) -> dict[str, int]:
    """The values of a mark in pixels of the original.

    Raises:
        ValueError: If it is no place in a picture; the text says why.
    """
    values = {value[1]: float(value[3] or value[4]) for value in _VALUE.finditer(mark[2])}
    number = values.get("image", 1.0 if len(pictures) == 1 else 0.0)
    if not (number.is_integer() and 1 <= number <= len(pictures)):
        raise ValueError("names none of the images")
    picture = pictures[int(number) - 1]
    names = ("x", "y") if mark[1].lower() == "point" else ("x1", "y1", "x2", "y2")
    if not all(name in values for name in names):
        raise ValueError("says no place")
    size = {"x": grid or picture.part.width, "y": grid or picture.part.height}
    if not all(0 <= values[name] <= size[name[0]] for name in names):
        raise ValueError(
            f"lies outside of image {int(number)}, which has {size['x']} x {size['y']} {_unit(grid)}"
        )
    if len(names) == 4:
        found = picture.box(*(values[name] / size[name[0]] for name in names))
    else:  # a pixel lies where its middle lies
        half = 0 if grid else 0.5
        found = picture.point(*((values[name] + half) / size[name] for name in names))
    return dict(zip(names, found, strict=True))


def _unit(grid: int | None) -> str:
    return "steps" if grid else "pixels as it was shown"


def _unlike(number: int, picture: Picture) -> str:
    part = picture.part
    return (
        f"Image {number} was shown as {part.width} x {part.height} pixels: what is said of places outside of <point> "
        "and <box> is not in the original's."
    )
