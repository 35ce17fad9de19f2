"""What the tests of the embedded model share. Nothing here downloads weights."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.local import stop_local_models
from headwater.local.catalogue import QWEN_0_5B, QWEN_1_5B, Weights
from headwater.local.weights import find

STAND_IN = '''
import json, os, sys

class _Threads:
    n_threads = 0

class _Model:
    path = ""

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = _Model(), _Threads(), _Threads()

class Server:
    """Loads nothing; its address is a place where a test finds what it was started with."""

    def __init__(self, params):
        print("loading", params.model.path, file=sys.stderr, flush=True)
        if os.path.getsize(params.model.path) == 0:
            raise RuntimeError("Failed to init server")
        known = {k: v for k, v in vars(params).items() if isinstance(v, (str, int, list, bool))}
        with open(params.model.path + ".params", "w") as file:
            json.dump({**known, "pid": os.getpid(), "n_threads": params.cpuparams.n_threads}, file)
        self.listening_address = "http://127.0.0.1:9"
'''


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime that serves nothing, in the child's place of xllamacpp. Returns a model file for it."""
    folder = tmp_path / "runtime"
    folder.mkdir()
    (folder / "xllamacpp.py").write_text(textwrap.dedent(STAND_IN), encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    model = tmp_path / "stand in.gguf"
    model.write_bytes(b"GGUF")
    yield model
    stop_local_models()


@pytest.fixture
def runtime() -> None:
    """The real runtime, or a skip."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the extra `local` is not installed")


@pytest.fixture
def small_weights(runtime: None) -> Iterator[Weights]:
    """The small model, or a skip."""
    yield from _weights(QWEN_0_5B)


@pytest.fixture
def default_weights(runtime: None) -> Iterator[Weights]:
    """The default model, or a skip."""
    yield from _weights(QWEN_1_5B)


def _weights(weights: Weights) -> Iterator[Weights]:
    if find(weights) is None:
        pytest.skip(f"the weights of {weights.name} are not here: headwater model pull {weights.name}")
    yield weights
    stop_local_models()
