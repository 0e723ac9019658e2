"""What an interrupted command says."""

import sys

import pytest

from slsgd_mx.cli import failure


@pytest.mark.parametrize(
    "call, resumes",
    [
        ("fig3 --preset smoke", True),
        ("data fetch cifar10", True),
        ("fig3 --preset smoke --dry-run", False),
        ("arena --preset smoke --draw-only", False),
        ("partition --unbalanced", False),
        ("report", False),
    ],
)
def test_only_what_can_be_resumed_is_said_to_resume(monkeypatch, call, resumes):
    monkeypatch.setattr(sys, "argv", ["slsgd-mx", *call.split()])
    said = failure(KeyboardInterrupt()).message
    again = f"interrupted; this resumes where it stopped:\n  slsgd-mx {call}"
    assert said == (again if resumes else "interrupted")
