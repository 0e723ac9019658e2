"""Bad calls: each is refused in one sentence, with its exit code, and leaves nothing."""

from pathlib import Path

import pytest
from helpers.command_line import TINY, call

from slsgd_mx.errors import RunError
from slsgd_mx.parameter_server.launcher import Options

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.mark.parametrize(
    "line, said",
    [
        ("cifar --b 5", "b=5 is out of range for k=10: trimmed mean needs 0 <= b <= 4"),
        ("cifar --q 11", "q=11 is out of range: needs 0 <= q <= k=10"),
        ("cifar --alpha 0", "alpha=0.0 is out of range: needs 0 < alpha <= 1"),
        ("cifar --alpha much", "'much' is not a valid float"),
        ("cifar --preset huge", "'huge' is not one of paper, laptop, smoke"),
        ("cifar --attack magic", "attack='magic' is unknown: choose one of label-flip"),
        ("cifar --rule mean:s=3", "rule 'mean' has no parameter 's=3': it has no parameters"),
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
        (
            "train nothing",
            "task='nothing' is unknown: choose one of cifar, lstm, images, or load the plug-in "
            "that registers it",
        ),
        ("train imags", "task='imags' is unknown, did you mean 'images'?"),
        ("launch --workers 1 -- train nothing", "task='nothing' is unknown"),
        ("train images --arrays note.txt", "note.txt cannot be read as arrays (it is not an .npz"),
        ("run /dev/null", "/dev/null is not a file: name the config.json of a run, or its folder"),
        ("run gone", "gone does not exist: name the config.json of a run, or its folder"),
        ("cifar --out=", "Invalid value for '--out': the path is empty"),
        ("launch -- train images --rule best", "launch -- train images --help' for help"),
        ("cifar --rule nnm", "'nnm' lacks the rule after pre-aggregation: write nnm+RULE"),
        ("cifar --rule nnm+", "'nnm+' lacks the rule after pre-aggregation: write nnm+RULE"),
        ("train nothing --plugin=gone.py", "gone.py does not exist"),
        ("train images --arrays gone.npz", "File 'gone.npz' does not exist"),
        ("train images --network rnn", "network='rnn' is unknown: choose one of cnn, mlp"),
        ("cifar --alpha-schedule cosine", "'cosine' is not one of step, constant"),
        ("cifar --local-steps 3:x", "'3:x' is not MIN:MAX"),
        ("cifar --local-steps 3:1", "local_steps=3:1 is out of range: needs 1 <= MIN <= MAX"),
        ("cifar --repeats 0", "0 is not in the range 1<=x<=10000"),
        ("cifar --threads 10000000000", "10000000000 is not in the range 1<=x<=10000"),
        ("cifar --width 10000000000", "needs 1 <= width <= 1930"),
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
    Path("note.txt").write_text("not arrays")
    result = call(line)
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.output.split())
    assert not Path("runs").exists()


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("x\nFailed to allocate CPU Memory")])
def test_too_little_memory_is_one_sentence(monkeypatch, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("slsgd_mx.runs.trainer.build_task", fail)
    result = call(f"cifar {TINY}")
    assert result.exit_code == 1 and "this needs more memory than there is" in result.output
    assert len(result.output.splitlines()) == 1


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
