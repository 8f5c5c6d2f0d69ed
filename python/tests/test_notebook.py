"""The notebook shows what its cells give, in order. After a change: python3 test_notebook.py --write, with numpy and PYTHONPATH."""

import ast
import contextlib
import importlib.util
import io
import json
import os
import sys
import unittest
from pathlib import Path

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "python" / "first_look.ipynb"


def outputs_of(source, names):
    """A cell's outputs: its print, and its last expression as text, or as a picture where it draws itself."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, str(NOTEBOOK), "exec"), names)
        value = eval(compile(last, str(NOTEBOOK), "eval"), names) if last is not None else None
    found = [{"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)}] if printed.getvalue() else []
    if value is not None:
        data = {"image/svg+xml": value._repr_svg_().splitlines(keepends=True)} if hasattr(value, "_repr_svg_") else {"text/plain": repr(value).splitlines(keepends=True)}
        found.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return found


def executed(notebook):
    """The notebook with the outputs that its cells give now."""
    folder, names = os.getcwd(), {"__name__": "__main__"}
    os.chdir(NOTEBOOK.parent)
    sys.path.insert(0, str(NOTEBOOK.parent))
    try:
        for number, cell in enumerate([cell for cell in notebook["cells"] if cell["cell_type"] == "code"], 1):
            cell["execution_count"] = number
            cell["outputs"] = outputs_of("".join(cell["source"]), names)
            for output in cell["outputs"]:
                if "execution_count" in output:
                    output["execution_count"] = number
    finally:
        os.chdir(folder)
        sys.path.remove(str(NOTEBOOK.parent))
    return notebook


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Notebook(unittest.TestCase):
    def test_shows_what_its_cells_give(self):
        text = NOTEBOOK.read_text()
        for shown, now in zip(json.loads(text)["cells"], executed(json.loads(text))["cells"]):
            with self.subTest("".join(shown["source"])):
                self.assertEqual(shown, now)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        NOTEBOOK.write_text(json.dumps(executed(json.loads(NOTEBOOK.read_text())), indent=1) + "\n")
    else:
        unittest.main()
