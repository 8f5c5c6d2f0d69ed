"""torch's matmuls, cuBLASLt underneath, torch._scaled_mm and the grouped ones, under each contract that they might have, and without one. Names:
KERNEL__CONTRACT, and KERNEL__CONTRACT, tiles where m and n are multiples of 128 alone."""

import torch

import mxcheck

from . import ON

SLOW = ("sm90_fp8+promote128", "sm90_fp8+promote64", "sm90_fp8+promote32", "sm90_fp8")
FAST = ("sm90_fp8", "sm90_fp8+promote128")
BLOCKS = ("sm90_fp8+promote128", "sm90_fp8+promote128+a_first", "sm90_fp8+promote128+b_first")
_layouts = {}


FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def _fp8(t, format_):
    return t.view(FORMATS[format_])


def _tensorwise(fast):
    def matmul(a, b, d, policy):
        one = torch.ones((), device=a.device)
        return torch._scaled_mm(_fp8(a, policy.format), _fp8(b, policy.format_b).t(), scale_a=one, scale_b=one, out_dtype=d.dtype, use_fast_accum=fast)

    return matmul


def _rowwise(fast):
    def matmul(a, b, d, policy):
        ones_a, ones_b = torch.ones(a.shape[0], 1, device=a.device), torch.ones(1, b.shape[0], device=a.device)
        return torch._scaled_mm(_fp8(a, policy.format), _fp8(b, policy.format_b).t(), scale_a=ones_a, scale_b=ones_b, out_dtype=d.dtype, use_fast_accum=fast)

    return matmul


def _blockwise(fast):
    def scales_of(sa, sb):
        """The layouts that releases of torch ask for: of a, columns follow one another; of b, rows of a multiple of 4 or as they are."""
        of_a = sa.t().contiguous().t()
        padded = torch.zeros(sb.shape[0], (sb.shape[1] + 3) // 4 * 4, device=sb.device)
        padded[:, : sb.shape[1]] = sb
        return ((of_a, padded[:, : sb.shape[1]].t()), (of_a, sb.contiguous().t()), (of_a, sb.t().contiguous()), (sa.contiguous(), sb.contiguous().t()))

    def matmul(a, b, sa, sb, d, policy):
        problems = []
        choices = scales_of(sa, sb)
        for i in [_layouts[fast]] if fast in _layouts else range(len(choices)):
            try:
                made = torch._scaled_mm(_fp8(a, policy.format), _fp8(b, policy.format_b).t(), scale_a=choices[i][0], scale_b=choices[i][1], out_dtype=d.dtype, use_fast_accum=fast)
            except (RuntimeError, ValueError) as error:
                problems.append(f"{type(error).__name__}: {error}")
                continue
            _layouts[fast] = i
            return made
        raise RuntimeError(problems[-1])

    return matmul


def _dense(dtype):
    def matmul(a, b, d, policy):
        if d.dtype == a.dtype:
            return torch.mm(a, b.t())
        return torch.mm(a, b.t(), out_dtype=d.dtype)

    return matmul


def _tf32(a, b, d, policy):
    torch.backends.cuda.matmul.allow_tf32 = True
    return torch.mm(a, b.t())


def _grouped_bf16(a, b, d, policy, offsets=None):
    """b: experts x n x k; torch takes each group's end."""
    return torch._grouped_mm(a, b.view(-1, d.shape[1], a.shape[1]).transpose(-2, -1), offs=offsets[1:].to(torch.int32))


def _grouped_fp8(fast):
    def matmul(a, b, d, policy, offsets=None):
        weights = _fp8(b, policy.format_b).view(-1, d.shape[1], a.shape[1])
        ones_a, ones_b = torch.ones(a.shape[0], device=a.device), torch.ones(weights.shape[0], d.shape[1], device=a.device)
        return torch._scaled_grouped_mm(_fp8(a, policy.format), weights.transpose(-2, -1), ones_a, ones_b, offs=offsets[1:].to(torch.int32),
                                        out_dtype=d.dtype, use_fast_accum=fast)

    return matmul


def _not_of_depth_0(function):
    def matmul(a, b, *more, **named):
        if a.shape[1] == 0:
            more[-2].zero_()
            return None
        return function(a, b, *more, **named)

    return matmul


def _declare(kernel, function, contract, tiles, **claims):
    multiples = dict(rows_multiple=128, cols_multiple=128) if tiles else dict(rows_multiple=1, cols_multiple=16)
    return mxcheck.candidate("matmul", contract=contract, name=kernel, **multiples, **ON, **claims)(_not_of_depth_0(function))


def _all():
    scaled = dict(formats=["e4m3"], scale_types=["none"], types=["bf16"])
    for fast in (False, True):
        word, contracts = ("fast", FAST) if fast else ("slow", SLOW)
        yield f"scaled_mm_{word}", _tensorwise(fast), contracts, scaled
        yield f"scaled_mm_rows_{word}", _rowwise(fast), contracts, scaled
        yield f"scaled_mm_blocks_{word}", _blockwise(fast), BLOCKS, dict(formats=["e4m3"], scale_types=["fp32"], blocks=["1x128"],
                                                                         blocks_b=["128x128"], types=["bf16"])
    plain = dict(scale_types=["none"], supports=lambda policy, type_name: policy.format_b == policy.format)
    grouped = dict(groupings=["rows"], options=["offsets"], types=["bf16"], **plain)
    yield "grouped_mm_bf16", _grouped_bf16, ("sm90_bf16", "any_order", "as_accurate_as:sm90_bf16"), dict(formats=["bf16"], **grouped)
    for fast in (False, True):
        yield f"scaled_grouped_mm_{'fast' if fast else 'slow'}", _grouped_fp8(fast), (FAST if fast else SLOW[:1] + SLOW[3:]) + ("any_order+f13",), dict(
            formats=["e4m3"], **grouped)
    yield "mm_bf16", _dense(torch.bfloat16), ("sm90_bf16", "exact", "any_order", "as_accurate_as:sm90_bf16"), dict(formats=["bf16"], types=["bf16"], **plain)
    yield "mm_bf16_fp32", _dense(torch.bfloat16), ("sm90_bf16", "exact", "any_order", "as_accurate_as:sm90_bf16"), dict(formats=["bf16"], types=["fp32"], **plain)
    yield "mm_fp16_fp32", _dense(torch.float16), ("sm90_fp16", "exact", "any_order", "as_accurate_as:sm90_fp16"), dict(formats=["fp16"], types=["fp32"], **plain)
    yield "mm_tf32", _tf32, ("sm90_tf32",), dict(types=["fp32"], **plain)


for _kernel, _function, _contracts, _claims in _all():
    for _contract in _contracts:
        globals()[f"{_kernel}__{_contract}"] = _declare(_kernel, _function, _contract, False, **_claims)
        globals()[f"{_kernel}__{_contract}, m and n multiples of 128"] = _declare(_kernel, _function, _contract, True, **_claims)
