"""Functions that quantize to two levels of scales (NVFP4): asked about values beside every bound, and named by what they give."""

import array
import random
import struct
from typing import Any, Callable, List, Optional, Sequence, Tuple

from .._arrays import Values
from .._errors import UsageError
from .._formats import cast, decode
from .._names import format_name, one_of, told
from .._quantize import Quantized
from ._dumps import identify_dump
from ._report import Identified

_AMAXES = (3.1415927410125732, 1.0, 448.0, 0.0078125009313225746)  # of the tensors that are asked about: FP32 numbers
_MIDDLES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 0.0)  # of two codes of E2M1
_BLOCKS = 512  # of a tensor
_SHAPES = {"1x16": (128, 64), "16x1": (64, 128), "16x16": (512, 256)}


def _near(value: float, draw: random.Random, most: float) -> float:
    """A float at most three from this one, and not above `most`."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    (near,) = struct.unpack("<f", struct.pack("<I", max(0, bits + draw.randrange(-3, 4))))
    return min(float(near), most)


def _hard_blocks(amax: float) -> List[List[float]]:
    """Blocks of 16: their largest element beside the middles of two E4M3 scales, the others beside the middles of two codes; zeros, and
    scales that are too small for E4M3."""
    draw = random.Random(1)
    scales = decode(Values(bytes(range(0x7F)), (0x7F,), "e4m3"), "e4m3").tolist()
    unit = amax / 2688
    blocks = [[amax] + [0.0] * 15, [0.0, -0.0] * 8, [amax * 2.0**-22, -0.0] * 8, [0.0] * 5 + [-amax * 2.0**-100] + [0.0] * 10]
    while len(blocks) < _BLOCKS:
        code = len(blocks) % 0x7E
        largest = _near((scales[code] + scales[code + 1]) / 2 * 6 * unit, draw, amax)
        block = [largest]
        for _ in range(15):
            value = _near(draw.choice(_MIDDLES) * scales[code + draw.randrange(2)] * unit, draw, largest)
            block.append(draw.choice((value, -value)))
        blocks.append(block)
    return blocks


def _tensor(amax: float, block: str, dtype: str) -> Values:
    """These blocks as a matrix; of 16 x 16 each row of a block is the same."""
    rows, cols = _SHAPES[block]
    blocks = _hard_blocks(amax)
    flat = array.array("f", bytes(4 * rows * cols))
    for number, values in enumerate(blocks):
        for i, value in enumerate(values):
            if block == "16x1":
                flat[(number // cols * 16 + i) * cols + number % cols] = value
                continue
            row, col = divmod(number * 16, cols)
            for copy in range(16 if block == "16x16" else 1):
                flat[(row * (16 if block == "16x16" else 1) + copy) * cols + col + i] = value
    x = Values(flat, (rows, cols), "fp32")
    return x if dtype == "fp32" else Values(cast(x, dtype, overflow="non_saturate").data, (rows, cols), dtype)


def _answer(given: Any) -> Quantized:
    if isinstance(given, Quantized):
        if given.tensor_scale is None:
            raise UsageError("the box's answer has one level of scales: levels=1 names its recipe")
        return given
    if not isinstance(given, (tuple, list)) or len(given) != 3:
        raise UsageError(f"the box's answer is {told(given)}: codes, scales and the tensor's scale are needed, or a mxcheck.Quantized")
    return Quantized(given[0], given[1], "e2m1", "nvfp4", "1x16", "compact", tensor_scale=given[2])


def _common(found: Sequence[Identified]) -> Tuple[List[str], List[str]]:
    """Names that explain all answers, recipes as they store the tensor's scale first and alone where there are any; and what else to say."""
    names = [name for name in found[0].names if all(name in other.names for other in found)]
    plain = [name for name in names if "," not in name]
    notes = list(dict.fromkeys(note for one in found for note in one.notes))
    return plain or names, notes


def identify_two_levels(f: Callable[[Any], Any], given: Callable[[Values], Any], block: str, dtype: Any,
                        names: Optional[Sequence[str]]) -> Identified:
    """Which recipe of two levels of scales f follows. given: a tensor as f takes it. f's codes are one or two a byte."""
    one_of(block, "block", _SHAPES)
    dtype = format_name(dtype, "dtype", ("fp32", "bf16", "fp16"))
    found = []
    for amax in _AMAXES:
        x = _tensor(amax, block, dtype)
        q = _answer(f(given(x)))
        one = identify_dump(x=x, codes=q.unpacked().codes, scales=q.scales, block=block, tensor_scale=q.tensor_scale)
        if names is not None:
            one.names = [name for name in one.names if name.split(",")[0] in names]
        if not one:
            return one
        found.append(one)
    explaining, notes = _common(found)
    if not explaining:
        notes.append("each of the tensors is explained by a recipe, and all of them by none: " + "; ".join(one.names[0] for one in found))
    return Identified(explaining, sum(one.compared for one in found), notes=notes)
