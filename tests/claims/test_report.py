"""Verdicts as text, JSON and a table, and the command that prints them."""

import json
import math
import subprocess
import sys
from pathlib import Path

from helpers.claims_runs import ONE, judged, make, only, typical, write

from slsgd_mx import claims
from slsgd_mx.claims import (
    ABSENT,
    CLAIMS,
    FAILS,
    HOLDS,
    OPEN,
    THEORY,
    Check,
    Verdict,
    catalogue,
    report,
)
from slsgd_mx.cli.claims import claims as command
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import Variant, runs_of
from slsgd_mx.system.processes import environment


def test_every_claim_has_its_rule():
    assert list(CLAIMS) == [f"C{n}" for n in range(1, 13)]
    for id, claim in CLAIMS.items():
        assert claim.id == id and claim.rule
        assert claim.where.split()[0] in (["Theorem", "Proposition"] if id in THEORY else ["Fig."])
    assert all("one repeat" in CLAIMS[f"C{n}"].rule for n in (1, 2, 3, 4, 5, 6, 7, 9))


def test_a_claim_without_checks_is_open():
    assert claims.decide("C1", []) == Verdict("C1", OPEN, [], [])


def test_text(tmp_path):
    lines = claims.to_text([judged(tmp_path, "C3")]).splitlines()
    assert lines[0] == "C3  holds  (Fig. 3, 4) under label flipping b=0 fails catastrophically"
    assert lines[1] == f"    rule: {CLAIMS['C3'].rule}" and len(lines) == 2 + 4
    assert lines[2] == (
        "    holds            balanced, gamma=0.1, alpha=1, b=0, q=2: progress 0 +- 0.05, at most "
        "0.5, r=1; one repeat: fixed margin"
    )


def test_json_is_complete_and_repeatable(tmp_path):
    for home, order in ((tmp_path / "a", 1), (tmp_path / "b", -1)):
        runs = {run: 0 for name in FIGURES for run in runs_of(FIGURES[name], ONE)}
        for config in list(runs)[::order][:60]:
            write(home, config, **typical(config))
    verdicts = claims.judge_all(tmp_path / "a", ONE)
    text = claims.to_json(verdicts, {"preset": "smoke"})
    read = json.loads(text)
    assert read["about"] == {"preset": "smoke"}
    assert json.dumps(read, sort_keys=True, indent=1) + "\n" == text
    for verdict, found in zip(verdicts, read["claims"]):
        claim = CLAIMS[found["id"]]
        assert all(found[x] == getattr(claim, x) for x in ("text", "where", "rule"))
        pairs = list(zip(found["checks"], verdict.checks))
        checks = [Check(**{**said, "missing": check.missing}) for said, check in pairs]
        assert all(said["missing"] == len(check.missing) for said, check in pairs)
        assert Verdict(found["id"], found["verdict"], checks, found["missing"]) == verdict
    assert claims.to_json(claims.judge_all(tmp_path / "a", ONE), {"preset": "smoke"}) == text
    assert str(tmp_path) not in text


def test_json_has_no_bare_nan():
    checks = [
        Check("x", OPEN, "at most", 0.0, math.nan, math.inf),
        Check("y", OPEN, "at least", -math.inf),
    ]
    text = claims.to_json([Verdict("C1", OPEN, checks, [])])

    def refuse(constant):
        raise AssertionError(constant)

    first, second = json.loads(text, parse_constant=refuse)["claims"][0]["checks"]
    assert (first["estimate"], first["margin"], second["limit"]) == ("NaN", "Infinity", "-Infinity")


def test_markdown_shows_the_numbers_that_decide_a_verdict():
    checks = [
        Check("a|b", HOLDS, "at least", 0.9, 0.95, 0.01, 3),
        Check("nearest", HOLDS, "at least", 0.9, 0.97, 0.06, 3),
        Check("most", HOLDS, "at most", 0.5, 0.1, 0.05, 3),
        Check("fails", FAILS, "at most", 0.5, 0.9, 0.05, 3),
        Check("fails by more", FAILS, "at most", 0.5, 1.9, 0.05, 3),
        Check("without a value", OPEN, "at most", 0.5),
    ]
    head, line, holds, fails, empty = claims.to_markdown(
        [claims.decide("C1", checks[:3]), claims.decide("C2", checks), claims.decide("C3", [])]
    ).splitlines()
    assert head == "| claim | where | verdict | decisive numbers |" and line.count("---") == 4
    assert holds.endswith(
        "| Fig. 1 | holds | 3 of 3 checks hold; nearest 0.97 +- 0.06, at least 0.9, r=3 |"
    )
    assert "| does not hold | 3 of 6 checks hold; fails by more 1.9 +- 0.05, at most 0.5" in fails
    assert empty.endswith("| not decided | 0 of 0 checks hold |")
    assert "a\\|b" in claims.to_markdown([claims.decide("C1", checks[:1])])


def test_markdown_shows_the_verdicts_on_one_seed_beside_those_on_all():
    verdicts = [claims.decide("C1", []), claims.decide("C10", [])]
    head, line, first, theory = claims.to_markdown(verdicts, verdicts[:1]).splitlines()
    assert head == "| claim | where | verdict | first seed alone | decisive numbers |"
    assert line.count("---") == 5
    assert first.endswith("| not decided | not decided | 0 of 0 checks hold |")
    assert theory.endswith("| not decided |  | 0 of 0 checks hold |")


