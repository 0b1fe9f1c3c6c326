from __future__ import annotations

import pytest

from codeact_kernel.context import Reminders, is_full, reminder, threshold_of, visible
from codeact_kernel.events import Knowledge, Observation, Task


def test_all_entries_are_seen_until_the_first_compaction():
    entries = [Task("a"), Observation(())]
    assert list(visible(entries)) == entries
    assert list(visible([])) == []


def test_after_a_compaction_only_it_and_what_follows_is_seen():
    entries = [Task("a"), Knowledge("one"), Task("b"), Knowledge("two"), Observation(())]
    assert list(visible(entries)) == [Knowledge("two"), Observation(())]


def test_between_compactions_the_window_only_grows_at_its_end():
    entries = [Knowledge("one"), Task("b")]
    before = list(visible(entries))
    entries.append(Observation(()))
    assert list(visible(entries))[: len(before)] == before


@pytest.mark.parametrize(
    ("window", "expected"), [(None, 16_000), (400_000, 16_000), (32_000, 16_000), (8192, 4096), (4096, 2048)]
)
def test_the_threshold_is_16k_or_half_of_a_small_window(window, expected):
    assert threshold_of(window) == expected


def test_below_the_threshold_there_is_no_reminder():
    assert Reminders().due(15_999, None) is None
    assert Reminders().due(16_000, None)


def test_a_reminder_is_firmer_with_each_turn_that_ignores_it_and_always_says_what_to_call():
    reminders = Reminders()
    texts = [reminders.due(20_000, None).body for _ in range(6)]
    marks = [
        "is growing",
        "has grown to about 20,000",
        "is too large",
        "Reminder 4",
        "Reminder 5",
        "Reminder 6",
    ]
    assert all(mark in text for mark, text in zip(marks, texts, strict=True))
    assert all("self.compact_knowledge(" in text for text in texts)


def test_near_the_window_s_end_the_first_reminder_is_the_firmest():
    assert "too large: about 48,000 of 64,000 tokens" in reminder(48_000, 64_000)
    assert "growing" in reminder(47_999, 64_000)


def test_a_compaction_makes_the_next_reminder_a_mild_one():
    reminders = Reminders()
    first = reminders.due(30_000, None)
    assert reminders.due(30_000, None) != first
    assert reminders.due(2_000, None) is None
    assert reminders.due(30_000, None) == first


def test_a_threshold_of_ones_own_is_kept():
    assert Reminders().due(1_000, None, threshold=500)
    assert Reminders().due(499, None, threshold=500) is None


@pytest.mark.parametrize(
    ("tokens", "window", "full"),
    [
        (6144, 8192, False),
        (6145, 8192, True),
        (395_904, 400_000, False),
        (395_905, 400_000, True),
        (10**9, None, False),
    ],
)
def test_a_window_is_full_when_a_reply_might_not_fit(tokens, window, full):
    assert is_full(tokens, window) is full
