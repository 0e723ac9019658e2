"""Memory for pushes: the limit, files without a name, pages that leave the memory, full disks."""

import errno
import math
import os
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from slsgd_mx.errors import ConfigError, DiskError
from slsgd_mx.parameter_server import launcher
from slsgd_mx.parameter_server.node import Cluster
from slsgd_mx.sweeps import pool
from slsgd_mx.system import machine, slot_memory
from slsgd_mx.system.slot_memory import SlotMemory, read_size, slot_limit


@pytest.fixture
def no_memory(monkeypatch):
    monkeypatch.setenv(slot_memory.VARIABLE, "0")


def resident():
    """Bytes of this process that are in memory, mapped files included."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


@pytest.mark.parametrize(
    "text, expected",
    [("0", 0), ("17", 17), ("17B", 17), ("2GB", 2e9), (" 1.5 mb ", 1.5e6), ("3kb", 3e3)],
)
def test_sizes(text, expected):
    assert read_size(text) == expected


@pytest.mark.parametrize(
    "text", ["", "-1", "GB", "2 G B", "1e9", "nan", "inf", "2GiB", "٢", "1.", "9" * 16]
)
def test_what_is_not_a_size_is_refused_with_the_value(text):
    with pytest.raises(ConfigError, match="is not a size: needs a number of bytes, at least 0"):
        read_size(text)


def test_default_limit_is_a_quarter_of_the_memory(monkeypatch):
    monkeypatch.delenv(slot_memory.VARIABLE, raising=False)
    monkeypatch.setattr(slot_memory, "total_memory", lambda: 8e9)
    assert slot_limit() == 2e9
    monkeypatch.setenv(slot_memory.VARIABLE, "much")
    with pytest.raises(ConfigError, match="'much'"):
        slot_limit()


def test_processes_share_the_default_limit_but_not_a_given_one(monkeypatch):
    monkeypatch.delenv(slot_memory.VARIABLE, raising=False)
    monkeypatch.setattr(slot_memory, "total_memory", lambda: 24e9)
    for processes, limit in ((3, 2e9), (2, 1e9)):  # the second: servers of one of three jobs
        for name, value in slot_memory.sharing(processes).items():
            monkeypatch.setenv(name, value)
        assert slot_limit() == limit
    monkeypatch.setenv(slot_memory.VARIABLE, "5GB")
    assert slot_limit() == 5e9


@pytest.mark.parametrize("text", ["0", "-1", "two", ""])
def test_an_illegal_number_of_processes_is_refused(text, monkeypatch):
    monkeypatch.delenv(slot_memory.VARIABLE, raising=False)
    monkeypatch.setenv(slot_memory.SHARERS, text)
    with pytest.raises(ConfigError, match="must be a whole number of processes, at least 1"):
        slot_limit()


def test_jobs_and_servers_get_their_share(monkeypatch, tmp_path):
    monkeypatch.delenv(slot_memory.SHARERS, raising=False)
    given = {}

    class Recorder:
        def __init__(self, threads, log=None, death_signal=None, **variables):
            given[len(given)] = variables.get(slot_memory.SHARERS)

        def send(self, job, last):
            pass

    monkeypatch.setattr(pool, "_Child", Recorder)
    monkeypatch.setattr(launcher, "Child", Recorder)
    pool.Pool(4, 1)._free_child("float32")
    roles = launcher._Roles(tmp_path, {}, launcher.Options(servers=2))
    roles.logs.mkdir()
    roles._secret = "secret"
    for name in ("scheduler", "server-0", "worker-0"):
        roles._start(name, Cluster(1, 2, "127.0.0.1", 9))
    assert given == {0: "4", 1: None, 2: "2", 3: None}


def test_memory_of_a_container_is_its_limit(monkeypatch):
    own = machine.total_memory()
    assert 0 < own < math.inf
    read = Path.read_text

    def limited(path, *arguments):
        return "1000000\n" if path.name == "memory.max" else read(path, *arguments)

    monkeypatch.setattr(Path, "read_text", limited)
    assert machine.total_memory() == 1e6


def test_arrays_go_to_a_file_when_they_exceed_the_limit(tmp_path, monkeypatch):
    monkeypatch.setenv(slot_memory.VARIABLE, "800")
    memory = SlotMemory(tmp_path)
    first = memory.zeros(10, 20)
    assert not memory.mapped
    second = memory.zeros(1, 1)
    assert memory.mapped
    for array in (first, second):
        assert array.dtype == np.float32 and array.flags.writeable and not array.any()


def test_without_a_folder_everything_is_in_memory(no_memory):
    memory = SlotMemory()
    memory.zeros(10, 20)
    assert not memory.mapped


@pytest.mark.parametrize("unnamed", [True, False], ids=["unnamed", "unlinked"])
def test_the_file_has_no_name(tmp_path, no_memory, monkeypatch, unnamed):
    """Where files cannot be made without one, it loses it at once: nothing is left after a kill."""
    if not unnamed:
        forbid_unnamed_files(monkeypatch)
    memory = SlotMemory(tmp_path / "made" / "as needed")
    array = memory.zeros(3, 1000)
    array[:] = 7
    assert list((tmp_path / "made" / "as needed").iterdir()) == []


def forbid_unnamed_files(monkeypatch):
    """Let the file system refuse O_TMPFILE, as some do."""
    flag, make = getattr(os, "O_TMPFILE", 0), os.open

    def refusing(path, flags, *arguments, **options):
        if flag and flags & flag == flag:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return make(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", refusing)


@pytest.mark.parametrize("kind", ["ext4", "tmpfs"])
def test_a_file_in_memory_is_warned_about(tmp_path, no_memory, monkeypatch, capfd, kind):
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"22 1 0:0 / /proc rw - proc proc rw\n23 1 {os.major(device)}:{os.minor(device)} / "
        f"/a\\040b rw,relatime shared:1 master:2 - {kind} none rw\n"
    )
    monkeypatch.setattr(slot_memory, "MOUNTS", mounts)
    assert slot_memory.file_system(tmp_path) == kind
    SlotMemory(tmp_path).zeros(3, 1000)
    warned = capfd.readouterr().err
    assert (
        warned == ""
        if kind == "ext4"
        else warned
        == (
            f"warning: 3 pushes of 1000 values need 0.0 GB in {tmp_path}, which is in memory, too "
            "(tmpfs): choose a folder on a disk (--slot-folder of dist server, --out of a run, "
            "--runs of figures)\n"
        )
    )


def test_nothing_is_said_of_file_systems_that_the_system_does_not_name(tmp_path, monkeypatch):
    assert slot_memory.file_system(tmp_path / "missing") == ""
    for name, text in (("empty", ""), ("odd", "22 1\n\n22 1 0:0\n")):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(slot_memory, "MOUNTS", tmp_path / name)
        assert slot_memory.file_system(tmp_path) == ""
    monkeypatch.setattr(slot_memory, "MOUNTS", tmp_path / "none")
    assert slot_memory.file_system(tmp_path) == ""


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="needs /proc")
def test_the_file_system_of_proc():
    assert slot_memory.file_system(Path("/proc/self")) == "proc"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_released_pages_leave_the_memory_and_keep_their_values(tmp_path, no_memory):
    memory, size = SlotMemory(tmp_path), 1 << 24
    array = memory.zeros(1, size)
    before = resident()
    array[:] = 3
    assert resident() - before > 3 * size
    memory.release()
    assert resident() - before < size
    assert (array == 3).all()


@contextmanager
def full_disk(size):
    """No file may grow beyond ``size`` bytes."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("fallocate", [True, False], ids=["reserved", "written"])
def test_a_full_disk_is_an_error_before_anything_is_written(
    tmp_path, no_memory, monkeypatch, fallocate
):
    if not fallocate:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    match = "cannot write to .* 2 pushes of 50000 values need 0.0 GB there.*run the same command"
    with full_disk(1000), pytest.raises(DiskError, match=match.replace(" 2 p", r".*\(2 p")):
        SlotMemory(tmp_path).zeros(2, 50_000)
    assert list(tmp_path.iterdir()) == []


def test_without_fallocate_the_space_is_written(tmp_path, no_memory, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.setattr(slot_memory, "PIECE", 1000)
    array = SlotMemory(tmp_path).zeros(3, 777)
    assert array.shape == (3, 777) and not array.any()
