"""The order of a sum, from calls alone.

Revealing accumulation order by masks (FPRev, Xie et al. 2025): all terms are a small unit, but term i is +M and term j is -M, M so large
that a unit added to it is lost. Units that are added to either before the two meet are lost, the others are counted: k minus the
count is the number of terms below the place where i and j meet. From these sizes follows the tree, with nodes of more than two where a
sum of several terms is rounded once.
"""

import array
import math
import struct
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from .._arrays import Values, count_of, result, view_of
from .._errors import UsageError
from .._formats import decode
from ._words import large_and_small, matrix, normal, to_fp32

Node = Union[int, Tuple["Node", ...]]


class Box:
    """A callable of the user's, with its tensors."""

    def __init__(self, f: Callable[..., Any], arrays: str, shape: Tuple[int, ...], output: str) -> None:
        if arrays not in ("values", "numpy", "torch"):
            raise UsageError(f"arrays is {arrays!r}: values, numpy or torch")
        if arrays != "values" and arrays not in sys.modules:
            __import__(arrays)
        self.f, self.arrays, self.shape, self.output = f, arrays, shape, output

    def given(self, x: Values) -> Any:
        if self.arrays == "values":
            return x
        each = len(memoryview(x.data).cast("B")) // max(1, count_of(x.shape))
        return result(bytearray(x.tobytes()), x.shape, x.dtype, each, self.arrays)

    def call(self, *operands: Values) -> bytes:
        """The answer's bytes, of the shape and type that were asked for."""
        given = self.f(*(self.given(x) for x in operands))
        view = view_of(given, "the box's answer")
        if view.format != self.output or tuple(view.shape) != self.shape:
            raise UsageError(f"the box's answer is {view.shape} of {view.format}: {self.shape} of {self.output} is needed")
        return _bytes_of(given)


def _bytes_of(x: Any) -> bytes:
    if isinstance(x, Values):
        return x.tobytes()
    if hasattr(x, "detach"):  # torch
        return x.detach().contiguous().view(sys.modules["torch"].uint8).numpy().tobytes()
    return x.tobytes()


def floats_of(data: bytes) -> List[float]:
    return array.array("f", data).tolist()


@dataclass
class Tree:
    """root: a term's number, or the parts of a sum, each a term or a sum. exact: by kind of FP32 arithmetic, how many outputs of random
    operands it gives in this order, of how many; None where a node has more than two parts, whose arithmetic a tree does not say."""

    root: Optional[Node]
    terms: int
    checked: int = 0
    exact: Optional[Dict[str, Tuple[int, int]]] = None
    why: str = ""

    def __str__(self) -> str:
        if self.root is None:
            return f"no tree: {self.why}"
        lines = [f"sum of {self.terms} terms: {text_of(self.root)}", f"{self.checked} pairs of terms meet where this tree has them"]
        for name, (equal, of) in (self.exact or {}).items():
            lines.append(f"{name} in this order give {equal} of {of} outputs to the bit")
        if self.exact and all(equal < of for equal, of in self.exact.values()):
            lines.append("so the additions are other ones: compensated, of another width or otherwise rounded")
        return "\n".join(lines)

    def dot(self) -> str:
        """The tree for Graphviz: dot -Tsvg draws it."""
        lines = ["digraph sum {", "  node [shape=circle, label=\"+\"];"]
        numbers = iter(range(10**9))

        def walk(node: Node) -> str:
            if isinstance(node, int):
                lines.append(f"  t{node} [shape=plaintext, label=\"{node}\"];")
                return f"t{node}"
            name = f"n{next(numbers)}"
            lines.append(f"  {name};")
            lines.extend(f"  {name} -> {walk(child)};" for child in node)
            return name

        if self.root is not None:
            walk(self.root)
        return "\n".join([*lines, "}"])


