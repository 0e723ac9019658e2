"""``slsgd-mx run``: a stored configuration, changed or as it is."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.parameter_server import environment
from helpers.run_folders import numbers

from slsgd_mx import plugins
from slsgd_mx.cli import main
from slsgd_mx.config import RunConfig
from slsgd_mx.data.arrays import sizes_in
from slsgd_mx.plugins import load_plugin
from slsgd_mx.presets import preset
from slsgd_mx.rules import RULES
from slsgd_mx.runs.records import load_runs
from slsgd_mx.runs.trainer import train

OLD = next((Path(__file__).parent.parent / "runs" / "written_by_0.1.0").iterdir())


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def call(*words):
    result = CliRunner().invoke(main, ["run", *map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_configuration_of_0_1_0_gives_the_same_bytes():
    command = [sys.executable, "-m", "slsgd_mx", "run", str(OLD / "config.json"), "--out", "again"]
    avx2 = environment(DNNL_MAX_CPU_ISA="AVX2")  # as on the CPU of that run; AVX-512 adds otherwise
    done = subprocess.run(command, env=avx2, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    new, old = numbers(Path("again")), numbers(OLD)
    assert new[1] == old[1]  # the model
    assert new[0][-1].split(",")[:5] == old[0][-1].split(",")[:5]


@pytest.mark.parametrize("tiny", ["problem"], indirect=True)  # the quickest
@pytest.mark.parametrize(
    "stored, environment, words, used, warned",
    [
        (2, None, (), 2, False),
        (2, None, ("--threads", 1), 1, False),
        (2, None, ("--set", "seed=1"), 1, False),  # another run
        (2, "3", (), 3, False),
        (999, None, (), 1, True),
        (-2, None, (), 1, False),
        ("2", None, (), 1, False),
    ],
)
def test_a_run_is_repeated_with_as_many_threads(
    tiny, monkeypatch, stored, environment, words, used, warned
):
    chosen = repeat_with_4_cores(tiny, monkeypatch, stored, environment)
    result = call("runs/stored", "--out", "again", *words)
    assert result.exit_code == 0 and chosen == [used], result.output
    assert ("computed with 999 threads, more than a process has cores" in result.output) == warned


@pytest.mark.parametrize("tiny", ["problem"], indirect=True)
@pytest.mark.parametrize("workers, used", [(2, 2), (4, 1)])
def test_workers_share_the_cores_when_a_run_is_repeated(tiny, monkeypatch, workers, used):
    chosen = repeat_with_4_cores(tiny, monkeypatch, stored=2)
    monkeypatch.setattr("slsgd_mx.parameter_server.launcher.launch", lambda *args, **options: None)
    words = ["launch", "--workers", workers, "--", "run", "runs/stored", "--out", "again"]
    CliRunner().invoke(main, [str(word) for word in words])
    assert chosen == [used]


def repeat_with_4_cores(tiny, monkeypatch, stored, environment=None):
    """Store a run of so many threads; the list to which the threads of its repetition are added."""
    train(tiny(epochs=1), "runs/stored")
    manifest = Path("runs/stored/manifest.json")
    manifest.write_text(json.dumps({"sessions": [{"threads": 1}, {"threads": stored}]}))
    chosen = []
    monkeypatch.setattr("slsgd_mx.system.threads.set_threads", chosen.append)
    monkeypatch.setattr("slsgd_mx.system.threads.available_cores", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if environment:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    return chosen


def test_changes_by_name_make_another_run(tiny):
    config = tiny(q=1, b=1, epochs=2)
    train(config, "runs/stored")
    before = numbers(Path("runs/stored"))
    changes = ["b=0", "gamma=0.05", "attack=negation", "batch_size=5", "T=1"]
    changes += ["train_images=40", "local_steps=1:2"]
    words = [word for change in changes for word in ("--set", change)]
    result = call("runs/stored", *words, "--json")
    assert result.exit_code == 0, result.output
    new = RunConfig.from_json(
        (Path(json.loads(result.stdout)["folder"]) / "config.json").read_text()
    )
    assert (new.b, new.gamma, new.epochs, new.local_steps) == (0, 0.05, 1, (1, 2))
    assert (new.sizes.train_images, new.sizes.loss_images) == (40, 40)
    assert (new.attack, new.attacker_start) == ("negation", "pulled")  # not label-flip's "fresh"
    assert numbers(Path("runs/stored")) == before and len(load_runs("runs")) == 2


@pytest.mark.parametrize("tiny", ["problem"], indirect=True)  # the quickest
def test_an_attack_without_poisoned_workers_is_warned_about(tiny):
    train(tiny(epochs=1), "stored")
    said = "warning: an attack with q=0 poisons nobody: give q as well"
    result = call("stored", "--set", "attack=negation", "--out", "stored")
    assert "already done" in result.output and said in result.output
    for change in ("attack=none", "seed=0"):
        assert said not in call("stored", "--set", change, "--out", "stored").output


@pytest.mark.parametrize("tiny", ["problem"], indirect=True)  # the quickest
@pytest.mark.parametrize("attack", ["nan", "inf"])
def test_attacks_whose_names_look_like_numbers(tiny, attack):
    Path("config.json").write_text(tiny(q=1, b=1, epochs=1).to_json())
    result = call("config.json", "--set", f"attack={attack}", "--out", "new")
    assert result.exit_code == 0, result.output
    assert RunConfig.from_json(Path("new/config.json").read_text()).attack == attack


@pytest.mark.parametrize(
    "words, said",
    [
        (["--set", "beta=2"], "'beta' is not part of a configuration: choose one of n, k, b, q"),
        (["--set", "b"], "--set 'b' is not NAME=VALUE, such as b=4"),
        (["--set", "b=9"], "b=9 is out of range for k=4"),
        (["--set", "b=two"], "b='two' must be a whole number"),
        (["--set", "gamma=nan"], "gamma='nan' must be a number"),
        (["--set", "vocab_size=9"], "'vocab_size' is not part of a configuration"),
        (["--set", "local_steps=3:1"], "local_steps=3:1 is out of range"),
        (["--set", "H=1:2:3"], "--set 'H=1:2:3' is not NAME=MIN:MAX"),
        (["--set", "sources=mine.py"], "'sources' is not part of a configuration"),
    ],
)
def test_wrong_changes_are_refused(tiny, words, said):
    Path("config.json").write_text(tiny().to_json())
    result = call("config.json", *words)
    assert result.exit_code == 2 and said in result.output
    assert not Path("runs").exists()


def test_what_is_no_configuration_is_refused():
    result = call("gone.json")
    assert result.exit_code == 2 and "gone.json does not exist" in result.output
    Path("other.json").write_text("{}")
    result = call("other.json")
    assert result.exit_code == 2 and "other.json: not a configuration of a run" in result.output
    assert not Path("runs").exists()


def test_part_of_a_folders_name_is_enough(tiny):
    config = tiny(epochs=2)
    train(config, Path("runs") / config.slug)
    again = call(config.identity[:6])
    assert again.exit_code == 0 and "already done" in again.output
    gone = call("gone")
    assert gone.exit_code == 2 and "'gone' is no run folder, nor part of the name" in gone.output


def test_arrays_of_a_stored_run(tiny):
    y = np.arange(20) % 2
    arrays = dict(x_train=np.ones((20, 3)), y_train=y, x_test=np.ones((4, 3)), y_test=y[:4])
    np.savez("my.npz", **arrays)
    changes = dict(sizes_in(Path("my.npz")), loss_images=20, network="mlp:width=2")
    small = dict(n=4, k=2, epochs=1, batch_size=2, warm_up=False)
    Path("config.json").write_text(preset("images", "smoke", **changes, **small).to_json())
    assert "give --arrays FILE.npz" in call("config.json").output
    result = call("config.json", "--arrays", "my.npz")
    assert result.exit_code == 0, result.output
    Path("cifar.json").write_text(tiny().to_json())
    Path("synthetic.json").write_text(preset("images", "smoke").to_json())
    for file in ("cifar.json", "synthetic.json"):
        wrong = call(file, "--arrays", "my.npz")
        assert wrong.exit_code == 2 and "goes with a run of train images --arrays" in wrong.output


def test_an_edited_plugin_makes_a_new_run_and_a_warning(tiny, fresh_plugins):
    text = (
        "import numpy as np\nfrom slsgd_mx import register_rule\n\n"
        "@register_rule('own', uses_b=False)\ndef own(pushes, context):\n"
        "    return np.mean(pushes, axis=0)\n"
    )
    Path("mine.py").write_text(text)
    load_plugin("mine.py")
    config = tiny(epochs=1, rule="own")
    Path("config.json").write_text(config.to_json())
    same = call("config.json", "--out", "runs/mine", "--plugin", "mine.py")
    assert same.exit_code == 0 and "has changed" not in same.output, same.output
    plugins._loaded.clear()  # like a new process
    RULES.remove("own")
    Path("mine.py").write_text(text + "# edited\n")
    new = call("config.json", "--plugin", "mine.py")
    assert new.exit_code == 0, new.output
    assert "warning: mine.py has changed since this configuration was stored" in new.output
    refused = call("config.json", "--out", "runs/mine")
    assert refused.exit_code == 1 and "holds another run (sources=mine.py" in refused.output
