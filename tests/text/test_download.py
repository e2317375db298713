"""Downloads against a local server that resumes, refuses to, cuts off, or answers nonsense."""

import hashlib
import http.server
import re
import threading
import urllib.parse

import pytest

from transformer.errors import DownloadError
from transformer.text.download import copy, download, sha256_of

DATA = bytes((i * i + i // 7) % 251 for i in range(700_000))
SHA = hashlib.sha256(DATA).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves ``server.data``; the first part of the path switches on bad habits: /cut,ranges/file."""

    def do_GET(self):
        server = self.server
        habits = urllib.parse.urlparse(self.path).path.strip("/").split("/")[0].split(",")
        server.requests.append({name.lower(): value for name, value in self.headers.items()})
        data = server.data
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        fresh = self.headers.get("If-Range") in (None, server.etag)
        start = int(wanted[1]) if wanted and fresh and "ranges" in habits else 0
        if "missing" in habits:
            self.send_error(404)
            return
        if start >= len(data) and start:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.end_headers()
            return
        shifted = max(0, start - 10) if "shifted" in habits else start
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {shifted}-{len(data) - 1}/{len(data)}")
        if "silent" not in habits:
            self.send_header("Content-Length", str(len(data) - shifted))
        if "etag" in habits:
            self.send_header("ETag", server.etag)
        self.end_headers()
        body = data[shifted:]
        if len(body) > 300_000 and ("cut" in habits or ("cut-once" in habits and len(server.requests) == 1)):
            body = body[:300_000]
        self.wfile.write(body)
        if "edit" in habits and len(server.requests) == 1:
            server.data, server.etag = bytes(reversed(data)), '"second"'

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.data, running.etag, running.requests = DATA, '"first"', []
        running.url = f"http://127.0.0.1:{running.server_address[1]}"
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def get(server, habits, path, sha256=SHA):
    download(f"{server.url}/{habits}/file.gz", path, sha256, progress=False, timeout=5)


def part(path):
    return path.with_name(path.name + ".part")


@pytest.mark.parametrize("habits", ["plain", "ranges", "silent", "ranges,etag"])
def test_a_whole_file_arrives(server, tmp_path, habits):
    path = tmp_path / "deep" / "er" / "file.gz"
    get(server, habits, path)
    assert path.read_bytes() == DATA
    assert sha256_of(path) == SHA
    assert [entry.name for entry in path.parent.iterdir()] == ["file.gz"]
    assert len(server.requests) == 1
    assert server.requests[0]["accept-encoding"] == "identity"


def test_a_cut_connection_is_taken_up_again(server, tmp_path):
    path = tmp_path / "file.gz"
    get(server, "cut,ranges", path)
    assert path.read_bytes() == DATA
    assert [request.get("range") for request in server.requests] == [None, "bytes=300000-", "bytes=600000-"]


def test_a_cut_connection_without_ranges_gives_up_and_keeps_the_part(server, tmp_path):
    path = tmp_path / "file.gz"
    with pytest.raises(DownloadError, match=r"cut off.*--from DIR"):
        get(server, "cut", path)
    assert not path.exists()
    assert part(path).read_bytes() == DATA[:300_000]
    assert len(server.requests) == 2  # it tried to go on, and got no further


def test_a_later_run_goes_on(server, tmp_path):
    path = tmp_path / "file.gz"
    part(path).write_bytes(DATA[:123_456])
    get(server, "ranges", path)
    assert path.read_bytes() == DATA
    assert [request.get("range") for request in server.requests] == ["bytes=123456-"]


@pytest.mark.parametrize("habits", ["plain", "ranges", "ranges,shifted"])
@pytest.mark.parametrize("old", [DATA[:100_000], DATA, DATA + b"more", b"x" * 5000, b"x" * len(DATA), b""])
def test_any_old_part_ends_in_the_right_file(server, tmp_path, habits, old):
    path = tmp_path / "file.gz"
    part(path).write_bytes(old)
    path.write_bytes(b"an older file")
    get(server, habits, path)
    assert path.read_bytes() == DATA
    assert not part(path).exists()


def test_an_old_part_costs_no_needless_request(server, tmp_path):
    path = tmp_path / "file.gz"
    part(path).write_bytes(DATA)
    get(server, "ranges", path)
    assert len(server.requests) == 1  # the server says that nothing is missing
    part(path).write_bytes(DATA[:1000])
    get(server, "ranges,shifted", path)
    assert [request.get("range") for request in server.requests[1:]] == ["bytes=1000-", None]


def test_a_wrong_hash_removes_the_part_and_keeps_the_old_file(server, tmp_path):
    path = tmp_path / "file.gz"
    path.write_bytes(b"an older file")
    with pytest.raises(DownloadError, match=f"sha256 {'0' * 64}.*{SHA[:20]}"):
        get(server, "ranges", path, "0" * 64)
    assert path.read_bytes() == b"an older file"
    assert not part(path).exists()


def test_without_a_hash_editions_are_never_mixed(server, tmp_path):
    path = tmp_path / "file.zip"
    part(path).write_bytes(b"left over from last year")
    get(server, "cut-once,ranges,etag,edit", path, None)
    assert path.read_bytes() == DATA[::-1]
    assert [request.get("range") for request in server.requests] == [None, "bytes=300000-"]
    server.data, server.etag, server.requests[:] = DATA, '"first"', []
    with pytest.raises(DownloadError, match="cut off"):  # no mark of the edition: never resumed
        get(server, "cut,ranges,edit", path, None)
    assert all("range" not in request for request in server.requests)
    assert path.read_bytes() == DATA[::-1]


def test_a_missing_file_is_one_sentence(server, tmp_path):
    with pytest.raises(DownloadError, match="404") as refused:
        get(server, "missing", tmp_path / "file.gz")
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_no_connection_says_to_use_from(server, tmp_path):
    unused = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    port = unused.server_address[1]
    unused.server_close()
    with pytest.raises(DownloadError, match=r"must be reachable.*refused.*--from DIR"):
        download(f"http://127.0.0.1:{port}/file.gz", tmp_path / "file.gz", SHA, progress=False)


def test_an_unusable_folder_is_refused(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DownloadError, match="must be accessible"):
        get(server, "plain", tmp_path / "file" / "file.gz")


def test_progress_goes_to_standard_error(server, tmp_path, capsys):
    download(f"{server.url}/plain/file.gz", tmp_path / "file.gz", SHA, progress=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "file.gz" in printed.err
    assert "100%" in printed.err


def test_copy_checks_too(tmp_path):
    source, path = tmp_path / "source.gz", tmp_path / "new" / "file.gz"
    source.write_bytes(DATA)
    copy(source, path, SHA)
    assert path.read_bytes() == DATA
    with pytest.raises(DownloadError, match="sha256"):
        copy(source, path, "0" * 64)
    assert path.read_bytes() == DATA
    assert not part(path).exists()
    with pytest.raises(DownloadError, match=r"missing\.gz.*accessible"):
        copy(tmp_path / "missing.gz", path, SHA)
