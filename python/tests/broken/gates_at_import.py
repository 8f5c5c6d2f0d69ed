import mxcheck


@mxcheck.candidate("quantize", recipes=["rceil"], formats=["e4m3"], blocks=["1x32"], types=["fp32"], tensors="bytes")
def q(x, codes, scales, policy):
    """Never called."""


print(mxcheck.gate(q))
