"""A hostile worker and a stranger on the port, over the real wire: a run's bytes do not change."""

import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.parameter_server import PATIENCE, SMOKE, Roles, wait_until
from helpers.run_folders import numbers
from helpers.stranger import command, listeners, push, send

from slsgd_mx.parameter_server.commands import Commit, End, to_json
from slsgd_mx.parameter_server.launcher import Options, launch
from slsgd_mx.parameter_server.protocol import HEADER, MODEL, Header, key_on
from slsgd_mx.parameter_server.secret import Secret
from slsgd_mx.runs.folder import RunFolder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="MXNet's parameter server: Linux")

WORDS = ["cifar", *SMOKE.split(), "--loss-images", 80, "--epochs", 12, "--eval-every", 1]
WORDS += ["--q", 1, "--b", 1, "--alpha", 0.5, "--alpha-decay-epoch", 2]  # those of `alone`
KEY = key_on(0, 1, MODEL)
HOSTILE = """
import math, pickle, time
from pathlib import Path
from slsgd_mx.cli import main
from slsgd_mx.parameter_server.client import ParameterServerClient
from slsgd_mx.parameter_server.commands import Commit, End, to_json
from slsgd_mx.parameter_server.protocol import HEADER, Header, status_size
from slsgd_mx.parameter_server.secret import Secret
from slsgd_mx.system.mxnet import mx

class Bomb:
    def __reduce__(self):
        return (open, ("bomb", "w"))

def commit(epoch):
    return to_json(Commit(epoch, 1.0, [], [], False))

def command(kv, epoch):
    rubbish = ["", "rubbish {", "[]", '{"do": "reboot"}', '{"do": "commit"}', "[" * 99999,
               '{"do": "begin", "epoch": ' + '{"a":' * 5000 + "1" + "}" * 5001,
               '{"do": "begin", "epoch": ' + "9" * 400 + "}",
               pickle.dumps(Bomb(), 0).decode("latin-1"), commit(epoch - 1), commit(epoch + 1)]
    for text in rubbish:
        for head in (0, 6, 77):  # 1 to 5 are MXNet's own and change how it stores pushes
            kv._send_command_to_servers(head, text)
        kv._send_command_to_servers(0, RIGHT.seal(text))
    for text in (commit(epoch), to_json(End())):  # legal ones
        for body in (text, WRONG.seal(text), RIGHT.seal(text)[:-1]):
            kv._send_command_to_servers(0, body)

def push(kv, keys, sizes, secret, header):
    arrays = [mx.nd.full(size, 1e30) for size in sizes]
    for key, array in zip(keys, arrays):
        array[:HEADER] = secret.header(key, header)
    kv.push(keys, arrays)
    mx.nd.waitall()

def attack(client, slot, others):
    epoch, k, kv = client.epoch + 1, client.settings.k, client.node.kv
    command(kv, epoch)
    model = kv, client._model_keys, [memory.size for memory in client._buffers.memory]
    status = kv, client._status_keys[:1], [status_size(k)]
    for header in [(epoch, k, 1), (epoch, -7, 1), (epoch, 0.5, 1), (math.nan, slot, 1),
                   (math.inf, math.inf, math.inf), (epoch + 1, slot, 1), (epoch - 1, slot, 1),
                   (epoch, slot, 2), (epoch, slot, -1), *((epoch, other, 1) for other in others)]:
        push(*model, RIGHT, Header(*header))
        push(*status, RIGHT, Header(*header))
    for header in [(epoch, s, rank) for s in range(k) for rank in (0, 1)]:
        push(*model, WRONG, Header(*header))
        push(*status, WRONG, Header(*header))

send = ParameterServerClient._send

def send_rubbish_too(self, slot):
    global RIGHT, WRONG
    RIGHT, WRONG = self.node.secret, Secret("not the secret of this run")
    if self.node.rank == 1:
        own, epoch = self._shares_of(self.epoch + 1)[1], self.epoch + 1
        attack(self, slot, [s for s in range(self.settings.k) if s not in own])
        if epoch == 4 and slot == own[0]:
            Path("waiting").touch()  # for the stranger
            while not Path("go").exists():
                time.sleep(0.01)
    send(self, slot)

ParameterServerClient._send = send_rubbish_too
main(prog_name="slsgd-mx")
"""
SERVER = """
from slsgd_mx.cli import main
from slsgd_mx.parameter_server.node import Node, fill_free_memory

serve = Node.serve

def serve_in_used_memory(*arguments):  # MXNet's server reads memory that it does not initialise
    fill_free_memory(1)
    serve(*arguments)

Node.serve = serve_in_used_memory
main(prog_name="slsgd-mx")
"""


