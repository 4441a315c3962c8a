"""No two modules import each other, not even for their types."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"


def imported(path: Path) -> Iterator[str]:
    """Name what a module imports from this package, or may."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("leasehold"):
            yield str(node.module)
            yield from (f"{node.module}.{name.name}" for name in node.names)


def no_modules_import_each_other() -> None:
    paths = [path for path in SOURCES.rglob("*.py") if "_pb2" not in path.name]
    names = {".".join(path.relative_to(SOURCES).with_suffix("").parts): path for path in paths}
    graph = {name: {*imported(path)} - {name} for name, path in names.items()}
    assert "leasehold._hold.state" in graph["leasehold._hold.keeper"]
    TopologicalSorter(graph).prepare()
