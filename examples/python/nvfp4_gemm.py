"""An NVFP4 GEMM in NumPy, and the same with the codes of each byte of A exchanged:
mxcheck gate --candidate python:examples/python/nvfp4_gemm.py:matmul"""

import numpy as np

import mxcheck

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
BYTE = np.arange(128)
E4M3 = np.where(BYTE < 8, BYTE / 512, np.ldexp(8.0 + BYTE % 8, BYTE // 8 - 10)).astype(np.float32)
E4M3[127] = np.nan


def decoded(codes, scales, k):
    nibbles = np.stack((codes & 15, codes >> 4), axis=-1).reshape(len(codes), -1)[:, :k]  # that of the even k is the low one
    return E2M1[nibbles] * np.repeat(E4M3[scales & 127], 16, axis=1)[:, :k]  # a scale's sign counts for nothing


def product(a, b, a_scales, b_scales, d, policy):
    acc = decoded(a, a_scales, policy.depth) @ decoded(b, b_scales, policy.depth).T
    d[...] = np.float32(policy.alpha) * acc  # alpha holds the scales of both tensors


claim = mxcheck.candidate("matmul", contract="any_order+decode", formats=["e2m1"], blocks=["1x16"], blocks_b=["1x16"],
                          scale_types=["e4m3"], types=["fp32"], options=["alpha", "any_depth", "unaligned"])


@claim
def matmul(a, b, a_scales, b_scales, d, policy):
    with np.errstate(invalid="ignore", over="ignore"):
        product(a, b, a_scales, b_scales, d, policy)


@claim
def high_nibble_first(a, b, a_scales, b_scales, d, policy):
    with np.errstate(invalid="ignore", over="ignore"):
        product(a << 4 | a >> 4, b, a_scales, b_scales, d, policy)
