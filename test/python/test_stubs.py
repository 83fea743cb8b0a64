"""The stubs say what the package has: names, parameters and defaults; and type checkers accept a program that uses it."""

import ast
import importlib
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys

import pytest

import deltasane

FOLDER = pathlib.Path(deltasane.__file__).parent
USE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "typed_use.py")
STUBS = sorted(FOLDER.rglob("*.pyi"))


def parameters_of_stub(function):
    a = function.args
    found = [(p.arg, "positional") for p in (*a.posonlyargs, *a.args)] + [(p.arg, "keyword") for p in a.kwonlyargs]
    given = [None] * (len(a.posonlyargs) + len(a.args) - len(a.defaults)) + list(a.defaults) + list(a.kw_defaults)
    defaults = [inspect.Parameter.empty if value is None else ast.literal_eval(value) for value in given]
    return [(name, kind, default) for (name, kind), default in zip(found, defaults)] + (["**"] if a.kwarg else [])


def parameters_of(function):
    kinds = {inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional", inspect.Parameter.KEYWORD_ONLY: "keyword"}
    all_of_them = inspect.signature(function).parameters.values()
    found = [(p.name, kinds[p.kind], p.default) for p in all_of_them if p.kind in kinds and p.name != "_definition"]
    return found + (["**"] if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in all_of_them) else [])


def compare(stub, owner, place):
    """Every name of the stub is there, and functions have the same parameters."""
    checked = 0
    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            checked += compare(node, getattr(owner, node.name), f"{place}.{node.name}")
        if not isinstance(node, ast.FunctionDef):
            continue
        found = inspect.getattr_static(owner, node.name) if inspect.isclass(owner) else getattr(owner, node.name)
        decorators = {d.id for d in node.decorator_list if isinstance(d, ast.Name)}
        checked += 1
        assert isinstance(found, property) == ("property" in decorators), f"{place}.{node.name}"
        if isinstance(found, property) or "overload" in decorators or not inspect.isroutine(found):
            continue
        function = getattr(found, "__func__", found)
        if inspect.isfunction(function):
            assert parameters_of_stub(node) == parameters_of(function), f"{place}.{node.name}"
    return checked


def public_names(owner):
    own = lambda x: getattr(x, "__module__", "").startswith("deltasane")  # noqa: E731
    return {n for n, x in vars(owner).items() if not n.startswith("_") and (inspect.isfunction(x) or inspect.isclass(x)) and own(x)}


@pytest.mark.parametrize("path", STUBS, ids=lambda p: str(p.relative_to(FOLDER)))
def test_stubs_are_the_package(path):
    name = ".".join(("deltasane", *path.relative_to(FOLDER).with_suffix("").parts)).removesuffix(".__init__")
    module, stub = importlib.import_module(name), ast.parse(path.read_text())
    compare(stub, module, name)
    told = {n.name for n in stub.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    told |= {a.asname or a.name for n in stub.body if isinstance(n, ast.ImportFrom) for a in n.names}
    missing = {n for n in public_names(module) if getattr(module, n).__module__ == name} - told
    assert not missing, f"{path}: expected {missing} in it"


def test_every_public_module_has_a_stub():
    assert {str(p.relative_to(FOLDER)) for p in STUBS} >= {"__init__.pyi", "model.pyi", "states.pyi", "trainer.pyi", "ops/__init__.pyi"}
    assert (FOLDER / "py.typed").exists()
    told = {a.asname or a.name for n in ast.parse((FOLDER / "__init__.pyi").read_text()).body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert set(deltasane._HOME) - {"set_threads", "threads"} <= told


@pytest.mark.parametrize("words", [("mypy", "--strict", "--no-incremental", "--cache-dir", os.devnull), ("pyright", "--pythonpath", sys.executable)], ids=lambda w: w[0])
def test_type_checkers_accept_a_program(words):
    if importlib.util.find_spec(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    found = subprocess.run([sys.executable, "-m", *words, USE], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
