"""Commands as JSON: legal ones are read back unchanged, anything else is an error."""

import json
import math
import pickle
from dataclasses import MISSING, fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slsgd_mx.core.collusion import Settings
from slsgd_mx.parameter_server.commands import (
    COMMANDS,
    Begin,
    Collude,
    Commit,
    Configure,
    End,
    Multiply,
    Weigh,
    read_command,
    to_json,
)
from slsgd_mx.parameter_server.protocol import MOST, ProtocolError


def configure(**changes):
    """The values of a legal configure command in JSON."""
    settings = dict(k=5, b=1, rule="trimmed-mean", nonfinite="reject", attack=None, seed=4)
    values = dict(workers=3, servers=2, size=20, replaced=[[0, 4], [18, 20]], epoch=7)
    values.update(do="configure", settings=settings, fingerprint=99, deadline=2.5)
    values.update(places=[["w", 0, 20]], sources=[], owners=[0, 2, 1, 0, 2])
    inner = {name: changes.pop(name) for name in list(changes) if name in settings}
    return {**values, "settings": {**settings, **inner}, **changes}


def commit(**changes):
    values = dict(epoch=8, alpha=0.5, accepted=[0, 2, 3], refused=[1], applied=True, matrix=None)
    return {"do": "commit", **values, "owners": [], **changes}


def multiply(**changes):
    return {"do": "multiply", "epoch": 8, "slots": [0, 2], "poisoned": [1], **changes}


def weigh(**changes):
    return {"do": "weigh", "epoch": 8, "slots": [0, 2], "matrix": [[0.5, 0.5]], **changes}


def collude(**changes):
    values = dict(epoch=8, honest=[0, 2], poisoned=[1], combination=[[0.5, -1.5]])
    return {"do": "collude", **values, **changes}


LEGAL = [configure(), {"do": "begin", "epoch": 3}, multiply(), weigh(), collude(), commit()]
LEGAL += [{"do": "end"}]
LARGEST = [
    configure(k=MOST, b=0, owners=[]),
    configure(workers=MOST, epoch=MOST, fingerprint=2**48, seed=2**70),
    configure(size=2**36, servers=1024, replaced=[[2**36, 2**36]], places=[]),
    {"do": "begin", "epoch": MOST},
    commit(epoch=MOST, accepted=[MOST], refused=[MOST - 1]),
    multiply(epoch=MOST, slots=[MOST], poisoned=[]),
    weigh(epoch=MOST, slots=[MOST], matrix=[[1e308], [-1e308]]),
    collude(epoch=MOST, honest=[], poisoned=[MOST], combination=None),
]


