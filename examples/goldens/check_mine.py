#!/usr/bin/env python3
"""Checks a quantizer of yours against a golden, bit for bit.

  check_mine.py GOLDEN.h5                                    ml_dtypes' casts, numpy's where it is not installed
  check_mine.py GOLDEN.h5 --quantizer torch
  check_mine.py GOLDEN.h5 --quantizer my_module:my_function

A quantizer takes x (float32 array, rows x cols) and what the golden says of itself (a dict of strings), and returns a
dict of arrays by dataset name, here codes and scales. They are written to a candidate file, which holds nothing but
these datasets, and `mxcheck golden verify` compares. Exit codes are those of verify: 0 equal, 1 different, 5 a golden
that is missing or corrupt; 3 when a package is missing.
"""

import argparse
import importlib
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"check_mine.py: {missing}; this example needs h5py and numpy: pip install h5py numpy", file=sys.stderr)
    sys.exit(3)

from read_golden import text, to_float32


def blocks_of(x, attributes):
    """x as [scale rows, block rows, scale cols, block cols], padded with zeros; E4M3 in blocks without experts."""
    if attributes["format"] != "e4m3" or attributes["offsets"] or attributes["recipe"] != "rceil":
        sys.exit("this example quantizes to e4m3 with recipe rceil and without experts; write --quantizer MODULE:FUNCTION")
    rows, cols = x.shape
    block = attributes["block"]
    r, c = (1, max(1, cols)) if block == "row" else (int(n) for n in block.split("x"))
    padded = np.zeros((-(-rows // r) * r, -(-cols // c) * c), np.float32)
    padded[:rows, :cols] = x
    return padded.reshape(padded.shape[0] // r, r, padded.shape[1] // c, c)


def rceil_bytes(blocks):
    """E8M0 bytes: the smallest power of two that takes no amax beyond 448. Exact in float64."""
    amax = np.abs(blocks.astype(np.float64)).max(axis=(1, 3))
    mantissa, exponent = np.frexp(amax / 448)  # amax / 448 = mantissa * 2^exponent, 0.5 <= mantissa < 1
    e = np.where(mantissa == 0.5, exponent - 1, exponent)  # division by 448 = 7 * 64 rounds, but never across 2^e
    return np.where(amax == 0, 0, np.clip(e + 127, 0, 254)).astype(np.uint8)


def quantize_blocks(x, attributes, cast):
    blocks = blocks_of(x, attributes)
    scales = rceil_bytes(blocks)
    scaled = np.ldexp(blocks, (127 - scales.astype(np.int32))[:, None, :, None])
    codes = cast(np.clip(scaled, -448, 448).astype(np.float32))
    rows, cols = x.shape
    return {"codes": codes.reshape(blocks.shape[0] * blocks.shape[1], -1)[:rows, :cols], "scales": scales}


def with_ml_dtypes(x, attributes):
    import ml_dtypes

    return quantize_blocks(x, attributes, lambda v: v.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))


def with_torch(x, attributes):
    import torch

    return quantize_blocks(
        x, attributes, lambda v: torch.from_numpy(v).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    )


def with_numpy(x, attributes):
    def cast(v):
        exponent = np.maximum(np.frexp(np.abs(v))[1] - 1, -6)
        steps = np.rint(np.ldexp(np.abs(v).astype(np.float64), 3 - exponent)).astype(np.int64)  # ties to even
        return ((exponent + 6) * 8 + steps + np.signbit(v) * 128).astype(np.uint8)

    return quantize_blocks(x, attributes, cast)


def chosen(name):
    builtin = {"ml_dtypes": with_ml_dtypes, "torch": with_torch, "numpy": with_numpy}
    if name is None:
        name = "ml_dtypes" if importlib.util.find_spec("ml_dtypes") else "numpy"
    if name in builtin:
        return builtin[name]
    module, _, function = name.partition(":")
    sys.path.insert(0, ".")
    return getattr(importlib.import_module(module), function)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("golden")
    parser.add_argument("--quantizer", help="ml_dtypes, torch, numpy or MODULE:FUNCTION")
    parser.add_argument("--mxcheck", default="mxcheck", help="path of the tool")
    parser.add_argument("--keep", help="write the candidate file here and keep it")
    options = parser.parse_args()
    with h5py.File(options.golden, "r") as golden:
        attributes = {key: text(value) for key, value in golden.attrs.items()}
        if attributes["kind"] != "quantize":
            print(f"check_mine.py: {options.golden} is of kind {attributes['kind']}; a quantizer is for kind quantize",
                  file=sys.stderr)
            return 2
        x = to_float32(golden["x"][:], text(golden["x"].attrs["format"]))
    try:
        answer = chosen(options.quantizer)(x, attributes)
    except ImportError as missing:
        print(f"check_mine.py: {missing}", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory() as directory:
        candidate = options.keep or str(pathlib.Path(directory) / "mine.h5")
        with h5py.File(candidate, "w") as file:
            for name, array in answer.items():
                file[name] = np.ascontiguousarray(array)
        command = [options.mxcheck, "golden", "verify", candidate, "--against", options.golden]
        return subprocess.run([*command, "--only", ",".join(answer)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
