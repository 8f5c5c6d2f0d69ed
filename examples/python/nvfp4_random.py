"""Stochastic rounding and a random Hadamard transform of 16 in NumPy: mxcheck gate --candidate python:nvfp4_random.py:quantize

The arithmetic of codes and scales is that of nvfp4_te.py; what is added is the transform before it, and the words. Let n be an element's
number plus the offset. "stochastic": its word is the first output of Philox4x32-10 under the seed and the counter (n, counter).
"stochastic_bytes": one call, of the counter (n // 16, counter), has the words of 16 elements, and four elements share a word.
"""

import numpy as np

import mxcheck

from nvfp4_te import E4M3, LARGEST, nearest

U32, U64 = np.uint32, np.uint64


def philox(seed, numbers, counter):
    c = [(numbers & U64(0xFFFFFFFF)).astype(U64), numbers >> U64(32), np.full_like(numbers, counter[0]), np.full_like(numbers, counter[1])]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0, p1 = U64(0xD2511F53) * c[0], U64(0xCD9E8D57) * c[2]
        c = [p1 >> U64(32) ^ c[1] ^ U64(key[0]), p1 & U64(0xFFFFFFFF), p0 >> U64(32) ^ c[3] ^ U64(key[1]), p0 & U64(0xFFFFFFFF)]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def random_words(shape, policy):
    n = np.arange(shape[0] * shape[1], dtype=U64).reshape(shape) + U64(policy.offset)
    if policy.rounding == "stochastic":
        return philox(policy.seed, n, policy.counter)[0]
    word = np.choose((n % U64(16) // U64(4)).astype(np.intp), philox(policy.seed, n // U64(16), policy.counter))
    byte = np.array([0, 2, 1, 3], U64)[(n % U64(4)).astype(np.intp)]
    return (word >> byte * U64(8) & U64(0xFF)) << U64(24)


def hadamard(x, signs):
    """Stages of 1, 2, 4 and 8, each sum and difference one rounding to FP32, then a quarter of it."""
    y = x.reshape(-1, 16) * np.array([-1 if signs >> i & 1 else 1 for i in range(16)], np.float32)
    for h in (1, 2, 4, 8):
        pairs = y.reshape(-1, 8 // h, 2, h)
        y = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(-1, 16)
    return (y * np.float32(0.25)).reshape(x.shape)


def stochastic(magnitudes, words):
    """Each magnitude to a multiple of its step: down, or up where the word and the discarded fraction, 32 bits of it, carry."""
    m = np.minimum(magnitudes.astype(np.float64), 8.0)
    step = np.where(m < 2, 0.5, np.where(m < 4, 1.0, 2.0))
    down = np.floor(m / step)
    fraction = np.floor((m / step - down) * 2.0**32).astype(U64)
    value = (down + (fraction + words >> U64(32)).astype(np.float64)) * step
    return np.minimum(np.where(value < 2, 2 * value, np.where(value < 4, value + 2, value / 2 + 4)), 7).astype(np.uint8)


@mxcheck.candidate("quantize_nvfp4", recipes=["nvfp4_te"], formats=["e2m1"], blocks=["1x16"], types=["fp32"],
                   roundings=["nearest", "stochastic", "stochastic_bytes"], transforms=["none", "16/butterfly/fp32"])
def quantize(x, amax, codes, scales, policy):
    rows, cols = x.shape
    with np.errstate(all="ignore"):
        if policy.hadamard:
            x = hadamard(x, policy.signs)
        encode = np.fmin(np.float32(2688) / amax[0], LARGEST)
        if amax[0] == 0 or encode == 0:
            encode = np.float32(1)
        padded = np.zeros((rows, -(-cols // 16) * 16), np.float32)
        padded[:, :cols] = x
        blocks = padded.reshape(rows, -1, 16)
        block_amax = np.fmax.reduce(np.abs(blocks), axis=2, initial=np.float32(0))  # NaN does not count
        scales[...] = nearest(np.fmin(block_amax * (encode * (np.float32(1) / np.float32(6))), LARGEST), E4M3)
        factor = np.fmin(np.float32(1) / (E4M3[scales] * (np.float32(1) / encode)), LARGEST)
        values = (blocks * factor[:, :, None]).reshape(rows, -1)[:, :cols]
        magnitudes = np.abs(values)
        if policy.rounding == "nearest":
            code = nearest(magnitudes, np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32))
        else:
            code = stochastic(magnitudes, random_words((rows, cols), policy))
            code[np.isnan(values)] = 7
    nibbles = code | (np.signbit(values) & ~np.isnan(values)).astype(np.uint8) << 3
    even, odd = nibbles[:, 0::2], nibbles[:, 1::2]
    codes[...] = even
    codes[:, : odd.shape[1]] |= odd << 4
