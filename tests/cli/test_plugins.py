"""Plug-ins and your own workloads on the command line, in this process and in child processes."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slsgd_mx.cli import COMMANDS, main
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.plugins import load_plugin
from slsgd_mx.presets import preset
from slsgd_mx.runs.pushes import read_pushes
from slsgd_mx.system.child import do
from slsgd_mx.tasks.build import build_task

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TINY = "--preset smoke --train-images 80 --test-images 20 -n 8 -k 4 --batch-size 10 --width 2"
TASK = """
import numpy as np
from slsgd_mx import Task, register_task

@register_task("points", sizes={"dimension": 3, "even": False}, metrics=("distance",),
               presets={"tiny": dict(n=6, k=3, epochs=2, eval_every=1, warm_up=False)})
class Points(Task):
    "Every device has a point."

    def __init__(self, config, data_dir=None):
        self.points = np.ones((config.n, config.sizes.dimension)) * np.arange(config.n)[:, None]
        self.values = {"x": np.zeros(config.sizes.dimension)}

    def initialize(self, seed):
        self.values["x"][...] = seed % 7

    def train(self, device, steps, gamma, seed, poison=None):
        self.values["x"] -= gamma * (self.values["x"] - self.points[device])

    def evaluate(self):
        return {"distance": float(np.abs(self.values["x"] - self.points.mean(axis=0)).max())}
"""
BROKEN = """from slsgd_mx import register_attack

@register_attack('broken')
def broken(seen):
    return seen.nu
