"""Which contract, rounding, recipe or variant does a black box follow? docs/identify.md is the page."""

from ._boxes import identify_cast, identify_quantize, identify_route
from ._command import identify_dump
from ._products import identify_matmul
from ._report import Identified
from ._tree import Tree
from ._trees import summation_tree

__all__ = ["Identified", "Tree", "identify_cast", "identify_dump", "identify_matmul", "identify_quantize", "identify_route", "summation_tree"]
