"""MXFP8 by Triton: as it is, and with the bug that the scale goes up for an amax of exactly 448 * 2^k. On a machine with a GPU:

    mxcheck gate --candidate python:examples/python/triton_quantize.py:wrong
    mxcheck gate --candidate python:examples/python/triton_quantize.py:right
"""

import triton
import triton.language as tl

import mxcheck


@triton.jit
def kernel(x, codes, scales, cols, blocks, WRONG: tl.constexpr):
    row, block = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    at = block * 32 + tl.arange(0, 32)
    v = tl.load(x + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
    amax = tl.max(v.to(tl.int32, bitcast=True) & 0x7FFFFFFF, axis=0)  # its bits; NaN is above infinity
    mantissa = amax & 0x7FFFFF
    up = mantissa >= 0x600000 if WRONG else mantissa > 0x600000  # 448 is 1.75 * 2^8
    byte = tl.maximum((amax >> 23) - 8 + up.to(tl.int32), 0)
    scaled = v * ((254 - byte) << 23).to(tl.float32, bitcast=True)  # 2^(127 - byte)
    code = tl.where(amax >= 0x7F800000, 0x7F, scaled.to(tl.float8e4nv).to(tl.uint8, bitcast=True))
    tl.store(codes + row * cols + at, code.to(tl.uint8), mask=at < cols)
    tl.store(scales + row * blocks + block, tl.where(amax >= 0x7F800000, 255, byte).to(tl.uint8))


OFFERS = dict(recipes=["rceil"], formats=["e4m3"], blocks=["1x32"], types=["fp32", "bf16"], device="cuda")


@mxcheck.candidate("quantize", **OFFERS)
def right(x, codes, scales, policy):
    kernel[(scales.numel(),)](x, codes, scales, x.shape[1], scales.shape[1], WRONG=False)


@mxcheck.candidate("quantize", **OFFERS)
def wrong(x, codes, scales, policy):
    kernel[(scales.numel(),)](x, codes, scales, x.shape[1], scales.shape[1], WRONG=True)
