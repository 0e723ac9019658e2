"""Files that are written whole or not at all, logs, and files of arrays that may lie."""

import errno
import os
import stat
import struct
import threading
import time

import pytest
from helpers.run_folders import VALUES, bits, cut, leftovers

from slsgd_mx.errors import RunError
from slsgd_mx.system import files
from slsgd_mx.system.files import (
    disk_errors,
    load_arrays,
    open_log,
    replacing,
    save_arrays,
    write_atomically,
)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, failing):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError):
        write_atomically(path, b"new")
    with pytest.raises(OSError):
        save_arrays(path, VALUES)
    assert path.read_bytes() == b"old" and leftovers(tmp_path) == []


def test_the_same_file_is_written_by_one_process_at_a_time(tmp_path):
    """Two equal commands that wait for the same runs draw their figure at the same moment."""
    path, began, order = tmp_path / "figure.png", threading.Event(), []

    def write_too():
        began.set()
        with replacing(path, ".tmp") as beside:
            order.append("second begins")
            beside.write_bytes(b"second")

    other = threading.Thread(target=write_too)
    with replacing(path, ".tmp") as beside:
        other.start()
        began.wait()
        time.sleep(0.2)
        beside.write_bytes(b"first")
        order.append("first ends")
    other.join(20)
    assert order == ["first ends", "second begins"]
    assert path.read_bytes() == b"second" and leftovers(tmp_path) == []


def test_a_writer_that_takes_too_long_does_not_publish_half_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_WRITE", 0.1)
    path, why = tmp_path / "file", "another process has replaced file.tmp"
    with pytest.raises(OSError, match=why), replacing(path, ".tmp") as slow:
        slow.write_bytes(b"half")
        write_atomically(path, b"whole")  # it gives up waiting for the first
    assert path.read_bytes() == b"whole"


def test_a_writer_that_never_ends_does_not_stop_the_others(tmp_path, monkeypatch):
    """It is suspended, or was interrupted between locking the file and remembering it."""
    monkeypatch.setattr(files, "LONGEST_WRITE", 0.2)
    lost = files._create_locked(tmp_path / "file.tmp")
    write_atomically(tmp_path / "file", b"text")
    assert (tmp_path / "file").read_bytes() == b"text" and leftovers(tmp_path) == []
    os.close(lost)


def test_a_log_is_written_through_no_link_and_no_pipe(tmp_path):
    outside, log = tmp_path / "outside", tmp_path / "scheduler.log"
    outside.write_text("precious")
    log.symlink_to(outside)
    for text in (b"one ", b"two"):
        with open_log(log) as file:
            file.write(text)
    assert outside.read_text() == "precious" and log.read_text() == "one two"
    log.unlink()
    os.mkfifo(log)
    with pytest.raises(RunError, match="scheduler.log is not a file: move it away"):
        open_log(log)


def test_a_file_system_that_cannot_sync_folders(tmp_path, monkeypatch):
    """Shared folders of virtual machines and some network file systems; a file must be synced."""

    def fsync(handle, sync=os.fsync):
        if stat.S_ISDIR(os.fstat(handle).st_mode) or failing:
            raise OSError(errno.EINVAL, "Invalid argument")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    failing = []
    write_atomically(tmp_path / "file", b"text")
    assert (tmp_path / "file").read_bytes() == b"text"
    failing.append(True)
    with pytest.raises(OSError, match="Invalid argument"):
        write_atomically(tmp_path / "file", b"other")


def test_a_full_quota_is_a_full_disk(tmp_path):
    for number in (errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(RunError, match="free some space"), disk_errors(tmp_path):
            raise OSError(number, os.strerror(number))


def test_arrays_come_back_bit_for_bit_or_are_an_error(tmp_path):
    save_arrays(tmp_path / "x", VALUES)
    loaded = load_arrays(tmp_path / "x")
    assert bits(loaded) == bits(VALUES)
    assert loaded["w"].shape == (2, 3) and leftovers(tmp_path) == []
    save_arrays(tmp_path / "y", VALUES)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()
    cut(tmp_path / "x")
    with pytest.raises(RunError, match="is corrupt"):
        load_arrays(tmp_path / "x")


def arrays_file(**changed):
    """The bytes of a file with one array of 2 x 3 values, or of one whose headers lie."""
    about = dict(magic=0x112, count=1, array=0xF993FAC9, storage=0, axes=2, shape=(2, 3), kind=0)
    about.update(dict(data=bytes(24), names=1, length=1, name=b"x", end=b""), **changed)
    shape = struct.pack(f"<{len(about['shape'])}q", *about["shape"])
    head = struct.pack("<QQQ", about["magic"], 0, about["count"])
    head += struct.pack("<IiI", about["array"], about["storage"], about["axes"]) + shape
    head += struct.pack("<iii", 1, 0, about["kind"]) + about["data"]
    names = struct.pack("<QQ", about["names"], about["length"])
    return head + names + about["name"] + about["end"]


LIES = {
    "it is not a file of arrays": dict(magic=0x113),
    "an array is not dense": dict(storage=1),
    "an array has 33 axes": dict(axes=33),
    "an array has the shape": dict(shape=(-2, 3)),
    "an array is longer than the file": dict(shape=(2**40, 3)),
    "arrays have 7 names": dict(names=7),
    "a name is longer than the file": dict(length=2**60),
    "can't decode": dict(name=b"\xff"),
    "something follows the arrays": dict(end=b"more"),
    "an array is not dense, or of another version": dict(count=2**40),
    "it holds no arrays": dict(count=0),
}


@pytest.mark.parametrize("said", LIES)
def test_headers_that_lie_are_noticed_before_mxnet_believes_them(tmp_path, said):
    """MXNet would allocate what they claim: gigabytes for 100 bytes."""
    path = tmp_path / "model.params"
    path.write_bytes(arrays_file())
    assert load_arrays(path)["x"].shape == (2, 3)
    path.write_bytes(arrays_file(**LIES[said]))
    with pytest.raises(RunError, match="is corrupt") as error:
        load_arrays(path)
    assert said in str(error.value)
    path.write_bytes(arrays_file()[:20])
    with pytest.raises(RunError, match="is corrupt: it ends too early"):
        load_arrays(path)
