"""Seconds by activity."""

from slsgd_mx.system.stopwatch import Costs, Stopwatch


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def make():
    clock = Clock()
    return clock, Stopwatch(clock)


def spend(clock, watch, *activities):
    """One second more in each activity than in the one before."""
    for seconds, activity in enumerate(activities, start=1):
        watch.switch(activity)
        clock.now += seconds


def test_seconds_go_to_the_activity_under_way():
    clock, watch = make()
    spend(clock, watch, "transfer", "training", "transfer", "")
    assert watch.take() == {"transfer": 1 + 3, "training": 2}


def test_what_comes_before_the_first_activity_is_not_counted():
    clock, watch = make()
    clock.now += 50
    spend(clock, watch, "training", "")
    assert watch.take() == {"training": 1}


def test_the_empty_activity_is_not_counted():
    clock, watch = make()
    spend(clock, watch, "", "training", "", "training", "")
    assert watch.take() == {"training": 2 + 4}


def test_switching_to_the_same_activity_goes_on():
    clock, watch = make()
    spend(clock, watch, "training", "training", "")
    assert watch.take() == {"training": 3}


def test_taking_starts_anew():
    clock, watch = make()
    spend(clock, watch, "training", "")
    assert watch.take() == {"training": 1}
    assert watch.take() == {}
    spend(clock, watch, "transfer", "")
    assert watch.take() == {"transfer": 1}


def test_reset_forgets_and_stops():
    clock, watch = make()
    spend(clock, watch, "training", "transfer")
    watch.reset()
    clock.now += 10
    assert watch.take() == {}
    spend(clock, watch, "training", "")
    assert watch.take() == {"training": 1}


def test_a_real_clock_goes_forward():
    watch = Stopwatch()
    watch.switch("training")
    while not watch._seconds.get("training"):
        watch.switch("training")
    assert 0 < watch.take()["training"] < 60


def test_costs_are_nothing_unless_said():
    assert Costs() == Costs(training=0.0, transfer=0.0, aggregation=0.0, sent=0)
