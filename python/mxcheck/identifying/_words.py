"""Operands for probes: words of a format, the same on every machine."""

import array
import ctypes
import math
import struct
from typing import Iterator, List, Tuple

from .._arrays import Values
from .._formats import cast, formats

_MASK = 2**64 - 1


def words(seed: int) -> Iterator[int]:
    """SplitMix64."""
    state = seed & _MASK
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        yield z ^ (z >> 31)


def to_fp32(x: float) -> float:
    """Rounded to FP32, nearest, ties to even."""
    return ctypes.c_float(x).value


def matrix(numbers: List[float], shape: Tuple[int, int], format: str) -> Values:
    """Numbers as codes of a format, rounded to nearest; saturated."""
    fp32 = Values(array.array("f", numbers), shape, "fp32")
    if format == "fp32":
        return fp32
    return Values(cast(fp32, format).tobytes(), shape, format)


def normal(count: int, seed: int, spread: float = 0.0) -> List[float]:
    """Normal numbers; with a spread their exponents vary by so many binades."""
    source = words(seed)
    out = []
    for _ in range(count):
        u = (next(source) >> 11) / 2**53 or 2.0**-53
        v = (next(source) >> 11) / 2**53
        x = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
        out.append(x * 2.0 ** round(((next(source) >> 11) / 2**53 - 0.5) * spread))
    return out


def cancelling(count: int, seed: int) -> List[float]:
    """Pairs of nearly opposite numbers, at places apart."""
    half = normal((count + 1) // 2, seed, 6)
    rest = [-x * (1 + 2.0**-6 * (i % 3)) for i, x in enumerate(half)]
    both = half + rest
    source = words(seed + 1)
    for i in range(len(both) - 1, 0, -1):
        j = next(source) % (i + 1)
        both[i], both[j] = both[j], both[i]
    return both[:count]


def large_and_small(format: str) -> Tuple[float, float]:
    """Powers of two of a format whose squares lie as far apart as they can without infinities in FP32 sums of 2^12 of them."""
    info = formats(format)
    largest = int(math.floor(math.log2(info.max)))
    least = 1 - info.bias - info.mantissa_bits  # the smallest subnormal
    return 2.0 ** min(largest, 50), 2.0 ** max(least, -50)


def notations(word: bytes, format: str) -> str:
    """A value's bits, fields, hexfloat and decimal."""
    if format == "fp32":
        bits = struct.unpack("<I", word)[0]
        value = struct.unpack("<f", word)[0]
        return f"{bits:08x} (sign {bits >> 31}, exponent {bits >> 23 & 255}, fraction {bits & 0x7FFFFF:06x}) {value.hex()} {value!r}"
    return word[::-1].hex()
