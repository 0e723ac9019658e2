"""Commands as JSON: what is legal comes through, anything else is refused."""

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slsgd_mx.core.server import Settings
from slsgd_mx.parameter_server.protocol import (
    MOST,
    SPREAD,
    Begin,
    Commit,
    Configure,
    End,
    ProtocolError,
    read_command,
    to_json,
)

# ---- commands ------------------------------------------------------------------------------


def configure(**changes):
    """A legal command as the values of its JSON."""
    settings = dict(k=5, b=1, rule="trimmed-mean", nonfinite="reject")
    values = dict(workers=3, servers=2, size=20, plain=[[0, 4], [18, 20]], epoch=7)
    values.update(do="configure", settings=settings, fingerprint=99, deadline=2.5)
    inner = {name: changes.pop(name) for name in list(changes) if name in settings}
    return {**values, "settings": {**settings, **inner}, **changes}


def commit(**changes):
    values = dict(epoch=8, alpha=0.5, accepted=[0, 2, 3], refused=[1], applied=True)
    return {"do": "commit", **values, **changes}


LEGAL = [configure(), {"do": "begin", "epoch": 3}, commit(), {"do": "end"}]


@st.composite
def configures(draw):
    k = draw(st.integers(1, 30))
    size = draw(st.integers(1, 10**6))
    bounds = st.tuples(st.integers(0, size), st.integers(0, size)).map(sorted).map(tuple)
    return Configure(
        Settings(
            k,
            draw(st.integers(0, (k - 1) // 2)),
            draw(st.sampled_from(["trimmed-mean", "mean", "median"])),
            draw(st.sampled_from(["reject", "keep"])),
        ),
        workers=draw(st.integers(1, 1000)),
        servers=draw(st.integers(1, min(size, 100))),
        size=size,
        plain=draw(st.lists(bounds, max_size=4)),
        epoch=draw(st.integers(0, 10**6)),
        fingerprint=draw(st.integers(0, 2**48 - 1)),
        deadline=draw(st.none() | st.floats(1e-3, 1e9)),
    )


@st.composite
def commits(draw):
    slots = draw(st.lists(st.integers(0, 50), unique=True, max_size=20))
    cut = draw(st.integers(0, len(slots)))
    alpha = draw(st.floats(0, 1, exclude_min=True))
    return Commit(draw(st.integers(1, 10**6)), alpha, slots[:cut], slots[cut:], draw(st.booleans()))


@given(configures() | commits() | st.builds(Begin, st.integers(0, 10**6)) | st.just(End()))
def test_commands_come_through(command):
    text = to_json(command)
    assert text.isascii() and json.loads(text)["do"] == type(command).__name__.lower()
    for body in (text, text.encode()):
        back = read_command(body)
        assert type(back) is type(command) and back == command
        assert to_json(back) == text  # floats to the last bit


def test_tuples_come_through_as_equal_json():
    """What the coordinator sends has tuples in it."""
    sent = Commit(1, 0.1, (0, 1), (2,), True)
    assert read_command(to_json(sent)) == Commit(1, 0.1, [0, 1], [2], True)


@pytest.mark.parametrize("values", LEGAL, ids=lambda values: values["do"])
def test_the_legal_examples_are_legal(values):
    assert json.loads(to_json(read_command(json.dumps(values)))) == values


def refusal(body):
    with pytest.raises(ProtocolError) as error:
        read_command(body)
    return str(error.value)


INFINITE = float("inf")
NO_WHOLE = [None, True, False, -1, 1.0, 0.5, "1", [], [1], {}, math.nan, INFINITE, -INFINITE]
NO_NUMBER = [True, False, "1", [], [1], {}, math.nan, INFINITE, -INFINITE, 10**400, -(10**400)]
WRONG = {
    "configure": {
        "settings": [None, True, 1, 0.5, "k", [], [5], {}, {"b": 1}, {"k": 5, "x": 1}, math.nan],
        "workers": [*NO_WHOLE, 0, MOST + 1],
        "servers": [*NO_WHOLE, 0, 21, 10**400],
        "size": [*NO_WHOLE, 0, 19, 10**400],  # two of them are too small for plain
        "plain": [None, True, 1, 0.5, "ab", ["ab"], [1], [[1]], [[1, 2, 3]], [[0, 21]], {"ab": 1}]
        + [[[2, 1]], [[-1, 2]], [[0.0, 2]], [[0, True]], [[None, 2]], [[[], 2]], [[0, math.nan]]],
        "epoch": [*NO_WHOLE, MOST + 1],
        "fingerprint": [*NO_WHOLE, 2**48 + 1],
        "deadline": [*NO_NUMBER, 0, 0.0, -1, -1e-300],
        "k": [*NO_WHOLE, 0, 2, MOST + 1],
        "b": [None, True, -1, 1.0, "1", [], {}, math.nan, INFINITE, 3, 10**400],
        "rule": [None, True, 0, 0.5, "best", "", [], ["mean"], {}, {"mean": 1}, math.nan],
        "nonfinite": [None, True, 0, "maybe", "", [], ["keep"], {}, math.nan],
    },
    "begin": {"epoch": [*NO_WHOLE, MOST + 1]},
    "commit": {
        "epoch": [*NO_WHOLE, 0, MOST + 1],
        "alpha": [None, *NO_NUMBER, 0, 0.0, -0.5, 1.0000001, 2],
        "accepted": [None, True, 1, 0.5, "0", [-1], [0.0], [True], ["0"], [None], [[0]], [{}]]
        + [[math.nan], [0, 0], [1], [MOST + 1], {"0": 0}],
        "refused": [None, True, 1, 0.5, "0", [-1], [1.0], [True], ["1"], [None], [[1]], [{}]]
        + [[math.nan], [1, 1], [0], [MOST + 1], {"1": 1}],
        "applied": [None, 0, 1, 0.5, "true", [], {}, math.nan],
    },
}


@pytest.mark.parametrize(
    "name, field", [(name, field) for name, fields in WRONG.items() for field in fields]
)
def test_wrong_values_field_by_field(name, field):
    legal = {values["do"]: values for values in LEGAL}[name]
    for value in WRONG[name][field]:
        values = configure(**{field: value}) if name == "configure" else {**legal, field: value}
        assert refusal(json.dumps(values)).startswith(f"{name}: "), value


@pytest.mark.parametrize("empty", ["", {}])
@pytest.mark.parametrize("field", ["plain", "accepted", "refused"])
def test_what_is_empty_but_no_list(field, empty):
    legal = configure() if field == "plain" else commit()
    assert f"{field}={empty!r} is no list" in refusal(json.dumps({**legal, field: empty}))


@pytest.mark.parametrize(
    "values, message",
    [
        (configure(b=3), "configure: b=3 is out of range for k=5: trimmed mean needs 0 <= b <= 2"),
        (configure(rule="x"), "configure: rule='x' is unknown: choose one of trimmed-mean, mean"),
        (configure(nonfinite="x"), "configure: nonfinite='x' is unknown: choose reject or keep"),
        (configure(servers=21), "configure: servers=21 is out of range: needs 1 <= servers <= 20"),
        (configure(plain=[[0, 21]]), "configure: plain=[(0, 21)] is not within a model of 20 val"),
        (configure(deadline=-2), "configure: deadline=-2 is not more than 0 seconds"),
        (configure(deadline=math.nan), "configure: deadline=nan is no number"),
        (configure(k="5"), "configure: k='5' is no whole number from 1 to 16777216"),
        (commit(alpha=2), "commit: alpha=2.0 is out of range: needs 0 < alpha <= 1"),
        (commit(epoch=0), "commit: epoch=0 is no whole number from 1 to 16777216"),
        (commit(accepted=[0, 1]), "commit: slots are named twice in [[0, 1], [1]]"),
        (commit(applied=1), "commit: applied=1 is neither true nor false"),
        ({"do": "begin", "epoch": True}, "begin: epoch=True is no whole number from 0 to 16777216"),
        (commit(refused=[-1]), "commit: slot=-1 is no whole number from 0 to 16777216"),
        (configure(size=0), "configure: size=0 is no whole number from 1 to 281474976710656"),
        (configure(epoch="x" * 99), "configure: epoch='" + "x" * 39 + " is no whole number from 0"),
        ({"do": "x" * 99}, "unknown command '" + "x" * 40 + "'"),
    ],
)
def test_refusals_name_the_value_and_what_is_legal(values, message):
    assert refusal(json.dumps(values)).startswith(message)


@pytest.mark.parametrize("values", LEGAL, ids=lambda values: values["do"])
def test_fields_missing_or_too_many(values):
    name = values["do"]
    for field in set(values) - {"do", "deadline"}:
        text = refusal(json.dumps({key: v for key, v in values.items() if key != field}))
        assert text.startswith(f"{name}: ") and field in text
    for field in ("more", "self", "cls", "", "\ud800", "__class__"):
        assert refusal(json.dumps({**values, field: 1})).startswith(f"{name}: ")


@pytest.mark.parametrize(
    "values",
    [
        configure(k=MOST, b=0),
        configure(workers=MOST, epoch=MOST, fingerprint=2**48),
        configure(size=2**36, servers=SPREAD - 1, plain=[[2**36, 2**36]]),
        {"do": "begin", "epoch": MOST},
        commit(epoch=MOST, accepted=[MOST], refused=[MOST - 1]),
    ],
)
def test_the_largest_numbers(values):
    assert json.loads(to_json(read_command(json.dumps(values)))) == values


def test_float32_holds_every_number_of_a_header():
    assert np.float32(MOST) - np.float32(MOST - 1) == 1
    assert np.float32(MOST + 1) == np.float32(MOST)


def test_no_deadline_is_the_default():
    values = configure()
    del values["deadline"]
    assert read_command(json.dumps(values)).deadline is None


@pytest.mark.parametrize("body", ["", b"", "{", b"\xff\xfe\xfd", b"\x00", "\x00", "{} {}", "'a'"])
def test_no_json(body):
    assert refusal(body).startswith("no JSON (")


@pytest.mark.parametrize(
    "body", ["null", "1", "[]", '["do"]', '"begin"', "{}", '{"do": 1}', '{"do": ["end"]}', "NaN"]
)
def test_json_but_no_command(body):
    assert refusal(body) == refusal(body.encode()) == "no command"


@pytest.mark.parametrize("name", ["", "Begin", "begin ", "__class__", "pickle", "\x00", "\ud800"])
def test_unknown_commands(name):
    assert refusal(json.dumps({"do": name})) == f"unknown command {name!r}"


def test_the_last_of_two_equal_names_counts_and_is_checked():
    assert read_command('{"do": "end", "do": "begin", "epoch": -1, "epoch": 4}') == Begin(4)
    assert "epoch=-1" in refusal('{"do": "begin", "epoch": 4, "epoch": -1}')


def deepest(opening, closing):
    """The deepest nesting that JSON can read here."""
    low, high = 1, 10**5
    while high - low > 1:
        depth = (low + high) // 2
        try:
            json.loads(opening * depth + "1" + closing * depth)
            low = depth
        except RecursionError:
            high = depth
    return low


@pytest.mark.parametrize("opening, closing", [("[", "]"), ('{"a":', "}")])
def test_deep_nesting(opening, closing):
    """At every depth around that at which reading, or naming the value, gives up."""
    limit = deepest(opening, closing)
    for depth in [*range(limit - 60, limit + 10), 10**5]:
        deep = opening * depth + "1" + closing * depth
        refusal(deep)
        refusal(opening * depth)
        for values in (
            {"do": "begin", "epoch": "@"},
            configure(plain=[["@", 2]]),
            configure(rule="@"),
        ):
            refusal(json.dumps(values).replace('"@"', deep))


@pytest.mark.parametrize("digits", [10, 20, 400, 4299, 4301, 100_000])
def test_huge_numbers(digits):
    huge = "9" * digits
    for body in (huge, f"-{huge}", f"{huge}.5", f"1e{huge}"):
        refusal(body)
    refusal(json.dumps({"do": "begin", "epoch": "@"}).replace('"@"', f"-{huge}"))
    refusal(json.dumps(configure(servers="@")).replace('"@"', huge))
    refusal(json.dumps(configure(b="@")).replace('"@"', huge))
    refusal(json.dumps(commit(alpha="@")).replace('"@"', huge))


class Boom:
    def __reduce__(self):
        return touch, ()


touched = []


def touch():
    touched.append(True)


def test_a_pickle_is_no_json_and_is_not_carried_out():
    for version in range(pickle.HIGHEST_PROTOCOL + 1):
        body = pickle.dumps(Boom(), version)
        assert refusal(body).startswith("no JSON (")
    assert touched == []
    pickle.loads(body)  # it would have been
    assert touched == [True]


# ---- anything at all -----------------------------------------------------------------------

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**31, 2**53 + 1, 2**63, -(2**63), 10**30, 10**400])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["trimmed-mean", "mean", "keep", "reject"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
names = st.sampled_from(sorted({field for values in LEGAL for field in values}))


@st.composite
def nearly_legal(draw):
    """A legal command with some values, or a setting, replaced by anything."""
    values = dict(draw(st.sampled_from(LEGAL)))
    values.update(draw(st.dictionaries(names | st.text(max_size=4), anything, max_size=3)))
    if isinstance(values.get("settings"), dict):
        inner = st.sampled_from(["k", "b", "rule", "nonfinite", "x"])
        changes = draw(st.dictionaries(inner, anything, max_size=2))
        values["settings"] = {**values["settings"], **changes}
    return json.dumps(values)


def command_or_refusal(body):
    try:
        command = read_command(body)
    except ProtocolError as error:
        assert str(error)
    else:
        assert type(command) in (Configure, Begin, Commit, End)
        assert isinstance(to_json(command), str)


@given(st.text() | st.binary())
def test_any_text_or_bytes(body):
    command_or_refusal(body)


@given(anything.map(json.dumps))
def test_any_json(body):
    command_or_refusal(body)
    command_or_refusal(body.encode())


@settings(max_examples=200)
@given(nearly_legal())
def test_anything_in_a_command(body):
    command_or_refusal(body)


@given(st.sampled_from(LEGAL).map(json.dumps), st.data())
def test_commands_damaged_on_the_way(body, data):
    damaged = bytearray(body.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    command_or_refusal(bytes(damaged))
    command_or_refusal(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
