"""A tile of FP8 that Triton casts and stores twice: as it is, and transposed (tl.trans). The transposed output is turned back, so that the gate's
`cast` asks for each code in its place. Tiles of 16 to 128, 1 to 8 warps. as_bytes: the same codes transposed as uint8. alone: no other store.
Names: KERNEL__CLAIM."""

import torch
import triton
import triton.language as tl

import mxcheck

from . import ON

SHAPES = ((16, 1), (32, 4), (64, 8), (128, 8))  # tile, warps


@triton.jit
def kernel(x, straight, turned, m, n, FORMAT: tl.constexpr, TILE: tl.constexpr, AS_BYTES: tl.constexpr, ALONE: tl.constexpr):
    rows = (tl.program_id(0) * TILE + tl.arange(0, TILE)).to(tl.int64)
    cols = (tl.program_id(1) * TILE + tl.arange(0, TILE)).to(tl.int64)
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    codes = tl.load(x + rows[:, None] * n + cols[None, :], mask=inside, other=0.0).to(FORMAT)
    if AS_BYTES:
        codes = codes.to(tl.uint8, bitcast=True)
    if not ALONE:
        tl.store(straight + rows[:, None] * n + cols[None, :], codes, mask=inside)
    tl.store(turned + cols[:, None] * m + rows[None, :], tl.trans(codes), mask=(cols[:, None] < n) & (rows[None, :] < m))


def _run(x, format_, tile, warps, as_bytes, alone):
    m, n = x.shape
    dtype, of = {"e4m3": (torch.float8_e4m3fn, tl.float8e4nv), "e5m2": (torch.float8_e5m2, tl.float8e5)}[format_]
    stored = torch.uint8 if as_bytes else dtype
    straight, turned = torch.empty((m, n), dtype=stored, device=x.device), torch.empty((n, m), dtype=stored, device=x.device)
    if m * n != 0:
        kernel[(triton.cdiv(m, tile), triton.cdiv(n, tile))](x.contiguous(), straight, turned, m, n, FORMAT=of, TILE=tile, AS_BYTES=as_bytes,
                                                              ALONE=alone, num_warps=warps)
    return straight.view(torch.uint8), turned.view(torch.uint8)


def _declare(name, format_, chosen, tile, warps, as_bytes=False, alone=False):
    def cast(x, codes, policy):
        return chosen(*_run(x, format_, tile, warps, as_bytes, alone))

    return mxcheck.candidate("cast", formats=[format_], types=["fp32", "bf16"], name=name, **ON)(cast)


def _turned_back(straight, turned):
    return turned.T.contiguous()


for _tile, _warps in SHAPES:
    for _format in ("e4m3", "e5m2"):
        _name = f"transposed_{_format}_{_tile}_{_warps}"
        globals()[f"{_name}__cast"] = _declare(_name, _format, _turned_back, _tile, _warps)
    for _name, _options in ((f"transposed_as_bytes_{_tile}_{_warps}", {"as_bytes": True}), (f"transposed_alone_{_tile}_{_warps}", {"alone": True})):
        globals()[f"{_name}__cast"] = _declare(_name, "e4m3", _turned_back, _tile, _warps, **_options)
globals()["beside_a_transposed_64_8__cast"] = _declare("beside_a_transposed_64_8", "e4m3", lambda straight, turned: straight, 64, 8)
