"""The blocks of docs/extending.md are complete: each is loaded as a plug-in, and a run uses it."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers.blocks import python_blocks

from slsgd_mx import aggregate, load_plugin, poison, preset, train
from slsgd_mx.errors import ConfigError

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

BLOCKS = python_blocks("extending.md")
TINY = dict(n=8, k=4, epochs=2, eval_every=1)
IMAGES = dict(train_images=80, test_images=20, batch_size=10)

# What each block registers -> a run that uses it.
USES = {
    'register_attack("reflect"': dict(task="images", q=1, b=1, attack="reflect:factor=2", **IMAGES),
    '    "stripe",': dict(task="images", q=1, attack="stripe:target=1,share=1", **IMAGES),
    '    "pulled-mean",': dict(task="images", rule="pulled-mean:weight=0.2", **IMAGES),
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


def find_block(text):
    """The block of the page, of README.md, of the tutorial or of an example that has a text."""
    others = [*python_blocks("../README.md"), *python_blocks("fifteen-minutes.md")]
    examples = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.py"))]
    (block,) = [b for b in (*BLOCKS, *others, *examples) if text in b]
    return block


@pytest.mark.parametrize(
    "text, call",
    [
        ('register_attack("reflect", parameters', partial(poison, attack="reflect", q=1)),
        ('register_attack("reflect", uses', partial(poison, attack="reflect", q=1)),
        ('register_attack("backwards"', partial(poison, attack="backwards", q=1)),
        ('register_attack("outside"', partial(poison, attack="outside", q=1)),
        ('"pulled-mean"', partial(aggregate, rule="pulled-mean")),
        ('"bounded-median"', partial(aggregate, rule="bounded-median")),
    ],
)
def test_what_depends_on_the_previous_model_insists_on_it(text, call, tmp_path, fresh_plugins):
    (tmp_path / "own.py").write_text(find_block(text))
    load_plugin(str(tmp_path / "own.py"))
    pushes = np.full((8, 2), 5.0)
    with pytest.raises(ConfigError, match=r"give previous=x_\{t-1\}"):
        call(pushes)
    assert call(pushes, previous=np.ones(2)).shape[-1] == 2


def test_the_script_trains(tmp_path, monkeypatch, capsys):
    (block,) = [block for block in BLOCKS if "ArraysTask" in block]
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "script", "exec"), {})
    assert float(capsys.readouterr().out) > 0.5
    assert (tmp_path / "runs" / "mine" / "DONE").exists()
