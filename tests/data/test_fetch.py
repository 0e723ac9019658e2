"""Downloads over a loopback server: mirrors, checksums, interruption, disks."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from slsgd_mx.data import data_home, fetch, verify, where
from slsgd_mx.data import download as download_module
from slsgd_mx.data.registry import DATASETS, Dataset, RemoteFile
from slsgd_mx.errors import ConfigError, DataError

CONTENT = bytes(range(256)) * 2000  # 512,000 bytes: two chunks
SECOND = CONTENT[::-1]


class Handler(BaseHTTPRequestHandler):
    """The first folder of the path says how the server behaves; every request is noted."""

    def do_GET(self):
        mode, name = self.path.strip("/").split("/")
        self.server.seen.append((mode, name, self.headers["Range"], self.headers["User-Agent"]))
        body = {"one.bin": CONTENT, "two.bin": SECOND}[name]
        if mode == "moved":
            self.send_response(302)
            self.send_header("Location", f"/good/{name}")
            self.end_headers()
        elif mode == "gone" or (mode == "onlytwo" and name == "one.bin"):
            self.send_error(404)
        else:
            getattr(self, f"send_{mode}", self.send_good)(body)

    def send_good(self, body):
        asked = self.headers["Range"]
        start = int(asked[len("bytes=") : -1]) if asked else 0
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.finish_with(body[start:])

    def send_norange(self, body):
        self.send_response(200)
        self.finish_with(body)

    def send_othersize(self, body):
        self.send_response(200)
        self.finish_with(b"<html>please log in</html>")

    def send_wrong(self, body):
        self.send_response(200)
        self.finish_with(b"x" * len(body))

    def send_cut(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:300_000])

    def send_endless(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body + body)

    def finish_with(self, body):
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.seen = []
    httpd.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """A dataset of one file, and one with an alternative."""
    one = RemoteFile("one.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), ())
    two = RemoteFile("two.bin", len(SECOND), hashlib.sha256(SECOND).hexdigest(), ())
    monkeypatch.setitem(DATASETS, "tiny", Dataset("tiny", (one,)))
    monkeypatch.setitem(DATASETS, "pair", Dataset("pair", (one, two)))


def run(server, home, *modes, name="tiny"):
    return fetch(name, home, progress=False, mirrors=[f"{server.url}/{mode}/" for mode in modes])


def test_success_then_nothing_to_do(server, tmp_path):
    assert verify("tiny", tmp_path) == [("one.bin", "missing", "512,000 bytes to download")]
    path = run(server, tmp_path, "moved")
    assert path == tmp_path / "tiny" / "one.bin"
    assert path.read_bytes() == CONTENT
    assert os.listdir(path.parent) == ["one.bin"]
    assert all(agent.startswith("Mozilla/") for *_, agent in server.seen)
    asked = len(server.seen)
    assert run(server, tmp_path, "good") == path
    assert len(server.seen) == asked
    assert verify("tiny", tmp_path)[0][:2] == ("one.bin", "ok")


def test_progress_goes_to_standard_error(server, tmp_path, capsys):
    fetch("tiny", tmp_path, mirrors=[f"{server.url}/gone", f"{server.url}/good"])
    output = capsys.readouterr()
    assert output.out == ""
    assert "404" in output.err
    assert "one.bin" in output.err
    assert "512k" in output.err


def test_wrong_checksum_is_refused_with_both_values(server, tmp_path):
    with pytest.raises(DataError) as caught:
        run(server, tmp_path, "wrong")
    assert hashlib.sha256(b"x" * len(CONTENT)).hexdigest() in str(caught.value)
    assert hashlib.sha256(CONTENT).hexdigest() in str(caught.value)
    assert os.listdir(tmp_path / "tiny") == []


@pytest.mark.parametrize("first", ["gone", "othersize", "wrong", "cut", "endless"])
def test_second_mirror_helps(server, tmp_path, first):
    assert run(server, tmp_path, first, "good").read_bytes() == CONTENT
    assert [seen[0] for seen in server.seen] == [first, "good"]


def test_dead_host_then_second_mirror(server, tmp_path):
    mirrors = ["http://127.0.0.1:9", "nonsense", f"{server.url}/good"]
    assert fetch("tiny", tmp_path, progress=False, mirrors=mirrors).read_bytes() == CONTENT


def test_all_mirrors_fail_names_each(server, tmp_path):
    with pytest.raises(DataError) as caught:
        run(server, tmp_path, "gone", "othersize", "endless")
    message = str(caught.value)
    assert "/gone/one.bin: HTTPError: 404" in message
    assert "offers 26 bytes, expected 512,000" in message
    assert "sent more than 512,000 bytes" in message
    assert not (tmp_path / "tiny" / "one.bin").exists()


def test_alternative_file(server, tmp_path):
    path = run(server, tmp_path, "onlytwo", name="pair")
    assert path.name == "two.bin"
    assert run(server, tmp_path, "gone", name="pair") == path  # there already: nothing is asked
    folder, files, present = where("pair", tmp_path)
    assert folder == tmp_path / "pair"
    assert [there for _, there in files] == [False, True]
    assert present


def test_interrupted_then_rerun_continues(server, tmp_path):
    with pytest.raises(DataError, match="running again continues"):
        run(server, tmp_path, "cut")
    assert os.listdir(tmp_path / "tiny") == ["one.bin.part"]
    name, status, detail = verify("tiny", tmp_path)[0]
    assert status == "partial"
    begun = (tmp_path / "tiny" / "one.bin.part").stat().st_size
    assert 0 < begun <= 300_000
    assert detail == f"{begun:,} of 512,000 bytes"
    assert run(server, tmp_path, "good").read_bytes() == CONTENT
    assert server.seen[-1][2] == f"bytes={begun}-"
    assert os.listdir(tmp_path / "tiny") == ["one.bin"]


@pytest.mark.parametrize("left", [b"junk", b"y" * len(CONTENT), b"z" * (len(CONTENT) + 5)])
@pytest.mark.parametrize("mode", ["good", "norange"])
def test_unusable_leftover_is_replaced(server, tmp_path, left, mode):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "one.bin.part").write_bytes(left)
    assert run(server, tmp_path, mode).read_bytes() == CONTENT


def test_complete_leftover_needs_no_download(server, tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "one.bin.part").write_bytes(CONTENT)
    assert run(server, tmp_path, "gone").read_bytes() == CONTENT
    assert server.seen == []


def test_wrong_file_is_found_and_replaced(server, tmp_path):
    path = tmp_path / "tiny" / "one.bin"
    path.parent.mkdir()
    path.write_bytes(b"short")
    assert verify("tiny", tmp_path)[0] == ("one.bin", "wrong", "5 bytes, expected 512,000")
    path.write_bytes(b"x" * len(CONTENT))
    assert "expected " + hashlib.sha256(CONTENT).hexdigest() in verify("tiny", tmp_path)[0][2]
    with pytest.raises(DataError):
        run(server, tmp_path, "gone")
    assert run(server, tmp_path, "good").read_bytes() == CONTENT


def test_folder_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot write .*file"):
        run(server, tmp_path / "file", "good")


def test_full_disk_is_seen_before(server, tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(download_module.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DataError, match="needs 512,000 more bytes, the disk has 1,000 free"):
        run(server, tmp_path, "good")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_is_seen_while_writing(server, tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "one.bin.part").symlink_to("/dev/full")
    with pytest.raises(DataError, match="No space left on device"):
        run(server, tmp_path, "good", "good")
    assert len(server.seen) == 1  # another mirror would not help


def test_one_writer_at_a_time(server, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "tiny").mkdir()
    with open(tmp_path / "tiny" / "one.bin.part", "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="another process is downloading"):
            run(server, tmp_path, "good")


def test_unknown_name(tmp_path):
    for function in (fetch, verify, where):
        with pytest.raises(ConfigError, match="unknown data 'cifar': .*cifar10, wikitext2"):
            function("cifar", tmp_path)


def test_data_home(tmp_path, monkeypatch):
    monkeypatch.setenv("SLSGD_MX_DATA", str(tmp_path))
    assert data_home() == tmp_path
    assert where("wikitext2").folder == tmp_path / "wikitext2"
    monkeypatch.delenv("SLSGD_MX_DATA")
    assert data_home().name == "slsgd-mx"


def test_registry_is_well_formed():
    for name in ("cifar10", "wikitext2"):
        for file in DATASETS[name].files:
            assert len(file.sha256) == 64
            assert file.bytes > 4_000_000
            assert len(file.urls) >= 2
            assert all(u.startswith("https://") and u.endswith("/" + file.name) for u in file.urls)


def test_import_is_light():
    code = "import sys, slsgd_mx.data; print({'pooch', 'requests', 'mxnet'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout.split() == [b"set()"]
