"""Call the command line in this process, on tiny runs of the paper's two workloads."""

from click.testing import CliRunner

from slsgd_mx.cli import main

TINY = "--preset smoke --train-images 80 --test-images 20 -n 8 -k 4 --batch-size 10 --width 2"
TEXT = (
    "--preset smoke --vocab-size 24 --bptt 4 --device-batches 3 --loss-batches 4 --test-batches 3 "
    "-n 8 -k 4 --batch-size 3 --width 8"
)
PNG = b"\x89PNG\r\n\x1a\n"


def call(line, *more):
    """The result of a command that leaves no traceback, whatever its exit code."""
    result = CliRunner().invoke(main, [*line.split(), *map(str, more)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output
    return result


def cifar(more="", *arguments):
    """Two epochs of the CNN."""
    return call(f"cifar {TINY} --eval-every 1 --epochs 2 {more}", *arguments)


def lstm(more=""):
    """Two epochs of the LSTM."""
    return call(f"lstm {TEXT} --eval-every 1 --epochs 2 {more}")