def test_the_page_has_the_verdicts_on_the_first_of_several_seeds(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    two = Variant("smoke", {"epochs": 16}, repeats=2, seed=7)
    make(Path("runs"), "C3", two, only(dict(q=2, seed=8), test_accuracy=0.6))
    call(capsys, *ASKED, "--repeats", "2", "--figures", "made")
    (row,) = [x for x in Path("made/claims.md").read_text().splitlines() if x.startswith("| C3")]
    assert "| not decided | holds |" in row


def test_samples_decide_before_counts_and_counts_before_checks_that_could_not_fail():
    sample = Check("sample", HOLDS, "at most", 0.5, 0.1, 0.05, 3)
    count = Check("count", HOLDS, "at most", 0.0, 0.0, 0.0, 3, exact=True)
    sure = Check("sure", HOLDS, "at most", 0.0, 0.0, 0.0, 3, exact=True, sure=True)
    failed = Check("failed", FAILS, "at most", 0.0, 0.5, 0.0, 3, exact=True)
    for checks, name in (
        ([count, sure, sample], "sample"),
        ([sure, count], "count"),
        ([sure], "sure"),
        ([sample, count, failed], "failed"),
    ):
        assert report.decisive(claims.decide("C10", checks)).what == name
    said = claims.to_markdown([claims.decide("C10", [sample, sure, failed])])
    assert "| 1 of the 2 checks that could fail hold (1 could not); failed 0.5" in said


ASKED = ["--preset", "smoke", "--repeats", "1", "--seed", "7", "--epochs", "16"]


def call(capsys, *arguments):
    command.main(list(arguments), standalone_mode=False)
    return capsys.readouterr()


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    size = Variant("smoke", {"epochs": 16}, repeats=1, seed=7)
    make(Path("runs"), "C3", size, only(dict(q=2), test_accuracy=0.6))
    verdicts = claims.judge_all(Path("runs"), size)
    some = {"C2": OPEN, "C3": FAILS, "C4": HOLDS, "C5": HOLDS, "C8": OPEN}  # share runs with C3
    assert {v.claim: v.verdict for v in verdicts} == {**dict.fromkeys(CLAIMS, ABSENT), **some}
    said = call(capsys, *ASKED)
    assert said.out == claims.to_text(verdicts) + (
        "what to do now: slsgd-mx all --preset smoke --repeats 1 --seed 7 --epochs 16 "
        "computes the missing runs\n"
        "what to do now: slsgd-mx theory computes what C10, C11, C12 lack\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    said = call(capsys, *ASKED, "--json", "--figures", "made/here")
    about = {"preset": "smoke", "seeds": [7], "changes": {"epochs": 16}}
    about.update(alphas=[0.6, 0.8, 1.0], loss=None, data="synthetic")
    assert said.out == claims.to_json(verdicts, about) and "computes the missing" in said.err
    assert Path("made/here/claims.json").read_text() == said.out
    assert Path("made/here/claims.md").read_text() == claims.to_markdown(verdicts)


def test_starts_of_poisoned_workers_side_by_side(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    size = Variant("smoke", {"epochs": 16}, repeats=1, seed=7)
    accuracy = {("fresh", 0): 0.1, ("pulled", 0): 0.6, ("fresh", 2): 0.5, ("pulled", 2): 0.55}
    for run in runs_of(FIGURES["attacker-start"], size):
        if run.boost == 1 and (run.b < 4 or run.q == 4):
            learned = accuracy.get((run.attacker_start, run.b), 0.6)
            loss = {"fresh": 2.5, "pulled": 1.5}[run.attacker_start] if run.q == 4 else 1.0
            values = dict(test_accuracy=learned, train_loss=loss)
            write(Path("runs"), run, **{**typical(run), **values})
    said = call(capsys, *ASKED, "--figures", "made").out
    table = said[said.index("C3 to C5 by the start") : said.index("what to do now")]
    heads, _, fresh, pulled, boosted = table.splitlines()[2:]
    assert heads.endswith("| q=2, b=4 (C4: at least 0.5) | q=4, b=4 (C5: at most 2.303) |")
    assert fresh.endswith("| 2.500 +- 0.020, r=1: does not hold |")
    assert pulled.endswith("| 1.500 +- 0.020, r=1: holds |")
    assert fresh.startswith(
        "| fresh start | 0.000 +- 0.050, r=1: holds | 0.800 +- 0.050, r=1: holds |"
    )
    assert pulled.startswith("| pulled start | 1.000 +- 0.050, r=1: does not hold | 0.900 +- 0.050")
    assert boosted.count("not computed") == 4 and fresh.count("not computed") == 1
    assert Path("made/claims.md").read_text().endswith("\n\n" + table)


def test_the_command_on_another_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    said = call(capsys, "--runs", "else where", "--preset", "laptop").out
    assert "slsgd-mx all --preset laptop --runs 'else where' computes" in said
    assert said.count("not computed  (Fig.") == 9 and "at least 0.9, no value, 6 runs" in said
    assert "slsgd-mx theory --runs 'else where' computes what C10, C11, C12 lack" in said
    assert list(tmp_path.iterdir()) == []


def test_the_command_without_anything_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(catalogue, "CLAIMS", {"C3": CLAIMS["C3"]})
    make(tmp_path, "C3", Variant("smoke", {"epochs": 16}, repeats=1, seed=7))
    said = call(capsys, *ASKED, "--runs", str(tmp_path))
    assert said.out.startswith("C3  holds") and "what to do" not in said.out + said.err


def test_nothing_heavy_is_imported(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom slsgd_mx import claims\n"
        "from slsgd_mx.figures.variants import Variant\n"
        "claims.to_json(claims.judge_all(Path('none'), Variant('smoke', {})))\n"
        "print({'mxnet', 'matplotlib'} & set(sys.modules))"
    )
    call = [sys.executable, "-c", code]
    assert subprocess.check_output(call, env=environment(1), cwd=tmp_path) == b"set()\n"
