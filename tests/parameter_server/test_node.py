"""Options of a cluster, a node and the launcher: errors name the value and the legal range."""

import math
import socket

import pytest

from slsgd_mx.errors import ConfigError
from slsgd_mx.parameter_server import SEE_LOG
from slsgd_mx.parameter_server.launcher import Options, _Roles, find_port
from slsgd_mx.parameter_server.node import ROLES, Cluster, Node

LEGAL = {
    "DMLC_NUM_WORKER": "3",
    "DMLC_NUM_SERVER": "2",
    "DMLC_PS_ROOT_URI": "10.0.0.1",
    "DMLC_PS_ROOT_PORT": "9091",
}
SECONDS = "is out of range: needs a finite number of seconds, patience >= 2"


def refusal(call, *args, **options):
    with pytest.raises(ConfigError) as error:
        call(*args, **options)
    assert error.value.exit_code == 2
    return str(error.value)


@pytest.mark.parametrize("role", ROLES)
def test_cluster_returns_the_variables_it_is_read_from(role):
    cluster = Cluster(3, 2, "10.0.0.1", 9091)
    assert cluster.variables(role) == {"DMLC_ROLE": role, **LEGAL}
    assert Cluster.from_environment({**LEGAL, "DMLC_ROLE": role, "PATH": "/bin"}) == cluster
    for workers, servers, port in [(1, 10**6, 65535), (10**6, 1, 1)]:  # smallest and largest
        cluster = Cluster(workers, servers, "h", port)
        assert Cluster.from_environment(cluster.variables(role)) == cluster


@pytest.mark.parametrize("name", LEGAL)
def test_missing_variable(name):
    rest = {key: value for key, value in LEGAL.items() if key != name}
    assert refusal(Cluster.from_environment, rest).startswith(f"{name} is not set: ")
    text = refusal(Cluster.from_environment, {**LEGAL, "DMLC_PS_ROOT_URI": ""})
    assert text == "DMLC_PS_ROOT_URI is not set: it is the address of the scheduler"


NOT_WHOLE = ["", "0", "-1", "+1", "1.0", "1e3", " 2", "two", "0x2", "½", "1²", "1" * 5000]


@pytest.mark.parametrize(
    "name, most",
    [("DMLC_NUM_WORKER", 1000000), ("DMLC_NUM_SERVER", 1000000), ("DMLC_PS_ROOT_PORT", 65535)],
)
def test_numbers_out_of_range(name, most):
    for text in [*NOT_WHOLE, str(most + 1), "99999999999"]:
        message = refusal(Cluster.from_environment, {**LEGAL, name: text})
        assert message == f"{name}={text!r} must be a whole number from 1 to {most}"


@pytest.mark.parametrize("patience", [1.99, -5, math.nan, math.inf])
def test_patience_of_a_node_out_of_range(patience):
    message = f"patience={patience:g} {SECONDS}"
    assert refusal(Node, Cluster(1, 1, "h", 1), "worker", patience) == message
    assert refusal(Options, patience=patience) == message


@pytest.mark.parametrize("name, least", [("workers", 1), ("servers", 1), ("restarts", 0)])
def test_options_out_of_range(name, least):
    assert getattr(Options(**{name: least}, patience=2), name) == least
    message = f"{name}={least - 1} is out of range: needs {name} >= {least}"
    assert refusal(Options, **{name: least - 1}) == message
    for value in (1.5, 2.0, math.nan, math.inf, True, "2", None):
        text = refusal(Options, **{name: value})
        assert text.startswith(f"{name}={value!r} must be a whole number")


def test_found_port_is_free():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", find_port()))


def test_a_message_about_a_server_names_the_logs_and_quotes_them(tmp_path):
    roles = _Roles(tmp_path, {}, Options())
    (tmp_path / "logs").mkdir()
    for number in (0, 2):
        log = tmp_path / "logs" / f"server-{number}.log"
        log.write_text("12:00:00 server: waiting for 2 worker(s) and 3 server(s)\n")
    (tmp_path / "logs" / "server-1.log").write_text("Traceback\nKeyError: 'x'\n\n")
    said = roles._with_logs(f"a server did not commit the epoch: {SEE_LOG}")
    assert said.endswith(f"its log says why ({tmp_path / 'logs'}): KeyError: 'x'")
    assert roles._with_logs("the disk is full") == "the disk is full"
