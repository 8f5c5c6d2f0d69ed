"""A candidate whose process takes a second to start, and whose calls do not end."""

import time

import mxcheck

time.sleep(1)


@mxcheck.candidate("quantize", recipes=["te"], formats=["e4m3"], blocks=["1x32"], types=["fp32"], tensors="bytes")
def x(x, codes, scales, policy):
    time.sleep(600)
