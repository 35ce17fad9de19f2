"""What is shipped of others is what was pinned, stands under its licence, and the page stays small."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headwater.web.page import STATIC, load, without_notes

VENDOR = STATIC / "vendor"
BUDGET = 80 * 1024
"""Bytes of everything that a browser loads, each file compressed as it is sent."""


def manifest() -> list[dict[str, Any]]:
    return json.loads((VENDOR / "manifest.json").read_text(encoding="utf-8"))["packages"]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_module_is_the_one_that_was_pinned_and_no_other_is_there() -> None:
    pinned = {name: sha for package in manifest() for name, sha in package["sha256"].items()}
    assert {path.name: digest(path) for path in VENDOR.glob("*.js")} == pinned


def test_every_package_has_a_version_a_checksum_of_the_registry_and_its_licence() -> None:
    licenses = (VENDOR / "LICENSES.txt").read_text(encoding="utf-8")
    notice = (STATIC.parents[3] / "NOTICE").read_text(encoding="utf-8")
    for package in manifest():
        assert re.fullmatch(r"\d+\.\d+\.\d+", package["version"])
        assert package["integrity"].startswith("sha512-")
        assert f"{package['name']} {package['version']} ({package['license']})" in licenses
        assert package["name"].lower() in notice.lower()
        assert "MIT" in package["license"] or "Apache-2.0" in package["license"]


def test_modules_import_each_other_by_relative_paths_that_exist() -> None:
    for path in STATIC.rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"""(?:\bfrom|^\s*import|;import)\s*["']([^"'\n]+)["']""", text, re.MULTILINE):
            assert name.startswith("."), f"{path.name} imports {name}"
            assert (path.parent / name).resolve().is_file(), f"{path.name} imports {name}"


def test_no_source_refers_to_a_source_map_or_to_another_origin_by_an_import() -> None:
    for path in STATIC.rglob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert "sourceMappingURL" not in text
        assert not re.search(r"""\b(?:import|from)\s*\(?["']https?:""", text)


def test_everything_that_a_browser_loads_is_within_the_budget() -> None:
    files, _ = load()
    sizes = {name: len(file.packed) for name, file in files.items() if name.endswith((".js", ".css", ".html", ".svg"))}
    total = sum(sizes.values())
    assert total <= BUDGET, sorted(sizes.items(), key=lambda item: -item[1])


def test_what_a_browser_gets_of_a_script_is_the_script(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here to read the scripts with")
    for path in sorted((STATIC / "app").rglob("*.js")):
        sent = tmp_path / f"{path.stem}.mjs"
        sent.write_text(without_notes(path.read_text(encoding="utf-8")), encoding="utf-8")
    for sent in tmp_path.glob("*.mjs"):
        done = subprocess.run([node, "--check", str(sent)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_only_comments_and_indentation_are_left_out() -> None:
    source = """\
// What it is for.
/**
 * @param {string} a
 */
export function f(/** @type {any} */ a) {
  // why
  return a + "http://x/"; // stays
}
"""
    assert without_notes(source) == 'export function f(a) {\nreturn a + "http://x/"; // stays\n}\n'
