"""Why a run failed, from its rows."""

import pytest

from slsgd_mx.config import RunConfig
from slsgd_mx.runs.metrics import why_nothing_changed


@pytest.mark.parametrize(
    "changes, refused, said",
    [
        (dict(q=2, b=4), 2, "with b=4 an epoch needs at least 9; lower --b, --q or --drop-rate"),
        (dict(q=2, b=4), 3, "with b=4 an epoch needs at least 9; lower --gamma"),
        (dict(q=0), 10, "with b=0 an epoch needs at least 1; lower --gamma"),
        (dict(k=7, q=2, b=2, rule="krum"), 2, "an epoch needs at least 7; lower --b, --q or"),
        (dict(poisoned_devices=9, b=4), 5, "; lower --b, --poisoned-devices or --drop-rate"),
        (dict(poisoned_devices=9, b=4), 10, "; lower --gamma"),  # more than are poisoned
        (dict(poisoned_devices=50, b=4), 10, "; lower --b, --poisoned-devices or --drop-rate"),
    ],
)
def test_the_reason_and_the_remedy_fit_the_rule_and_the_poisoned(changes, refused, said):
    config = RunConfig(attack="nan", epochs=3, **changes)
    row = {"skipped": "1", "refused": str(refused), "missing": "0"}
    why = why_nothing_changed(config, 3 * [row])
    assert said in why and f"{3 * refused} were refused" in why
    assert why_nothing_changed(config, [*2 * [row], {**row, "skipped": "0"}]) == ""
