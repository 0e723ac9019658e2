"""Pictures and reports of made-up tables."""

import csv
from functools import lru_cache

import numpy as np
import pytest
from helpers.theory_tables import make
from matplotlib.mathtext import MathTextParser

from slsgd_mx.figures import style
from slsgd_mx.figures.plot import draw
from slsgd_mx.theory import PARTS
from slsgd_mx.theory.cases import ALPHAS, alpha_cases
from slsgd_mx.theory.pictures import PICTURES, draw_part, numbers
from slsgd_mx.theory.report import assumptions_text, findings_text, write_reports
from slsgd_mx.theory.tables import MissingTable, Table, find_all, write_rows

NAMES = [(part, name) for part in PARTS for name in PICTURES[part]]


@lru_cache(maxsize=None)
def picture_of(part, name):
    tables = tables_of(part)
    return PICTURES[part][name](lambda case: Table(case, tables[case]))


@lru_cache(maxsize=None)
def tables_of(part):
    return make(part, seeds=2)


def means(part, name, panel, *curves):
    """The means of the curves with these labels, in the panel whose title starts so."""
    rows = [r for r in numbers(picture_of(part, name)) if r[0].startswith(panel)]
    found = [np.array([r[3] for r in rows if r[1] == curve]) for curve in curves]
    assert all(len(each) for each in found)
    return found


@pytest.mark.parametrize("part, name", NAMES)
def test_every_panel_can_be_drawn(part, name, tmp_path, monkeypatch):
    """One of each kind really is: a trade-off, a linear axis, constants; below, Proposition 1."""
    picture = picture_of(part, name)
    if name in ("thm1-steps", "thm1-schedule", "thm2-lemma"):
        monkeypatch.setitem(style.STYLE, "figure.dpi", 30)
        draw(picture.panels, [tmp_path / "x.png"], picture.title, picture.note, picture.columns)
        assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    texts = [picture.title, picture.note]
    for panel in picture.panels:
        low, high = panel.ylim
        assert 0 <= low < high < np.inf and (panel.yscale == "linear" or low > 0)
        assert max(curve.y.max() for curve in panel.curves) <= high and len(panel.curves) > 1
        texts += [panel.title, panel.xlabel, panel.ylabel, *(c.label for c in panel.curves)]
    for text in texts:
        MathTextParser("path").parse(text)


@pytest.mark.parametrize(
    "part, name, panel",
    [("thm1", "thm1-bound", panel) for panel in ("Quadratic", "Logistic", "Waves with")]
    + [("thm2", "thm2-attacks", panel) for panel in ("Quadratic, worst", "Logistic, label flip")],
)
def test_bounds_start_at_the_first_error_and_lie_above_the_errors(part, name, panel):
    curves = ("measured", "bound, fitted floor", "bound, floor of the proof")
    measured, fitted, explicit = means(part, name, panel, *curves)
    assert measured[0] == fitted[0] == explicit[0]
    assert (measured <= fitted * (1 + 1e-9)).all() and (fitted[1:] < explicit[1:]).all()


