"""Examples give the same bytes in one process, in a sweep of two jobs, and on two servers."""

import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.blocks import python_blocks
from helpers.run_folders import numbers

from slsgd_mx import RunConfig, load_plugin, preset, train
from slsgd_mx.data.arrays import read_arrays
from slsgd_mx.errors import ConfigError
from slsgd_mx.parameter_server.launcher import Options, launch
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.sweeps.plan import carry_out, make_plan
from slsgd_mx.sweeps.pool import Pool
from slsgd_mx.tasks.build import build_task

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TINY = dict(n=8, k=4, epochs=2, batch_size=10, eval_every=1)
IMAGES = dict(data="synthetic", train_images=80, test_images=20, loss_images=80, width=2)

# Each example's plug-in, and what a run uses of it.
USES = {
    "colluding_attack": dict(q=1, b=1, attack="outside:margin=0.5"),
    "rule_with_memory": dict(q=1, rule="bounded-median:limit=0.01"),
    "own_network": dict(q=1, b=1, network="wide:units=3"),
    "own_partition": dict(partition="without:labels=3"),
}


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """Arrays in a file, for the example with a network."""
    y = np.arange(100) % 4
    x = np.random.default_rng(0).normal(y[:, None], 1.0, (100, 3))
    path = tmp_path_factory.mktemp("arrays") / "my.npz"
    np.savez(path, x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:])
    return path


@pytest.fixture
def configs(fresh_plugins, arrays, tmp_path):
    """A tiny run of every example, and of the workload in docs/extending.md."""
    for name in USES:
        load_plugin(str(EXAMPLES / f"{name}.py"))
    data = read_arrays(arrays)
    own = dict(data=data.name, sha256=data.digest, shape=data.shape, classes=data.classes)
    own.update(train_images=80, test_images=20)
    made = {}
    for name, uses in USES.items():
        task, sizes = ("images", own) if "network" in uses else ("cifar", IMAGES)
        made[name] = preset(task, "smoke", **{**TINY, **sizes, **uses})
    (block,) = [text for text in python_blocks("extending.md") if "register_task(" in text]
    (tmp_path / "mean_of_points.py").write_text(block)
    load_plugin(str(tmp_path / "mean_of_points.py"))
    made["mean_of_points"] = preset("mean-of-points", "small", **TINY, q=1, b=1)
    return made


def test_one_process_and_a_sweep_of_two_jobs_give_the_same_bytes(configs, arrays, tmp_path):
    plan = make_plan({"examples": list(configs.values())}, tmp_path / "sweep", share=False)
    with Pool(2, 1) as pool:
        results = carry_out(plan, pool, arrays)
    assert {slug: result.why for slug, result in results.items() if not result.ok} == {}
    for name, config in configs.items():
        folder = train(config, tmp_path / name, arrays).folder
        assert numbers(tmp_path / "sweep" / config.slug) == numbers(folder), name
        assert [source for source, _ in config.sources] == [f"{name}.py"]
        (session,) = RunFolder(folder, config).sessions()
        assert session["plugins"] == [dict(name=n, sha256=digest) for n, digest in config.sources]


@pytest.mark.parametrize("name, changes", [("colluding_attack", dict(attack="silent")),
                                           ("rule_with_memory", dict(rule="median")),
                                           ("own_partition", {})])  # fmt: skip
def test_an_example_changes_the_model(name, changes, configs, arrays, tmp_path):
    """The same run with an entry of the package instead of the example's."""
    config = configs[name]
    if name == "own_partition":
        changes = dict(sizes=replace(config.sizes, partition="balanced"))
    runs = [config, replace(config, **changes)]
    models = [train(run, tmp_path / run.identity, arrays).folder / "model.params" for run in runs]
    assert models[0].read_bytes() != models[1].read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="MXNet's parameter server: Linux")
@pytest.mark.parametrize("name", USES)
def test_two_workers_and_two_servers_give_the_same_bytes(name, configs, arrays, tmp_path):
    config = configs[name]
    alone = train(config, tmp_path / "alone", arrays)
    result = launch(config, tmp_path / "run", arrays, options=Options(2, 2))
    assert numbers(result.folder) == numbers(alone.folder)


def test_neither_an_example_nor_the_readme_imports_mxnet_when_it_is_loaded(tmp_path):
    """A command sets its threads after loading plug-ins, and MXNet reads them when imported."""
    (block,) = python_blocks("../README.md")
    (tmp_path / "readme.py").write_text(block)
    files = [*sorted(EXAMPLES.glob("*.py")), tmp_path / "readme.py"]
    code = (
        f"import sys; sys.path.insert(0, {str(EXAMPLES.parent)!r})\n"
        "from slsgd_mx import load_plugin\n"
        "for path in sys.argv[1:]:\n"
        "    load_plugin(path)\n"
        "    assert 'mxnet' not in sys.modules, path"
    )
    subprocess.run([sys.executable, "-c", code, *map(str, files)], check=True)


# ---- scripts -------------------------------------------------------------------------------


def test_a_network_and_arrays_in_a_script(tmp_path, capsys, fresh_plugins):
    script = runpy.run_path(str(EXAMPLES / "own_network.py"))
    result = script["main"](tmp_path / "run", epochs=4)
    assert capsys.readouterr().out == f"{result.rows[-1]['test_accuracy']}\n"
    assert float(result.rows[-1]["test_loss"]) < float(result.rows[0]["test_loss"])


def test_runs_are_read_back_and_drawn(tmp_path, capsys):
    images = {**TINY, **IMAGES, "epochs": 1}
    for rule in ("mean", "median"):
        done = train(preset("cifar", "smoke", **images, rule=rule), tmp_path / "runs" / rule)
    script = runpy.run_path(str(EXAMPLES / "read_runs.py"))
    script["main"](tmp_path / "runs", tmp_path / "picture.png")
    last = f"{float(done.rows[-1]['test_accuracy']):.4f}"
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and lines[1] == f"median, no attack: test_accuracy {last} (median)"
    assert (tmp_path / "picture.png").exists()


def test_precision_cannot_be_chosen_for_scikit_learn(fresh_plugins):
    load_plugin(str(EXAMPLES / "scikit_learn.py"))
    with pytest.raises(ConfigError, match="task sklearn-digits has no network"):
        preset("sklearn-digits", "small", precision="bfloat16")


def test_without_scikit_learn_the_example_says_what_to_install(fresh_plugins, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    load_plugin(str(EXAMPLES / "scikit_learn.py"))
    with pytest.raises(ConfigError, match="needs pip install scikit-learn"):
        build_task(preset("sklearn-digits", "small"))


def test_scikit_learn_trains_under_the_same_server(tmp_path, fresh_plugins):
    pytest.importorskip("sklearn")
    load_plugin(str(EXAMPLES / "scikit_learn.py"))
    config = preset("sklearn-digits", "small", epochs=4, q=2, b=2)
    rows = train(config, tmp_path / "run").rows
    assert float(rows[-1]["test_accuracy"]) > 0.5
    assert RunConfig.from_json(config.to_json()) == config
