#!/usr/bin/env python3
"""Reads a golden without mxcheck: Python, h5py and numpy.

  read_golden.py goldens/layer0_dO_1x32.h5

Checks the file's SHA-256 against manifest.txt beside it, prints what the file says of itself, and turns codes and scales
back into numbers. Exit codes: 0; 3 when a package is missing; 5 for a golden that is not what its
manifest says.
"""

import hashlib
import io
import pathlib
import sys

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"read_golden.py: {missing}; this example needs h5py and numpy: pip install h5py numpy", file=sys.stderr)
    sys.exit(3)


def verified_bytes(path):
    """The file's bytes, if manifest.txt vouches for them."""
    path = pathlib.Path(path)
    data = path.read_bytes()
    lines = (path.parent / "manifest.txt").read_text().splitlines()
    if not lines or not lines[0].startswith("mxcheck manifest 1, "):
        sys.exit("manifest.txt: not a manifest of version 1")
    for line in lines[1:]:
        digest, size, name = line.split("  ", 2)
        if name == path.name:
            if int(size) == len(data) and digest == hashlib.sha256(data).hexdigest():
                return data
            print(f"{path}: is not the file that manifest.txt lists", file=sys.stderr)
            sys.exit(5)
    print(f"{path}: manifest.txt does not list it", file=sys.stderr)
    sys.exit(5)


def text(value):
    """An attribute as str: h5py gives fixed-length strings as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def to_float32(bits, name):
    """Bits of a 16- or 32-bit float, as a golden stores them, to float32."""
    if name == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return bits.view(np.float16).astype(np.float32) if name == "float16" else bits.view(np.float32)


def decode(codes, exponent_bits, mantissa_bits, bias, has_inf):
    """Codes with sign, exponent and mantissa to float64; exact."""
    codes = codes.astype(np.int64)
    magnitude = codes & ((1 << (exponent_bits + mantissa_bits)) - 1)
    exponent = magnitude >> mantissa_bits
    mantissa = magnitude & ((1 << mantissa_bits) - 1)
    significand = np.where(exponent == 0, mantissa, mantissa + (1 << mantissa_bits)).astype(np.float64)
    value = np.ldexp(significand, np.maximum(exponent, 1) - bias - mantissa_bits)
    top = exponent == (1 << exponent_bits) - 1
    if has_inf:  # E5M2
        value = np.where(top, np.where(mantissa == 0, np.inf, np.nan), value)
    elif exponent_bits == 4:  # E4M3: one NaN
        value = np.where(top & (mantissa == (1 << mantissa_bits) - 1), np.nan, value)
    return np.where(codes >> (exponent_bits + mantissa_bits) & 1, -value, value)


FORMATS = {
    "float8_e4m3fn": (4, 3, 7, False),
    "float8_e5m2": (5, 2, 15, True),
    "float4_e2m1fn": (2, 1, 1, False),
    "float6_e2m3fn": (2, 3, 1, False),
    "float6_e3m2fn": (3, 2, 3, False),
}


def scale_of_each_element(scales, attributes, shape):
    """Compact scales repeated over their blocks, expert by expert."""
    rows, cols = shape
    block = attributes["block"]
    block_rows, block_cols = (1, cols) if block == "row" else (int(n) for n in block.split("x"))
    offsets = [int(n) for n in attributes["offsets"].split(",")] if attributes["offsets"] else [0, rows]
    scale_row = []
    first = 0
    for begin, end in zip(offsets, offsets[1:]):
        scale_row += [first + i // block_rows for i in range(end - begin)]
        first += -(-(end - begin) // block_rows)
    return scales[np.array(scale_row, dtype=np.int64)][:, np.arange(cols) // max(1, block_cols)]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with h5py.File(io.BytesIO(verified_bytes(sys.argv[1])), "r") as golden:
        attributes = {key: text(value) for key, value in golden.attrs.items()}
        for key in ("kind", "name", "description", "source", "format", "block", "recipe"):
            if attributes.get(key):
                print(f"{key:<14}{attributes[key]}")
        for name, dataset in golden.items():
            role, form = text(dataset.attrs["role"]), text(dataset.attrs["format"])
            print(f"{role:<8}{name:<26}{dataset.dtype!s:<8}{form:<18}{' x '.join(map(str, dataset.shape))}")
        form = text(golden["codes"].attrs["format"]) if attributes["kind"] == "quantize" else None
        if form not in FORMATS:
            return
        with np.errstate(invalid="ignore"):
            x = to_float32(golden["x"][:], text(golden["x"].attrs["format"])).astype(np.float64)
        codes, scales = golden["codes"][:], golden["scales"][:]
        if scales.dtype == np.uint8:
            scales = np.where(scales == 255, np.nan, np.ldexp(1.0, scales.astype(np.int64) - 127))
        else:
            scales = scales.view(np.float32).astype(np.float64)
        y = decode(codes, *FORMATS[form]) * scale_of_each_element(scales, attributes, x.shape)
    finite = np.isfinite(x) & np.isfinite(y)
    noise = np.sum((y - x)[finite] ** 2)
    sqnr = 10 * np.log10(np.sum(x[finite] ** 2) / noise) if noise else np.inf
    print(f"SQNR of codes times scales against x: {sqnr:.2f} dB over {finite.sum()} of {x.size} elements")


if __name__ == "__main__":
    main()