@st.composite
def configures(draw):
    k, size = draw(st.integers(1, 30)), draw(st.integers(1, 10**6))
    bounds = st.tuples(st.integers(0, size), st.integers(0, size)).map(sorted).map(tuple)
    rule = draw(st.sampled_from(["trimmed-mean", "mean", "median"]))
    nonfinite = draw(st.sampled_from(["reject", "keep"]))
    return Configure(
        Settings(k, draw(st.integers(0, (k - 1) // 2)), rule, nonfinite),
        workers=draw(st.integers(1, 1000)),
        servers=draw(st.integers(1, min(size, 32))),
        size=size,
        replaced=draw(st.lists(bounds, max_size=4)),
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


numbers = st.floats(allow_nan=False, allow_infinity=False)


def matrices(columns):
    return st.none() | st.lists(
        st.lists(numbers, min_size=columns, max_size=columns), min_size=1, max_size=3
    )


@st.composite
def requests(draw):
    """Commands about slots, between those that begin and commit an epoch."""
    epoch = draw(st.integers(1, 10**6))
    slots = draw(st.lists(st.integers(0, 50), unique=True, min_size=1, max_size=20))
    cut = draw(st.integers(0, len(slots)))
    return draw(
        st.just(Multiply(epoch, slots[:cut], slots[cut:]))
        | st.builds(Weigh, st.just(epoch), st.just(slots), matrices(len(slots)))
        | st.builds(Collude, *map(st.just, (epoch, slots[:cut], slots[cut:])), matrices(4))
    )


def with_lists(command):
    """A command that was read, its matrices as lists again, as they are sent."""
    values = {field.name: getattr(command, field.name) for field in fields(command)}
    arrays = {name: v.tolist() for name, v in values.items() if isinstance(v, np.ndarray)}
    return replace(command, **arrays)


begins = st.builds(Begin, st.integers(0, 10**6))


@given(configures() | commits() | requests() | begins | st.just(End()))
def test_commands_are_read_back(command):
    text = to_json(command)
    assert text.isascii() and json.loads(text)["do"] == type(command).__name__.lower()
    for body in (text, text.encode()):
        back = with_lists(read_command(body))
        assert type(back) is type(command) and back == command
        assert to_json(back) == text  # floats to the last bit


def test_tuples_are_read_back_as_lists():
    """The coordinator's commands contain tuples."""
    sent = Commit(1, 0.1, (0, 1), (2,), True)
    assert read_command(to_json(sent)) == Commit(1, 0.1, [0, 1], [2], True)


@pytest.mark.parametrize("values", LEGAL + LARGEST)
def test_legal_and_largest_values_are_accepted(values):
    assert json.loads(to_json(with_lists(read_command(json.dumps(values))))) == values


def test_every_command_is_among_the_legal_ones():
    assert [values["do"] for values in LEGAL] == list(COMMANDS)


def error_of(body):
    with pytest.raises(ProtocolError) as error:
        read_command(body)
    return str(error.value)


INFINITE = float("inf")
NOT_WHOLE = [None, True, False, -1, 1.0, 0.5, "1", [], [1], {}, math.nan, INFINITE, -INFINITE]
NOT_NUMBERS = [True, False, "1", [], [1], {}, math.nan, INFINITE, -INFINITE, 10**400, -(10**400)]
NOT_SLOTS = [None, True, 1, 0.5, "", "0", [-1], [0.0], [True], ["0"], [None], [[0]], [{}]]
NOT_SLOTS += [[math.nan], [0, 0], [MOST + 1], {}, {"0": 0}]
NOT_MATRICES = [True, 1, 0.5, "", "ab", [], [[]], [1, 2], [["1", 2]], [[True, 2]], [[None, 2]]]
NOT_MATRICES += [[[math.nan, 2]], [[INFINITE, 2]], [[10**400, 2]], [[[1], [2]]], {}, {"ab": 1}]
WRONG = {
    "configure": {
        "settings": [None, True, 1, 0.5, "k", [], [5], {}, {"b": 1}, {"k": 5, "x": 1}, math.nan],
        "workers": [*NOT_WHOLE, 0, MOST + 1],
        "servers": [*NOT_WHOLE, 0, 21, 10**400],
        "size": [*NOT_WHOLE, 0, 19, 10**400],  # two of them are too small for replaced
        "replaced": [None, True, 1, 0.5, "", "ab", ["ab"], [1], [[1]], [[1, 2, 3]], {}, {"ab": 1}]
        + [
            [[0, 21]],
            [[2, 1]],
            [[-1, 2]],
            [[0.0, 2]],
            [[0, True]],
            [[None, 2]],
            [[[], 2]],
            [[0, math.nan]],
        ],
        "epoch": [*NOT_WHOLE, MOST + 1],
        "fingerprint": [*NOT_WHOLE, 2**48 + 1],
        "deadline": [*NOT_NUMBERS, 0, 0.0, -1, -1e-300],
        "owners": [None, True, 1, "0", {}, [0], [0] * 6, [0, 1, 2, 0, 3], [0, 1, 2, 0, -1]]
        + [[0, 1, 2, 0, wrong] for wrong in NOT_WHOLE],
        "k": [*NOT_WHOLE, 0, 2, MOST + 1],
        "b": [None, True, -1, 1.0, "1", [], {}, math.nan, INFINITE, 3, 10**400],
        "rule": [None, True, 0, 0.5, "best", "", [], ["mean"], {}, {"mean": 1}, math.nan],
        "nonfinite": [None, True, 0, "maybe", "", [], ["keep"], {}, math.nan],
    },
    "begin": {"epoch": [*NOT_WHOLE, MOST + 1]},
    "multiply": {
        "epoch": [*NOT_WHOLE, 0, MOST + 1],
        "slots": [*NOT_SLOTS, [1]],
        "poisoned": [*NOT_SLOTS, [2]],
    },
    "weigh": {
        "epoch": [*NOT_WHOLE, 0, MOST + 1],
        "slots": [*NOT_SLOTS, [0], [0, 1, 2]],
        "matrix": [*NOT_MATRICES, [[1]], [[1, 2, 3]]],
    },
    "collude": {
        "epoch": [*NOT_WHOLE, 0, MOST + 1],
        "honest": [*NOT_SLOTS, [1]],
        "poisoned": [*NOT_SLOTS, [2]],
        "combination": NOT_MATRICES,
    },
    "commit": {
        "epoch": [*NOT_WHOLE, 0, MOST + 1],
        "alpha": [None, *NOT_NUMBERS, 0, 0.0, -0.5, 1.0000001, 2],
        "accepted": [*NOT_SLOTS, [1]],
        "refused": [*NOT_SLOTS, [0]],
        "owners": [None, True, 1, "0", {}, [-1], [MOST], [0.5], ["0"], [True], [[0]]],
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
        assert error_of(json.dumps(values)).startswith(f"{name}: "), value


@pytest.mark.parametrize(
    "values, message",
    [
        (configure(b=3), "b=3 is out of range for k=5: trimmed mean needs 0 <= b <= 2"),
        (configure(rule="x"), "rule='x' is unknown: choose one of trimmed-mean, mean"),
        (configure(nonfinite="x"), "nonfinite='x' is unknown: choose one of reject, keep"),
        (configure(servers=21), "servers=21 is out of range: needs 1 <= servers <= 20"),
        (configure(replaced=[[0, 21]]), "replaced=[(0, 21)] is not within a model of 20"),
        (configure(replaced={}), "replaced={} is not a list"),
        (configure(deadline=-2), "deadline=-2 is out of range: needs deadline > 0"),
        (configure(deadline=math.nan), "deadline=nan is not a number"),
        (configure(k="5"), "k='5' is not a whole number from 1 to 16777216"),
        (configure(size=0), "size=0 is not a whole number from 1 to 281474976710656"),
        (configure(epoch="x" * 99), f"epoch='{'x' * 39} is not a whole number from"),
        (configure(fingerprint=10**400), f"fingerprint=1{'0' * 39} is not a whole number from 0"),
        (commit(alpha=2), "alpha=2.0 is out of range: needs 0 < alpha <= 1"),
        (commit(epoch=0), "epoch=0 is not a whole number from 1 to 16777216"),
        (commit(epoch=MOST + 1), "epoch=16777217 is not a whole number from 1 to 16777216"),
        (commit(accepted=[0, 1]), "slots occur twice in [[0, 1], [1]]"),
        (commit(accepted=""), "accepted='' is not a list"),
        (commit(refused={}), "refused={} is not a list"),
        (commit(refused=[-1]), "slot=-1 is not a whole number from 0 to 16777216"),
        (commit(applied=1), "applied=1 is neither true nor false"),
        ({"do": "begin", "epoch": True}, "epoch=True is not a whole number from 0 to 16777216"),
    ],
)
def test_errors_name_the_value_and_the_legal_range(values, message):
    assert error_of(json.dumps(values)).startswith(f"{values['do']}: {message}")


def required_by(kind):
    return [f.name for f in fields(kind) if f.default is f.default_factory is MISSING]


@pytest.mark.parametrize("values", LEGAL, ids=lambda values: values["do"])
def test_fields_missing_or_too_many(values):
    name = values["do"]
    for field in required_by(COMMANDS[name]):
        text = error_of(json.dumps({key: v for key, v in values.items() if key != field}))
        assert text.startswith(f"{name}: ") and field in text
    for field in ("more", "self", "cls", "", "\ud800", "__class__"):
        assert error_of(json.dumps({**values, field: 1})).startswith(f"{name}: ")


def test_float32_represents_every_number_of_a_header():
    assert np.float32(MOST) - np.float32(MOST - 1) == 1
    assert np.float32(MOST + 1) == np.float32(MOST)


def test_no_deadline_is_the_default():
    values = configure()
    del values["deadline"]
    assert read_command(json.dumps(values)).deadline is None


@pytest.mark.parametrize("body", ["", b"", "{", b"\xff\xfe\xfd", b"\x00", "\x00", "{} {}", "'a'"])
def test_not_json(body):
    assert error_of(body).startswith("not JSON (")


@pytest.mark.parametrize(
    "body", ["null", "1", "[]", '["do"]', '"begin"', "{}", '{"do": 1}', '{"do": ["end"]}', "NaN"]
)
def test_json_that_is_not_a_command(body):
    assert error_of(body) == error_of(body.encode()) == "not a command"


@pytest.mark.parametrize(
    "name", ["", "Begin", "begin ", "__class__", "pickle", "\x00", "\ud800", "x" * 99]
)
def test_unknown_commands(name):
    assert error_of(json.dumps({"do": name})) == f"unknown command {name[:40]!r}"


def test_last_of_two_equal_names_counts_and_is_checked():
    assert read_command('{"do": "end", "do": "begin", "epoch": -1, "epoch": 4}') == Begin(4)
    assert "epoch=-1" in error_of('{"do": "begin", "epoch": 4, "epoch": -1}')


BEGIN = {"do": "begin", "epoch": "@"}


def deepest(opening, closing):
    """The deepest nesting that this Python reads as JSON."""
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
    """At every depth around the one at which reading, or showing the value, fails."""
    limit = deepest(opening, closing)
    for depth in [*range(limit - 60, limit + 10), 10**5]:
        deep = opening * depth + "1" + closing * depth
        error_of(deep)
        error_of(opening * depth)
        for values in (BEGIN, configure(replaced=[["@", 2]]), configure(rule="@")):
            error_of(json.dumps(values).replace('"@"', deep))


@pytest.mark.parametrize("digits", [10, 20, 400, 4299, 4301, 100_000])
def test_huge_numbers(digits):
    huge = "9" * digits
    for body in (huge, f"-{huge}", f"{huge}.5", f"1e{huge}"):
        error_of(body)
    error_of(json.dumps(BEGIN).replace('"@"', f"-{huge}"))
    for values in (configure(servers="@"), configure(b="@"), commit(alpha="@")):
        error_of(json.dumps(values).replace('"@"', huge))


class Boom:
    def __reduce__(self):
        return print, ("executed",)


def test_pickle_is_not_json_and_is_not_executed(capsys):
    for version in range(pickle.HIGHEST_PROTOCOL + 1):
        body = pickle.dumps(Boom(), version)
        assert error_of(body).startswith("not JSON (")
    assert capsys.readouterr().out == ""
    pickle.loads(body)  # it would have printed
    assert capsys.readouterr().out == "executed\n"


# ---- anything at all -----------------------------------------------------------------------

special = [2**31, 2**53 + 1, 2**63, -(2**63), 10**30, 10**400]
names_of_values = ["trimmed-mean", "mean", "keep", "reject"]
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
anything = st.recursive(
    plain | st.sampled_from(special + names_of_values),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
names = st.sampled_from(sorted({field for values in LEGAL for field in values}))


@st.composite
def nearly_legal(draw):
    """A legal command in which some values, or a setting, are replaced by anything."""
    values = dict(draw(st.sampled_from(LEGAL)))
    values.update(draw(st.dictionaries(names | st.text(max_size=4), anything, max_size=3)))
    if isinstance(values.get("settings"), dict):
        inner = st.sampled_from(["k", "b", "rule", "nonfinite", "x"])
        changes = draw(st.dictionaries(inner, anything, max_size=2))
        values["settings"] = {**values["settings"], **changes}
    return json.dumps(values)


def check_command_or_error(body):
    try:
        command = read_command(body)
    except ProtocolError as error:
        assert str(error)
    else:
        assert type(command) in COMMANDS.values()
        assert isinstance(to_json(with_lists(command)), str)


@settings(max_examples=4 * settings.default.max_examples)  # 100, or 20 in a quick check
@given(st.text() | st.binary() | anything.map(json.dumps) | nearly_legal())
def test_any_message_is_a_command_or_an_error(body):
    check_command_or_error(body)
    if isinstance(body, str):
        check_command_or_error(body.encode(errors="replace"))


@given(st.sampled_from(LEGAL).map(json.dumps), st.data())
def test_damaged_commands(body, data):
    damaged = bytearray(body.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    check_command_or_error(bytes(damaged))
    check_command_or_error(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
