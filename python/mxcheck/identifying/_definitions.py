"""What a product is compared with: contracts with what is done on top, and split-k, for which contracts have no text."""

import array
import math
from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple

from .._arrays import Values
from .._formats import cast, formats
from .._product import contracts, matmul
from .._quantize import Quantized

# Numbers of products after which libraries are known to add to an FP32 accumulator.
_INTERVALS = (16, 32, 64, 128, 256, 512)
_SCALE_RECIPES = {"e8m0": "rceil", "fp32": "fp32"}


@dataclass
class Problem:
    """Operands of one call. scales: of a and b, with blocks of `blocks`, or none."""

    name: str
    a: Values
    b: Values
    scales: Tuple[Values, ...] = ()
    blocks: Tuple[str, str] = ("", "")

    def operands(self) -> Tuple[Values, ...]:
        return (self.a, self.b, *self.scales)

    @property
    def k(self) -> int:
        return self.a.shape[1]

    def slice(self, first: int, end: int) -> "Problem":
        """Columns of k from first to end."""
        scales = []
        for scale, block in zip(self.scales, self.blocks):
            each = int(block.split("x")[1])
            scales.append(_columns(scale, first // each, -(-end // each)))
        return Problem(self.name, _columns(self.a, first, end), _columns(self.b, first, end), tuple(scales), self.blocks)


def _columns(x: Values, first: int, end: int) -> Values:
    data = x.tobytes()
    rows, cols = x.shape
    each = len(data) // max(1, rows * cols)
    cut = b"".join(data[(row * cols + first) * each : (row * cols + end) * each] for row in range(rows))
    return Values(cut, (rows, end - first), x.dtype)


def answer_of(name: str, problem: Problem, output: str = "fp32") -> bytes:
    """D under a contract, or under one in parts. UsageError where it does not fit the operands."""
    contract, _, split = name.partition(", split-k of ")
    if not split:
        return _in_one(contract, problem, output)
    words = split.split(", added ")
    length = int(words[0].rsplit(" ", 1)[1])
    parts = [array.array("f", _in_one(contract, problem.slice(first, min(problem.k, first + length)), "fp32"))
             for first in range(0, problem.k, length)]
    order = words[1] if len(words) > 1 else ""
    if order == "descending":
        parts.reverse()
    if order == "pairwise":
        parts = [_added(parts[0], parts[1]), _added(parts[2], parts[3])]
    d = parts[0]
    for part in parts[1:]:
        d = _added(d, part)
    if output == "fp32":
        return d.tobytes()
    return cast(Values(d, (1, len(d)), "fp32"), output, overflow="non_saturate").tobytes()


def _added(a: Any, b: Any) -> Any:
    # A double holds the sum of two FP32 numbers well enough that rounding it rounds once.
    return array.array("f", [x + y for x, y in zip(a, b)])


def _in_one(contract: str, problem: Problem, output: str) -> bytes:
    operands: List[Any] = [problem.a, problem.b]
    for i, scale in enumerate(problem.scales):
        operands[i] = Quantized(operands[i], scale, operands[i].dtype, _SCALE_RECIPES[scale.dtype], problem.blocks[i], "compact")
    return matmul(operands[0], operands[1], contract, output, threads=1).tobytes()


def contract_texts(k: int, has_scales: bool) -> List[str]:
    """Every contract with what is done on top of it; some fit no operands."""
    texts = []
    for name in contracts():
        texts += [name, name + "+descending"] + ([name + "+decode", name + "+decode+descending"] if has_scales else [])
        for n in _INTERVALS:
            for order in ("", "+a_first", "+b_first") if has_scales else ("",):
                if n < k or (has_scales and n == k):
                    texts += [f"{name}+promote{n}{order}", f"{name}+promote{n}{order}+descending"]
    return texts


def split_texts(fitting: Sequence[str], k: int, block: int) -> List[str]:
    """The contracts that fit, in 2, 3 and 4 parts."""
    texts = []
    for name in fitting:
        promotion = int("".join(c for c in name.split("+promote")[1] if c.isdigit())) if "+promote" in name else 0
        if "+descending" in name or (promotion and 256 % promotion):
            continue
        if not promotion and not block and name not in ("exact", "ieee_fp32"):
            continue  # which is promotion at the parts' length
        unit = math.lcm(promotion or 1, block or 1) if hasattr(math, "lcm") else (promotion or 1) * (block or 1)
        for parts in (2, 3, 4):
            lengths: List[int] = []
            for tile in (1, 32, 64, 128):
                each = unit * tile // math.gcd(unit, tile)
                length = -(-(-(-k // parts)) // each) * each
                if -(-k // length) == parts and length not in lengths and (block or length != promotion):
                    lengths.append(length)
            for length in lengths:
                split = f"{name}, split-k of {parts} in parts of {length}"
                texts.append(split)
                texts += [split + ", added descending"] if parts > 2 else []
                texts += [split + ", added pairwise"] if parts == 4 else []
    return texts


def other_words(name: str, k: int, has_scales: bool) -> Optional[str]:
    """A contract with promotion in 2 to 4 intervals is split-k of the same without."""
    if has_scales or "+promote" not in name or ", split" in name:
        return None
    interval = int(name.split("+promote")[1].split("+")[0])
    parts = -(-k // interval)
    if not 2 <= parts <= 4:
        return None
    order = ", added descending" if "+descending" in name else ""
    return f"that is also split-k of {parts} in parts of {interval}{order}, no promotion within them"


def blocks_of(shape: Tuple[int, int], block: str) -> Tuple[int, int]:
    tall, wide = (int(part) for part in block.split("x"))
    return -(-shape[0] // tall), -(-shape[1] // wide)


def scale_values(shape: Tuple[int, int], type_: str, numbers: Sequence[float]) -> Values:
    """Scales of these numbers: FP32 with all of their bits, E8M0 the powers of two below."""
    if type_ == "fp32":
        return Values(array.array("f", numbers), shape, "fp32")
    bias = formats("e8m0").bias
    return Values(bytes(math.frexp(x)[1] - 1 + bias for x in numbers), shape, "e8m0")
