"""mmasim's models of tensor cores, for preset_libraries.py: `mxcheck mma` must give the same sums, NaN included.

Operands: every code, then small magnitudes of mixed exponents (sums that cut bits), then those with large c. MMA-Sim
is the library; which of its models is a contract's is the table below.
"""

import numpy as np

# contract, operand format, mmasim's class, architecture and shape, k of the instruction
MODELS = [
    ("sm90_fp8", "e4m3", "WGMMA", "Hopper", "m64n64k32.f32.e4m3.e4m3", 32),
    ("sm90_fp8", "e5m2", "WGMMA", "Hopper", "m64n64k32.f32.e5m2.e5m2", 32),
    ("sm90_bf16", "bf16", "WGMMA", "Hopper", "m64n64k16.f32.bf16.bf16", 16),
    ("sm90_fp16", "fp16", "WGMMA", "Hopper", "m64n64k16.f32.f16.f16", 16),
    ("sm100_f8f6f4", "e4m3", "TCGen05MMA", "Blackwell", "m64n64k32.kind::f8f6f4.f32.e4m3.e4m3", 32),
    ("sm100_f8f6f4", "e5m2", "TCGen05MMA", "Blackwell", "m64n64k32.kind::f8f6f4.f32.e5m2.e5m2", 32),
    ("sm100_f16", "bf16", "TCGen05MMA", "Blackwell", "m64n64k16.kind::f16.f32.bf16.bf16", 16),
    ("sm100_f16", "fp16", "TCGen05MMA", "Blackwell", "m64n64k16.kind::f16.f32.f16.f16", 16),
    ("sm100_mxf8f6f4", "e4m3", "TCGen05MMABlockScale", "Blackwell",
     "m128n64k32.kind::mxf8f6f4.block32.f32.e4m3.e4m3.ue8m0", 32),
]


def operands(form, rows, k, kind, rng):
    """Codes of a matrix: of any bits, or of magnitudes around 1 with exponents that are far apart."""
    if form in ("e4m3", "e5m2"):
        codes = rng.integers(0, 256, (rows, k)).astype(np.uint8)
        return codes if kind == 0 else codes & 0xBF
    codes = rng.integers(0, 65536, (rows, k)).astype(np.uint16)
    if kind == 0:
        return codes
    bits, bias = (7, 127) if form == "bf16" else (10, 15)
    field = (bias + rng.integers(-9, 10, (rows, k))) << bits
    return ((codes & (0x8000 | (1 << bits) - 1)) | field).astype(np.uint16)


def compare(tool, model, repetitions, rng):
    """The number of sums of a model compared, and of those that differ."""
    import torch
    from mmasim import nv_ptx
    contract, form, kind_of_model, architecture, shape, k = model
    op = getattr(nv_ptx, kind_of_model)(architecture, shape)
    types = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "bf16": torch.bfloat16, "fp16": torch.float16}
    count = wrong = 0
    for repetition in range(repetitions):
        a, b = (operands(form, rows, k, repetition % 3, rng) for rows in (op.m, op.n))
        c = rng.standard_normal((op.m, op.n)).astype(np.float32)
        if repetition % 3 == 2:
            c = np.ldexp(c, rng.integers(-30, 30, c.shape))
        inputs = {"a": a, "b": b, "c": c}
        extra = []
        if "BlockScale" in kind_of_model:
            inputs["sa"], inputs["sb"] = (rng.integers(117, 138, (n, 1)).astype(np.uint8) for n in (op.m, op.n))
            extra = [torch.from_numpy(inputs["sa"]).view(torch.float8_e8m0fnu),
                     torch.from_numpy(inputs["sb"].T.copy()).view(torch.float8_e8m0fnu)]
        views = [torch.from_numpy(x.copy()).view(types[form]) for x in (a, b)]
        theirs = op(views[0], views[1].T, torch.from_numpy(c), *extra).numpy()
        ours = tool.mma(contract, form, inputs)
        same = (theirs.view(np.uint32) == ours.view(np.uint32)) | (np.isnan(theirs) & np.isnan(ours))
        count, wrong = count + same.size, wrong + int((~same).sum())
    return count, wrong
