"""Settings of a distributed run: a wrong one is told with its value and what is legal."""

import math

import pytest

from slsgd_mx.dist.launcher import Options, find_port
from slsgd_mx.dist.node import ROLES, Cluster, Node
from slsgd_mx.errors import ConfigError

LEGAL = {
    "DMLC_NUM_WORKER": "3",
    "DMLC_NUM_SERVER": "2",
    "DMLC_PS_ROOT_URI": "10.0.0.1",
    "DMLC_PS_ROOT_PORT": "9091",
}


def refusal(call, *args, **options):
    with pytest.raises(ConfigError) as error:
        call(*args, **options)
    assert error.value.exit_code == 2
    return str(error.value)


# ---- Cluster -------------------------------------------------------------------------------


def test_a_cluster_from_the_environment():
    more = {"DMLC_ROLE": "worker", "PATH": "/bin"}
    assert Cluster.from_environment({**LEGAL, **more}) == Cluster(3, 2, "10.0.0.1", 9091)


@pytest.mark.parametrize("role", ROLES)
def test_a_cluster_gives_the_variables_it_is_read_from(role):
    cluster = Cluster(3, 2, "10.0.0.1", 9091)
    assert cluster.variables(role) == {"DMLC_ROLE": role, **LEGAL}
    assert Cluster.from_environment(cluster.variables(role)) == cluster


@pytest.mark.parametrize("port", ["1", "65535"])
def test_the_first_and_the_last_port(port):
    variables = {**LEGAL, "DMLC_PS_ROOT_PORT": port}
    assert Cluster.from_environment(variables).port == int(port)


@pytest.mark.parametrize("name", LEGAL)
def test_a_variable_that_is_not_set(name):
    rest = {key: value for key, value in LEGAL.items() if key != name}
    assert refusal(Cluster.from_environment, rest).startswith(f"{name} is not set: ")


@pytest.mark.xfail(strict=True, reason="isdigit() is true of digits that int() does not take")
@pytest.mark.parametrize(
    "name, text",
    [
        ("DMLC_NUM_WORKER", "²"),
        ("DMLC_NUM_SERVER", "1²"),
        ("DMLC_PS_ROOT_PORT", "²"),
        ("DMLC_PS_ROOT_PORT", "1" * 5000),
    ],
)
def test_digits_that_are_no_number(name, text):
    assert refusal(Cluster.from_environment, {**LEGAL, name: text}).startswith(f"{name}=")


def test_an_empty_address():
    text = refusal(Cluster.from_environment, {**LEGAL, "DMLC_PS_ROOT_URI": ""})
    assert text == "DMLC_PS_ROOT_URI is not set: it is the address of the scheduler"


NO_WHOLE = ["", "0", "-1", "+1", "1.0", "1.5", "1e3", " 2", "2 ", "two", "nan", "0x2", "½"]


@pytest.mark.parametrize("text", NO_WHOLE)
@pytest.mark.parametrize("name", ["DMLC_NUM_WORKER", "DMLC_NUM_SERVER"])
def test_numbers_of_nodes_out_of_range(name, text):
    told = refusal(Cluster.from_environment, {**LEGAL, name: text})
    assert told == f"{name}={text!r} must be a whole number from 1 on"


@pytest.mark.parametrize("text", [*NO_WHOLE, "65536", "99999999999"])
def test_ports_out_of_range(text):
    told = refusal(Cluster.from_environment, {**LEGAL, "DMLC_PS_ROOT_PORT": text})
    assert told == f"DMLC_PS_ROOT_PORT={text!r} must be a whole number from 1 to 65535"


@pytest.mark.parametrize("patience", [1.99, 0, -5])
def test_a_node_is_not_impatient(patience):
    told = refusal(Node, Cluster(1, 1, "h", 1), "worker", patience)
    assert told == f"patience={patience:g} is out of range: needs patience >= 2 seconds"


# ---- Options -------------------------------------------------------------------------------


def test_options_on_the_edges():
    options = Options(workers=1, servers=1, patience=2, restarts=0, deadline=1e-3)
    assert options.restarts == 0 and options.deadline == 1e-3
    assert Options().deadline is None


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(workers=0), "workers=0 is out of range: needs workers >= 1"),
        (dict(workers=-3), "workers=-3 is out of range: needs workers >= 1"),
        (dict(servers=0), "servers=0 is out of range: needs servers >= 1"),
        (dict(restarts=-1), "restarts=-1 is out of range: needs restarts >= 0"),
        (dict(patience=1.9), "patience=1.9 is out of range: needs patience >= 2 seconds"),
        (dict(patience=-math.inf), "patience=-inf is out of range: needs patience >= 2 seconds"),
        (dict(deadline=0), "deadline=0 is out of range: needs deadline > 0 seconds"),
        (dict(deadline=-1.5), "deadline=-1.5 is out of range: needs deadline > 0 seconds"),
        (dict(deadline=math.nan), "deadline=nan is out of range: needs deadline > 0 seconds"),
    ],
)
def test_options_out_of_range(options, message):
    assert refusal(Options, **options) == message


@pytest.mark.xfail(strict=True, reason="comparisons let NaN, infinity and fractions pass")
@pytest.mark.parametrize(
    "options",
    [
        dict(patience=math.nan),
        dict(patience=math.inf),
        dict(deadline=math.inf),
        dict(workers=1.5),
        dict(servers=math.nan),
    ],
    ids=str,
)
def test_options_that_are_no_numbers_to_count_with(options):
    (name,) = options
    assert refusal(Options, **options).startswith(f"{name}={options[name]:g} is out of range")


def test_a_port_that_is_free():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", find_port()))
