"""identify names every contract, rounding, recipe and router from calls alone, and recovers orders of summation that have no name."""

import array
import ast
import math
import os
import pathlib
import unittest

import mxcheck
from box_numbers import floats_of, to_fp32, words
from mxcheck.identifying import Tree, summation_tree

K = 32
SHAPE = (4, 4, K)


def numbers_of(x):
    return array.array("d", mxcheck.decode(x, x.dtype).tobytes()).tolist()


def box_of(sum_of):
    """A box that multiplies: sum_of(products), each product exact or rounded to FP32."""

    def f(a, b):
        (m, k), n = a.shape, b.shape[0]
        x, y = numbers_of(a), numbers_of(b)
        d = [sum_of([to_fp32(x[i * k + t] * y[j * k + t]) for t in range(k)]) for i in range(m) for j in range(n)]
        return mxcheck.Values(array.array("f", d), (m, n), "fp32")

    return f


def by_tree(node):
    """A sum in FP32 additions in the order of a tree."""

    def total(terms, at=node):
        return terms[at] if isinstance(at, int) else to_fp32(total(terms, at[0]) + total(terms, at[1]))

    return total


def chain(order):
    node = order[0]
    for term in order[1:]:
        node = (node, term)
    return node


def pairwise(order):
    while len(order) > 1:
        order = [(order[i], order[i + 1]) if i + 1 < len(order) else order[i] for i in range(0, len(order), 2)]
    return order[0]


def split(parts, inner, outer):
    return outer([inner(part) for part in parts])


def random_tree(seed):
    source = words(seed)
    nodes = list(range(K))
    while len(nodes) > 1:
        left = nodes.pop(next(source) % len(nodes))
        right = nodes.pop(next(source) % len(nodes))
        nodes.append((left, right))
    return nodes[0]


