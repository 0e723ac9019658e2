"""Pictures and reports of made-up tables."""

import csv

import pytest
from helpers.theory_tables import make

from slsgd_mx.theory import PARTS
from slsgd_mx.theory.pictures import PICTURES, draw_part
from slsgd_mx.theory.report import assumptions_text, findings_text, write_reports

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("part", PARTS)
def test_pictures_and_reports_of_made_up_tables(tmp_path, part):
    make(tmp_path, part, seeds=2)
    first, second = tmp_path / "first", tmp_path / "second"
    made = draw_part(part, tmp_path / "theory", first)
    assert [path.stem for path in made] == list(PICTURES[part])
    listed, findings = write_reports(part, tmp_path / "theory", first, 2)
    said = assumptions_text(part, listed)
    bounded = len(listed) - said.count("no bound: b < q")
    assert bounded == (1 if part == "prop1" else len(listed))
    assert said.count("floor fitted") == bounded and "gamma=0.1 <= 0.25" in said
    for path in made:
        assert path.read_bytes().startswith(PNG) and path.with_suffix(".svg").exists()
        with open(path.with_suffix(".csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows and all(float(r["low"]) <= float(r["mean"]) * (1 + 1e-8) for r in rows)
    with open(first / f"assumptions-{part}.csv", newline="") as file:
        reports = list(csv.DictReader(file))
    assert reports and {"L", "mu", "gamma_is_legal", "V_1_region", "V_2"} <= set(reports[0])
    assert {report["gamma_is_legal"] for report in reports} == {"True"}
    said = findings_text(part, findings)
    assert said.count("(against ") == len(findings) >= 5
    if part == "prop1":  # drawing is slow, and what repeats here repeats everywhere
        draw_part(part, tmp_path / "theory", second)
    write_reports(part, tmp_path / "theory", second, 2)
    for path in first.iterdir() if part == "prop1" else first.glob("*-thm?.csv"):
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name
