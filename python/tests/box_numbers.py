"""Numbers of the boxes that the tests of identify have: words that are the same on every machine, and sums in FP32."""

import array
import ctypes
import math
import struct
from fractions import Fraction

_MASK = 2**64 - 1


def words(seed):
    """SplitMix64."""
    state = seed & _MASK
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        yield z ^ (z >> 31)


def to_fp32(x):
    """Rounded to FP32, nearest, ties to even."""
    return ctypes.c_float(x).value


def rounded(x: Fraction) -> float:
    """To FP32, nearest, ties to even, once."""
    near = float(x)
    low = struct.unpack("<Q", struct.pack("<d", near))[0] & 0x1FFFFFFF
    if low == 0x10000000 and near != x:  # the double is in the middle of two FP32 numbers, and x is not
        near = math.nextafter(near, math.inf if x > near else -math.inf) if hasattr(math, "nextafter") else near
    return to_fp32(near)


def floats_of(data):
    return array.array("f", data).tolist()
