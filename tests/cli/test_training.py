"""Training commands end to end on embedded data: from the command to the picture, and warnings."""

import csv
from pathlib import Path

import pytest
from helpers.command_line import PNG, cifar, lstm

from slsgd_mx.config import RunConfig
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.tasks.cifar.sizes import Cifar
from slsgd_mx.tasks.lstm.sizes import Lstm

pytestmark = pytest.mark.usefixtures("elsewhere")


def only_run():
    (folder,) = Path("runs").iterdir()
    return folder


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
    with open("runs/both/curve.csv") as file:
        rows = list(csv.DictReader(file))
    assert {row["curve"] for row in rows} == {"FedAvg; gamma=0.1; no attack"}
    assert [row["seed"] for row in rows] == ["4", "4", "5", "5"]
    assert cifar("--repeats 2 --seed 4 --out runs/both").output.count("already done") == 2


@pytest.mark.parametrize(
    "options, said",
    [
        ("--q 1", "warning: b=0 < q=1"),
        ("--q 2 --b 1", "warning: 2q=4 >= k=4"),
        ("--alpha 0.5 --alpha-decay-epoch 9", "warning: alpha=0.5 takes effect after epoch 9"),
        ("--attack nan", "warning: an attack with q=0 poisons nobody"),
        ("--attack-scale 2", "warning: an attack with q=0 poisons nobody"),
        ("--data-dir mine", "warning: --data-dir mine is not read: the data is synthetic"),
    ],
)
def test_odd_combinations_are_warned_about_before_training(options, said):
    Path("file").touch()
    result = cifar(options, "--out", "file")  # fails after the warning, before any training
    assert result.exit_code == 1 and said in result.output
    assert result.output.index(said) < result.output.index("file is a file")


def test_a_folder_that_holds_another_run_is_refused():
    cifar("--out run --seed 1")
    result = cifar("--out run --seed 2")
    assert result.exit_code == 1
    assert "run holds another run (seed=1 there, 2 here)" in result.output


def test_a_diverged_run_exits_with_1_each_time():
    for _ in range(2):
        result = cifar("--q 1 --attack nan --nonfinite keep --out run")
        assert result.exit_code == 1
        assert "stopped being finite or a metric became NaN in epoch 1" in result.output
    assert [row["epoch"] for row in read_metrics("run")] == ["1"]


def test_a_run_whose_pushes_are_all_refused_exits_with_1_each_time():
    for _ in range(2):
        result = cifar("--gamma 1e30 --batch-size 5 --out run")
        assert result.exit_code == 1
        assert "no update was applied in any of the 2 epochs" in result.output
        assert "of 8 pushes 8 were refused because they were not finite" in result.output
        assert "lower --gamma" in result.output
    assert [row["skipped"] for row in read_metrics("run")] == ["1", "1"]