def test_numbers_are_those_of_the_tables():
    """Two seeds, the second 1 % lower: the mean is 0.995 of the typical error."""
    measured, alone = means("thm1", "thm1-rate", "mu=1", "measured", "rate alone, no floor")
    assert measured[1:] == pytest.approx(0.995 * alone[1:])
    (floors,) = means("thm1", "thm1-alpha", "Error that stays", "Heterogeneous devices")
    tables = [Table(case, tables_of("thm1")[case]) for case in alpha_cases()["drift"].values()]
    assert floors == pytest.approx([table.floors.mean() for table in tables])
    curves = [rf"$\alpha$={alpha:g}" for alpha in ALPHAS]
    by_alpha = means("thm1", "thm1-alpha", "Heterogeneous devices", *curves)
    assert all(found == pytest.approx(table.mean) for found, table in zip(by_alpha, tables))
    (epochs,) = means("thm1", "thm1-steps", "Time it takes", "by Theorem 1's rate")
    assert epochs == pytest.approx(np.log(0.1) / np.log(0.95) / np.array([1, 2, 4, 8, 16]))
    (left,) = means("thm1", "thm1-schedule", r"$\alpha = 1/T^2$", "Theorem 1's factor")
    assert left == pytest.approx([(1 - (1 - 0.95**4) / T**2) ** T for T in (2, 5, 10, 20, 50)])
    symmetric, beta = means("thm2", "thm2-sweeps", "Over q", "Symmetric population",
                            r"$\beta$, scaled to the symmetric's first")  # fmt: skip
    assert symmetric == pytest.approx(beta, rel=0.01)
    curves = ("printed constant", "sharp constant b/(k-b-q)", "largest of 20,000 adversarial draws")
    printed, sharp, draws = means("thm2", "thm2-lemma", "Over k", *curves)
    assert (printed > sharp).all() and draws == pytest.approx(sharp, rel=0.05)
    (seen,) = means("thm2", "thm2-lemma", "Over k", "in the runs, skewed population")
    assert seen == pytest.approx(0.5 / 3.0)
    (plain,) = means("prop1", "prop1", "Error", "b=0, alpha=1")
    assert plain == pytest.approx([0.995 * 0.05 * c**2 for c in (1e1, 1e2, 1e3, 1e4, 1e5, 1e6)])


@pytest.mark.parametrize("part", PARTS)
def test_reports_of_made_up_tables(tmp_path, part):
    for case, rows in tables_of(part).items():
        write_rows(tmp_path / "theory", case, rows)
    first, second = tmp_path / "first", tmp_path / "second"
    listed, findings = write_reports(part, tmp_path / "theory", first, 2)
    said = assumptions_text(part, listed)
    bounded = len(listed) - said.count("no bound: b < q")
    assert bounded == (1 if part == "prop1" else len(listed))
    assert said.count("floor fitted") == bounded and "gamma=0.1 <= 0.25" in said
    reports = read(first / f"assumptions-{part}.csv")
    assert {"L", "mu", "gamma_is_legal", "V_1_region", "V_2"} <= set(reports[0])
    assert {report["gamma_is_legal"] for report in reports} == {"True"}
    assert findings_text(part, findings).count("(against ") == len(findings) >= 5
    write_reports(part, tmp_path / "theory", second, 2)
    if part == "prop1":  # drawing is slow
        made = [draw_part(part, tmp_path / "theory", out) for out in (first, second)][0]
        assert [path.stem for path in made] == list(PICTURES[part])
        assert made[0].read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        rows = [[r["panel"], r["curve"], float(r["mean"])] for r in read(first / "prop1.csv")]
        expected = [[r[0], r[1], pytest.approx(r[3])] for r in numbers(picture_of(part, "prop1"))]
        assert rows == expected
    names = {path.name for path in first.iterdir()}
    assert len(names) == (5 if part == "prop1" else 2)
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


@pytest.mark.parametrize("name", ["thm2-sweeps", "thm2-lemma"])
def test_a_curve_over_tables_with_different_seeds_shows_those_in_common(name):
    """Four cases have four times as many seeds; so have others while they are computed."""
    tables = dict(tables_of("thm2"))
    for case in tables:
        if case.times > 1:
            tables[case] = make("thm2", seeds=8)[case]
    picture = PICTURES["thm2"][name](lambda case: Table(case, tables[case]))
    assert numbers(picture) == numbers(picture_of("thm2", name))


def test_tables_without_a_common_seed_are_missing():
    first, *others = alpha_cases()["noise"].values()
    rows = tables_of("thm1")
    found = {case: Table(case, rows[case]) for case in others}
    found[first] = Table(first, {9: rows[first][0]})
    with pytest.raises(MissingTable, match=f"{first.file}.* have no seed in common"):
        find_all(found.get, alpha_cases()["noise"])


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))
