"""A tree of summation: as text, read again, drawn."""

import json
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Union

from .._errors import UsageError
from .._tool import run_tool

Node = Union[int, Tuple["Node", ...]]


@dataclass
class Tree:
    """root: a term's number, or the parts of a sum, each a term or a sum. exact: by arithmetic of the nodes, how many sums of random
    operands it gives in this order, of how many: those that give all, else the closest; None where none was tried."""

    root: Optional[Node]
    terms: int
    checked: int = 0
    exact: Optional[Dict[str, Tuple[int, int]]] = None
    why: str = ""

    @classmethod
    def of(cls, order: Dict[str, Any], terms: int = 0) -> "Tree":
        """An order in the program's JSON. terms: where it has no tree."""
        compared = order["compared"]
        exact = {name: (compared, compared) for name in order["arithmetic"]}
        if not exact and order["closest"]:
            exact = {order["closest"]: (order["closest_equal"], compared)}
        root = parse_tree(order["tree"]) if order["tree"] else None
        return cls(root, terms if root is None else len(leaves(root)), order["masks"], exact or None, order["why_not"])

    def text(self) -> str:
        """The tree in parentheses, as `mxcheck identify` writes it."""
        if self.root is None:
            raise UsageError(f"there is no tree: {self.why}")
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + 4 * self.terms))  # a chain is as deep as it has terms
        return text_of(self.root)

    @property
    def arithmetic(self) -> List[str]:
        """The names of arithmetics that give every sum."""
        return [name for name, (equal, of) in (self.exact or {}).items() if equal == of]

    def __str__(self) -> str:
        if self.root is None:
            return f"no tree: {self.why}"
        text = self.text()
        if len(text) > 240:  # a chain of hundreds of terms is as many parentheses; text() has all of them
            text = f"{text[:120]} ... {text[-80:]}"
        lines = [f"sum of {self.terms} terms: {text}", f"{self.checked} pairs of terms meet where this tree has them"]
        for name, (equal, of) in (self.exact or {}).items():
            lines.append(f"{name}, in this order: {equal} of {of} outputs to the bit")
        if self.exact and not self.arithmetic:
            lines.append("so the additions are other ones: compensated, of another width or otherwise rounded")
        return "\n".join(lines)

    def json(self) -> Dict[str, Any]:
        """The order in the form of `mxcheck identify --json`."""
        return {"tree": None if self.root is None else self.text(), "why_not": self.why, "arithmetic": self.arithmetic,
                "compared": max([of for _, of in (self.exact or {}).values()], default=0), "masks": self.checked}

    def dot(self) -> str:
        """The tree for Graphviz: dot -Tsvg draws it. This, svg and shape are of `mxcheck identify --draw`: EnvironmentError without it."""
        return self._drawn()["dot"] if self.root is not None else "digraph sum {\n}"

    def svg(self) -> str:
        """The tree as a picture that needs nothing else. UsageError where there is no tree."""
        with tempfile.TemporaryDirectory(prefix="mxcheck-") as folder:
            path = os.path.join(folder, "tree.svg")
            self._drawn("--svg", path)
            with open(path, encoding="utf-8") as file:
                return file.read()

    @property
    def shape(self) -> str:
        """The order's name ("pairwise", "strided by 4, ..."), or "of no name"."""
        return self._drawn()["shape"]

    def _drawn(self, *arguments: str) -> Dict[str, str]:
        if self.root is None:
            raise UsageError(f"there is no tree to draw: {self.why}")
        return dict(json.loads(run_tool(["identify", "--draw", self.text(), "--json", *arguments], refused=UsageError)[1]))


def _step(node: Tuple[Node, ...], i: int) -> Optional[int]:
    """From a single term to the next part, where that is one too."""
    if i + 1 == len(node):
        return None
    a, b = node[i : i + 2]
    return b - a if isinstance(a, int) and isinstance(b, int) else None


def text_of(node: Node) -> str:
    """Parentheses; four single terms in one node and more as first..last, by their step."""
    if isinstance(node, int):
        return str(node)
    parts: List[str] = []
    i = 0
    while i < len(node):
        j, step = i, _step(node, i)
        while step is not None and _step(node, j) == step:
            j += 1
        if j - i >= 3:
            parts.append(f"{node[i]}..{node[j]}" + ("" if step == 1 else f" by {step}"))
        else:
            j = i
            parts.append(text_of(node[i]))
        i = j + 1
    return "(" + " ".join(parts) + ")"


def parse_tree(text: str) -> Node:
    """The tree of a text that text_of gave. UsageError for another text."""
    open_: List[List[Node]] = [[]]
    for word in re.findall(r"[()]|\d+\.\.\d+(?: by \d+)?|\d+|\S+", text):
        if word == "(":
            open_.append([])
        elif word == ")" and len(open_) > 1 and len(open_[-1]) > 1:
            node = tuple(sorted(open_.pop(), key=lambda child: min(leaves(child))))
            open_[-1].append(node)
        elif word.isdigit():
            open_[-1].append(int(word))
        elif ".." in word:
            first, last, step = re.fullmatch(r"(\d+)\.\.(\d+)(?: by (\d+))?", word).groups()  # type: ignore[union-attr]
            open_[-1].extend(range(int(first), int(last) + 1, int(step or 1)))
        else:
            raise UsageError(f"{text!r} is no tree of summation: {word!r} is out of place")
    if len(open_) != 1 or len(open_[0]) != 1:
        raise UsageError(f"{text!r} is no tree of summation: it must be one sum, as ((0 1) (2 3))")
    return open_[0][0]


def leaves(node: Node) -> List[int]:
    found: List[int] = []
    left = [node]
    while left:  # a chain is as deep as it has terms
        one = left.pop()
        if isinstance(one, int):
            found.append(one)
        else:
            left.extend(reversed(one))
    return found
