#!/usr/bin/env python3
"""The presets against the libraries whose bytes they reproduce, as installed: a table, and 1 if any element differs.

  python3 -m venv venv; venv/bin/pip install numpy torch torchao ml_dtypes gfloat mmasim
  venv/bin/python benchmarks/host/preset_libraries.py build/release/bin/mxcheck

What is compared, block by block of 32 FP32 elements: the scale's byte and every code; any two NaN are equal. First come
boundaries (every BF16 magnitude as amax; floats next to powers of two and to vmax times them; subnormals; the amax at
which bytes 0, 1 and 254 begin; blocks with NaN and Inf), then random blocks. torchao 0.17 and before are `torchao_old`,
0.18 is `torchao_0_18*`; a later one, or a checkout of its main branch in PYTHONPATH with --torchao-main, is `torchao*`.
Casts of torch and ml_dtypes are compared inside blocks whose scale is 1. The CPU code of each library is what runs;
docs/numerics.md says how the presets of kernels were checked. The models of tensor cores of mmasim are compared with
`mxcheck mma`. A library that is not installed is named and left out; with none at all the script ends with 3.
"""

import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings
from importlib.metadata import version

try:
    import numpy as np
except ImportError:
    print("numpy is not installed: pip install numpy", file=sys.stderr)
    sys.exit(3)

import mma_models

BLOCK = 32
VMAX = {"e4m3": 448.0, "e5m2": 57344.0, "e2m3": 7.5, "e3m2": 28.0, "e2m1": 6.0}
NAN_CODES = {"e4m3": lambda c: (c & 0x7F) == 0x7F, "e5m2": lambda c: (c & 0x7F) > 0x7C}


def floats(bits):
    return np.asarray(bits, np.uint32).view(np.float32)


def boundary_amaxes(vmax):
    """Magnitudes at which a rule, a rounding or a range changes, as FP32."""
    every_bf16 = np.arange(0, 0x7F80, dtype=np.uint32) << 16
    centres = []
    for exponent in range(1, 255):
        for significand in (1.0, vmax / 2.0 ** np.floor(np.log2(vmax)), 1.9375, 1.875, 1.75):
            centres.append(int(np.float32(significand).view(np.uint32)) - (127 << 23) + (exponent << 23))
    centres += [0x00400000, 0x00200000, 0x00100000, 0x00010000, 0x007FFFFF, 0x7F7FFFFF]
    near = (np.asarray(centres, np.int64)[:, None] + np.arange(-12, 13)).ravel()
    near = near[(near >= 0) & (near < 0x7F800000)].astype(np.uint32)
    return floats(np.concatenate([every_bf16, np.arange(64, dtype=np.uint32), np.unique(near)]))


def blocks_below(amax, rng):
    """A block for each amax: itself, its half, zeros, the smallest floats, and short significands, which lie on ties,
    with the floats on both sides of them."""
    n = amax.size
    shares = np.ldexp(1 + rng.integers(0, 64, (n, BLOCK)) / 64, -rng.integers(1, 26, (n, BLOCK))).astype(np.float32)
    with np.errstate(under="ignore"):
        x = amax[:, None] * shares
        half = np.ldexp(np.float32(1), np.frexp(amax)[1])[:, None] * shares  # ties also where amax is odd
        x[:, 16:] = half[:, 16:] / 2
    steps = rng.integers(-1, 2, x.shape)
    x = np.where(steps == 0, x, np.nextafter(x, np.where(steps > 0, amax[:, None], np.float32(0))))
    x = np.minimum(x, amax[:, None])
    x[:, 0:3] = np.stack([amax, amax / 2, np.nextafter(amax, np.float32(0))], 1)
    x[:, 3:7] = np.array([0.0, -0.0, 2.0**-149, 2.0**-133], np.float32)
    x[:, 3:7] = np.where(np.abs(x[:, 3:7]) > amax[:, None], 0, x[:, 3:7])
    x *= np.where(rng.integers(0, 2, x.shape), np.float32(1), np.float32(-1))
    return rng.permuted(x, axis=1)


