"""Whether a text for `Sandbox.run` is Python or a shell command."""

from __future__ import annotations

import ast
import warnings

# `ls`, `ls -la` and `test` are also Python expressions: names, and differences of names.
_AS_IN_SHELL = (
    ast.Name,
    ast.Attribute,
    ast.BinOp,
    ast.UnaryOp,
    ast.Constant,
    ast.operator,
    ast.unaryop,
    ast.expr_context,
)


def is_python(text: str) -> bool:
    """Whether the text is Python.

    It is if it can be parsed as Python and does more than name things and calculate with them:
    an import, an assignment, a call, a loop, a definition and so on. So `ls`, `ls -la` and `df` are
    shell commands, and `df.head()` is Python.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not _could_be_shell(statement) for statement in module.body)


def _could_be_shell(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr):
        return False
    return all(isinstance(node, _AS_IN_SHELL) for node in ast.walk(statement.value))