ORDERS = {
    "ascending": chain(list(range(K))),
    "descending": chain(list(range(K))[::-1]),
    "pairwise": pairwise(list(range(K))),
    "four lanes": split([list(range(lane, K, 4)) for lane in range(4)], chain, pairwise),
    "eight lanes, added in order": split([list(range(lane, K, 8)) for lane in range(8)], chain, chain),
    "k split in three": split([list(range(0, 11)), list(range(11, 22)), list(range(22, K))], chain, chain),
    "two levels of 8": split([list(range(i, i + 8)) for i in range(0, K, 8)], pairwise, chain),
    "even, then odd": split([list(range(0, K, 2)), list(range(1, K, 2))], chain, chain),
    "halves from both ends": chain([t for i in range(K // 2) for t in (i, K - 1 - i)]),
    "random": random_tree(5),
}


def canonical(node):
    """Regardless of which part of an addition is named first."""
    if isinstance(node, int):
        return node
    return frozenset(canonical(child) for child in node)


def kahan(terms):
    total = lost = 0.0
    for term in terms:
        y = to_fp32(term - lost)
        t = to_fp32(total + y)
        lost = to_fp32(to_fp32(t - total) - y)
        total = t
    return total


class ResultsOfThisPackage(unittest.TestCase):
    def test_a_function_may_return_what_quantize_and_route_return(self):
        self.assertIn("te", mxcheck.identify(lambda x: mxcheck.quantize(x, recipe="te"), "quantize", arrays="values").names)
        self.assertIn("sigmoid", " ".join(mxcheck.identify(lambda x: mxcheck.route(x, 8, "sigmoid"), "route", arrays="values").names))
        with self.assertRaisesRegex(mxcheck.UsageError, "the box's answer has scales in layout tcgen05"):
            mxcheck.identify(lambda x: mxcheck.quantize(x, layout="tcgen05"), "quantize", arrays="values")

    def test_tensors_are_for_identify_dump(self):
        q = mxcheck.quantize([[1.0] * 32])
        with self.assertRaisesRegex(mxcheck.UsageError, "f is Quantized.*: a function is needed.*mxcheck.identify_dump takes tensors"):
            mxcheck.identify(q)


class Contracts(unittest.TestCase):
    def test_every_contract(self):
        seen = set()
        for format in ("e4m3", "bf16", "fp16", "fp32", "e2m1"):
            for name in mxcheck.contracts():
                for top in ("", "+promote64", "+descending"):
                    try:
                        mxcheck.matmul(*[mxcheck.Values(bytes(8 * {"fp32": 4, "bf16": 2, "fp16": 2}.get(format, 1)), (1, 8), format)] * 2, name + top)
                    except mxcheck.UsageError:
                        continue
                    with self.subTest(contract=name + top, format=format):
                        found = mxcheck.identify(lambda a, b, of=name + top: mxcheck.matmul(a, b, of), formats=(format, format), shape=(8, 8, 256))
                        self.assertTrue(found)
                        # Sums of E2M1 are exact in whatever order: only the shorter name is said then.
                        self.assertTrue({name + top, name} & set(found.names), found)
                        # Other names found are of the same sum: equal on data that was not compared.
                        a, b = (mxcheck.Values(bytes(mxcheck.cast(mxcheck.Values(array.array("f", values), (4, 256), "fp32"), format).tobytes())
                                               if format != "fp32" else bytes(array.array("f", values)), (4, 256), format)
                                for values in ([to_fp32((w % 4001 - 2000) / 640) for w, _ in zip(words(seed), range(1024))] for seed in (77, 78)))
                        for other in found.names:
                            self.assertEqual(mxcheck.matmul(a, b, other).tobytes(), mxcheck.matmul(a, b, name + top).tobytes(), other)
                        seen.add(name)
        self.assertEqual(seen, set(mxcheck.contracts()) - {"sm100_mxf8f6f4", "sm100_mxf4", "sm100_nvf4"})  # which have scales

    def test_one_wrong_bit_is_told(self):
        def f(a, b):
            d = mxcheck.matmul(a, b, "sm90_bf16")
            d.data[0] ^= 1
            return d

        found = mxcheck.identify(f, formats=("bf16", "bf16"), shape=SHAPE, tree=False, arrays="values")
        self.assertFalse(found)
        self.assertIn("sm90_bf16", [one.name for one in found.closest])
        self.assertIn("at (0, 0)", str(found))

    def test_bad_boxes(self):
        for f, words_of_it in ((lambda a, b: 3, "answer"), (lambda a, b: a, "answer"),
                               (lambda a, b: mxcheck.Values(bytes(64), (8, 2), "fp32"), "(4, 4)")):
            with self.assertRaises(mxcheck.UsageError) as raised:
                mxcheck.identify(f, shape=SHAPE)
            self.assertIn(words_of_it, str(raised.exception))
        with self.assertRaises(mxcheck.UsageError):
            mxcheck.identify(lambda a, b: a, op="divide")
        for op in ("matmul", "cast", "quantize", "route"):  # a box's own error is the caller's, and the program is not left behind
            with self.assertRaises(ZeroDivisionError):
                mxcheck.identify(lambda *x: 1 // 0, op)
        with self.assertRaises(BrokenPipeError):
            mxcheck.identify(self.broken)
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        for f in (lambda x: x, lambda x: (x, x), lambda x: 3):
            for op in ("quantize", "route"):
                with self.assertRaises(mxcheck.UsageError) as raised:
                    mxcheck.identify(f, op)
                self.assertIn("the box's answer", str(raised.exception))

    @staticmethod
    def broken(a, b):
        raise BrokenPipeError("of the box itself")


class Orders(unittest.TestCase):
    def test_every_order(self):
        for name, order in ORDERS.items():
            for format in ("bf16", "e4m3"):
                with self.subTest(order=name, format=format):
                    tree = summation_tree(box_of(by_tree(order)), K, (format, format), SHAPE[:2])
                    self.assertIsNotNone(tree.root, tree)
                    self.assertEqual(canonical(tree.root), canonical(order))
                    self.assertIn("FP32, products rounded first", tree.arithmetic)
                    self.assertIn("digraph", tree.dot())

    def test_a_tensor_core_is_a_chain_of_steps(self):
        tree = summation_tree(lambda a, b: mxcheck.matmul(a, b, "sm90_bf16"), 48, ("bf16", "bf16"), SHAPE[:2])
        self.assertEqual(str(tree).splitlines()[0], "sum of 48 terms: (((0..15) 16..31) 32..47)")
        tree = summation_tree(lambda a, b: mxcheck.matmul(a, b, "sm90_fp8+promote64"), 128, ("e4m3", "e4m3"), SHAPE[:2])
        self.assertEqual(str(tree).splitlines()[0], "sum of 128 terms: (((0..31) 32..63) ((64..95) 96..127))")

    def test_sums_that_are_no_tree(self):
        tree = summation_tree(box_of(lambda terms: to_fp32(math.fsum(terms))), K, ("bf16", "bf16"), SHAPE[:2])
        self.assertIsNone(tree.root)
        self.assertIn("the sum is exact", str(tree))
        # Kahan's sum loses what it carries when -M comes, as a chain does; its bits are not those of one.
        tree = summation_tree(box_of(kahan), K, ("bf16", "bf16"), SHAPE[:2])
        self.assertEqual(canonical(tree.root), canonical(ORDERS["ascending"]))
        self.assertEqual(tree.arithmetic, [])
        self.assertIn("compensated", str(tree))

    def test_identify_gives_the_tree_where_there_is_no_name(self):
        found = mxcheck.identify(box_of(by_tree(ORDERS["four lanes"])), shape=SHAPE)
        self.assertFalse(found)
        self.assertEqual(canonical(found.tree.root), canonical(ORDERS["four lanes"]))
        self.assertIn("128 of 128 outputs to the bit", str(found))

    def test_fused_products(self):
        tree = summation_tree(lambda a, b: mxcheck.matmul(a, b, "ieee_fp32"), K, ("fp32", "fp32"), SHAPE[:2])
        self.assertEqual(canonical(tree.root), canonical(ORDERS["ascending"]))
        self.assertEqual(tree.arithmetic, ["FP32 fused multiply-adds"])


class Others(unittest.TestCase):
    def test_every_rounding(self):
        for rounding in ("nearest_even", "nearest_away", "toward_zero"):
            for overflow in ("saturate", "non_saturate"):
                for format in ("e4m3", "e5m2"):
                    found = mxcheck.identify(lambda x: mxcheck.cast(x, format, rounding, overflow), op="cast", format=format)
                    self.assertEqual(found.names, [f"{rounding}, {overflow}"])
        signed = bytearray(mxcheck.cast(mxcheck.Values(array.array("H", range(65536)), (1, 65536), "bf16"), "e4m3").tobytes())
        signed[0xFF81:] = b"\xff" * 127  # a NaN keeps its sign
        found = mxcheck.identify(lambda x: mxcheck.Values(signed, x.shape, "e4m3"), op="cast")
        self.assertEqual(found.names, ["nearest_even, saturate"])
        self.assertIn("nearest_even, saturate but for which code of NaN: 127 words", found.notes)
        found = mxcheck.identify(lambda x: mxcheck.Values(bytes(65536), x.shape, "e4m3"), op="cast")
        self.assertFalse(found)
        self.assertIn("BF16 word", str(found))

    def test_upward_stochastic_and_fp32(self):
        found = mxcheck.identify(lambda x: mxcheck.cast(x, "e5m2", "upward"), op="cast", format="e5m2", dtype="fp32")
        self.assertEqual(found.names, ["upward, saturate"])
        self.assertGreater(found.compared, 300_000)
        source = words(9)

        def stochastic(x):
            random = array.array("I", (next(source) & 0xFFFFFFFF for _ in range(x.shape[0] * x.shape[1])))
            return mxcheck.cast(x, "e4m3", "stochastic", words=random)

        found = mxcheck.identify(stochastic, op="cast")
        self.assertEqual(found.names, ["stochastic, saturate"])
        self.assertIn("two calls with the same input differ", str(found))

    def test_a_quantization_of_no_recipe_is_told_as_by_the_command(self):
        def truncates(x):
            codes, scales = bytearray(x.shape[0] * x.shape[1]), mxcheck.quantize(x).scales
            rows = array.array("d", mxcheck.decode(x, "bf16").tobytes())
            for block, byte in enumerate(scales.tobytes()):
                here = slice(block * 32, block * 32 + 32)
                scaled = array.array("f", (math.nan if byte == 255 else math.ldexp(v, 127 - byte) for v in rows[here]))
                codes[here] = mxcheck.cast(mxcheck.Values(scaled, (1, 32), "fp32"), "e4m3", "toward_zero").tobytes()
            return mxcheck.Values(codes, x.shape, "e4m3"), scales

        found = mxcheck.identify(truncates, op="quantize")
        self.assertFalse(found)
        self.assertIn("rceil", found.scales.names)
        self.assertEqual(found.elements.names[0], "toward_zero, saturate")
        self.assertIn("a slip gives every bit: rounding toward zero (truncation); rceil otherwise", str(found))
        self.assertIn("its elements under its own scales:\n  toward_zero, saturate", str(found))

    def test_every_recipe(self):
        for name in mxcheck.recipes():
            def f(x):
                q = mxcheck.quantize(x, recipe=name)
                return q.codes, q.scales

            try:
                found = mxcheck.identify(f, op="quantize")
            except mxcheck.InputError:
                continue  # it refuses a NaN
            with self.subTest(recipe=name):
                self.assertIn(name, found.names)
                self.assertLess(len(found.names), 5, found.names)

    def test_every_router(self):
        for name in mxcheck.routers():
            def f(x):
                routes = mxcheck.route(x, 8, name)
                return routes.experts, routes.weights

            with self.subTest(variant=name):
                self.assertEqual(mxcheck.identify(f, op="route").names, [name])

    def test_numpy_and_torch(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        tree = summation_tree(lambda a, b: numpy.sum(a[:, None, :] * b[None, :, :], axis=2), 16, ("fp32", "fp32"), (4, 4), "numpy")
        self.assertIsNotNone(tree.root, tree)  # whichever order this build of numpy has
        self.assertTrue(tree.arithmetic, tree)


class Trees(unittest.TestCase):
    def test_text(self):
        self.assertEqual(str(Tree((0, (1, 2)), 3, 3)).splitlines()[0], "sum of 3 terms: (0 (1 2))")
        self.assertEqual(str(Tree(tuple(range(0, 16, 4)), 4, 3)).splitlines()[0], "sum of 4 terms: (0..12 by 4)")
        self.assertEqual(floats_of(b"\0\0\x80\x3f"), [1.0])


class Imports(unittest.TestCase):
    def test_make_no_circle(self):
        root = pathlib.Path(mxcheck.__file__).parent
        files = {path.relative_to(root).with_suffix("").parts: path for path in root.rglob("*.py") if path.parent != root or path.stem != "__init__"}

        def imported(name):
            for node in ast.walk(ast.parse(files[name].read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.level:
                    base = name[: len(name) - node.level] + tuple(node.module.split(".") if node.module else ())
                    for alias in node.names:
                        places = (base + (alias.name,), base + (alias.name, "__init__"), base, base + ("__init__",))
                        yield from [place for place in places if place in files][:1]

        left = {name: set(imported(name)) for name in files}
        self.assertIn(("_tool",), left["identifying", "_boxes"])
        while left:
            free = [name for name, needs in left.items() if not needs & set(left)]
            self.assertTrue(free, f"these import each other: {left}")
            for name in free:
                del left[name]


if __name__ == "__main__":
    unittest.main()
