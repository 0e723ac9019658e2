"""When the launcher restarts lost roles, how long it waits, and what it reports."""

import pytest

from slsgd_mx.errors import LostError
from slsgd_mx.parameter_server.losses import LONGEST, MOST_RARE, RARE, Losses, MalformedError

LOST, MALFORMED = LostError("server-0 was lost"), MalformedError("server-0 aborted")


def test_losses_without_a_further_epoch_are_bounded(tmp_path):
    losses = Losses(2, tmp_path)
    losses.add(LOST, 3, 100.0)
    losses.add(LOST, 2, 100.0)
    with pytest.raises(LostError) as error:
        losses.add(LOST, 3, 100.0)
    said = "server-0 was lost. That was after 2 restart(s) without getting further than epoch 3; "
    assert str(error.value).startswith(f"{said}the logs are in {tmp_path / 'logs'}")


def test_a_further_epoch_forgets_earlier_losses(tmp_path):
    losses = Losses(1, tmp_path)
    assert [losses.add(LOST, epoch, 1.0) for epoch in range(50)] == [0.0] * 50
    with pytest.raises(LostError):
        losses.add(LOST, 49, 1.0)


def test_pauses_double_up_to_a_limit(tmp_path):
    losses = Losses(2000, tmp_path)
    pauses = [losses.add(LOST, 0, 1.0) for _ in range(1500)]
    assert pauses[:7] == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, LONGEST] and set(pauses[7:]) == {LONGEST}


def test_one_malformed_message_per_minute_does_not_exhaust_the_restarts(tmp_path, capsys):
    """Even if an epoch takes longer than a minute, so that no attempt completes one."""
    losses = Losses(0, tmp_path)
    for _ in range(100):  # the next message comes a minute after the last, a pause included
        assert losses.add(MALFORMED, 0, 60.0 - LONGEST) <= LONGEST < 60.0 - RARE
    assert (losses.total, losses.malformed) == (100, 100)
    losses.report()
    said = capsys.readouterr().err.splitlines()
    assert said[0].endswith("server-0 aborted: restarting all processes from the last checkpoint")
    assert said[1].endswith("from the last checkpoint in 1 seconds (restart 2)")
    line = "warning: all processes were restarted 100 time(s), 100 of them after malformed messages"
    assert said[-1] == line


def test_many_malformed_messages_exhaust_the_restarts(tmp_path):
    losses = Losses(3, tmp_path)
    for _ in range(3):
        losses.add(MALFORMED, 0, RARE - 1)
    with pytest.raises(LostError, match="server-0 aborted. That was after 3 restart"):
        losses.add(MALFORMED, 0, RARE - 1)


def test_rare_malformed_messages_do_not_hide_other_losses(tmp_path):
    losses = Losses(1, tmp_path)
    losses.add(MALFORMED, 0, RARE)
    losses.add(LOST, 0, RARE)
    with pytest.raises(LostError, match="after 2 restart"):
        losses.add(LOST, 0, RARE)


def test_an_abort_that_repeats_in_every_attempt_ends_the_run(tmp_path):
    """However long each attempt lasted; a further epoch would allow as many again."""
    losses = Losses(3, tmp_path)
    for epoch in (4, 5):
        for _ in range(MOST_RARE):
            losses.add(MALFORMED, epoch, RARE + 5)
    with pytest.raises(LostError) as error:
        losses.add(MALFORMED, 5, RARE + 5)
    said = f"That was after {MOST_RARE} restart(s) without getting further than epoch 5"
    assert said in str(error.value)


def test_a_run_without_losses_reports_none(tmp_path, capsys):
    Losses(1, tmp_path).report()
    assert capsys.readouterr().err == ""
