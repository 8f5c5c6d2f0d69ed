"""cuBLASLt's FP8 matmul through torch, under the contract of Hopper's tensor cores without promotion, on an H100 or H200:

    mxcheck gate --candidate python:examples/python/scaled_mm.py:matmul --only 'matmul*'
"""

import torch

import mxcheck


@mxcheck.candidate("matmul", contract="sm90_fp8", formats=["e4m3"], scale_types=["none"], types=["bf16", "fp32"], device="cuda",
                   cols_multiple=16, captures=False)
def matmul(a, b, d, policy):
    if policy.depth == 0:
        return torch.zeros_like(d)
    one = torch.ones((), device=a.device)
    a, b = a.view(torch.float8_e4m3fn), b.view(torch.float8_e4m3fn)
    return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=d.dtype, use_fast_accum=True)
