"""Docstrings name their subject: none hangs on a free "what"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.kit import ROOT

# At the begin of a statement, or after "and": "What goes with a trimming.", "its rows, and what is gone".
_FREE = re.compile(r"(?:^|[.;:]\s+|\band\s+)what\b(?!:)", re.IGNORECASE)
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def statements(docstring: str) -> Iterator[str]:
    """The statements of a docstring, on one line each: a paragraph, or an entry such as "name: …"."""
    for part in re.split(r"\n\s*\n|\n(?=\s*[\w*]+:)", docstring):
        yield " ".join(part.split())


def is_help(node: ast.AST) -> bool:
    """Whether a docstring is what a command prints, for which the pages and the tests of commands are."""
    decorators = getattr(node, "decorator_list", [])
    return any("command" in ast.unparse(each) for each in decorators)


def free(text: str) -> list[str]:
    """The statements in the docstrings of a module that hang on a free "what"."""
    nodes = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, _DOCUMENTED) and not is_help(node)
    ]
    told = (statement for node in nodes for statement in statements(ast.get_docstring(node) or ""))
    return [statement for statement in told if _FREE.search(statement)]


def files() -> Iterator[Path]:
    for room in ("acker", "embedded"):
        for file in (ROOT / room).rglob("*.py"):
            if "template" not in file.parts:
                yield file


def test_no_docstring_hangs_on_a_free_what():
    found = {str(file.relative_to(ROOT)): free(file.read_text()) for file in files()}
    assert {file: each for file, each in found.items() if each} == {}


def test_a_free_what_is_found():
    assert free('"""What goes with a trimming."""') == ["What goes with a trimming."]
    assert free('def f():\n    """Its rows, and what\n    is gone."""') == ["Its rows, and what is gone."]
    assert free('def f(x):\n    """Say what to do.\n\n    Args:\n        x: what it is.\n    """') == [
        "x: what it is."
    ]
    assert (
        free('def f(what):\n    """Say what to do.\n\n    Args:\n        what: the subject.\n    """') == []
    )