def text_of(node: Node) -> str:
    """Parentheses; runs of single terms in one node as first..last, by their step."""
    if isinstance(node, int):
        return str(node)
    parts: List[str] = []
    i = 0
    while i < len(node):
        j = i
        if isinstance(node[i], int) and i + 1 < len(node) and isinstance(node[i + 1], int):
            step = node[i + 1] - node[i]
            while j + 1 < len(node) and isinstance(node[j + 1], int) and node[j + 1] - node[j] == step:
                j += 1
        if j - i >= 3:
            step = node[i + 1] - node[i]
            parts.append(f"{node[i]}..{node[j]}" + ("" if step == 1 else f" by {step}"))
        else:
            j = i
            parts.append(text_of(node[i]))
        i = j + 1
    return "(" + " ".join(parts) + ")"


def leaves(node: Node) -> List[int]:
    return [node] if isinstance(node, int) else [leaf for child in node for leaf in leaves(child)]


class _Meetings:
    """Sizes of where two terms meet, asked for in batches of the rows of one call."""

    def __init__(self, box: Box, k: int, formats: Sequence[str]) -> None:
        self.box, self.k, self.formats = box, k, formats
        self.rows, self.cols = box.shape
        self.large = [large_and_small(one)[0] for one in formats]
        self.small = [large_and_small(one)[1] for one in formats]
        self.known: Dict[Tuple[int, int], float] = {}

    def ask(self, pairs: List[Tuple[int, int]]) -> None:
        """One pair an output on the diagonal: both operands of term i and j are large, all others small."""
        new = [pair for pair in dict.fromkeys((min(pair), max(pair)) for pair in pairs) if pair not in self.known]
        together = min(self.rows, self.cols)
        for first in range(0, len(new), together):
            self._call(new[first : first + together])

    def _operand(self, pairs: List[Tuple[int, int]], rows: int, which: int, sign: float) -> Values:
        numbers: List[float] = []
        for row in range(rows):
            i, j = pairs[min(row, len(pairs) - 1)]
            values = [self.small[which]] * self.k
            values[i], values[j] = self.large[which], sign * self.large[which]
            numbers += values
        return matrix(numbers, (rows, self.k), self.formats[which])

    def _call(self, pairs: List[Tuple[int, int]]) -> None:
        answer = floats_of(self.box.call(self._operand(pairs, self.rows, 0, -1), self._operand(pairs, self.cols, 1, 1)))
        unit = self.small[0] * self.small[1]
        for at, pair in enumerate(pairs):
            self.known[pair] = answer[at * self.cols + at] / unit

    def size(self, i: int, j: int) -> Optional[int]:
        """Terms below the place where i and j meet, both among them; None where the count is no number of terms."""
        counted = self.known[(min(i, j), max(i, j))]
        size = self.k - counted
        return int(size) if size == size and size == int(size) and 2 <= size <= self.k else None


class _NoTree(Exception):
    pass


def _built(meetings: _Meetings, terms: List[int]) -> Node:
    """The subtree of these terms, which are all that are below it."""
    if len(terms) == 1:
        return terms[0]
    first = terms[0]
    meetings.ask([(first, j) for j in terms[1:]])
    by_size: Dict[int, List[int]] = {}
    for j in terms[1:]:
        size = meetings.size(first, j)
        if size is None:
            raise _NoTree(f"with terms {first} and {j} large and opposite, the others give {meetings.known[(min(first, j), max(first, j))]!r} units of "
                          f"{meetings.k - 2}: what is added to a large term is not lost, as in compensated or exact sums, or not counted")
        by_size.setdefault(size, []).append(j)
    node: Node = first
    inside = 1
    for size in sorted(by_size):
        group = by_size[size]
        inside += len(group)
        if inside != size:
            why = "what is added to a large term is not lost there, as in compensated or exact sums" if inside > size else "no tree has that"
            raise _NoTree(f"terms {first} and {group[0]} meet above {size} terms, but {inside} meet {first} there or before: {why}")
        children = [_built(meetings, part) for part in _parts(meetings, group, size)]
        # A chain of additions is a node in a node; of one fused sum there are several children at once.
        node = tuple(sorted([node, *children], key=lambda child: min(leaves(child))))
    return node


def _parts(meetings: _Meetings, group: List[int], size: int) -> List[List[int]]:
    """Terms that meet each other below the node of `size` terms, apart."""
    parts = []
    left = group
    while left:
        first = left[0]
        meetings.ask([(first, j) for j in left[1:]])
        part = [first] + [j for j in left[1:] if (meetings.size(first, j) or 0) < size]
        parts.append(part)
        left = [j for j in left if j not in part]
    return parts


