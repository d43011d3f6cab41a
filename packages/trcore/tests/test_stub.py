import ast
import inspect
from pathlib import Path

import trcore
import trcore._core

STUBS = sorted(Path(trcore.__file__).with_name("_core").glob("[a-z]*.pyi"))


def statements() -> list[ast.stmt]:
    """Of all stubs, as if they were one; their own imports are of no interest."""
    return [node for path in STUBS for node in ast.parse(path.read_text("utf-8")).body]


def members(body: list[ast.stmt]) -> set[str]:
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_stub_names_what_the_module_has() -> None:
    stub = statements()
    classes = {node.name: node for node in stub if isinstance(node, ast.ClassDef)}
    public = {name for name in vars(trcore._core) if not name.startswith("_")}
    assert public == set(classes) | members(stub)
    enums = {"State", "WhyNot"}
    for name in set(classes) - enums:
        real = {n for n in vars(getattr(trcore, name)) if not n.startswith("_")}
        assert real == {n for n in members(classes[name].body) if not n.startswith("_")}, name
    for name in enums:
        stated = {
            ast.unparse(node.targets[0]): ast.literal_eval(node.value)
            for node in classes[name].body
            if isinstance(node, ast.Assign)
        }
        assert stated == {member.name: member.value for member in getattr(trcore, name)}


def test_the_first_stub_exports_what_the_others_name() -> None:
    first = ast.parse(STUBS[0].with_name("__init__.pyi").read_text("utf-8"))
    imported = {
        (node.module, name.name, name.asname)
        for node in first.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert imported == {
        (f"trcore._core.{path.stem}", node.name, node.name)
        for path in STUBS
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }


def test_stub_has_the_arguments_that_the_module_has() -> None:
    """Names, and what they default to, as pybind11 writes them into the docstring."""
    functions = [node for node in statements() if isinstance(node, ast.FunctionDef)]
    assert functions
    for node in functions:
        line = (inspect.getdoc(getattr(trcore, node.name)) or "").partition("\n")[0]
        real = ast.parse(f"def {line}: ...").body[0]
        assert isinstance(real, ast.FunctionDef)
        for mine, theirs in (
            (node.args.args, real.args.args),
            (node.args.kwonlyargs, real.args.kwonlyargs),
        ):
            assert [a.arg for a in mine] == [a.arg for a in theirs], node.name
        defaults = [ast.literal_eval(d) for d in node.args.kw_defaults if d]
        assert defaults == [ast.literal_eval(d) for d in real.args.kw_defaults if d], node.name


def test_docstrings_of_the_module_exist() -> None:
    assert inspect.getdoc(trcore)
