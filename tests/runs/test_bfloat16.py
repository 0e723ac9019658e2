"""Runs in bfloat16, in processes of their own: bits, float32 weights, the parameter server."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.run_folders import numbers

from slsgd_mx.system.files import load_arrays
from slsgd_mx.system.precision import obstacle
from slsgd_mx.system.processes import environment

SKIPPED = obstacle("bfloat16")
needs_bfloat16 = pytest.mark.skipif(SKIPPED is not None, reason=f"{SKIPPED}")

TRAIN = """
import json, sys
from slsgd_mx.config import RunConfig

config, folder = RunConfig.from_json(sys.argv[1]), sys.argv[2]
stop, options = map(json.loads, sys.argv[3:])

def listen(progress):
    if progress.epoch == stop:
        raise KeyboardInterrupt

try:
    if options is None:
        from slsgd_mx.runs.trainer import train
        train(config, folder, listener=listen)
        from slsgd_mx.tasks.build import build_task
        dtypes = {str(value.dtype) for value in build_task(config).values.values()}
        assert dtypes == {"<class 'numpy.float32'>"}, dtypes
    else:
        from slsgd_mx.parameter_server.launcher import Options, launch
        launch(config, folder, listener=listen, options=Options(**options))
except KeyboardInterrupt:
    sys.exit(130)
"""


def compute(config, folder, stop=None, options=None):
    """Train in a process of its own, up to an interrupt after an epoch; what has to repeat."""
    words = [config.to_json(), str(folder), json.dumps(stop), json.dumps(options)]
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, *words], env=environment(1), capture_output=True, text=True
    )
    assert done.returncode == (0 if stop is None else 130), done.stderr
    return None if stop is not None else numbers(folder)


@pytest.fixture
def attacked(tiny):
    return tiny(epochs=3, b=1, q=1, precision="bfloat16")


@needs_bfloat16
def test_it_repeats_and_resumes_to_the_bit_and_keeps_float32_weights(attacked, tmp_path):
    whole = compute(attacked, tmp_path / "whole")
    assert compute(attacked, tmp_path / "again") == whole
    compute(attacked, tmp_path / "resumed", stop=2)
    assert compute(attacked, tmp_path / "resumed") == whole
    model = load_arrays(tmp_path / "whole" / "model.params")
    assert {value.dtype for value in model.values()} == {np.dtype(np.float32)}


@needs_bfloat16
def test_it_differs_from_float32(attacked, tiny, tmp_path):
    plain = tiny(epochs=3, b=1, q=1)
    assert compute(attacked, tmp_path / "low") != compute(plain, tmp_path / "plain")


@needs_bfloat16
@pytest.mark.parametrize("servers", [1, 2])
def test_the_parameter_server_equals_one_process(attacked, tmp_path, servers):
    one = compute(attacked, tmp_path / "one")
    options = {"workers": 2, "servers": servers}
    assert compute(attacked, tmp_path / "ps", options=options) == one


@needs_bfloat16
def test_a_sweep_computes_both_precisions(attacked, tiny, tmp_path):
    from slsgd_mx.sweeps.plan import carry_out, make_plan
    from slsgd_mx.sweeps.pool import Pool

    runs = [
        tiny(epochs=1, precision=name, seed=s) for s in (0, 1) for name in ("bfloat16", "float32")
    ]
    with Pool(1, 1) as pool:
        results = carry_out(make_plan({"both": runs}, tmp_path), pool, None)
    assert [result.status for result in results.values()] == ["done"] * 4


@pytest.mark.skipif(SKIPPED is None, reason="this CPU has bfloat16")
@pytest.mark.parametrize(
    "command",
    [
        ["cifar", "--preset", "smoke"],
        ["launch", "--workers", "2", "--", "cifar", "--preset", "smoke"],
        ["fig3", "--preset", "smoke"],
        ["fig3", "--preset", "smoke", "--engine", "ps", "--workers", "2"],
        ["arena", "--preset", "smoke"],
    ],
    ids=lambda command: " ".join(command),
)
def test_commands_refuse_it_in_one_sentence(command, tmp_path):
    call = [sys.executable, "-m", "slsgd_mx", *command, "--precision", "bfloat16"]
    done = subprocess.run(call, env=environment(1), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    said = done.stderr.strip().splitlines()[-1]
    assert "precision='bfloat16' is not possible here: this CPU has no AVX512_BF16 or AMX" in said
    assert not list(Path(tmp_path).glob("**/metrics.csv"))