def _sizes(node: Node, out: Dict[Tuple[int, int], int]) -> List[int]:
    """Of every pair the number of terms below where it meets."""
    if isinstance(node, int):
        return [node]
    children = [_sizes(child, out) for child in node]
    every = [leaf for child in children for leaf in child]
    for at, child in enumerate(children):
        for other in children[at + 1 :]:
            for i in child:
                for j in other:
                    out[(min(i, j), max(i, j))] = len(every)
    return every


def _is_binary(node: Node) -> bool:
    return isinstance(node, int) or (len(node) == 2 and all(_is_binary(child) for child in node))


def _rounded(x: Fraction) -> float:
    """To FP32, nearest, ties to even, once."""
    near = float(x)
    low = struct.unpack("<Q", struct.pack("<d", near))[0] & 0x1FFFFFFF
    if low == 0x10000000 and near != x:  # the double is in the middle of two FP32 numbers, and x is not
        near = math.nextafter(near, math.inf if x > near else -math.inf) if hasattr(math, "nextafter") else near
    return to_fp32(near)


def _sum(node: Node, terms: List[Fraction], fused: bool) -> float:
    """By FP32 additions of products rounded to FP32, or with each product's addition fused."""
    if isinstance(node, int):
        return _rounded(terms[node])
    left, right = node
    if fused and (isinstance(left, int) or isinstance(right, int)):
        if not isinstance(right, int):
            left, right = right, left
        return _rounded(Fraction(_sum(left, terms, fused)) + terms[right])
    return to_fp32(_sum(left, terms, fused) + _sum(right, terms, fused))  # rounding to double first changes nothing


def summation_tree(f: Callable[[Any, Any], Any], k: int, formats: Sequence[str] = ("bf16", "bf16"), shape: Tuple[int, int] = (8, 8),
                   arrays: str = "values", check: int = 2000) -> Tree:
    """The order in which f(a, b), as of identify_matmul, adds k products. `check`: pairs that are asked for beside those that the tree
    was built from."""
    box = Box(f, arrays, shape, "fp32")
    meetings = _Meetings(box, k, formats)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 10000 + 20 * k))  # a chain is as deep as it has terms
    try:
        root = _built(meetings, list(range(k)))
        expected: Dict[Tuple[int, int], int] = {}
        _sizes(root, expected)
        pairs = sorted(expected)
        step = max(1, len(pairs) // check)
        asked = pairs[::step]
        meetings.ask(asked)
        for pair in asked:
            if meetings.size(*pair) != expected[pair]:
                raise _NoTree(f"terms {pair[0]} and {pair[1]} meet above {meetings.size(*pair)} terms and not above {expected[pair]}, as "
                              "the other pairs have it")
        tree = Tree(root, k, len(meetings.known))
        if _is_binary(root):
            tree.exact = _reproduced(box, root, k, formats)
        return tree
    except _NoTree as reason:
        return Tree(None, k, len(meetings.known), None, str(reason))
    finally:
        sys.setrecursionlimit(limit)


def _reproduced(box: Box, root: Node, k: int, formats: Sequence[str]) -> Dict[str, Tuple[int, int]]:
    """Outputs of random operands that FP32 arithmetic in this order gives, of how many."""
    rows, cols = box.shape
    a = matrix(normal(rows * k, 7, 8), (rows, k), formats[0])
    b = matrix(normal(cols * k, 8, 8), (cols, k), formats[1])
    values = [[Fraction(x) for x in array.array("d", decode(x, x.dtype).tobytes())] for x in (a, b)]
    answer = floats_of(box.call(a, b))
    equal = dict.fromkeys(_ARITHMETIC, 0)
    for i in range(rows):
        for j in range(cols):
            terms = [values[0][i * k + t] * values[1][j * k + t] for t in range(k)]
            for name, fused in _ARITHMETIC.items():
                equal[name] += _sum(root, terms, fused) == answer[i * cols + j]
    return {name: (count, rows * cols) for name, count in equal.items()}


_ARITHMETIC = {"FP32 additions of rounded products": False, "FP32 fused multiply-adds": True}
