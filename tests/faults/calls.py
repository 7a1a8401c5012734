"""Every call in the project's code that may change a table or a file, found without running it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.effects import ADMIN, APPENDS, COMMANDS, FUNCTIONS, METHODS, PRODUCT
from tests.kit import ROOT

LIBRARIES = {*FUNCTIONS, *COMMANDS, *ADMIN, "merge", *(name for names in METHODS.values() for name in names)}
LIBRARIES -= {"execute"}  # which `merge` comes before
FILES = {"write_text", "write_bytes", "unlink", "touch", "mkdir", "makedirs", "rmtree", "rename", "rmdir"}
FILES |= {
    "copy",
    "copyfile",
    "copytree",
    "move",
    "symlink_to",
    "hardlink_to",
    "truncate",
    "remove",
    "removedirs",
}


@dataclass(frozen=True)
class Call:
    """A call, by the function that makes it."""

    file: str
    function: str
    name: str  # of what is called
    first: int  # line
    last: int

    def __str__(self) -> str:
        return f"{self.file}:{self.function}:{self.name}"


def calls() -> Iterator[Call]:
    """Calls of whatever has the name of such a function, or of one of `APPENDS` that calls one."""
    trees = [ast.parse(path.read_text()) for path in APPENDS]
    ours = {node.name for tree in trees for node in ast.walk(tree) if _makes_effects(node)}
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            file = str(path.relative_to(ROOT))
            yield from _calls(file, "", ast.parse(path.read_text()), ours)


def _makes_effects(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any(_named(each) in LIBRARIES for each in ast.walk(node))


def _calls(file: str, function: str, node: ast.AST, ours: set[str]) -> Iterator[Call]:
    for child in ast.iter_child_nodes(node):
        name = _named(child)
        is_effect = name in LIBRARIES | ours and not _is_of_python(child)
        if is_effect or (name in FILES and not _names_columns(child)) or _opens_to_write(child):
            yield Call(file, function, name, child.lineno, child.end_lineno)
        named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        inner = f"{function}.{child.name}".lstrip(".") if named else function
        yield from _calls(file, inner, child, ours)


def _named(node: ast.AST) -> str:
    """The name of what a call calls."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_of_python(node: ast.Call) -> bool:
    """Whether it is a list's `append` or a dict's `update`, which have one argument."""
    return _named(node) in ("append", "update") and len(node.args) == 1 and not node.keywords


def _names_columns(node: ast.Call) -> bool:
    """Whether it is a frame's `rename`, which takes a dict; a path's takes a path."""
    return _named(node) == "rename" and any(isinstance(each, ast.Dict | ast.DictComp) for each in node.args)


def _opens_to_write(node: ast.AST) -> bool:
    if _named(node) == "replace":  # a path's has one argument, a string's two, a dataclass's is no method
        return isinstance(node.func, ast.Attribute) and len(node.args) == 1
    if _named(node) != "open":
        return False
    texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
    return any(isinstance(text, str) and set(text) & set("wax+") and len(text) < 4 for text in texts)
