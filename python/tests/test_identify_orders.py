"""Boxes with orders of their own, of a table that the test of properties/identify reads too."""

import array
import pathlib
import unittest
from fractions import Fraction

import mxcheck
from box_numbers import floats_of, rounded, to_fp32
from mxcheck.identifying import summation_tree
from mxcheck.identifying._tree import parse_tree, text_of

TABLE = pathlib.Path(__file__).resolve().parents[2] / "tests" / "properties" / "identify" / "orders.tsv"
K = 32


def table():
    lines = [line.split("\t") for line in TABLE.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
    return [(name, arithmetic, shape, parse_tree(tree)) for name, arithmetic, shape, tree in lines]


def sum_in(node, fused, x):
    if isinstance(node, int):
        return to_fp32(x[node][0] * x[node][1])
    left, right = node
    if fused and not isinstance(right, int) and isinstance(left, int):
        left, right = right, left
    if fused and isinstance(right, int):
        return rounded(Fraction(x[right][0]) * Fraction(x[right][1]) + Fraction(sum_in(left, fused, x)))
    return to_fp32(sum_in(left, fused, x) + sum_in(right, fused, x))


def kahan(x):
    total = lost = 0.0
    for a, b in x:
        y = to_fp32(to_fp32(a * b) - lost)
        t = to_fp32(total + y)
        lost = to_fp32(to_fp32(t - total) - y)
        total = t
    return total


def box_of(arithmetic, tree):
    def f(a, b):
        (m, k), n = a.shape, b.shape[0]
        x, y = floats_of(a.tobytes()), floats_of(b.tobytes())
        d = []
        for i in range(m):
            for j in range(n):
                terms = [(x[i * k + t], y[j * k + t]) for t in range(k)]
                d.append(kahan(terms) if arithmetic == "compensated" else sum_in(tree, arithmetic == "fused", terms))
        return mxcheck.Values(array.array("f", d), (m, n), "fp32")

    return f


class Orders(unittest.TestCase):
    def test_of_the_table_are_recovered_exactly(self):
        self.assertGreaterEqual(len(table()), 12)
        for name, arithmetic, shape, tree in table():
            with self.subTest(order=name):
                found = summation_tree(box_of(arithmetic, tree), K, ("fp32", "fp32"), (6, 6))
                self.assertEqual(found.root, tree, found)
                self.assertEqual(found.shape, shape)
                expected = {"rounded": ["FP32, products rounded first"], "fused": ["FP32 fused multiply-adds"], "compensated": []}[arithmetic]
                self.assertEqual(found.arithmetic, expected, found)

    def test_text_is_read_as_it_was_written(self):
        for _, _, _, tree in table():
            self.assertEqual(parse_tree(text_of(tree)), tree)
        self.assertEqual(parse_tree("((0..31) 32..44 by 4)"), (tuple(range(32)), 32, 36, 40, 44))
        for wrong in ("", "(0", "(0)", "0 1", "(0 x)", ")("):
            with self.assertRaises(mxcheck.UsageError):
                parse_tree(wrong)


if __name__ == "__main__":
    unittest.main()
