"""An MXFP8 quantizer that tolerances pass: its cast to E4M3 rounds ties away from zero, not to even. Needs numpy.

    python3 examples/python/ties_away.py                                         # its cosine, calc_diff and SQNR
    mxcheck gate --candidate python:examples/python/ties_away.py:quantize        # its first wrong bit
"""

import numpy as np

import mxcheck


@mxcheck.candidate("quantize", recipes=["rceil"], formats=["e4m3"], blocks=["1x32"], types=["fp32"])
def quantize(x, codes, scales, policy):
    blocks = np.pad(x, ((0, 0), (0, -x.shape[1] % 32))).reshape(x.shape[0], -1, 32)
    amax = (blocks.view(np.int32) & 0x7FFFFFFF).max(axis=-1)  # its bits; NaN is above infinity
    special = amax >= 0x7F800000
    byte = np.maximum((amax >> 23) - 8 + ((amax & 0x7FFFFF) > 0x600000), 0)  # 448 is 1.75 * 2^8
    value = np.ldexp(np.where(special[..., None], 0, blocks).astype(np.float64), 127 - byte[..., None])
    exponent = np.frexp(np.maximum(np.abs(value), 2.0**-6))[1] - 1
    steps = np.floor(np.ldexp(np.abs(value), 3 - exponent) + 0.5)  # the fault: np.rint rounds ties to even
    code = np.signbit(value) * 128 + steps + (exponent + 6) * 8
    codes[...] = np.where(special[..., None], 0x7F, code).reshape(x.shape[0], -1)[:, : x.shape[1]]
    scales[...] = np.where(special, 255, byte)


def main():
    x = np.random.default_rng(1).standard_normal((1024, 4096)).astype(np.float32)
    x = (x.view(np.uint32) & 0xFFFF0000).view(np.float32)  # BF16 activations
    right = mxcheck.quantize(x, format="e4m3", recipe="rceil", block="1x32")
    codes, scales = np.empty_like(right.codes), np.empty_like(right.scales)
    quantize(x, codes, scales, None)
    wrong = mxcheck.Quantized(codes, scales, "e4m3", "rceil", "1x32", "compact")
    a, b = (mxcheck.dequantize(q).astype(np.float64) for q in (right, wrong))
    print(f"cosine     {(a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()):.4f}   with the right kernel's output")
    print(f"calc_diff  {1 - 2 * (a * b).sum() / (a * a + b * b).sum():.5f}")
    for name, y in ("wrong", b), ("right", a):
        print(f"SQNR       {10 * np.log10((x.astype(np.float64) ** 2).sum() / ((y - x) ** 2).sum()):.2f} dB  of the {name} kernel, against x")
    print(f"codes      {(codes != right.codes).sum()} of {codes.size} are wrong")


if __name__ == "__main__":
    main()