def random_blocks(count, rng):
    normal = rng.standard_normal((count, BLOCK)).astype(np.float32)
    normal *= np.ldexp(np.float32(1), rng.integers(-126, 120, (count, 1)))
    normal[::2] = (normal[::2].view(np.uint32) & 0xFFFF0000).view(np.float32)  # BF16
    any_bits = rng.integers(0, 2**32, (count // 4, BLOCK), dtype=np.uint64).astype(np.uint32).view(np.float32)
    spread = normal * np.ldexp(np.float32(1), -rng.integers(0, 24, normal.shape))
    return [normal, spread, any_bits]


def special_blocks(rng):
    """Every mixture of NaN and infinities of both signs with finite values, large, small and zero."""
    specials = floats([0x7FC00000, 0xFFC00000, 0x7F800001, 0x7F800000, 0xFF800000])
    x = np.stack([np.roll(np.linspace(-2, 2, BLOCK, dtype=np.float32), i) for i in range(4096)])
    x *= np.ldexp(np.float32(1), rng.integers(-149, 127, (x.shape[0], 1)))
    x[::7] = 0
    for i, row in enumerate(x):
        chosen = [s for k, s in enumerate(specials) if i % 31 + 1 & 1 << k]
        row[rng.permutation(BLOCK)[:len(chosen)]] = chosen
    return np.concatenate([x, np.repeat(specials[:, None], BLOCK, 1)])


class Tool:
    """The program under test."""

    def __init__(self, path, folder):
        self.path, self.folder = path, pathlib.Path(folder)

    def run(self, *arguments):
        done = subprocess.run([self.path, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{self.path} {' '.join(map(str, arguments))}: {done.stderr.strip()}")

    def tensors(self, path):
        data = pathlib.Path(path).read_bytes()
        size = int.from_bytes(data[:8], "little")
        out = {}
        for name, t in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = (8 + size + o for o in t["data_offsets"])
                dtype = {"U8": np.uint8, "U16": np.uint16, "F32": np.float32}[t["dtype"]]
                out[name] = np.frombuffer(data[begin:end], dtype).reshape(t["shape"])
        return out

    def quantize(self, x, form, preset):
        np.save(self.folder / "x.npy", x)
        out = self.folder / "q.safetensors"
        self.run("quantize", self.folder / "x.npy", "-o", out, "--format", form, "--preset", preset)
        q = self.tensors(out)
        return q["scales"].ravel(), q["codes"]

    def mma(self, contract, form, inputs):
        words = ["mma", "--contract", contract, "--format-a", form, "--format-b", form, "-o", self.folder / "d.npy"]
        for name, array in inputs.items():
            np.save(self.folder / f"{name}.npy", array)
            words += [{"sa": "--scale-a", "sb": "--scale-b"}.get(name, "--" + name), self.folder / f"{name}.npy"]
        self.run(*words)
        return np.load(self.folder / "d.npy")


# Each library: functions from FP32 blocks to (scale bytes, codes), and the presets and formats they are compared with.

def torchao_cases(arguments):
    import torch
    import torchao
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    release = "main" if arguments.torchao_main else torchao.__version__
    numbers = (99,) if arguments.torchao_main else tuple(int(n) for n in release.split(".")[:2])
    elements = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "e2m3": "fp6_e2m3", "e3m2": "fp6_e3m2",
                "e2m1": torch.float4_e2m1fn_x2}

    def quantize(mode, x, form):
        scale, data = to_mx(torch.from_numpy(x.copy()), elements[form], BLOCK, mode)
        codes = data.view(torch.uint8).numpy().reshape(x.shape[0], -1)
        if form == "e2m1":
            codes = np.stack([codes & 15, codes >> 4], 2).reshape(x.shape)
        return scale.view(torch.uint8).numpy().ravel(), codes

    modes = [("RCEIL", ""), ("FLOOR", "_floor"), ("CEIL", "_ceil"), ("EVEN", "_even")]
    base = "torchao" if numbers > (0, 18) else "torchao_0_18"
    for mode, suffix in modes:
        preset = "torchao_old" if numbers < (0, 18) and mode == "RCEIL" else base + suffix
        for form in elements:
            yield release, preset, form, lambda x, f, m=ScaleCalculationMode[mode]: quantize(m, x, f)


def gfloat_cases(_):
    import gfloat
    from gfloat import formats
    elements = {"e4m3": formats.format_info_ocp_e4m3, "e5m2": formats.format_info_ocp_e5m2,
                "e2m3": formats.format_info_ocp_e2m3, "e3m2": formats.format_info_ocp_e3m2,
                "e2m1": formats.format_info_ocp_e2m1}

    def quantize(x, form):
        info = elements[form]
        scales, scaled = np.zeros(x.shape[0], np.uint8), np.zeros(x.shape)
        for i, block in enumerate(x):
            scale = gfloat.compute_scale_amax(info.emax, block)
            scales[i] = gfloat.encode_float(formats.format_info_ocp_e8m0, float(scale))
            scaled[i] = block / scale
        return scales, gfloat.encode_ndarray(info, gfloat.round_ndarray(info, scaled, sat=True))

    for form in elements:
        yield version("gfloat"), "gfloat", form, quantize


def cast_cases(release, casts):
    """Casts of elements: a block that holds vmax has byte 127 under rceil, which multiplies by 1."""
    for form, cast in casts.items():
        def quantize(x, _, cast=cast):
            return np.full(x.shape[0], 127, np.uint8), cast(x)
        yield release, "rceil", form, quantize


def torch_cases(_):
    import torch

    def cast(dtype):
        return lambda x: torch.from_numpy(x.copy()).to(dtype).view(torch.uint8).numpy()
    return cast_cases(torch.__version__, {"e4m3": cast(torch.float8_e4m3fn), "e5m2": cast(torch.float8_e5m2)})


def ml_dtypes_cases(_):
    import ml_dtypes
    types = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "e2m3": "float6_e2m3fn", "e3m2": "float6_e3m2fn",
             "e2m1": "float4_e2m1fn"}
    casts = {form: lambda x, t=getattr(ml_dtypes, name): x.astype(t).view(np.uint8) for form, name in types.items()}
    return cast_cases(ml_dtypes.__version__, casts)


def with_scale_one(parts, vmax):
    """The magnitudes up to vmax of these blocks, each block made to hold vmax."""
    for x in parts:
        x = np.where(np.abs(x) <= vmax, x, np.ldexp(x, -np.frexp(x)[1]))
        x[:, 0] = vmax
        yield x.astype(np.float32)


def differences(form, theirs, ours):
    """Elements whose code, or whose block's byte, is not the same. A NaN block of a format without NaN has no codes."""
    same = theirs[1] == ours[1]
    if form in NAN_CODES:
        same |= NAN_CODES[form](theirs[1]) & NAN_CODES[form](ours[1])
    else:
        same[theirs[0] == 255] = True
    return ~same | (theirs[0] != ours[0])[:, None]


def compare(tool, case, parts, examples):
    """The counts of a row, and the first differing elements as text."""
    _, preset, form, library = case
    counts = {"finite": [0, 0], "special": [0, 0]}
    shown = []
    for x in parts:
        finite = np.isfinite(x).all(axis=1)
        theirs, ours = library(x, form), tool.quantize(x, form, preset)
        wrong = differences(form, theirs, ours)
        for kind, rows in (("finite", finite), ("special", ~finite)):
            counts[kind][0] += int(rows.sum()) * BLOCK
            counts[kind][1] += int(wrong[rows].sum())
        for i, j in np.argwhere(wrong)[:max(0, examples - len(shown))]:
            amax = np.abs(x[i]).max()
            shown.append(f"  {preset} {form}: x = {float(x[i, j]).hex()}, amax {float(amax).hex()}: library byte "
                         f"{theirs[0][i]} code {theirs[1][i, j]:#04x}, mxcheck {ours[0][i]} {ours[1][i, j]:#04x}")
    return counts, shown


LIBRARIES = {"torch": torch_cases, "torchao": torchao_cases, "ml_dtypes": ml_dtypes_cases, "gfloat": gfloat_cases}
HEADINGS = ("library", "version", "preset", "format", "finite elements", "differ", "NaN/Inf elements", "differ")
ROW = "{:10} {:12} {:20} {:6} {:>16} {:>8} {:>16} {:>8}"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", help="the program mxcheck")
    parser.add_argument("--library", action="append", choices=[*LIBRARIES, "mmasim"], help="only these (default: all)")
    parser.add_argument("--torchao-main", action="store_true", help="the torchao found is its main branch")
    parser.add_argument("--random", type=int, default=20000, help="random blocks of each kind (default %(default)s)")
    parser.add_argument("--sums", type=int, default=98304, help="sums of each model of mmasim (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random blocks (default %(default)s)")
    parser.add_argument("--examples", type=int, default=3, help="differences shown of each row (default %(default)s)")
    return parser.parse_args()


def parts_of(name, form, arguments):
    """The blocks that a row is about."""
    rng = np.random.default_rng(arguments.seed)
    parts = [blocks_below(boundary_amaxes(VMAX[form]), rng), *random_blocks(arguments.random, rng)]
    if name in ("torch", "ml_dtypes"):
        return list(with_scale_one([np.nan_to_num(x) for x in parts], VMAX[form]))
    if form in NAN_CODES:
        return [*parts, special_blocks(rng)]
    return [x[np.isfinite(x).all(axis=1)] for x in parts]  # no code says what became of a NaN


def compare_library(tool, name, arguments):
    """Prints a row for each preset and format; the number of differences."""
    failures = 0
    for case in LIBRARIES[name](arguments):
        version, preset, form, _ = case
        with np.errstate(all="ignore"):
            counts, shown = compare(tool, case, parts_of(name, form, arguments), arguments.examples)
        (n, wrong), (special, special_wrong) = counts["finite"], counts["special"]
        print(ROW.format(name, version, preset, form, n, wrong, special, special_wrong), flush=True)
        print("\n".join(shown), end="\n" if shown else "")
        failures += wrong + special_wrong
    return failures


def compare_mmasim(tool, arguments):
    """The same for the contracts of `mxcheck mma`: sums, NaN among them."""
    failures = 0
    for model in mma_models.MODELS:
        n, wrong = mma_models.compare(tool, model, arguments.sums // 4096, np.random.default_rng(arguments.seed))
        print(ROW.format("mmasim", version("mmasim"), model[0], model[1], n, wrong, "-", "-"), flush=True)
        failures += wrong
    return failures


def main():
    arguments = parse_arguments()
    warnings.filterwarnings("ignore")
    ran = failures = 0
    print(ROW.format(*HEADINGS), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(arguments.tool, folder)
        for name in arguments.library or [*LIBRARIES, "mmasim"]:
            if importlib.util.find_spec(name) is None:
                print(f"{name:10} is not installed: pip install {name}")
                continue
            ran += 1
            failures += compare_mmasim(tool, arguments) if name == "mmasim" else compare_library(tool, name, arguments)
    if ran == 0:
        return 3
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