"""
pytestmark = pytest.mark.usefixtures("elsewhere", "fresh_plugins")


def call(line):
    result = CliRunner().invoke(main, line.split())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output
    return result


def config_in(folder):
    return RunConfig.from_json((Path(folder) / "config.json").read_text())


def test_attack_rule_and_partition_of_plugins():
    """Also where --plugin comes last: the names are known all the same."""
    names = ("colluding_attack", "rule_with_memory", "own_partition")
    given = " ".join(f"--plugin {EXAMPLES / name}.py" for name in names)
    result = call(
        f"cifar {TINY} --epochs 1 --poisoned-devices 2 --attack outside:margin=0.50 --out run "
        f"--rule bounded-median:limit=0.01 --partition without:labels=3 {given}"
    )
    assert result.exit_code == 0, result.output
    config = config_in("run")
    assert (config.attack, config.rule) == ("outside:margin=0.5", "bounded-median:limit=0.01")
    assert (config.sizes.partition, config.poisoned_devices) == ("without:labels=3", 2)
    assert [name for name, _ in config.sources] == sorted(f"{name}.py" for name in names)
    assert len(read_pushes("run")[0].poisoned) in (0, 1, 2)


@pytest.mark.parametrize("order", ["train --plugin own.py points", "train points --plugin own.py"])
def test_a_workload_of_a_plugin(order):
    Path("own.py").write_text(TASK)
    result = call(f"{order} --dimension 2 --even --out run --q 1 --b 1")
    assert result.exit_code == 0, result.output
    assert "distance" in result.output and Path("run/curve.png").exists()
    config = config_in("run")
    assert (config.sizes.dimension, config.sizes.even, config.n) == (2, True, 6)
    assert config.sources[0][0] == "own.py"
    said = call(f"{order} --help").output
    assert "Every device has a point." in said and "--dimension" in said and "tiny" in said


def test_a_size_that_is_a_tuple():
    """On the command line of its workload, and in ``--set``."""
    Path("own.py").write_text(TASK.replace('"even": False', '"even": False, "hidden": (64, 32)'))
    line = "train points --plugin own.py"
    assert "Default: 64:32." in call(f"{line} --help").output
    result = call(f"{line} --hidden 8:4:2 --out run")
    assert result.exit_code == 0, result.output
    assert config_in("run").sizes.hidden == (8, 4, 2)
    result = call("run run --set hidden=16 --out again")
    assert result.exit_code == 0, result.output
    assert config_in("again").sizes.hidden == (16,)
    for wrong, said in (
        (f"{line} --hidden 8:wide", "'wide' is not a valid integer"),
        ("run run --set hidden=8:wide", "--set 'hidden=8:wide' is not NAME=A:B:...: 'wide' is not"),
        ("fig12 --task points --set hidden=8:wide", "--set 'hidden=8:wide' is not NAME=A:B:..."),
    ):
        result = call(wrong)
        assert result.exit_code == 2 and said in " ".join(result.output.split()), result.output


def test_a_size_with_the_name_of_a_symbol_of_the_paper():
    """H is this workload's own size, and the paper's symbol elsewhere."""
    Path("own.py").write_text(TASK.replace('"even": False', '"even": False, "H": 28'))
    assert call("train points --plugin own.py --H 14 --out runs/own").exit_code == 0
    result = call("run runs/own --set H=7 --set T=1 --out runs/changed")
    assert result.exit_code == 0, result.output
    config = config_in("runs/changed")
    assert (config.sizes.H, config.local_steps, config.epochs) == (7, None, 1)
    assert "1 of 2 runs" in call("runs --where H=14").output
    assert "1 of 2 runs" in call("runs --where T=1").output


@pytest.mark.parametrize(
    "size, flag", [("devices", "--devices"), ("threads", "--threads"), ("released", "--released")]
)
def test_a_size_with_the_name_of_an_option_is_refused(size, flag):
    Path("own.py").write_text(TASK.replace('"even": False', f'"even": False, "{size}": 7'))
    result = call(f"train points --plugin own.py {flag} 5 --out run")
    said = f"sizes of task 'points' have the names of options ({flag}): choose other names"
    assert result.exit_code == 2 and said in result.output and not Path("run").exists()


@pytest.mark.parametrize(
    "wrong, said",
    [
        ("epoch=2", "'epoch' is not part of a configuration: choose one of n, k, b, q"),
        ("epochs=0", "epochs=0 is out of range"),
        ("n='many'", "n='many' must be a whole number"),
    ],
)
def test_a_wrong_preset_of_a_plugin_is_one_sentence(wrong, said):
    Path("own.py").write_text(TASK.replace("dict(n=6, k=3, epochs=2,", f"dict({wrong},"))
    result = call("train points --plugin own.py --out run")
    said = f"preset 'tiny' of task 'points': {said}"
    assert result.exit_code == 2 and said in result.output


@pytest.mark.parametrize("metrics", ['("distance")', "()", "(3,)"])
def test_metrics_that_are_no_names_are_refused(metrics):
    Path("own.py").write_text(TASK.replace('("distance",)', metrics))
    result = call("train points --plugin own.py --out run")
    assert result.exit_code == 2 and "must be a tuple of names, such as ('loss',)" in result.output


@pytest.mark.parametrize("name", ["seconds", "epoch", "distance"])
def test_a_metric_with_the_name_of_another_column_is_refused(name):
    Path("own.py").write_text(TASK.replace('("distance",)', f'("distance", "{name}")'))
    result = call("train points --plugin own.py --out run")
    said = f"task 'points': the metric '{name}' has the name of another column of metrics.csv"
    assert result.exit_code == 2 and said in " ".join(result.output.split()), result.output
    assert not Path("run").exists()


def test_metrics_that_a_task_does_not_return_are_named_at_the_first_evaluation():
    Path("own.py").write_text(TASK.replace('("distance",)', '("dist", "loss")'))
    result = call("train points --plugin own.py --out run")
    said = "Points.evaluate returned distance, but the metrics of the task are dist, loss"
    assert result.exit_code == 2 and said in " ".join(result.output.split()), result.output
    assert not Path("run").exists()  # there is nothing to resume
    with pytest.raises(ConfigError, match="Points.evaluate returned distance, but"):
        build_task(preset("points", "tiny")).score(0, 2)  # as on a parameter server


def test_an_attack_that_needs_a_target_is_refused_before_training_where_there_is_none():
    declared = TASK.replace('metrics=("distance",)', 'metrics=("distance",), has_target=True')
    given = "{'x': np.zeros(config.sizes.dimension)}"
    Path("without.py").write_text(TASK)
    Path("promised.py").write_text(declared.replace('"points"', '"promised"'))
    with_it = declared.replace(
        "self.values = {", f"self.target = {given}\n        self.values = {{"
    )
    Path("with_it.py").write_text(with_it.replace('"points"', '"with-it"'))
    line = "train --plugin {}.py {} --attack worst-case --q 1 --b 1 --out run"
    for name, task, said in (
        ("without", "points", "needs a target, and task points has none (has_target=False)"),
        ("promised", "promised", "task promised has has_target=True, but its target is None"),
    ):
        result = call(line.format(name, task))
        assert result.exit_code == 2 and said in " ".join(result.output.split()), result.output
        assert not Path("run/metrics.csv").exists()
    result = call(line.format("with_it", "with-it"))
    assert result.exit_code == 0, result.output


def test_images_of_a_file():
    y = np.arange(60) % 3
    x = np.random.default_rng(0).integers(0, 256, (60, 5, 5), np.uint8)
    np.savez("my.npz", x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    line = "train images --arrays my.npz --network cnn:width=2 -n 6 -k 3 --batch-size 5 --epochs 1"
    result = call(f"{line} --out run --partition shards:labels=1")
    assert result.exit_code == 0, result.output
    sizes = config_in("run").sizes
    assert (sizes.data, sizes.shape, sizes.classes) == ("my.npz", (1, 5, 5), 3)
    assert (sizes.train_images, sizes.network, len(sizes.sha256)) == (60, "cnn:width=2", 64)
    Path("my.npz").rename("moved.npz")
    again = call(f"{line.replace('my.npz', 'moved.npz')} --out run --partition shards:labels=1")
    assert again.exit_code == 1 and "data=my.npz there, moved.npz here" in again.output
    np.savez("bad.npz", x_train=x, y_train=y, x_test=x[:9], y_test=y[:9] + 9)
    wrong = call("train images --arrays bad.npz")
    assert wrong.exit_code == 2 and "y_test holds label 11 (sample 2)" in wrong.output


def test_the_same_workloads_under_train():
    first, second = call(f"cifar {TINY} --epochs 1"), call(f"train cifar {TINY} --epochs 1")
    assert first.exit_code == 0 and "already done" in second.output


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"data", "dist", "runs", "doctor"}))
def test_every_command_takes_plugins_once(name):
    command = main.get_command(None, name)
    assert [p.opts for p in command.params].count(["--plugin"]) == 1, name


def test_a_broken_plugin_in_a_child_process_is_one_sentence(monkeypatch, capfd):
    Path("own.py").write_text("raise ValueError('no luck')")
    monkeypatch.setenv("SLSGD_MX_PLUGINS", str(Path("own.py").resolve()))
    end, code = do({"do": "slsgd_mx.sweeps.job:train"}, None)
    assert (end["status"], end["kind"], code) == ("failed", "ConfigError", 2)
    assert end["why"].endswith("own.py cannot be loaded: ValueError: no luck (line 1)")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "line, said",
    [
        ("import nowhere", "ModuleNotFoundError in plug-in own.py: No module named 'nowhere'"),
        ("open('nowhere')", "FileNotFoundError in plug-in own.py: [Errno 2] No such file"),
    ],
)
def test_what_a_plugin_lacks_when_it_trains_is_said_with_its_name(line, said):
    body = "self.values = {"
    Path("own.py").write_text(TASK.replace(body, f"{line}\n        {body}"))
    result = call("train --plugin own.py points --out run")
    assert result.exit_code == 1 and said in result.output and line in result.output


def test_an_error_of_a_plugin_in_a_child_process_is_told_with_its_lines(tiny):
    """It ends a run of the parameter server too, which would otherwise try again and again."""
    Path("broken.py").write_text(BROKEN)
    load_plugin("broken.py")
    config = tiny(epochs=1, q=1, b=1, attack="broken").to_json()
    job = {"do": "slsgd_mx.sweeps.job:train", "config": config, "folder": str(Path("run"))}
    job.update(data_dir=None, prefix=None, engine=None)
    end, code = do(job, lambda **message: None)
    assert (end["status"], end["kind"], code) == ("failed", "RunError", 1)
    assert "AttributeError in plug-in broken.py" in end["why"] and "seen.nu" in end["why"]


def test_an_error_in_a_plugin_shows_its_lines_and_no_others():
    Path("broken.py").write_text(BROKEN)
    result = call(f"cifar {TINY} --epochs 1 --q 1 --b 1 --plugin broken.py --attack broken")
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0].startswith("slsgd-mx: AttributeError in plug-in broken.py: 'Collusion' object")
    assert lines[1].endswith('broken.py", line 5, in broken') and "return seen.nu" in lines[2]
    assert len(lines) <= 4  # some versions of Python underline the expression
    assert not list(Path("runs").iterdir())  # there is nothing to resume
