"""The blocks of docs/extending.md are complete: each is loaded as a plug-in, and a run uses it."""

import pytest
from helpers.blocks import DOCS, python_blocks

import slsgd_mx
from slsgd_mx import load_plugin, preset, train

BLOCKS = python_blocks("extending.md")
TINY = dict(n=8, k=4, epochs=2, eval_every=1)
IMAGES = dict(train_images=80, test_images=20, batch_size=10)

# What each block registers -> a run that uses it.
USES = {
    'register_attack("reflect"': dict(task="images", q=1, b=1, attack="reflect:factor=2", **IMAGES),
    '    "stripe",': dict(task="images", q=1, attack="stripe:target=1,share=1", **IMAGES),
    'register_rule("pulled-mean"': dict(task="images", rule="pulled-mean:weight=0.2", **IMAGES),
    'register_partition("part-of-it"': dict(
        task="images", partition="part-of-it:share=1", **IMAGES
    ),
    'register_network("linear"': dict(task="images", network="linear:units=2", **IMAGES),
    '"mean-of-points"': dict(task="mean-of-points", dimension=2),
}


def test_every_block_is_tested():
    used = [[text for text in USES if text in block] for block in BLOCKS]
    assert sorted(map(len, used)) == [0, 1, 1, 1, 1, 1, 1]
    (script,) = [block for block, texts in zip(BLOCKS, used) if not texts]
    assert "ArraysTask" in script and len(script.strip().splitlines()) <= 15


@pytest.mark.parametrize("text", USES)
def test_a_block_is_a_plugin(text, tmp_path, fresh_plugins):
    (block,) = [block for block in BLOCKS if text in block]
    (tmp_path / "own.py").write_text(block)
    source = load_plugin(str(tmp_path / "own.py"))
    changes = {**TINY, **USES[text]}
    task = changes.pop("task")
    config = preset(task, "smoke" if task == "images" else "small", **changes)
    assert config.sources == (tuple(source),)
    result = train(config, tmp_path / "run")
    assert [row["epoch"] for row in result.rows] == ["1", "2"]


def test_the_script_trains(tmp_path, monkeypatch, capsys):
    (block,) = [block for block in BLOCKS if "ArraysTask" in block]
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "script", "exec"), {})
    assert float(capsys.readouterr().out) > 0.5
    assert (tmp_path / "runs" / "mine" / "DONE").exists()


def test_the_first_fifteen_minutes(tmp_path, monkeypatch, capsys, fresh_plugins):
    attack, check = python_blocks("fifteen-minutes.md")
    (tmp_path / "my_attack.py").write_text(attack)
    monkeypatch.chdir(tmp_path)
    exec(compile(check, "check", "exec"), {})
    said = capsys.readouterr().out
    page = (DOCS / "fifteen-minutes.md").read_text(encoding="utf-8")
    assert said.endswith(" True\n") and f"```\n{said}```" in page
    assert f"A transcript of version {slsgd_mx.__version__}:" in page
    attack = "backwards:steps=4"
    for changes in ({}, dict(q=2), dict(q=2, b=2), dict(q=2, attack=attack)):
        identity = preset("cifar", "smoke", **changes).identity  # of the run in the transcript
        assert f"\n{identity[:6]}  40/40  done" in page
    identity = preset("cifar", "smoke", q=2, b=2, attack=attack).identity
    assert f"-{identity}  (curve.png, metrics.csv)" in page
