import ast
import inspect
from pathlib import Path

import trcore
import trcore._core


def members(body: list[ast.stmt]) -> set[str]:
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_stub_names_what_the_module_has() -> None:
    stub = ast.parse(Path(trcore.__file__).with_name("_core.pyi").read_text(encoding="utf-8"))
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    public = {name for name in vars(trcore._core) if not name.startswith("_")}
    assert public == set(classes) | members(stub.body)
    for name in set(classes) - {"State"}:
        real = {n for n in vars(getattr(trcore, name)) if not n.startswith("_")}
        assert real == {n for n in members(classes[name].body) if not n.startswith("_")}, name
    stated = {
        ast.unparse(node.targets[0]): ast.literal_eval(node.value)
        for node in classes["State"].body
        if isinstance(node, ast.Assign)
    }
    assert stated == {state.name: state.value for state in trcore.State}


def test_stub_has_the_arguments_that_the_module_has() -> None:
    """Names, and what they default to, as pybind11 writes them into the docstring."""
    stub = ast.parse(Path(trcore.__file__).with_name("_core.pyi").read_text(encoding="utf-8"))
    functions = [node for node in stub.body if isinstance(node, ast.FunctionDef)]
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
