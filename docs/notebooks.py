"""Run the notebooks of this folder and keep what they show: `python docs/notebooks.py`.

Cells run one after the other in one name space, as Jupyter runs them; nothing but Skerry is needed.
"""

import ast
import base64
import json
import linecache
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
NOTEBOOKS = ("first_fleet", "your_own_method")


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs(notebook: dict[str, Any], name: str) -> Iterator[list[dict[str, Any]]]:
    """What each code cell shows, one after the other."""
    space: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), start=1):
        said = StringIO()
        with redirect_stdout(said):
            value = _last_value("".join(cell["source"]), f"<{name}, cell {number}>", space)
        yield [
            *([_printed(said.getvalue())] if said.getvalue() else []),
            *([_shown(value, number)] if value is not None else []),
        ]


def _last_value(source: str, file: str, space: dict[str, Any]) -> Any:
    """Run a cell; the value of its last line, where that is an expression."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree = ast.parse(source)
    *body, last = tree.body
    if not isinstance(last, ast.Expr):
        body, last = tree.body, None
    exec(compile(ast.Module(body, []), file, "exec"), space)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), file, "eval"), space)  # noqa: S307


def _printed(text: str) -> dict[str, Any]:
    return {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}


def _shown(value: Any, number: int) -> dict[str, Any]:
    data: dict[str, Any] = {"text/plain": [repr(value)]}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = [value._repr_html_()]
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
    return {
        "data": data,
        "execution_count": number,
        "metadata": {},
        "output_type": "execute_result",
    }


def refresh(name: str) -> None:
    """Run a notebook and write its outputs into its file."""
    path = FOLDER / f"{name}.ipynb"
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = code_cells(notebook)
    found = list(outputs(notebook, name))
    for number, (cell, shown) in enumerate(zip(cells, found, strict=True), start=1):
        cell |= {"execution_count": number, "outputs": shown}
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in NOTEBOOKS:
        refresh(name)
        print(f"Ran {name}.ipynb.")
