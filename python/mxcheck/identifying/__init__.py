"""Names the contract, rounding, recipe or variant that a black box follows. docs/identify.md is the page."""

from ._boxes import identify_cast, identify_matmul, identify_quantize, identify_route, summation_tree
from ._dumps import identify_dump
from ._report import Identified
from ._tree import Tree

__all__ = ["Identified", "Tree", "identify_cast", "identify_dump", "identify_matmul", "identify_quantize", "identify_route", "summation_tree"]
