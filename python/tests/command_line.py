"""Files and the command line, for tests that compare with it, and what their cases share."""

import json
import os
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

import mxcheck

TOOL = os.environ.get("MXCHECK_TOOL", "mxcheck")
_DTYPES = {"fp32": "F32", "bf16": "BF16", "fp16": "F16", "e4m3": "U8", "e2m1": "U8"}


class Refusing(unittest.TestCase):
    def refused(self, words, call, *arguments, kind=mxcheck.UsageError, **options):
        with self.assertRaises(kind) as raised:
            call(*arguments, **options)
        self.assertIs(type(raised.exception), kind)
        for word in words:
            self.assertIn(word, str(raised.exception))
        return str(raised.exception)


class InFolder(Refusing):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


def words(rows, cols, dtype, seed=1):
    """A matrix of magnitudes of all kinds, zeros, subnormals and, in its first column, infinities."""
    state = seed
    out = bytearray()
    bits, exponent = {"fp32": (32, 8), "bf16": (16, 8), "fp16": (16, 5)}[dtype]
    mantissa = bits - 1 - exponent
    for i in range(rows * cols):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        word = (state >> 20) % 2**bits
        field = (word >> mantissa) % 2**exponent
        if field == 2**exponent - 1 or i % 3:  # mostly near 1, no NaN
            field = 2 ** (exponent - 1) - 9 + (state >> 50) % 14
        word = (word & ~((2**exponent - 1) << mantissa)) | field << mantissa
        if i % cols == 0 and i % 7 == 3:
            word = (2**exponent - 1) << mantissa
        out += word.to_bytes(bits // 8, "little")
    return mxcheck.Values(out, (rows, cols), dtype)


def write_safetensors(path, values):
    data = values.tobytes()
    head = json.dumps({"x": {"dtype": _DTYPES[values.dtype], "shape": list(values.shape), "data_offsets": [0, len(data)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


def read_safetensors(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8 : 8 + size])
    return {name: raw[8 + size + row["data_offsets"][0] : 8 + size + row["data_offsets"][1]] for name, row in head.items() if name != "__metadata__"}


def npy(path):
    """The bytes of a .npy file's array."""
    raw = path.read_bytes()
    return raw[10 + struct.unpack("<H", raw[8:10])[0] :]


def run(*arguments):
    done = subprocess.run([TOOL, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)}: {done.returncode}: {done.stderr}")
    return done.stdout


def quantize(values, **options):
    """Codes and scales of `mxcheck quantize`, as bytes, and of `mxcheck dequantize`."""
    tensors, back = quantized(values, **options)
    return tensors["codes"], tensors["scales"], back


def quantized(values, **options):
    """All tensors of `mxcheck quantize` by name, as bytes, and those of `mxcheck dequantize`."""
    with tempfile.TemporaryDirectory() as folder:
        source, target, back = Path(folder) / "x.safetensors", Path(folder) / "q.safetensors", Path(folder) / "y.npy"
        write_safetensors(source, values)
        flags = [part for name, value in options.items() for part in ("--" + name.replace("_", "-"), str(value))]
        run("quantize", f"{source}:x", "-o", str(target), *flags)
        run("dequantize", str(target), "-o", str(back))
        return read_safetensors(target), npy(back)
