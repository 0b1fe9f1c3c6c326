"""When which block ran, as a picture."""

import random
from xml.etree import ElementTree as ET

import pytest

from codeact_kernel.record.timeline import ROWS, Timeline

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*stretches, began=100.0):
    timeline = Timeline(began)
    for stretch in stretches:
        timeline.add(*stretch)
    return timeline.svg()


def bars(svg):
    """Left edge and width of each bar, without those of the legend."""
    rects = [rect for rect in ET.fromstring(svg).iter(f"{SVG}rect") if rect.get("width") != "10"]
    return [(float(rect.get("x")), float(rect.get("width"))) for rect in rects]


def texts(svg):
    return [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_blocks_that_ran_at_once_have_bars_at_the_same_time_in_rows_of_their_own():
    svg = drawn(("ok", 100.0, 110.0, "a"), ("failed", 105.0, 110.0, "b"), ("model", 100.0, 101.0))
    assert bars(svg) == [(130.0, 60.0), (130.0, 600.0), (430.0, 300.0)]
    assert texts(svg)[-3:] == ["the model", "a", "b"]


def many(count):
    chosen = random.Random(count)
    for number in range(count):
        at = 100.0 + number * 3.0
        yield "model", at, at + 1.0, ""
        yield (
            chosen.choice(["ok", "failed", "agent"]),
            at + 1.0,
            at + 1.0 + 20 * chosen.random(),
            f"b{number}",
        )


@pytest.mark.parametrize("count", [ROWS, ROWS + 1, 3000])
def test_it_is_the_same_in_whatever_order_they_come(count):
    stretches = list(many(count))
    first = drawn(*stretches)
    random.Random(1).shuffle(stretches)
    assert drawn(*stretches) == first
    assert drawn(*reversed(stretches)) == first


def test_what_is_kept_and_drawn_of_ten_thousand_blocks_is_no_more_than_of_a_thousand():
    timeline = Timeline(100.0)
    for stretch in many(10_000):
        timeline.add(*stretch)
    assert timeline.bars is None
    assert len(timeline.busy) < 1000
    assert len(timeline.svg()) < 12_000
    assert "10,000 in all" in texts(timeline.svg())
    assert max(map(len, (drawn(*many(count)) for count in (10, ROWS, 50, 1000)))) < 25_000


def test_a_sum_is_that_of_all_blocks_at_a_time():
    svg = drawn(*(("ok", 100.0, 150.0, f"b{n}") for n in range(60)), ("ok", 150.0, 200.0, "last"))
    assert "60 at once" in texts(svg)
    (path,) = [p.get("d") for p in ET.fromstring(svg).iter(f"{SVG}path") if p.get("fill") == "#3987cf"]
    heights = {round(float(step.split("H")[0])) for step in path.split("V")[1:-1]}
    assert len(heights - {max(heights)}) <= 3


@pytest.mark.parametrize("odd", ["<script>", '"&', "\x00\x01\ud800\ufffe\u202e", "x" * 500])
def test_any_name_is_text(odd):
    svg = drawn(("ok", 100.0, 101.0, odd))
    assert {element.tag for element in ET.fromstring(svg).iter()} == {
        f"{SVG}{tag}" for tag in ("svg", "rect", "text", "path")
    }
    assert len(texts(svg)[-1]) <= 18


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1e300, 1e300, 0.0])
def test_any_time_can_be_drawn(odd):
    for count in (1, ROWS + 1):
        stretches = [("ok", odd, 101.0, "a"), ("agent", 100.0, odd, "b")] * count
        svg = drawn(*stretches)
        ET.fromstring(svg)
        assert "nan" not in svg
        assert "inf" not in svg.replace("font-family", "")
    ET.fromstring(drawn(began=odd))


def test_a_copy_goes_on_by_itself():
    timeline = Timeline(100.0)
    timeline.add("ok", 100.0, 101.0, "a")
    before = timeline.svg()
    timeline.copy().add("ok", 101.0, 400.0, "b")
    assert timeline.svg() == before
