"""Jobs of the theory in child processes."""

import json

import pytest
from helpers.theory_tables import tiny

from slsgd_mx.errors import RunError
from slsgd_mx.theory import compute
from slsgd_mx.theory.measure import measure


@pytest.mark.filterwarnings("ignore:invalid value")  # infinity minus infinity
def test_a_child_measures_the_case_it_is_sent():
    """JSON keeps every digit, infinity and NaN (which is compared as text)."""
    case = tiny("attacked", q=1, attack="inf", nonfinite="keep", epochs=2)
    message = json.loads(json.dumps(compute._to_message(compute.CaseSeeds(case, (3, 5)))))
    reports = []
    compute.measure_case(message, lambda **report: reports.append(report))
    (report,) = json.loads(json.dumps(reports))
    assert report["event"] == "rows" and set(report["rows"]) == {"3", "5"}
    assert str(report["rows"]["5"]) == str([list(row) for row in measure(case, 5)])
    assert report["rows"]["5"][2][2] == float("inf")


def test_a_job_that_fails_in_a_child_is_an_error(tmp_path, monkeypatch):
    jobs = compute.missing_jobs(tmp_path, [tiny(), tiny("other")], 1)
    monkeypatch.setattr(compute, "_to_message", lambda job: {"do": "os:getcwd"})
    with pytest.raises(RunError, match="^(tiny|other) 0 failed: do='os:getcwd' is out of range"):
        compute.compute(tmp_path, jobs, 2)
    assert list(tmp_path.iterdir()) == []
