"""The borders of the house: who may import whom, and who may look at a clock."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("tables", "bridge", "steering", "policy", "air", "farend", "measuring", "relaying")  # pure from wall to wall
PURE = [
    *("traffic", "own", "modes", "actives", "model", "program", "known", "bicast", "reconcile", "render", "describe"),
    *("core", "events", "reports", "tickets", "snapshot", "views", "courses", "wishes", "configuration/apart"),
    *(f"{room}/{path.stem}" for room in ROOMS for path in sorted((ROOT / "controller" / room).glob("[!_]*.py"))),
]
PURE_FORBIDDEN = {
    "os_ken",
    "ryu",
    "eventlet",
    "socket",
    "grpc",
    "time",
    "datetime",
    "threading",
    "asyncio",
    "random",
    "os",
}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def reached(path: Path, seen: set[Path] | None = None) -> set[Path]:
    """This module and every one of the house that it leads to."""
    seen = seen if seen is not None else set()
    if path not in seen:
        seen.add(path)
        for name in imports(path):
            inner = ROOT / (name.replace(".", "/") + ".py")
            if inner.exists():
                reached(inner, seen)
    return seen


@pytest.mark.parametrize("name", PURE)
def test_what_decides_knows_no_wire_and_no_clock(name: str) -> None:
    for path in reached(ROOT / "controller" / f"{name}.py"):
        found = {each.split(".")[0] for each in imports(path)} & PURE_FORBIDDEN
        assert not found, f"{path.name}, which {name} leads to, imports {found}"


@pytest.mark.parametrize("path", modules("controller"), ids=lambda path: path.name)
def test_one_file_knows_the_framework(path: Path) -> None:
    if path.name != "framework.py":
        assert not {each.split(".")[0] for each in imports(path)} & {"os_ken", "ryu", "eventlet"}


@pytest.mark.parametrize("path", modules("controller"), ids=lambda path: path.name)
def test_the_brain_knows_neither_its_stage_nor_its_buttons(path: Path) -> None:
    assert not {each.split(".")[0] for each in imports(path)} & {
        "cli",
        "topologies",
        "experiments",
        "gateway",
        "bench",
        "tests",
    }


@pytest.mark.parametrize("folder", ["topologies", "experiments", "gateway", "bench"])
def test_nothing_leans_on_the_buttons(folder: str) -> None:
    for path in modules(folder):
        assert "cli" not in {each.split(".")[0] for each in imports(path)}, path


def rooms() -> dict[str, set[str]]:
    """Of the controller: each module, and each package as one, with the rooms that it leads to."""
    graph: dict[str, set[str]] = {}
    for path in modules("controller"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        graph.setdefault(_room(name), set()).update(
            _room(each) for each in imports(path) if each.startswith("controller.")
        )
    return {name: leads_to - {name} for name, leads_to in graph.items()}


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def test_nothing_in_the_controller_leads_back_to_itself() -> None:
    graph = rooms()
    assert graph["controller.openflow"] >= {"controller.wire", "controller.framework"}, "it would see no circle"
    standing = set(graph)
    while leaves := {name for name in standing if not graph[name] & standing}:
        standing -= leaves
    circle = {name: sorted(graph[name] & standing) for name in sorted(standing)}
    assert not circle, f"these import each other, or lean on such: {circle}"


def test_signals_are_for_who_awaits_them() -> None:
    """numpy begins threads when it is imported, which would take them, and end the process."""
    look = "import controller.__main__, controller.app, sys; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], cwd=ROOT).returncode == 0
