"""The command line end to end on embedded data: good and bad calls and their exit codes."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

import slsgd_mx
from slsgd_mx.cli import COMMANDS, main
from slsgd_mx.cli.options import OPTIONS, parameter
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import RunError
from slsgd_mx.parameter_server.launcher import Options
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.tasks.cifar.sizes import Cifar
from slsgd_mx.tasks.lstm.sizes import Lstm

TINY = "--preset smoke --train-images 80 --test-images 20 -n 8 -k 4 --batch-size 10 --width 2"
TEXT = (
    "--preset smoke --vocab-size 24 --bptt 4 --device-batches 3 --loss-batches 4 --test-batches 3 "
    "-n 8 -k 4 --batch-size 3 --width 8"
)
PNG = b"\x89PNG\r\n\x1a\n"


pytestmark = pytest.mark.usefixtures("elsewhere")


def call(line, *more):
    result = CliRunner().invoke(main, [*line.split(), *map(str, more)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output
    return result


def cifar(more="", *arguments):
    return call(f"cifar {TINY} --eval-every 1 --epochs 2 {more}", *arguments)


def lstm(more=""):
    return call(f"lstm {TEXT} --eval-every 1 --epochs 2 {more}")


def only_run():
    (folder,) = Path("runs").iterdir()
    return folder


# ---- good calls ----------------------------------------------------------------------------


def test_cifar_from_the_command_to_the_picture():
    result = cifar("--q 1 --b 1 --unbalanced --alpha 0.5 --alpha-decay-epoch 1 --seed 3")
    assert result.exit_code == 0, result.output
    folder = only_run()
    assert f"run folder: {folder}" in result.output
    assert (folder / "curve.png").read_bytes().startswith(PNG)
    assert (folder / "DONE").exists() and (folder / "model.params").exists()
    rows = read_metrics(folder)
    assert [(row["epoch"], row["alpha"]) for row in rows] == [("1", "1.0"), ("2", "0.5")]
    assert f"test accuracy {float(rows[-1]['test_accuracy']):.4f}" in result.output
    config = RunConfig.from_json((folder / "config.json").read_text())
    assert (config.n, config.k, config.q, config.b, config.seed) == (8, 4, 1, 1, 3)
    assert (config.sizes.partition, config.attack) == ("unbalanced", "label-flip")
    assert folder.name == config.slug and "warning" not in result.output


def test_rerunning_says_that_it_is_done():
    assert "already done" not in cifar("--out run").output
    before = Path("run/metrics.csv").read_bytes()
    again = cifar("--out run")
    assert again.exit_code == 0 and "already done: run" in again.output
    assert "test accuracy" in again.output
    assert Path("run/metrics.csv").read_bytes() == before


def test_lstm_from_the_command_to_the_picture():
    line = "--q 1 --b 1 --alpha 0.5 --alpha-decay-epoch 1 --gamma 3 --partition consecutive"
    result = lstm(line)
    assert result.exit_code == 0 and "warning" not in result.output, result.output
    folder = only_run()
    assert (folder / "curve.png").read_bytes().startswith(PNG)
    rows = read_metrics(folder)
    assert [(row["epoch"], row["alpha"]) for row in rows] == [("1", "1.0"), ("2", "0.5")]
    assert f"test perplexity {float(rows[-1]['test_perplexity']):.4f}" in result.output
    config = RunConfig.from_json((folder / "config.json").read_text())
    assert (config.n, config.k, config.q, config.b, config.gamma) == (8, 4, 1, 1, 3.0)
    assert (config.attack, config.attacker_start) == ("label-permute", "fresh")
    expected = Lstm("synthetic", "consecutive", 24, 4, 3, 4, 3, 8)
    assert config.sizes == expected and folder.name == config.slug
    before = (folder / "metrics.csv").read_bytes()
    again = lstm(line)
    assert again.exit_code == 0 and f"already done: {folder}" in again.output
    assert (folder / "metrics.csv").read_bytes() == before


def test_every_option_reaches_the_configuration():
    result = cifar(
        "--q 1 --b 1 --gamma 0.05 --alpha 0.7 --alpha-schedule inverse-square "
        "--alpha-decay-epoch 1 --local-steps 1:2 --attack gaussian --attacker-start fresh "
        "--attack-scale 3 --drop-rate 0.1 --nonfinite keep --selection permutation --no-warm-up "
        "--seed 5 --partition-seed 3 --eval-every 2 --loss-images 40 --balanced --data synthetic "
        "--precision float32 --out run --threads 1"
    )
    assert result.exit_code == 0, result.output
    config = RunConfig.from_json(Path("run/config.json").read_text())
    expected = dict(
        n=8, k=4, q=1, b=1, gamma=0.05, alpha=0.7, alpha_schedule="inverse-square",
        alpha_decay_epoch=1, epochs=2, local_steps=(1, 2), passes=1, batch_size=10,
        rule="trimmed-mean", attack="gaussian", attacker_start="fresh", attack_scale=3.0,
        boost=1.0, drop_rate=0.1, nonfinite="keep", selection="permutation", warm_up=False,
        seed=5, partition_seed=3, eval_every=2, deadline=None, poisoned_devices=None, sources=(),
        precision="float32", sizes=Cifar("synthetic", "balanced", 80, 20, 40, 2),
    )  # fmt: skip
    assert vars(config) == expected


def test_one_number_of_local_steps_and_another_rule():
    assert cifar("--local-steps 3 --rule median --out run").exit_code == 0
    config = RunConfig.from_json(Path("run/config.json").read_text())
    assert config.local_steps == (3, 3) and config.rule == "median"


def test_boost_and_released_reach_the_configuration():
    assert cifar("--released --q 1 --boost 5 --nonfinite reject --out run").exit_code == 0
    config = RunConfig.from_json(Path("run/config.json").read_text())
    assert (config.boost, config.nonfinite, config.attack) == (5.0, "reject", "label-flip")
    assert (config.selection, config.partition_seed) == ("permutation", 0)


def test_repeats_average_seeds():
    result = cifar("--repeats 2 --seed 4 --out runs/both")
    assert result.exit_code == 0, result.output
    runs = [read_metrics(Path("runs/both") / name) for name in ("seed4", "seed5")]
    assert runs[0][-1]["train_loss"] != runs[1][-1]["train_loss"]
    mean = sum(float(rows[-1]["train_loss"]) for rows in runs) / 2
    assert f"epoch 2 (mean of 2 seeds): train loss {mean:.4f}" in result.output
    assert Path("runs/both/curve.png").read_bytes().startswith(PNG)
    assert cifar("--repeats 2 --seed 4 --out runs/both").output.count("already done") == 2


@pytest.mark.parametrize("kind, flag", [("balanced", "--picture"), ("unbalanced", "--out")])
def test_partition_draws_a_picture(kind, flag):
    result = call(f"partition --data synthetic --train-images 400 -n 10 --{kind} {flag} p.png")
    assert result.exit_code == 0, result.output
    assert Path("p.png").read_bytes().startswith(PNG)
    sizes = "40 to 40" if kind == "balanced" else "8 to 72"
    assert f"10 devices of {sizes} images" in result.output
    assert ("--out of this command is now --picture" in result.output) == (flag == "--out")


# ---- warnings ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, said",
    [
        ("--q 1", "warning: b=0 < q=1"),
        ("--q 2 --b 1", "warning: 2q=4 >= k=4"),
        ("--alpha 0.5 --alpha-decay-epoch 9", "warning: alpha=0.5 takes effect after epoch 9"),
        ("--attack nan", "warning: an attack with q=0 poisons nobody"),
        ("--attack-scale 2", "warning: an attack with q=0 poisons nobody"),
    ],
)
def test_odd_combinations_are_warned_about_before_training(options, said):
    Path("file").touch()
    result = cifar(options, "--out", "file")  # fails after the warning, before any training
    assert result.exit_code == 1 and said in result.output
    assert result.output.index(said) < result.output.index("file is a file")


# ---- bad calls -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, said",
    [
        ("cifar --b 5", "b=5 is out of range for k=10: trimmed mean needs 0 <= b <= 4"),
        ("cifar --q 11", "q=11 is out of range: needs 0 <= q <= k=10"),
        ("cifar --alpha 0", "alpha=0.0 is out of range: needs 0 < alpha <= 1"),
        ("cifar --alpha much", "'much' is not a valid float"),
        ("cifar --preset huge", "'huge' is not one of paper, laptop, smoke"),
        ("cifar --attack magic", "attack='magic' is unknown: choose one of label-flip"),
        ("cifar --rule mean:s=3", "rule 'mean' has no parameter 's=3': its parameters are none"),
        ("cifar --partition even", "partition='even' is unknown: choose one of balanced"),
        ("cifar --partition shards --balanced", "either --partition or --balanced/--unbalanced"),
        ("cifar --balanced --partition shards", "either --partition or --balanced/--unbalanced"),
        ("cifar --poisoned-devices 3 --q 1", "needs q=0 where poisoned_devices is given"),
        ("cifar --poisoned-devices 101", "poisoned_devices=101 is out of range"),
        (
            "cifar --plugin gone.py",
            "gone.py does not exist: give FILE.py or package.module",
        ),
        ("launch --plugin gone.py -- cifar", "gone.py does not exist"),
        ("launch -- cifar --plugin gone.py", "gone.py does not exist"),
        ("train", "train [OPTIONS] COMMAND"),
        ("train nothing", "No such command 'nothing'"),
        ("train nothing --plugin=gone.py", "gone.py does not exist"),
        ("train images --arrays gone.npz", "File 'gone.npz' does not exist"),
        ("train images --network rnn", "network='rnn' is unknown: choose one of cnn, mlp"),
        ("cifar --alpha-schedule cosine", "'cosine' is not one of step, constant"),
        ("cifar --local-steps 3:x", "'3:x' is not MIN:MAX"),
        ("cifar --local-steps 3:1", "local_steps=3:1 is out of range: needs 1 <= MIN <= MAX"),
        ("cifar --repeats 0", "0 is not in the range x>=1"),
        ("cifar --threads 0", "0 is not in the range x>=1"),
        ("cifar --selection permutation -k 7", "a divisor of n=100"),
        ("cifar --data mnist", "'mnist' is not one of cifar10, synthetic"),
        ("cifar --nonsense", "No such option"),
        ("cifar extra", "unexpected extra argument"),
        ("cifar --preset smoke --unbalanced -n 900", "n=900"),
        (
            "partition --data synthetic --train-images 400 -n 90 --unbalanced",
            "n=90 is out of range",
        ),
        ("data where mnist", "'mnist' is not one of cifar10"),
        ("nonsense", "No such command"),
        ("cifra", "No such command 'cifra'. Did you mean 'cifar'?"),
        ("cifar --attack mimi", "did you mean 'mimic'? Choose one of label-flip"),
        ("lstm --data cifar10", "'cifar10' is not one of wikitext2, synthetic"),
        ("lstm --partition balanced", "'balanced' is not one of shuffled, consecutive"),
        ("lstm --train-images 5", "No such option"),
        ("lstm --loss-batches 3201", "needs 1 <= loss_batches <= n * device_batches = 3200"),
        ("lstm --preset smoke --vocab-size 19", "needs 20 <= vocab_size <= 100000"),
        (
            "cifar --preset smoke --batch-size 100000",
            "batch_size=100000 is out of range: no device holds more than 100 images",
        ),
        ("fig3 --preset smoke --batch-size 100000 --dry-run", "batch_size=100000 is out of range"),
        ("fig3 --runs /dev/null --dry-run", "'/dev/null' cannot be a folder"),
        ("fig3 --runs /dev/null/runs --dry-run", "/dev/null is not one"),
        (
            "launch --workers 50 -- cifar --preset smoke",
            "workers=50 is out of range: needs 1 <= workers <= k=10",
        ),
        (
            "fig3 --preset smoke --engine ps --workers 11",
            "workers=11 is out of range: needs 1 <= workers <= k=10",
        ),
    ],
)
def test_wrong_calls_exit_with_2_and_leave_nothing(line, said):
    result = call(line)
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.output.split())
    assert not Path("runs").exists()


@pytest.mark.parametrize("line", ["cifar --epochs 1", "lstm --epochs 1", "partition"])
def test_missing_data_names_three_solutions(line):
    result = call(line)
    assert result.exit_code == 1
    for way in ("slsgd-mx data fetch", "--data-dir", "--data synthetic"):
        assert way in result.output
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "line",
    ["cifar --epochs 1", "lstm --epochs 1", "partition", "demo --preset laptop", "train cifar"],
)
def test_data_are_sought_in_the_folder_given(line):
    result = call(f"{line} --data-dir my-own-data")
    assert result.exit_code == 1 and "my-own-data" in result.output


def test_mirrors_and_home_reach_the_download(monkeypatch):
    asked = []
    download = lambda *names, **options: asked.append((names, options)) or Path("x")  # noqa: E731
    monkeypatch.setattr("slsgd_mx.data.fetch.fetch", download)
    call("data fetch cifar10 --mirror http://a --mirror http://b --data-home home")
    call("data fetch wikitext2")
    assert asked == [
        (("cifar10", Path("home")), {"mirrors": ("http://a", "http://b")}),
        (("wikitext2", None), {"mirrors": None}),
    ]


def test_options_of_launch_reach_the_launcher(monkeypatch):
    asked = []

    def launch(config, folder, data_dir, listener, options):
        asked.append((config, folder, data_dir, options))
        raise RunError("not started")

    monkeypatch.setattr("slsgd_mx.parameter_server.launcher.launch", launch)
    line = "launch --workers 3 --servers 2 --patience 9 --restarts 7 --deadline 5 -- "
    result = call(f"{line} cifar {TINY} --partition-seed 4 --data-dir data --out here")
    assert result.exit_code == 1 and "not started" in result.output
    ((config, folder, data_dir, options),) = asked
    assert options == Options(workers=3, servers=2, patience=9.0, restarts=7)
    assert (config.deadline, config.partition_seed) == (5.0, 4)
    assert (folder, data_dir) == (Path("here"), Path("data"))


def test_the_seed_of_the_partition_changes_the_partition():
    line = "partition --data synthetic --train-images 400 -n 10 --unbalanced --json"
    counts = [
        json.loads(call(f"{line} {seed} --picture p.png").stdout)["label_counts"]
        for seed in ("", "--seed 1", "--seed 0")
    ]
    assert counts[0] == counts[2] != counts[1]


def test_a_folder_that_holds_another_run_is_refused():
    cifar("--out run --seed 1")
    result = cifar("--out run --seed 2")
    assert result.exit_code == 1
    assert "run holds another run (seed=1 there, 2 here)" in result.output


def test_a_diverged_run_exits_with_1_each_time():
    for _ in range(2):
        result = cifar("--q 1 --attack nan --nonfinite keep --out run")
        assert result.exit_code == 1
        assert "stopped being finite in epoch 1" in result.output
    assert [row["epoch"] for row in read_metrics("run")] == ["1"]


def test_a_run_whose_pushes_are_all_refused_exits_with_1_each_time():
    for _ in range(2):
        result = cifar("--gamma 1e30 --batch-size 5 --out run")
        assert result.exit_code == 1
        assert "no update was applied in any of the 2 epochs" in result.output
        assert "of 8 pushes 8 were refused because they were not finite" in result.output
        assert "lower --gamma" in result.output
    assert [row["skipped"] for row in read_metrics("run")] == ["1", "1"]


# ---- data and help -------------------------------------------------------------------------


def test_where_and_verify_without_data():
    where = call("data where")
    assert where.exit_code == 0 and "cifar10" in where.output and "wikitext2" in where.output
    assert "no-data" in where.output and "missing" in where.output
    verify = call("data verify cifar10")
    assert verify.exit_code == 1 and "slsgd-mx data fetch" in verify.output


def test_verify_damaged_data():
    Path("home/cifar10").mkdir(parents=True)
    Path("home/cifar10/cifar-10-binary.tar.gz").write_bytes(b"not an archive")
    result = call("data verify cifar10 --data-home home")
    assert result.exit_code == 1 and "wrong" in result.output


def test_the_demo_compares_three_runs_at_smoke_size():
    result = call("demo --epochs 1 --runs here")
    assert result.exit_code == 0, result.output
    assert "picture: here/demo-synthetic.png  (numbers: demo-synthetic.csv)" in result.output
    assert Path("here/demo-synthetic.png").read_bytes().startswith(PNG)
    with open("here/demo-synthetic.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["curve"] for row in rows] == [
        *("FedAvg; no attack", "FedAvg; label-flip attack", "SLSGD (b=2); label-flip attack")
    ]
    runs = [read_metrics(path.parent)[-1] for path in Path("here").glob("*/DONE")]
    assert sorted(row["train_loss"] for row in rows) == sorted(run["train_loss"] for run in runs)
    for row in rows:
        assert f"train loss {float(row['train_loss']):.4f}" in result.output
    again = call("demo --epochs 1 --out here")  # the name of 0.1.0
    assert "--out of this command is now --runs: use that name" in again.stderr
    assert again.output.count("already done") == 3
    document = json.loads(call("demo --epochs 1 --runs here --json").stdout)
    assert [run["config"]["q"] for run in document["runs"]] == [0, 2, 2]
    assert document["picture"] == "here/demo-synthetic.png" and document["numbers"]


def test_every_field_of_a_configuration_has_an_option():
    known = {parameter(name) for name in OPTIONS}
    for kind in (RunConfig, Cifar, Lstm):
        assert {field.name for field in fields(kind)} - {"sizes", "sources"} <= known
    assert all(attributes["help"].endswith(".") for _, attributes in OPTIONS.values())


SUBCOMMANDS = ["data fetch", "data verify", "data where", "dist scheduler", "dist server"]
SUBCOMMANDS += ["runs show", "runs compare", "runs export"]


@pytest.mark.parametrize("command", ["", *COMMANDS, *SUBCOMMANDS, "dist worker"])
def test_every_command_explains_itself(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = call(f"{command} --help")
    assert result.exit_code == 0 and "--help" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    if command in ("cifar", "lstm"):
        said = " ".join(result.output.split())
        for word in ("FedAvg", "local SGD", "gamma:", "alpha:", "k:", "b:", "q:", "H_t^i", "S_t"):
            assert word in said
    if command == "lstm":
        for word in ("WikiText-2", "label-permute", "--vocab-size", "--bptt", "33278", "--preset"):
            assert word in said


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom slsgd_mx.cli import main\n"
        "try:\n    main(['--help'])\nfinally:\n"
        "    heavy = {'mxnet', 'numpy', 'matplotlib', 'pooch', 'tqdm'} & set(sys.modules)\n"
        "    print('heavy:', sorted(heavy))"
    )
    home = Path(slsgd_mx.__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True
    )
    said = done.stdout.decode()
    assert all(command in said for command in COMMANDS) and said.endswith("heavy: []\n")
