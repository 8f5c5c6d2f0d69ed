"""Transformer Engine's NVFP4 in NumPy: mxcheck gate --candidate python:nvfp4_te.py:quantize, or :dequantize

The tensor's scale that comes in is the tensor's amax. In quantize every line of arithmetic is one rounding to FP32; dequantize computes in
FP64, where nothing is rounded that shows in FP32.
"""

import numpy as np

import mxcheck

LARGEST = np.finfo(np.float32).max
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E4M3 = np.array([(m * 2.0**-9 if e == 0 else (8 + m) * 2.0 ** (e - 10)) for e in range(16) for m in range(8)][:127], np.float32)


def nearest(values, table):
    """Codes of the nearest values of the table, ties to even, at most the last; NaN gets the last code."""
    middles = (table[1:] + table[:-1]) / 2  # exact
    code = np.searchsorted(middles, values)
    tie = (code < middles.size) & (values == middles[np.minimum(code, middles.size - 1)])
    return (code + (tie & (code % 2 == 1))).astype(np.uint8)


@mxcheck.candidate("quantize_nvfp4", recipes=["nvfp4_te"], formats=["e2m1"], blocks=["1x16"], types=["fp32"])
def quantize(x, amax, codes, scales, policy):
    rows, cols = x.shape
    with np.errstate(all="ignore"):
        encode = np.fmin(np.float32(2688) / amax[0], LARGEST)
        if amax[0] == 0 or encode == 0:
            encode = np.float32(1)
        padded = np.zeros((rows, -(-cols // 16) * 16), np.float32)
        padded[:, :cols] = x
        blocks = padded.reshape(rows, -1, 16)
        block_amax = np.fmax.reduce(np.abs(blocks), axis=2, initial=np.float32(0))  # NaN does not count
        multiplier = encode * (np.float32(1) / np.float32(6))
        scales[...] = nearest(np.fmin(block_amax * multiplier, LARGEST), E4M3)
        product = E4M3[scales] * (np.float32(1) / encode)
        factor = np.fmin(np.float32(1) / product, LARGEST)
        values = blocks * factor[:, :, None]
    nibbles = nearest(np.abs(values), E2M1) | (np.signbit(values) & ~np.isnan(values)).astype(np.uint8) << 3
    nibbles = nibbles.reshape(rows, -1)
    even, odd = nibbles[:, 0:cols:2], nibbles[:, 1:cols:2]
    codes[...] = even
    codes[:, : odd.shape[1]] |= odd << 4


@mxcheck.candidate("dequantize_nvfp4", recipes=["nvfp4_te"], formats=["e2m1"], blocks=["1x16"], types=["fp32"])
def dequantize(codes, scales, amax, y, policy):
    rows, cols = y.shape
    nibbles = np.stack([codes & 15, codes >> 4], axis=2).reshape(rows, -1)[:, :cols]  # the even column in the low nibble
    elements = np.where(nibbles & 8, -1.0, 1.0) * E2M1[nibbles & 7]
    of_block = np.where(scales & 128, -1.0, 1.0) * np.append(E4M3, np.float32(np.nan))[scales & 127]
    with np.errstate(all="ignore"):
        y[...] = elements * np.repeat(of_block, 16, axis=1)[:, :cols] * np.float64(amax[0]) / 2688
