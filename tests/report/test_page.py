"""The data of the report's page, and the page itself, without a browser."""

import csv
import json
import re
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.command_line import call
from helpers.pages import Reader
from helpers.report_runs import EVIL, arena, variant
from helpers.run_folders import VALUES, keep, made_up_row, store_run

from slsgd_mx.arena.results import read_boards
from slsgd_mx.arena.stored import find_boards
from slsgd_mx.arena.tables import from_json, to_json
from slsgd_mx.arena.verdict import verdict
from slsgd_mx.claims import CLAIMS, FAILS, HOLDS, judge_all
from slsgd_mx.claims import from_json as claims_from_json
from slsgd_mx.claims import to_json as claims_to_json
from slsgd_mx.cli import main
from slsgd_mx.errors import ConfigError, RunError
from slsgd_mx.figures.build import draw_figure
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import runs_of
from slsgd_mx.report import boards, ledger, page, verdicts
from slsgd_mx.report.page import INSTALL, to_html, to_script, write_report
from slsgd_mx.report.sources import Request, gather
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.prefix import prefix_of
from slsgd_mx.runs.pushes import Pushes, to_text
from slsgd_mx.system.files import to_csv
from slsgd_mx.theory.stored import COLUMNS

ROOT = Path(__file__).resolve().parent.parent.parent
LAPTOP = ROOT / "figures" / "laptop"
pytest.importorskip("plotly")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Made-up runs of an arena and of Figure 3, one of them diverged, in an odd folder."""
    home = tmp_path_factory.mktemp("runs")
    for number, config in enumerate(arena().runs()):
        store_run(home, config, [0.2, 0.3 + number / 10])
    for number, config in enumerate(runs_of(FIGURES["fig3"], variant())):
        store_run(home, config, [0.5, 0.25 + number / 100], diverged=number == 3)
    shutil.copytree(next(home.iterdir()), home / EVIL.replace("/", "∕"))
    return home


@pytest.fixture(scope="module")
def data(home):
    return gather(Request(home, (LAPTOP,), (variant(),), chosen=True))


def test_every_section_has_its_content(data):
    names = [entry["name"] for entry in data["figures"]]
    assert names[:2] == ["fig03", "fig09"] and len(names) == 2 + 14
    assert [len(group["claims"]) for group in data["claims"]] == [12, 12, 3]
    board, *committed = data["arena"]
    assert board["rules"] == ["trimmed-mean", "median"]
    assert [len(each["rules"]) for each in committed] == [8, 8]  # balanced, unbalanced
    assert board["title"].startswith("balanced, q=1, b=1, α=1 (cifar, n=10, k=10, T=2, ")
    assert len(data["theory"]) == 9  # next to figures/laptop
    assert data["problems"] == [] and len(data["runs"]["rows"]) > 18
    states = {row["status"] for row in data["runs"]["rows"]}
    assert states == {"done", "diverged", "in CSV"}
    assert dict(data["summary"]["about"])["Tasks and data"] == "cifar on synthetic"


def test_a_figure_is_the_same_from_its_runs_and_from_its_csv(home, data, tmp_path):
    draw_figure("fig3", variant(), home, tmp_path)
    page = gather(Request(None, (tmp_path,)))
    stored, own = page["figures"][0], data["figures"][0]
    assert stored["title"] == own["title"] and own["title"].count("(synthetic data)") == 1
    assert page["files"][stored["csv"]] == data["files"][own["csv"]]
    pairs = list(zip(own["panels"], stored["panels"]))  # the CSV lacks the panels of pushes
    assert len(pairs) == 4
    for one, other in pairs:
        assert one["title"] == other["title"] and one["limits"] == other["limits"]
        for mine, theirs in zip(one["curves"], other["curves"]):
            names = ("label", "style", "x", "mean", "low", "high")
            assert [mine.get(n) for n in names] == [theirs.get(n) for n in names]


def test_bands_and_means_are_those_of_the_rows(data):
    panel = data["figures"][0]["panels"][0]
    curve = panel["curves"][1]
    runs = [run for run in runs_of(FIGURES["fig3"], variant()) if (run.q, run.b) == (2, 0)]
    every = runs_of(FIGURES["fig3"], variant())
    values = [0.25 + every.index(run) / 100 for run in runs]
    assert curve["low"][-1] == pytest.approx(min(values))
    assert curve["mean"][-1] == pytest.approx(np.mean(values))
    assert curve["high"][-1] == pytest.approx(max(values))


def test_the_csv_of_a_figure_and_of_its_zoom_is_stored_once(data):
    texts = {
        entry["name"]: entry["csv"] for entry in data["figures"] if "laptop" in entry["source"]
    }
    assert texts["fig03"] == texts["fig09"] != texts["fig04"]
    assert data["files"][texts["fig03"]] == (LAPTOP / "fig03.csv").read_text()


def test_boards_are_found_among_runs_as_the_arena_reads_them(home):
    grid = arena()
    (expected,) = read_boards(grid, home)
    folders = {run: home / run.slug for run in [*grid.runs(), *runs_of(FIGURES["fig3"], variant())]}
    (found,) = find_boards(folders)
    (stored,) = from_json(to_json(grid, [expected]))
    for board in (found, stored):
        assert str(board.setting) == str(expected.setting)
        assert sorted(verdict(board)) == sorted(verdict(expected))
        for pair, score in expected.scores.items():
            assert (board.scores[pair].mean, board.scores[pair].diverged) == (score.mean, 0)


def test_one_sentence_names_the_plugins_that_the_arena_lacks(tmp_path):
    for config in arena().runs():
        store_run(tmp_path, config, [0.2, 0.3])
    changed = sorted(tmp_path.glob("*/config.json"))[:3]
    for number, path in enumerate(changed):
        values = json.loads(path.read_text())
        source = [["mine.py", "1" * 64], ["task.py", "2" * 64]][: 1 + number]
        path.write_text(json.dumps({**values, "rule": "unheard", "sources": source}))
    data = gather(Request(tmp_path))
    (said,) = data["problems"]
    assert said.startswith("3 runs use mine.py, task.py: give --plugin for each")
    assert len(data["runs"]["rows"]) == len(arena().runs())


def test_of_copies_of_a_run_a_finished_one_counts_once(tmp_path):
    for config in arena().runs():
        store_run(tmp_path, config, [0.2, 0.3])
        copy = tmp_path / "z" / config.slug  # it is read after the original
        shutil.copytree(tmp_path / config.slug, copy)
        (copy / "DONE").unlink()
    (board,) = gather(Request(tmp_path))["arena"]
    texts = {cell["text"] for row in board["maps"]["final"] for cell in row[:-1]}
    assert texts == {"0.300"}


def test_claims_are_not_judged_on_a_rule_without_b(home):
    median = replace(variant(), changes={**variant().changes, "rule": "median"})
    assert gather(Request(home, variants=(median,), chosen=True))["claims"] == []


@pytest.mark.parametrize("name", ["limit", "margin"])
def test_a_check_without_its_numbers_is_one_sentence(tmp_path, name):
    content = json.loads(claims_to_json(judge_all(tmp_path, variant()), {}))
    check = content["claims"][0]["checks"][0]
    check.update({"estimate": 1.0, "margin": 0.1, name: None})
    with pytest.raises(RunError, match="a check without limit or margin"):
        claims_from_json(json.dumps(content))


def test_the_summary_counts_copies_of_a_run_once(tiny, tmp_path):
    store_run(tmp_path, tiny(), [1, 1, 1])
    once = gather(Request(tmp_path))["summary"]["epochs"]
    shutil.copytree(tmp_path / tiny().slug, tmp_path / "copy" / tiny().slug)
    assert gather(Request(tmp_path))["summary"]["epochs"] == once == 3


def test_what_a_table_does_not_say_is_not_made_up(tmp_path):
    """Tables of Figures 5 and 6 of earlier versions have no b and q."""
    (tmp_path / "fig05.csv").write_text(
        "curve,alpha,seed,loss_to_reach,epochs_to_reach,epochs_computed\nb=4,1,0,1.5,8,8\n"
    )
    (row,) = gather(Request(None, (tmp_path,)))["runs"]["rows"]
    assert row["symbols"] == {"figure": "fig05", "alpha": 1.0, "seed": 0}


def test_verdicts_name_what_was_changed(tmp_path):
    asked = "claims --preset smoke --repeats 1 --runs none --epochs 4 --no-warm-up --released"
    assert call(f"{asked} --figures {tmp_path}").exit_code == 0
    note = verdicts.from_folder(tmp_path, [])["note"]
    assert note.startswith("Preset smoke, epochs=4, released=yes, warm_up=no, ")
    asked = "claims --preset smoke --repeats 1 --runs none --alphas 0.6,1 --loss 1.5"
    assert call(f"{asked} --figures {tmp_path}").exit_code == 0
    note = verdicts.from_folder(tmp_path, [])["note"]
    assert note.startswith("Preset smoke, alphas 0.6 and 1, loss 1.5, seed 0.")
    assert verdicts.from_folder(LAPTOP, [])["note"].startswith("Preset laptop, ")


def test_verdicts_on_synthetic_data_say_so_in_any_folder(tmp_path):
    """Those of earlier versions do not name their data: their folder does."""
    asked = "claims --preset smoke --repeats 1 --runs none"
    assert call(f"{asked} --figures {tmp_path}/mine").exit_code == 0
    assert verdicts.MADE_UP in verdicts.from_folder(tmp_path / "mine", [])["note"]
    content = json.loads((tmp_path / "mine" / "claims.json").read_text())
    assert content["about"].pop("data") == "synthetic"
    for name, said in (("mine", False), ("smoke-repeats-1", True)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "claims.json").write_text(json.dumps(content))
        found = verdicts.from_folder(tmp_path / name, [])
        assert (verdicts.MADE_UP in found["note"]) == said
    assert verdicts.MADE_UP not in verdicts.from_folder(LAPTOP, [])["note"]


def test_claims_survive_json(home):
    verdicts_now = judge_all(home, variant())
    about, found = claims_from_json(claims_to_json(verdicts_now, {"preset": "smoke"}))
    assert about == {"preset": "smoke"} and [words["id"] for words, _ in found] == list(CLAIMS)
    for (_, again), now in zip(found, verdicts_now):
        assert again.verdict == now.verdict and again.missing == now.missing
        assert [c.estimate for c in again.checks] == [c.estimate for c in now.checks]


def test_committed_claims_have_verdict_rule_and_decisive_numbers():
    found = verdicts.from_folder(LAPTOP, [])
    by_id = {claim["id"]: claim for claim in found["claims"]}
    assert by_id["C1"]["verdict"] == HOLDS and by_id["C6"]["verdict"] == FAILS
    table = (LAPTOP / "claims.md").read_text()
    for claim in found["claims"]:
        assert f"{claim['tally']}; {claim['decisive']}" in table.replace("\\|", "|")


def test_claims_that_were_packed_with_runs_are_shown(tmp_path):
    shutil.copy(LAPTOP / "claims.json", tmp_path)
    (found,) = gather(Request(tmp_path))["claims"]
    assert len(found["claims"]) == len(CLAIMS)
    assert len(gather(Request(tmp_path, (tmp_path,)))["claims"]) == 1


def test_no_text_of_a_file_becomes_html(home, tmp_path):
    figures = tmp_path / "figures"
    figures.mkdir()
    rows = list(csv.reader((LAPTOP / "fig03.csv").open()))
    for row in rows[1:]:
        row[0] = EVIL
        row[1] = f"{row[1]}{EVIL}"
    with (figures / "fig03.csv").open("w") as file:
        csv.writer(file).writerows(rows)
    claims = json.loads((LAPTOP / "claims.json").read_text())
    for claim in claims["claims"]:
        claim.update(text=EVIL, rule=EVIL, id=EVIL)
    (figures / "claims.json").write_text(json.dumps(claims))
    content = json.loads(to_json(arena(), read_boards(arena(), home)))
    for cell in content["boards"][0]["cells"]:
        cell["rule"] += EVIL
    (figures / "arena.json").write_text(json.dumps(content))
    found = gather(Request(home, (figures,)))
    text = to_html(found)
    clean = Reader(to_html(gather(Request(home))))
    reader = Reader(text)
    assert reader.tags == clean.tags  # not one tag more
    assert json.loads(reader.data)["claims"][0]["claims"][0]["text"] == EVIL
    assert text.count(EVIL) == 0
    assert [tag for tag, attrs in reader.tags if "src" in attrs] == []


def test_the_page_asks_the_network_for_nothing(data):
    reader = Reader(to_html(data))
    policy = [a["content"] for tag, a in reader.tags if a.get("http-equiv")]
    assert len(policy) == 1 and "default-src 'none'" in policy[0]
    assert [tag for tag, attrs in reader.tags if tag in ("img", "iframe") or attrs.get("src")] == []
    assert {a["href"][:5] for tag, a in reader.tags if tag == "link"} == {"data:"}


def test_infinity_and_nan_become_null_in_json():
    assert to_script([1.5, None]) == "[1.5,null]"
    with pytest.raises(ValueError, match="JSON"):
        to_script(float("nan"))


def test_the_symbols_of_a_run_are_exact(tiny, tmp_path):
    keep(tmp_path / "run", tiny(gamma=0.12345678, seed=2**60 + 1), 1)
    (row,) = gather(Request(tmp_path))["runs"]["rows"]
    assert row["symbols"]["gamma"] == 0.12345678
    assert row["symbols"]["seed"] == "1152921504606846977"  # a number would lose its last digits


def test_arrays_of_any_length_can_be_charted():
    for path in page.ASSETS.glob("*.js"):  # a function takes about 100,000 arguments
        assert not re.search(r"Math\.\w+\(\.\.\.", path.read_text()), path


def row_of_fig3(**changes):
    """A table of one row, as in the file, with these changes."""
    with (LAPTOP / "fig03.csv").open(newline="") as file:
        row = {**next(csv.DictReader(file)), **changes}
    return to_csv(list(row), [list(row.values())])


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("fig03.csv", "", "it has no rows"),
        ("fig03.csv", "curve,seed\na,b\n", "is not the CSV file of fig3"),
        ("fig05.csv", "curve,alpha,seed\nb=2,1,0\n", "there is no 'epochs_to_reach'"),
        ("fig03.csv", row_of_fig3(test_loss=""), "could not convert string to float: ''"),
        ("fig03.csv", row_of_fig3(epoch="2.0"), "invalid literal for int() with base 10: '2.0'"),
        ("prop1.csv", "panel,curve\na,b\n", "there is no 'x'"),
        ("prop1.csv", f"{','.join(COLUMNS)}\na,b,1,inf,inf,inf\n", "'a' has no finite number"),
        ("claims.json", "{}", "not the verdicts of slsgd-mx claims"),
        ("arena.json", "[]", "not the numbers of slsgd-mx arena"),
        ("claims.json", "[" * 100_000, "nested too deeply"),
        ("arena.json", "[" * 100_000, "nested too deeply"),
    ],
)
def test_a_damaged_file_is_named_and_left_out(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    found = gather(Request(None, (tmp_path,)))
    assert len(found["problems"]) == 1 and words in found["problems"][0]
    assert name in found["problems"][0]
    assert found["figures"] == found["claims"] == found["arena"] == found["theory"] == []


def test_a_report_of_an_arena_alone_counts_its_boards(home, tmp_path):
    grid = arena()
    (tmp_path / "arena.json").write_text(to_json(grid, read_boards(grid, home)))
    (board,) = gather(Request(None, (tmp_path,)))["arena"]
    assert len(gather(Request(home, (tmp_path,)))["arena"]) == 1  # found among its runs as well
    assert board["title"].endswith(" (synthetic data)")  # though the folder's name does not say so
    result = call(f"report --figures {tmp_path} --html {tmp_path}/r.html")
    assert result.exit_code == 0 and f"1 arena board: open {tmp_path}/r.html" in result.output
    assert "0 " not in result.output.partition(":")[0]


@pytest.mark.parametrize("damaged", [False, True])
def test_an_arena_that_is_not_found_among_its_runs_is_shown_from_its_file(tmp_path, damaged):
    grid = arena() if damaged else replace(arena(), rules=("median",))  # one rule is no arena
    for config in grid.runs():
        store_run(tmp_path / "runs", config, [0.2, 0.3])
    (tmp_path / "arena.json").write_text(to_json(grid, read_boards(grid, tmp_path / "runs")))
    for config in grid.runs() if damaged else ():
        (tmp_path / "runs" / config.slug / "pushes.csv").write_text("epoch,who\n1,2\n")
    assert gather(Request(tmp_path / "runs"))["arena"] == []
    (board,) = gather(Request(tmp_path / "runs", (tmp_path,)))["arena"]
    assert board["rules"] == list(grid.rules) and board["source"] == str(tmp_path / "arena.json")


def test_a_rule_that_does_not_tell_what_it_used_has_no_empty_picture(tmp_path):
    for config in arena().runs():
        store_run(tmp_path, config, [0.2, 0.3])
        used = (1.0, 0.5) if config.rule == "median" else None
        rows = [Pushes(epoch, (3, 4), (1,), used) for epoch in (1, 2)]
        (tmp_path / config.slug / "pushes.csv").write_text(to_text(rows))
    (board,) = gather(Request(tmp_path))["arena"]
    found = {rule: row[1]["pushes"]["used"] for rule, row in zip(board["rules"], board["cells"])}
    assert found == {"median": [[1, 0.5], [1, 0.5]], "trimmed-mean": []}


def test_a_damaged_record_of_pushes_is_named(home, tmp_path):
    shutil.copytree(home, tmp_path / "runs")
    for run in [*arena().runs(), *runs_of(FIGURES["fig3"], variant())]:
        (tmp_path / "runs" / run.slug / "pushes.csv").write_text("epoch,who\n1,2\n")
    found = gather(Request(tmp_path / "runs", variants=(variant(),)))
    assert found["arena"] == [] and len(found["figures"]) == 2
    said = " ".join(found["problems"])
    assert "the arena is not shown" in said and "fig3 is shown without the pushes used" in said
    assert "its columns have other names" in said


@pytest.mark.parametrize("seconds", ["nan", "inf"])
def test_rows_without_their_time_count_as_nothing(tiny, tmp_path, seconds):
    keep(tmp_path / "run", tiny(), 1)
    path = tmp_path / "run" / "metrics.csv"
    names, row = path.read_text().splitlines()
    cells = dict(zip(names.split(","), row.split(",")), seconds=seconds)
    path.write_text(f"{names}\n{','.join(cells.values())}\n")
    data = gather(Request(tmp_path))
    assert data["summary"]["seconds"] == 0
    to_html(data)


def test_epochs_of_a_shared_prefix_count_once(tiny, tmp_path):
    configs = [tiny(epochs=4, alpha=alpha, alpha_decay_epoch=2) for alpha in (0.6, 0.8)]
    prefix = keep(tmp_path / "prefix", prefix_of(configs[0]))
    (prefix / "manifest.json").write_text('{"sessions": [{"after_epoch": 0}]}')
    keep(prefix, prefix_of(configs[0]), 2)
    for config in configs:
        with RunFolder(tmp_path / config.slug, config) as folder:
            folder.adopt(prefix)
            for epoch in (3, 4):
                folder.append(made_up_row(folder, epoch))
            folder.save_checkpoint(4, VALUES, {})
            folder.finish(VALUES)
    summary = gather(Request(tmp_path))["summary"]
    assert (summary["epochs"], summary["seconds"]) == (2 + 2 + 2, 6 * 0.5)
    shutil.rmtree(prefix)
    assert gather(Request(tmp_path))["summary"]["epochs"] == 4 + 4  # computed by none of the others


def test_the_ledger_has_every_table_and_no_broken_link():
    text, html = ledger.find_text(), ledger.ledger_html()
    assert html.count("<table>") == len(re.findall(r"^\| --- ", text, re.M)) > 5
    assert set(re.findall(r'href="([^"]*)"', html)) <= {*re.findall(r"https?://[^)\s]*", text)}
    assert "&lt;b&gt;" in ledger.to_html("a <b>c</b> [x](y.md) [z](javascript:alert)")
    assert "href" not in ledger.to_html("[x](y.md) [z](javascript:alert) ![w](v.png)")


def test_without_the_ledger_the_page_says_where_it_is(data, monkeypatch):
    monkeypatch.setattr(ledger, "find_text", lambda: None)
    assert "docs/paper-vs-code.md of the repository" in to_html(data)


def test_without_the_extra_one_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ConfigError, match="pip install"):
        page.require_extra()
    done = CliRunner().invoke(main, ["report", "--figures", str(LAPTOP)])
    assert done.exit_code == 2 and INSTALL in done.output and "Traceback" not in done.output


@pytest.mark.parametrize(
    "words, said",
    [
        (["--figures", "nowhere"], "--figures nowhere is not a folder"),
        ([], "--runs runs is not a folder"),
        (["--figures", ".", "--watch"], "--watch needs --runs"),
        (["--figures", ".", "--epochs", "3"], "give --preset with the options of figures"),
        (["--figures", ".", "--no-warm-up"], "give --preset with the options of figures"),
        (["--figures", ".", "--every", "0"], "0.0 is not in the range 1<=x<=3600"),
        (
            ["--figures", ".", "--network", "mlp"],
            "give --preset with the options of figures, or --t",
        ),
        (["--figures", ".", "--preset", "smoke", "--network", "mlp"], "go with --task images"),
        (["--figures", ".", "--preset", "smoke", "--set", "n=6"], "--set goes with --task"),
        (["--figures", ".", "--task", "images", "--set", "b=4"], "--set b=... is not possible"),
        (["--runs", ".", "--task", "images", "--set", "size=4"], "'size' is not part of a conf"),
    ],
)
def test_wrong_calls(elsewhere, words, said):
    done = CliRunner().invoke(main, ["report", *words])
    assert done.exit_code == 2 and said in done.output


def test_the_command_writes_the_file_and_says_what_is_in_it(elsewhere, tmp_path):
    words = ["report", "--figures", str(LAPTOP), "--html", "out/page.html", "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0
    found = json.loads(done.output[done.output.index("{") : done.output.rindex("}") + 1])
    assert (found["figures"], found["theory"], found["problems"]) == (14, 9, [])
    assert 1e6 < (tmp_path / "out" / "page.html").stat().st_size < 10e6
    done = CliRunner().invoke(main, ["report", "--figures", str(LAPTOP), "--html", "out"])
    assert done.exit_code == 1 and "out is a folder" in done.output


def test_a_folder_without_results_gives_a_page(tmp_path):
    data = write_report(tmp_path / "empty.html", Request(tmp_path, (tmp_path,)))
    assert data["runs"]["rows"] == [] and (tmp_path / "empty.html").exists()


def test_colours_between_two():
    assert boards.mixed(["#000000", "#FF0000"], 2.0) == "#ff0000"


@pytest.mark.parametrize("name", ["plain", "jürgen"])
def test_a_report_of_an_archive_names_the_archive_and_not_its_copy(
    tmp_path, tiny, monkeypatch, name
):
    (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    keep(tmp_path / "runs" / "mine", tiny(epochs=2), 2)
    archive, html = tmp_path / "a.tar.gz", tmp_path / "report.html"
    pack = ["runs", "pack", "--runs", str(tmp_path / "runs"), "--out", str(archive)]
    assert CliRunner().invoke(main, pack).exit_code == 0
    said = CliRunner().invoke(main, ["report", "--runs", str(archive), "--html", str(html)])
    assert said.exit_code == 0, said.output
    text = html.read_text(encoding="utf-8")
    assert f"{archive}/mine" in text and "/slsgd-mx-" not in text
