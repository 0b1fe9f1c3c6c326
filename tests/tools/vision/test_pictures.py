"""Places in answers are told in the pixels of the originals."""

from __future__ import annotations

import pytest

from codeact_kernel.messages import ImagePart
from codeact_kernel.tools.vision.pictures import Picture, how_to_tell, tell_places


def picture(width, height, original=None, orientation=1):
    return Picture(ImagePart("a", "image/png", b"", width, height), original or (width, height), orientation)


SAME = picture(100, 50)
HALF = picture(100, 50, (200, 100))
UPRIGHT = picture(50, 100, (200, 100), 6)


def test_places_in_an_image_that_was_not_scaled_stay():
    said = 'At <point image="1" x="10" y="20"/>, in <box image="1" x1="0" y1="0" x2="100" y2="50"/>.'
    assert tell_places(said, [SAME]) == said


def test_every_pixel_of_an_image_that_was_not_scaled_is_itself():
    for x in range(100):
        said = f'<point x="{x}" y="0"/>'
        assert tell_places(said, [SAME]) == said


def test_places_are_told_in_the_originals_pixels():
    said = '<point image="1" x="10" y="20"/> <box image="1" x1="10" y1="20" x2="30" y2="50"/>'
    told = '<point image="1" x="21" y="41"/> <box image="1" x1="20" y1="40" x2="60" y2="100"/>'
    assert tell_places(said, [HALF]) == told


def test_each_place_is_told_in_its_own_image():
    said = '<point image="2" x="10" y="20"/> <point image="1" x="10" y="20"/>'
    assert (
        tell_places(said, [SAME, HALF]) == '<point image="2" x="21" y="41"/> <point image="1" x="10" y="20"/>'
    )


def test_a_turned_photo_has_its_places_in_the_file_and_its_boxes_the_right_way_round():
    assert (
        tell_places('<box x1="0" y1="0" x2="25" y2="10"/>', [UPRIGHT])
        == '<box x1="0" y1="50" x2="20" y2="100"/>'
    )


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("<point x='10' y='20'>", '<point x="21" y="41">'),
        ("<point x=10 y=20 />", '<point x="21" y="41" />'),
        ('<point y = "20px" x = "10.4">the door</point>', '<point y="41" x="21">the door</point>'),
        ('<POINT IMAGE="1" x="10" y="20"/>', '<POINT IMAGE="1" x="21" y="41"/>'),
        ('<point label="x" x="10" y="20"/>', '<point label="x" x="21" y="41"/>'),
        ("<box x1=10 y1=20 x2=30 y2=50></box>", '<box x1="20" y1="40" x2="60" y2="100"></box>'),
    ],
)
def test_marks_are_read_as_models_write_them(said, told):
    assert tell_places(said, [HALF]) == told


def test_the_edge_of_an_image_is_its_last_pixel():
    assert tell_places('<point x="100" y="50"/>', [HALF]) == '<point x="199" y="99"/>'
    assert tell_places('<point x="0" y="0"/>', [UPRIGHT]) == '<point x="1" y="99"/>'
    assert tell_places('<point x="50" y="100"/>', [UPRIGHT]) == '<point x="199" y="0"/>'


def test_a_model_that_counts_in_steps_is_told_so_and_its_places_are_pixels():
    assert "in steps of which 1000 make that image's width, and 1000 its height" in how_to_tell(1000)
    said = '<point image="1" x="500" y="1000"/> <box image="1" x1="0" y1="100" x2="250" y2="1000"/>'
    told = '<point image="1" x="100" y="99"/> <box image="1" x1="0" y1="10" x2="50" y2="100"/>'
    assert tell_places(said, [HALF], 1000) == told
    assert "which has 1000 x 1000 steps" in tell_places('<point x="1001" y="0"/>', [SAME], 1000)
    assert "Image 1 was shown as 100 x 50 pixels" in tell_places("At (10, 20).", [SAME], 1000)


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        ('<point image="3" x="1" y="1"/>', "names none of the images"),
        ('<point image="0" x="1" y="1"/>', "names none of the images"),
        ('<point x="1" y="1"/>', "names none of the images"),
        ('<point image="1" x="1"/>', "says no place"),
        ('<box image="1" x="1" y="1"/>', "says no place"),
        (
            '<point image="2" x="101" y="1"/>',
            "lies outside of image 2, which has 100 x 50 pixels as it was shown",
        ),
        ('<point image="2" x="1" y="-1"/>', "lies outside of image 2"),
    ],
)
def test_a_mark_that_is_no_place_stays_and_is_told(mark, problem):
    told = tell_places(f"Here: {mark}", [SAME, HALF])
    assert told.startswith(f"Here: {mark}\n\n[{mark} {problem}")


@pytest.mark.parametrize("said", ["At (10, 20).", "At [10.5,20].", "x=10", "y1: 20"])
def test_coordinates_that_are_not_marked_are_told_where_they_may_be_wrong(said):
    assert tell_places(said, [SAME]) == said
    told = tell_places(said, [SAME, HALF])
    assert told.startswith(f"{said}\n\n[Image 2 was shown as 100 x 50 pixels")


@pytest.mark.parametrize(
    "said", ["There are 1,234 birds (30 of them red).", "axis: 3", "In 1998, 20 of them."]
)
def test_other_numbers_are_nobodys_business(said):
    assert tell_places(said, [HALF]) == said
