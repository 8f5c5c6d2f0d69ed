"""The matmul of Triton's tutorial, one configuration, on BF16 and E4M3. Names: KERNEL__CONTRACT."""

import torch
import triton
import triton.language as tl

import mxcheck

from . import ON

FP8 = ("sm90_fp8", "sm90_fp8+promote128", "sm90_fp8+promote32", "sm90_fp8+promote64")


@triton.jit
def kernel(a, b, d, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, IMPRECISE: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    cols = tl.program_id(1) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    sum_ = tl.zeros((M, N), dtype=tl.float32)
    for begin in range(0, k, K):
        inside = begin + depth < k
        left = tl.load(a + rows[:, None].to(tl.int64) * k + (begin + depth)[None, :], mask=(rows[:, None] < m) & inside[None, :], other=0.0)
        right = tl.load(b + cols[None, :].to(tl.int64) * k + (begin + depth)[:, None], mask=(cols[None, :] < n) & inside[:, None], other=0.0)
        sum_ = tl.dot(left, right, sum_, max_num_imprecise_acc=IMPRECISE)
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    tl.store(d + rows[:, None].to(tl.int64) * n + cols[None, :], sum_.to(d.dtype.element_ty), mask=inside)


def _run(a, b, d, step, imprecise):
    (m, k), n = a.shape, b.shape[0]
    kernel[(triton.cdiv(m, 128), triton.cdiv(n, 128))](a, b, d, m, n, k, M=128, N=128, K=step, IMPRECISE=imprecise, num_warps=8, num_stages=3)


def _bf16(a, b, d, policy):
    _run(a, b, d, 64, None)


def _codes(t, format_):
    return t.view({"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[format_])


def _fp8(imprecise):
    def matmul(a, b, d, policy):
        _run(_codes(a, policy.format), _codes(b, policy.format_b), d, 128, imprecise)

    return matmul


def _declare(name, function, contract, format_):
    return mxcheck.candidate("matmul", contract=contract, formats=[format_], scale_types=["none"], types=["bf16", "fp32"], name=name, **ON)(function)


for _contract in ("sm90_bf16", "ieee_fp32"):
    globals()[f"dot_bf16__{_contract}"] = _declare("dot_bf16", _bf16, _contract, "bf16")
for _contract in FP8:
    globals()[f"dot_fp8__{_contract}"] = _declare("dot_fp8", _fp8(None), _contract, "e4m3")
    globals()[f"dot_fp8_imprecise32__{_contract}"] = _declare("dot_fp8_imprecise32", _fp8(32), _contract, "e4m3")
