from __future__ import annotations

import pytest

from codeact_kernel.context import Reminders, is_full, reminder, threshold_of, visible
from codeact_kernel.events import Knowledge, Observation, Report, Task


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
    assert reminder(15_999, 16_000, None) is None
    assert Reminders().due(15_999, None) is None


def test_reminders_grow_firmer_and_say_what_to_call():
    texts = [reminder(tokens, 16_000, 64_000) for tokens in (16_000, 24_000, 48_000)]
    assert len(set(texts)) == 3
    assert all("self.compact_knowledge(" in (text or "") for text in texts)
    assert "48,000 of 64,000" in (texts[2] or "")
    assert "nearly full" not in (reminder(10**6, 16_000, None) or "")


def test_a_reminder_comes_at_once_and_then_seldom():
    reminders = Reminders()
    first = reminders.due(16_100, None)
    assert first == Report("reminder", reminder(16_100, 16_000, None) or "")
    told = [tokens for tokens in range(16_200, 40_000, 100) if reminders.due(tokens, None)]
    assert told == [20_100, 24_000, 28_000, 32_000, 36_000]


def test_a_firmer_reminder_does_not_wait():
    reminders = Reminders()
    assert reminders.due(23_900, None)
    assert reminders.due(24_000, None)
    assert reminders.due(24_100, None) is None


def test_after_a_compaction_the_count_begins_anew():
    reminders = Reminders()
    assert reminders.due(30_000, None)
    assert reminders.due(2_000, None) is None
    assert reminders.due(16_000, None)


def test_a_threshold_of_ones_own_is_kept():
    assert Reminders().due(1_000, None, threshold=500)
    assert Reminders().due(499, None, threshold=500) is None


@pytest.mark.parametrize(
    ("tokens", "window", "full"),
    [
        (7168, 8192, False),
        (7169, 8192, True),
        (395_904, 400_000, False),
        (395_905, 400_000, True),
        (10**9, None, False),
    ],
)
def test_a_window_is_full_when_a_reply_might_not_fit(tokens, window, full):
    assert is_full(tokens, window) is full
