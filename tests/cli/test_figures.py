"""fig1 ... fig13, ledger, all: what they say, what they refuse, where they write."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.run_folders import keep, store_run

from slsgd_mx.cli import COMMANDS, main, planning
from slsgd_mx.cli.sweeping import Sweep
from slsgd_mx.config import RunConfig
from slsgd_mx.figures.declarations import FIGURES, ReachFigure, attacked, varied
from slsgd_mx.figures.variants import Variant, runs_of
from slsgd_mx.presets import preset
from slsgd_mx.runs.status import Outcome
from slsgd_mx.sweeps.forecast import Measured, network
from slsgd_mx.sweeps.plan import Plan, Step

TINY = "--preset smoke --epochs 4 --eval-every 2 -n 10 --batch-size 10 --repeats 1"
IMAGES = "--train-images 100 --test-images 20 --loss-images 20 --width 2"
TEXT = "--vocab-size 24 --bptt 4 --device-batches 2 --loss-batches 2 --test-batches 2"
TINY, IMAGES, TEXT = (options.split() for options in (TINY, IMAGES, TEXT))


@pytest.fixture
def call(tmp_path, monkeypatch):
    """``call("fig3", "--dry-run")``: run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result

    return call


@pytest.mark.parametrize("name", [*FIGURES, "all"])
def test_every_figure_has_a_command_that_explains_itself(call, name):
    assert name in COMMANDS
    said = call(name, "--help").output
    assert "--dry-run" in said and f"slsgd-mx {name} --preset smoke" in said
    own = [] if name == "all" else varied(FIGURES[name])
    for flag, where in WHERE.items():
        offered = name in where and flag[2:].replace("-", "_") not in own
        assert (f" {flag} " in said) == offered, flag


REACH = [name for name in FIGURES if isinstance(FIGURES[name], ReachFigure)]
ATTACKED = [name for name in FIGURES if attacked(FIGURES[name])]
TEXT_FIGURES = [name for name in FIGURES if FIGURES[name].task == "lstm"]
WHERE = {  # options of some figures, except those that vary it themselves
    "--attack": ATTACKED,
    "--attacker-start": ATTACKED,
    "--gamma": [],
    "--alpha": [],
    "--b": [],
    "--q": [],
    "--loss": REACH,
    "--alphas": [*REACH, "all"],
    "--partition": TEXT_FIGURES,
    "--vocab-size": [*TEXT_FIGURES, "all"],
    "--train-images": [name for name in [*FIGURES, "all"] if name not in TEXT_FIGURES],
    "--width": list(FIGURES),
}


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--k", "3"], "No such option"),
        (["-k", "3"], "b=2 is out of range for k=3"),
        (["--repeats", "0"], "0 is not in the range 1<=x<=10000"),
        (["--jobs", "0"], "0 is not in the range 1<=x<=10000"),
        (["--preset", "huge"], "'huge' is not one of"),
        (["--epochs", "0"], "epochs=0 is out of range: needs epochs >= 1"),
        (["--seed", "-1"], "seed=-1 is out of range: needs seed >= 0"),
        (["--vocab-size", "10"], "No such option"),
        (["--alphas", "0.6"], "No such option"),
    ],
)
def test_wrong_flags(call, tmp_path, arguments, said):
    result = call("fig3", *TINY, *arguments)
    assert result.exit_code == 2 and said in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "alphas, said", [("0.6;1", "'0.6;1' is not a list of numbers"), ("0,1", "alpha=0.0 is out of")]
)
def test_wrong_alphas(call, alphas, said):
    result = call("fig5", *TINY, "--alphas", alphas)
    assert result.exit_code == 2 and said in result.output


def test_a_dry_run_lists_everything_and_computes_nothing(call, tmp_path):
    result = call("fig3", *TINY, *IMAGES, "--dry-run", "--jobs", "1")
    said = result.output
    assert result.exit_code == 0, said
    assert "runs: 9, of which 0 are finished; shared prefixes: 6" in said
    # 9 runs of 4 epochs; the 3 with alpha=0.8 share the first 2 with others
    assert "epochs to compute: 30 (without sharing between runs and figures: 36)" in said
    assert re.search(r"forecast for 1 process of 1 thread: \d+ (sec|min)\w+, ", said)
    firsts = re.findall(r"^(\w{6})  missing +1-2 .* others$", said, re.M)
    later = re.findall(r"^\w{6}  missing +3-4 .* (\w{6})  fig3$", said, re.M)
    assert (len(firsts), len(later)) == (6, 9) and set(firsts) == set(later)
    assert said.startswith("in common: task=cifar ") and max(map(len, said.splitlines())) <= 80
    assert not (tmp_path / "runs").exists() and not (tmp_path / "figures").exists()


