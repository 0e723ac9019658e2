"""Downloads from a local server: mirrors, checksums, interrupted downloads, full disks."""

import hashlib
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from slsgd_mx.data import download as download_module
from slsgd_mx.data.fetch import data_home, fetch, verify, where
from slsgd_mx.data.registry import DATASETS, Dataset, RemoteFile
from slsgd_mx.errors import ConfigError, DataError

CONTENT = bytes(range(256)) * 2000  # 512,000 bytes: two chunks
SECOND = CONTENT[::-1]


class Handler(BaseHTTPRequestHandler):
    """The first folder of the path says how the server behaves; every request is recorded."""

    def do_GET(self):
        mode, name = self.path.strip("/").split("/")
        asked = self.headers["Range"]
        self.server.seen.append((mode, name, asked, self.headers["User-Agent"]))
        body = {"one.bin": CONTENT, "two.bin": SECOND}[name]
        if mode == "moved":
            return self.answer(302, b"", Location=f"/good/{name}")
        if mode == "gone" or (mode == "onlytwo" and name == "one.bin"):
            return self.send_error(404)
        if mode in ("good", "lying") and asked:
            start = int(asked[len("bytes=") : -1])
            given = f"bytes {start}-{len(body) - 1}/{len(body)}"
            if mode == "lying":  # the right header is the one thing it lacks
                given = f"bytes {start - 1}-{len(body) - 2}/{len(body)}"
            return self.answer(206, body[start:], **{"Content-Range": given})
        lies = {
            "othersize": b"<html>please log in</html>",
            "wrong": b"x" * len(body),
            "cut": body[:300_000],
            "endless": body + body,
        }
        sent = lies.get(mode, body)
        length = {"cut": len(body), "endless": None}.get(mode, len(sent))
        self.answer(200, sent, **({} if length is None else {"Content-Length": length}))

    def answer(self, status, body, **headers):
        self.send_response(status)
        if status != 200:
            headers["Content-Length"] = len(body)
        for name, value in headers.items():
            self.send_header(name, str(value))
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
    """A data set of one file, and one of two alternatives."""
    one = RemoteFile("one.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), ())
    two = RemoteFile("two.bin", len(SECOND), hashlib.sha256(SECOND).hexdigest(), ())
    monkeypatch.setitem(DATASETS, "tiny", Dataset("tiny", "Tiny", (one,), {}))
    monkeypatch.setitem(DATASETS, "pair", Dataset("pair", "Pair", (one, two), {}))


def run(server, home, *modes, name="tiny"):
    return fetch(name, home, progress=False, mirrors=[f"{server.url}/{mode}/" for mode in modes])


def test_a_verified_file_is_not_downloaded_again(server, tmp_path):
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


def test_dead_hosts_are_skipped_and_progress_goes_to_standard_error(server, tmp_path, capsys):
    mirrors = ["http://127.0.0.1:9", "nonsense", f"{server.url}/gone", f"{server.url}/good"]
    assert fetch("tiny", tmp_path, mirrors=mirrors).read_bytes() == CONTENT
    output = capsys.readouterr()
    assert output.out == ""
    assert all(part in output.err for part in ("404", "one.bin", "512k"))


@pytest.mark.parametrize("first", ["gone", "othersize", "wrong", "cut", "endless"])
def test_second_mirror_is_used(server, tmp_path, first):
    assert run(server, tmp_path, first, "good").read_bytes() == CONTENT
    assert [seen[0] for seen in server.seen] == [first, "good"]


def test_every_failed_mirror_is_named_with_its_failure(server, tmp_path):
    found, expected = (hashlib.sha256(raw).hexdigest() for raw in (b"x" * len(CONTENT), CONTENT))
    with pytest.raises(DataError) as caught:
        run(server, tmp_path, "gone", "othersize", "endless", "wrong")
    for part in (
        "/gone/one.bin: HTTPError: 404",
        "offers 26 bytes, expected 512,000",
        "sent more than 512,000 bytes",
        f"wrong checksum, refused: SHA-256 {found}, expected {expected}",
    ):
        assert part in str(caught.value)
    assert os.listdir(tmp_path / "tiny") == []


def test_alternative_file(server, tmp_path):
    path = run(server, tmp_path, "onlytwo", name="pair")
    assert path.name == "two.bin"
    assert run(server, tmp_path, "gone", name="pair") == path  # it exists: no request is made
    assert where("pair", tmp_path) == (tmp_path / "pair", True)


def test_interrupted_download_is_continued(server, tmp_path):
    with pytest.raises(DataError, match="a rerun continues"):
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


@pytest.fixture
def part(tmp_path):
    (tmp_path / "tiny").mkdir()
    return tmp_path / "tiny" / "one.bin.part"


def test_another_range_than_the_requested_one_is_refused(server, tmp_path, part):
    part.write_bytes(CONTENT[:1000])
    with pytest.raises(DataError) as error:
        run(server, tmp_path, "lying")
    said = "offers bytes 999-511998/512000, expected bytes 1000-511999/512000"
    assert said in str(error.value) and part.read_bytes() == CONTENT[:1000]


@pytest.mark.parametrize("left", [b"junk", b"y" * len(CONTENT), b"z" * (len(CONTENT) + 5)])
@pytest.mark.parametrize("mode", ["good", "norange"])
def test_unusable_partial_file_is_replaced(server, tmp_path, part, left, mode):
    part.write_bytes(left)
    assert run(server, tmp_path, mode).read_bytes() == CONTENT


def test_complete_partial_file_needs_no_download(server, tmp_path, part):
    part.write_bytes(CONTENT)
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


def test_full_disk_is_noticed_before_the_download(server, tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(download_module.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DataError, match="needs 512,000 more bytes, the disk has 1,000 free"):
        run(server, tmp_path, "good")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_disk_is_noticed_while_writing(server, tmp_path, part, monkeypatch):
    monkeypatch.setattr(download_module, "require_file", lambda path: None)
    part.symlink_to("/dev/full")
    with pytest.raises(DataError, match="No space left on device"):
        run(server, tmp_path, "good", "good")
    assert len(server.seen) == 1  # no other mirror is tried


def test_one_writer_at_a_time(server, tmp_path, part):
    fcntl = pytest.importorskip("fcntl")
    with open(part, "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="another process is downloading"):
            run(server, tmp_path, "good")
    assert part.exists()  # the other process goes on writing it


@pytest.mark.parametrize("folder", ["", "wikitext2", "wikitext-2", "wikitext2/wikitext-2"])
@pytest.mark.parametrize("file", ["wiki.valid.tokens", "wikitext-2-v1.zip"])
def test_data_are_present_wherever_runs_find_them(tmp_path, folder, file):
    missing = (tmp_path / "wikitext2", False)
    assert where("wikitext2", tmp_path) == missing
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / folder / file).touch()
    unpacked = file.endswith("zip") and folder.endswith("wikitext-2")
    assert where("wikitext2", tmp_path) == (missing if unpacked else (tmp_path / folder, True))


def test_unknown_name(tmp_path):
    for function in (fetch, verify, where):
        with pytest.raises(ConfigError, match="'cifar' is unknown, did you mean 'cifar10'"):
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


def test_importing_the_modules_imports_nothing_heavy():
    heavy = "{'pooch', 'requests', 'mxnet', 'gluonnlp'}"
    code = f"import slsgd_mx.data.fetch, slsgd_mx.data.load, sys; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout.split() == [b"set()"]
