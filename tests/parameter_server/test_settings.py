"""Settings of a distributed run: a wrong one is told with its value and what is legal."""

import math

import pytest

from slsgd_mx.errors import ConfigError
from slsgd_mx.parameter_server.launcher import Options, find_port
from slsgd_mx.parameter_server.node import ROLES, Cluster, Node

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


def test_the_least_and_the_largest_numbers():
    for workers, servers, port in [(1, 10**6, 65535), (10**6, 1, 1)]:
        cluster = Cluster(workers, servers, "h", port)
        assert Cluster.from_environment(cluster.variables("worker")) == cluster


@pytest.mark.parametrize("name", LEGAL)
def test_a_variable_that_is_not_set(name):
    rest = {key: value for key, value in LEGAL.items() if key != name}
    assert refusal(Cluster.from_environment, rest).startswith(f"{name} is not set: ")


def test_an_empty_address():
    text = refusal(Cluster.from_environment, {**LEGAL, "DMLC_PS_ROOT_URI": ""})
    assert text == "DMLC_PS_ROOT_URI is not set: it is the address of the scheduler"


NO_WHOLE = ["", "0", "-1", "+1", "1.0", "1e3", " 2", "two", "0x2", "½", "1²", "1" * 5000]


@pytest.mark.parametrize(
    "name, most",
    [("DMLC_NUM_WORKER", 1000000), ("DMLC_NUM_SERVER", 1000000), ("DMLC_PS_ROOT_PORT", 65535)],
)
def test_numbers_out_of_range(name, most):
    for text in [*NO_WHOLE, str(most + 1), "99999999999"]:
        told = refusal(Cluster.from_environment, {**LEGAL, name: text})
        assert told == f"{name}={text!r} must be a whole number from 1 to {most}"


@pytest.mark.parametrize("patience", [1.99, -5, math.nan, math.inf])
def test_a_node_is_not_impatient(patience):
    told = refusal(Node, Cluster(1, 1, "h", 1), "worker", patience)
    assert (
        told
        == f"patience={patience:g} is out of range: needs a finite number of seconds, patience >= 2"
    )


# ---- Options -------------------------------------------------------------------------------


def test_options_on_the_edges():
    assert Options(workers=1, servers=1, patience=2, restarts=0).restarts == 0


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(workers=0), "workers=0 is out of range: needs workers >= 1"),
        (dict(servers=0), "servers=0 is out of range: needs servers >= 1"),
        (dict(restarts=-1), "restarts=-1 is out of range: needs restarts >= 0"),
        (
            dict(patience=1.9),
            "patience=1.9 is out of range: needs a finite number of seconds, patience >= 2",
        ),
        (
            dict(patience=math.nan),
            "patience=nan is out of range: needs a finite number of seconds, patience >= 2",
        ),
        (
            dict(patience=math.inf),
            "patience=inf is out of range: needs a finite number of seconds, patience >= 2",
        ),
    ],
)
def test_options_out_of_range(options, message):
    assert refusal(Options, **options) == message


@pytest.mark.parametrize("name", ["workers", "servers", "restarts"])
def test_options_that_are_no_numbers_to_count_with(name):
    for value in (1.5, 2.0, math.nan, math.inf, True, "2", None):
        told = refusal(Options, **{name: value})
        assert told.startswith(f"{name}={value!r} must be a whole number")


def test_a_port_that_is_free():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", find_port()))
