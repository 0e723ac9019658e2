"""Seconds by activity."""

import pytest

from slsgd_mx.system.stopwatch import Stopwatch


class Watch(Stopwatch):
    """A stopwatch whose clock the test advances."""

    now = 1000.0

    def __init__(self):
        super().__init__(lambda: self.now)

    def spend(self, *activities):
        """One second in the first activity, two in the second, and so on."""
        for seconds, activity in enumerate(activities, start=1):
            self.switch(activity)
            self.now += seconds


@pytest.mark.parametrize(
    "activities, seconds",
    [
        (["transfer", "training", "transfer", ""], {"transfer": 1 + 3, "training": 2}),
        (["", "training", "", "training", ""], {"training": 2 + 4}),
        (["training", "training", ""], {"training": 1 + 2}),
    ],
)
def test_seconds_are_counted_for_the_current_activity_unless_it_is_empty(activities, seconds):
    watch = Watch()
    watch.now += 50  # before the first activity
    watch.spend(*activities)
    assert watch.take() == seconds
    assert watch.take() == {}
    watch.spend("training", "transfer")
    watch.reset()  # discards the seconds and ends the activity
    watch.now += 10
    assert watch.take() == {}
    watch.spend("transfer", "")
    assert watch.take() == {"transfer": 1}


def test_the_default_clock_advances():
    watch = Stopwatch()
    watch.switch("training")
    while not watch._seconds.get("training"):
        watch.switch("training")
    assert 0 < watch.take()["training"] < 60
