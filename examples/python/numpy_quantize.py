"""MXFP8 by numpy on the host, and the same with a bug: mxcheck gate --candidate python:examples/python/numpy_quantize.py:quantize"""

import numpy as np

import mxcheck


def to_e4m3(v, rounded):
    """Codes of E4M3 of FP64 values up to 448; -0 stays -0."""
    exponent = np.where(v == 0, -6, np.maximum(np.frexp(v)[1] - 1, -6))  # -6 of subnormals too
    steps = rounded(np.ldexp(np.abs(v), 3 - exponent))  # between neighbours: 3 bits of mantissa
    return (np.signbit(v) * 128 + steps + (exponent + 6) * 8).astype(np.uint8)


def write(x, codes, scales, rounded):
    rows, cols = x.shape
    blocks = np.pad(x, ((0, 0), (0, -cols % 32))).reshape(rows, -1, 32)
    bits = (blocks.view(np.int32) & 0x7FFFFFFF).max(axis=-1)  # amax; NaN is above infinity
    byte = np.maximum((bits >> 23) - 8 + ((bits & 0x7FFFFF) > 0x600000), 0)  # 448 is 1.75 * 2^8, so what is above goes up
    special = bits >= 0x7F800000
    with np.errstate(invalid="ignore"):
        made = to_e4m3(np.ldexp(np.where(special[..., None], 0, blocks).astype(np.float64), 127 - byte[..., None]), rounded)
    codes[...] = np.where(special[..., None], 0x7F, made).reshape(rows, -1)[:, :cols]
    scales[...] = np.where(special, 255, byte)


claim = mxcheck.candidate("quantize", recipes=["rceil"], formats=["e4m3"], blocks=["1x32"], types=["fp32"])


@claim
def quantize(x, codes, scales, policy):
    write(x, codes, scales, np.rint)  # to nearest, ties to even


@claim
def ties_away(x, codes, scales, policy):
    write(x, codes, scales, lambda v: np.floor(v + 0.5))  # the bug: ties away from zero
