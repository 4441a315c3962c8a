"""No two modules import each other, not even for their types."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"


def imported(module: ast.Module) -> Iterator[str]:
    """Name what a module imports from this package, or may."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("leasehold"):
            yield str(node.module)
            yield from (f"{node.module}.{name.name}" for name in node.names)


def graph(texts: dict[str, str]) -> dict[str, set[str]]:
    return {name: {other for other in imported(ast.parse(text)) if other != name} for name, text in texts.items()}


def no_modules_import_each_other() -> None:
    paths = [path for path in SOURCES.rglob("*.py") if "_pb2" not in path.name]
    names = {".".join(path.relative_to(SOURCES).with_suffix("").parts): path for path in paths}
    TopologicalSorter(graph({name: path.read_text() for name, path in names.items()})).prepare()


def a_circle_is_found() -> None:
    circle = {"leasehold._a": "from leasehold._b import x", "leasehold._b": "def f():\n    from leasehold import _a"}
    with pytest.raises(CycleError):
        TopologicalSorter(graph(circle)).prepare()
