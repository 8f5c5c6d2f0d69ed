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
from fractions import Fraction
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .._arrays import Values, count_of, result, view_of
from .._errors import UsageError
from .._formats import cast, decode
from ._tree import Node, Tree, is_binary, leaves
from ._words import large_and_small, matrix, normal, to_fp32

class Box:
    """A callable of the user's, with its tensors."""

    def __init__(self, f: Callable[..., Any], arrays: str, shape: Tuple[int, ...], output: str, extra: Sequence[Values] = ()) -> None:
        if arrays not in ("values", "numpy", "torch"):
            raise UsageError(f"arrays is {arrays!r}: values, numpy or torch")
        if arrays != "values" and arrays not in sys.modules:
            __import__(arrays)
        self.f, self.arrays, self.shape, self.output, self.extra = f, arrays, shape, output, extra

    def given(self, x: Values) -> Any:
        if self.arrays == "values":
            return x
        each = len(memoryview(x.data).cast("B")) // max(1, count_of(x.shape))
        return result(bytearray(x.tobytes()), x.shape, x.dtype, each, self.arrays)

    def call(self, *operands: Values) -> bytes:
        """The answer's bytes, of the shape and type that were asked for."""
        given = self.f(*(self.given(x) for x in (*operands, *self.extra)))
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


def floats_of(data: bytes, format_: str = "fp32") -> List[float]:
    if format_ == "fp32":
        return array.array("f", data).tolist()
    return array.array("d", decode(Values(data, (len(data) // 2,), format_), format_).tobytes()).tolist()


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
        answer = floats_of(self.box.call(self._operand(pairs, self.rows, 0, -1), self._operand(pairs, self.cols, 1, 1)), self.box.output)
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


def _rounded(x: Fraction) -> float:
    """To FP32, nearest, ties to even, once."""
    near = float(x)
    low = struct.unpack("<Q", struct.pack("<d", near))[0] & 0x1FFFFFFF
    if low == 0x10000000 and near != x:  # the double is in the middle of two FP32 numbers, and x is not
        near = math.nextafter(near, math.inf if x > near else -math.inf) if hasattr(math, "nextafter") else near
    return to_fp32(near)


# Arithmetics of a node, by their names in `mxcheck identify`: whether the addition of a product is fused, and of two products which.
_ARITHMETIC = {"FP32, products rounded first": None, "FP32 fused multiply-adds": 1,
               "FP32 fused multiply-adds, the last of two products rounded first": 0}


def _sum(node: Node, terms: List[Fraction], fused: Optional[int]) -> float:
    """By FP32 additions of products rounded to FP32, or with each product's addition fused: of two products the one at that place."""
    if isinstance(node, int):
        return _rounded(terms[node])
    left, right = node
    if fused is not None and (isinstance(left, int) or isinstance(right, int)):
        if not isinstance(right, int) or (fused == 0 and isinstance(left, int)):
            left, right = right, left
        return _rounded(Fraction(_sum(left, terms, fused)) + terms[right])
    return to_fp32(_sum(left, terms, fused) + _sum(right, terms, fused))  # rounding to double first changes nothing


def summation_tree(f: Callable[[Any, Any], Any], k: int, formats: Sequence[str] = ("bf16", "bf16"), shape: Tuple[int, int] = (8, 8),
                   arrays: str = "values", check: int = 2000, output: str = "fp32", extra: Sequence[Values] = ()) -> Tree:
    """The order in which f(a, b), as of identify_matmul, adds k products. `check`: pairs that are asked for beside those that the tree
    was built from. extra: further operands, the same in each call, as scales of one."""
    if output != "fp32" and k > 256:
        return Tree(None, k, 0, None, f"K is {k}: {output} counts units up to 256")
    box = Box(f, arrays, shape, output, extra)
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
        if is_binary(root):
            tree.exact = _reproduced(box, root, k, formats)
        return tree
    except _NoTree as reason:
        return Tree(None, k, len(meetings.known), None, str(reason))
    finally:
        sys.setrecursionlimit(limit)


def _reproduced(box: Box, root: Node, k: int, formats: Sequence[str], least: int = 128) -> Dict[str, Tuple[int, int]]:
    """Outputs of random operands that FP32 arithmetic in this order gives, of how many: `least` or more."""
    rows, cols = box.shape
    equal = dict.fromkeys(_ARITHMETIC, 0)
    calls = -(-least // (rows * cols))
    for call in range(calls):
        spread = 2 if call % 2 else 8
        a = matrix(normal(rows * k, 7 + 2 * call, spread), (rows, k), formats[0])
        b = matrix(normal(cols * k, 8 + 2 * call, spread), (cols, k), formats[1])
        values = [[Fraction(x) for x in array.array("d", decode(x, x.dtype).tobytes())] for x in (a, b)]
        answer = floats_of(box.call(a, b), box.output)
        for i in range(rows):
            for j in range(cols):
                terms = [values[0][i * k + t] * values[1][j * k + t] for t in range(k)]
                for name, fused in _ARITHMETIC.items():
                    equal[name] += _as(box.output, _sum(root, terms, fused)) == answer[i * cols + j]
    return {name: (count, calls * rows * cols) for name, count in equal.items()}


def _as(output: str, x: float) -> float:
    if output == "fp32":
        return x
    return floats_of(cast(Values(array.array("f", [x]), (1,), "fp32"), output, overflow="non_saturate").tobytes(), output)[0]
