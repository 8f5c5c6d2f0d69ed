"""python -m mxcheck.identifying MODULE:ATTRIBUTE [--op OP] [OPTION=VALUE ...]: identify a function from the command line."""

import argparse
import ast
import importlib
import json
import sys

from .. import identify
from .._errors import Error


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mxcheck.identifying", description="Which contract, rounding, recipe or variant does a function follow?")
    parser.add_argument("function", help="MODULE:ATTRIBUTE, a callable as mxcheck.identify takes it")
    parser.add_argument("options", nargs="*", metavar="OPTION=VALUE", help="of the operation: format=e4m3, shape=(8,8,256), arrays=numpy ...")
    parser.add_argument("--op", default="matmul", choices=("matmul", "cast", "quantize", "route"))
    parser.add_argument("--dot", help="where the tree of a sum without a name is written for Graphviz")
    parser.add_argument("--svg", help="where the tree is drawn")
    parser.add_argument("--json", action="store_true", help="the answer as JSON")
    given = parser.parse_intermixed_args()
    module, _, attribute = given.function.partition(":")
    options = {}
    for option in given.options:
        name, equals, value = option.partition("=")
        if not equals:
            parser.error(f"'{option}' is no OPTION=VALUE")
        try:
            options[name] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            options[name] = value  # a word
    sys.path.insert(0, "")
    try:
        f = getattr(importlib.import_module(module), attribute or "identified")
        found = identify(f, given.op, **options)
    except (ImportError, AttributeError, TypeError, Error) as error:
        print(f"mxcheck.identifying: {given.function}: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found.json(), indent=2) if given.json else found)
    if not given.json and found.tree is not None and found.tree.root is not None:
        print(f"order of summation: {found.tree.shape}")
    try:
        for path, text in ((given.dot, lambda: found.tree.dot() + "\n"), (given.svg, lambda: found.svg())):
            if path and (found.tree is not None or path == given.svg):
                drawn = text()
                with open(path, "w", encoding="utf-8") as file:
                    file.write(drawn)
    except (OSError, Error) as error:
        print(f"mxcheck.identifying: {error}", file=sys.stderr)
        return 2
    return 0 if found else 1


sys.exit(main())
