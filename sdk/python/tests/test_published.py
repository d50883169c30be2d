"""Everything that version 0.10.0 offered is still there, under the same names."""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

import pandastack

# Written down from the published package: modules, their names, methods and arguments.
SURFACE: Dict[str, Any] = json.loads((Path(__file__).parent / "published.json").read_text("utf-8"))


def functions() -> List[Tuple[str, str, List[str]]]:
    return [
        (module, name, arguments)
        for module, names in SURFACE["functions"].items()
        for name, arguments in names.items()
    ]


@pytest.mark.parametrize("name", SURFACE["names"])
def test_names_of_the_package(name: str) -> None:
    assert hasattr(pandastack, name)
    assert name in pandastack.__all__


@pytest.mark.parametrize(("module", "name", "arguments"), functions())
def test_functions_and_methods(module: str, name: str, arguments: List[str]) -> None:
    found: Any = importlib.import_module(f"pandastack.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    given = [argument.lstrip("*") for argument in arguments if not argument.startswith("**")]
    parameters = inspect.signature(found).parameters
    ours = [one for one in parameters if one != "self"]
    for argument in given:
        assert argument in ours or argument == "kwargs", f"{name} has no argument {argument!r}"
    # Arguments that could be given by position still can, in the same order.
    positional = [one for one in given if not one.startswith("_")]
    keyword_only = set(SURFACE["keyword_only"].get(f"{module}.{name}", []))
    ordered = [one for one in positional if one not in keyword_only]
    assert ours[: len(ordered)] == ordered


@pytest.mark.parametrize(("module", "names"), sorted(SURFACE["values"].items()))
def test_fields_and_constants(module: str, names: List[str]) -> None:
    found = importlib.import_module(f"pandastack.{module}")
    for name in names:
        assert hasattr(found, name), f"pandastack.{module} has no {name}"


def test_fields_of_results_keep_their_order() -> None:
    result = pandastack.ExecResult("out", "err", 3, 7)
    assert (result.stdout, result.stderr, result.exit_code, result.duration_ms) == (
        "out",
        "err",
        3,
        7,
    )
    info = pandastack.FileInfo("a", "/a", False, 1, "f", 2)
    assert (info.size, info.mode, info.mtime) == (1, "f", 2)
    shown = pandastack.Execution([pandastack.Result({"text/plain": "1"})], "o", "e", None, 0, 5)
    assert (shown.text, shown.logs) == ("1", {"stdout": "o", "stderr": "e"})