def strange_messages(size):
    """What a stranger may send to a server that MXNet survives."""
    stranger = Secret("a secret of nobody")

    def signed(slot, rank, count=size):
        values = np.full(count, 1e30, np.float32)
        values[:HEADER] = stranger.header(KEY, Header(4, slot, rank))
        return values

    legal = [to_json(End()), to_json(Commit(4, 1.0, [], [], False))]
    yield from (command(text) for text in ["hello", "[" * 999, "{}", *legal])
    yield from (command(stranger.seal(text)) for text in legal)
    yield from (push(KEY, signed(slot, rank)) for slot in range(4) for rank in (0, 1, 7))
    yield from (push(KEY, signed(0, 0, count)) for count in (HEADER, size - 1, size + 1, 2 * size))
    for kind in (np.float16, np.float64):
        yield push(KEY, np.ones(size, kind))
    for count in (0, 1, HEADER - 1):
        yield push(KEY, np.ones(count, np.float32))
    yield from [push(key, np.ones(5, np.float32)) for key in (77, 77, 1)]  # MXNet makes a key of it


def attacked_run(folder, size):
    """Train beside a hostile worker and a stranger; return roles, exit codes and command lines."""
    roles = Roles(folder, workers=2, servers=1)
    try:
        roles.start_all([*WORDS, "--out", folder / "run"], code=HOSTILE, server=SERVER)
        wait_until((folder / "waiting").exists, "epoch 4")
        ((_, port),) = listeners(roles.processes["server-0"].pid)
        for worker in (9, 11):  # ps-lite's numbers of the workers: answers go to them
            send(port, *strange_messages(HEADER + size), sender=worker)
        pids = [process.pid for process in roles.processes.values()]
        lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
        (folder / "go").touch()
        return roles, set(roles.wait().values()), lines
    finally:
        roles.stop()


def test_hostile_workers_and_strangers_change_nothing(config, alone, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    size = sum(value.size for value in RunFolder(alone.folder, config).model().values())
    roles, codes, lines = attacked_run(tmp_path, size)
    log = roles.log("server-0").read_text()
    assert codes == {0}, log[-3000:]
    assert numbers(tmp_path / "run") == numbers(alone.folder)
    assert not (tmp_path / "bomb").exists()
    for text in EXPECTED:
        assert f"ignored: {text}" in log, (text, log[-3000:])
    assert "Traceback" not in log
    lines += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(lines) > 10 and not any(roles.secret.encode() in line for line in lines)


EXPECTED = [
    "it does not come from a process that knows SLSGD_MX_SECRET",
    "not JSON (",
    "not a command",
    "unknown command 'reboot'",
    "begin: epoch=",
    "epoch 5 does not follow 3",
    "epoch 3 does not follow 3",
    "slot=4: needs 0 <= slot < 4",
    "there is no worker 2",
    "there is no worker -1",
    "slot 0 of epoch 4 is not trained by worker 1",
    "float16 (",
    "float64 (",
    "float32 (0,) has no header",
    "float32 (1,) has no header",
]


# ---- messages that MXNet does not survive --------------------------------------------------


def test_malformed_messages_cost_restarts_that_are_counted(
    config, alone, tmp_path, attempts, monkeypatch, capsys
):
    """Also: all roles listen on the loopback device only, whatever the environment says."""
    for name, value in dict(USE_KUBERNETES="1", LOCAL="0", NODE_HOST="0.0.0.0").items():
        monkeypatch.setenv(f"DMLC_{name}", value)
    monkeypatch.setenv("PS_DROP_MSG", "50")
    addresses, integers = [], push(KEY, np.ones(30, np.int32))
    hits = {2: ("server-0", integers), 5: ("coordinator", [b"not protobuf"])}

    def listen(progress):
        if progress.epoch in hits:
            roles, (name, message) = attempts[-1], hits[progress.epoch]
            found = {n: listeners(child.process.pid) for n, child in roles.children.items()}
            addresses.extend(address for places in found.values() for address, _ in places)
            name = name.replace("coordinator", roles.coordinator)
            send(found[name][0][1], message, sender=77)
            roles.children[name].process.wait(PATIENCE)  # else later epochs might be reported first

    options = Options(2, 1, restarts=1)  # only losses without a further epoch count
    result = launch(config, tmp_path / "run", listener=listen, options=options)
    assert numbers(result.folder) == numbers(alone.folder)
    assert len(attempts) == 3 and len(addresses) == 2 * 4 and set(addresses) == {"127.0.0.1"}
    said = capsys.readouterr().err
    assert "server-0 received a malformed message and aborted: restarting" in said
    assert "restarted 2 time(s), 2 of them after malformed messages" in said