def test_a_forecast_is_said_in_hours_and_gigabytes(call, monkeypatch):
    """15 runs and prefixes of two epochs of 20 minutes each, with models of 0.1 GB."""
    cost = Measured(0.0, 0.0, 0.0, exchange=1200.0, model_bytes=1e8, memory_bytes=1.5e9)

    def calibrate(plan, pool, data_dir):
        return {network(step.config): cost for step in plan.to_do}

    monkeypatch.setattr("slsgd_mx.sweeps.forecast.calibrate", calibrate)
    one = call("fig3", *TINY, *IMAGES, "--dry-run", "--jobs", "1").output
    assert "1 thread: 10.0 hours, 1.5 GB of memory, 1.70 GB of disk" in " ".join(one.split())
    two = call("fig3", *TINY, *IMAGES, "--dry-run", "--jobs", "2").output
    assert "1 thread: 5.3 hours, 3.0 GB of memory, 1.90 GB of disk" in " ".join(two.split())


def test_figures_compute_what_is_missing_once(call, tmp_path):
    first = call("fig11", *TINY, *TEXT, "--jobs", "1")
    assert first.exit_code == 0, first.output
    (out,) = (tmp_path / "figures").iterdir()
    assert out.name.startswith("smoke-")
    names = ["fig11-used.csv", "fig11-used.png", "fig11.csv", "fig11.png", "fig11.svg"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert "computed 12 epochs" in first.output  # b=0 and b=2: 2 shared, then 2 for each alpha
    before = (out / "fig11.csv").read_bytes()
    again = call("fig11", *TINY, *TEXT)
    assert "nothing to compute: all 4 runs are finished" in again.output
    assert (out / "fig11.csv").read_bytes() == before
    other = call("fig13", *TINY, *TEXT, "--draw-only")
    assert other.exit_code == 1 and "missing" in other.output
    assert (out / "fig13.png").exists()


def test_where_draws_chosen_curves_in_a_folder_of_their_own(call, tmp_path, monkeypatch):
    monkeypatch.setattr("slsgd_mx.figures.build.draw", lambda panels, paths, *words: None)
    refused = call("fig3", *TINY, *IMAGES, "--where", "b=3")
    assert refused.exit_code == 2 and "no curve fulfils 'b=3': b is 0, 2, 4" in refused.output
    assert call("all", *TINY, "--where", "b=2").exit_code == 2
    variant = Variant("smoke", {}, repeats=1, where=("b=2",))
    for run in runs_of(FIGURES["fig3"], variant):
        store_run(tmp_path / "runs", run, [3.0] * (run.epochs // run.eval_every))
    drawn = call("fig3", "--preset", "smoke", "--draw-only", "--where", "b=2")
    assert drawn.exit_code == 0, drawn.output
    (folder,) = (tmp_path / "figures").iterdir()
    assert folder.name == "smoke-where-b-2"
    curves = {line.split(",")[2] for line in (folder / "fig03.csv").read_text().splitlines()[1:]}
    assert curves == {"SLSGD; gamma=0.1; alpha=1; b=2", "SLSGD; gamma=0.1; alpha=0.8; b=2"}


def test_draw_only_draws_unfinished_runs_and_says_how_far_they_are(call, tmp_path, monkeypatch):
    monkeypatch.setattr("slsgd_mx.figures.build.draw", lambda panels, paths, *words: None)
    runs = runs_of(FIGURES["fig11"], Variant("smoke", {}))
    keep(tmp_path / "runs" / runs[0].slug, runs[0], 4)
    result = call("fig11", "--preset", "smoke", "--draw-only")
    assert result.exit_code == 1 and "up to epoch 4 of 8" in result.output
    assert (tmp_path / "figures" / "smoke" / "fig11.csv").read_text().count(",yes,") == 2


@pytest.mark.parametrize("command", ["fig3", "arena"])
def test_missing_data_are_noticed_before_anything_is_computed(call, tmp_path, command):
    result = call(command, "--preset", "laptop", "--data-dir", tmp_path / "nowhere")
    assert result.exit_code == 1 and "CIFAR-10 not found in" in result.output
    assert "slsgd-mx data fetch cifar10" in result.output and "runs" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_an_arena_without_any_run_writes_nothing(call, tmp_path):
    result = call("arena", "--preset", "smoke", "--rule", "mean", "--draw-only")
    assert result.exit_code == 1 and "leave out --draw-only" in result.output
    assert not (tmp_path / "figures").exists()


def test_draw_only_without_any_run(call, tmp_path):
    result = call("fig5", *TINY, *IMAGES, "--draw-only")
    assert result.exit_code == 1
    assert "fig5: it cannot be drawn: none of its 9 runs is finished" in result.output
    assert not (tmp_path / "figures").exists()


@pytest.mark.parametrize(
    "environment, jobs, threads, runs, expected",
    [
        ("8", None, None, 100, (8, 1)),
        ("8", None, None, 3, (3, 1)),  # threads do not depend on what is left
        ("8", 2, None, 100, (2, 4)),
        ("8", 2, None, 1, (1, 4)),
        ("8", 2, 1, 100, (2, 1)),
        ("1", 1, None, 100, (1, 1)),
        ("2", 5, None, 100, (5, 1)),
        ("8", None, 2, 100, (4, 2)),
        ("1", None, None, 100, (6, 1)),  # of 6 cores: it limits threads, not processes
        ("1", 2, None, 100, (2, 1)),
        ("", None, None, 100, (6, 1)),
        ("", 2, None, 100, (2, 3)),
    ],
)
def test_cores_are_shared_out(monkeypatch, environment, jobs, threads, runs, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", environment)
    monkeypatch.setattr("slsgd_mx.system.threads.available_cores", lambda: 6)
    monkeypatch.setattr(planning, "total_memory", lambda: float("inf"))
    steps = [
        Step(RunConfig(seed=seed), Path("run"), Outcome("missing"), True) for seed in range(runs)
    ]
    assert planning.share_out(Plan(Path("runs"), steps, 0), jobs, threads) == expected
    monkeypatch.setattr(planning, "total_memory", lambda: 4 * planning.MEMORY_EACH)
    if jobs is None and threads is None:
        assert planning.share_out(Plan(Path("runs"), steps, 0), None, None)[0] == min(4, runs)


def test_narrow_networks_have_one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    plan = Plan(
        Path("runs"), [Step(preset("cifar", "smoke"), Path("run"), Outcome("missing"), True)], 0
    )
    assert planning.share_out(plan, 1, None) == (1, 1)


@pytest.mark.parametrize("flag", ["--loss 1.5", "--alphas 1", "--seed 7", "--repeats 2"])
def test_pictures_of_the_preset_are_not_overwritten(call, tmp_path, flag):
    said = call("fig5", "--preset", "smoke", "--draw-only", *flag.split()).output
    assert "none of its" in said
    run = runs_of(FIGURES["fig5"], Variant("smoke", {}, seed=7 if "seed" in flag else 0))[-1]
    store_run(tmp_path / "runs", run, [3.0] * (run.epochs // run.eval_every))
    call("fig5", "--preset", "smoke", "--draw-only", *flag.split())
    own = "smoke-" + flag[2:].replace(" ", "-")
    assert [path.name for path in (tmp_path / "figures").iterdir()] == [own]


@pytest.mark.parametrize("again", [False, True])
def test_running_again_is_proposed_only_if_something_is_left(tiny, tmp_path, again):
    failed, other = tiny(seed=1), tiny(seed=2)
    (keep(tmp_path / failed.slug, failed) / "FAILED").write_text("no update was applied")
    sweep = Sweep(tmp_path, None, None, None, False, False, False, None)
    missing, wanted = {failed.slug: "no update was applied"}, {"fig1": [failed, *[other] * again]}
    error = str(sweep.unfinished(missing, {}, wanted))
    assert f"{failed.slug}: no update was applied" in error
    assert error.endswith("Run the command again") == again
    error = str(sweep.unfinished({}, missing, wanted))
    assert error.endswith("Correct this, and run the command again") == again


def test_a_warning_if_alpha_never_decays(call):
    said = call("fig1", *TINY, "--alpha-decay-epoch", "4", "--draw-only").output
    assert "runs end at T=4: alpha < 1 gives the same as alpha=1" in said
    assert "warning" not in call("fig1", *TINY, "--draw-only").output


def test_the_names_of_version_0_1_0_still_work(call, tmp_path):
    """``ledger`` is now ``attacker-start``, and ``--out`` of figures is ``--figures``."""
    run = runs_of(FIGURES["attacker-start"], Variant("smoke", {}))[0]
    store_run(tmp_path / "runs", run, [3.0] * (run.epochs // run.eval_every))
    result = call("ledger", "--preset", "smoke", "--draw-only", "--out", "old")
    assert "slsgd-mx: ledger is now attacker-start: use that name\n" in result.stderr
    assert "slsgd-mx: --out of this command is now --figures: use that name\n" in result.stderr
    assert (tmp_path / "old" / "attacker-start.csv").exists()
    call(*["attacker-start", "--preset", "smoke", "--draw-only", "--out", "x", "--figures", "y"])
    assert (tmp_path / "y").exists() and not (tmp_path / "x").exists()
    for line in ("--help", "attacker-start --help"):
        said = call(*line.split()).output
        assert "ledger" not in said and "--out" not in said


def test_missing_data_is_reported_once(call, tmp_path):
    result = call("fig11", "--preset", "laptop", "--data-dir", tmp_path, "--jobs", "1")
    assert result.exit_code == 1 and result.output.count("Three ways to get it") == 1
    assert str(tmp_path) in result.output
