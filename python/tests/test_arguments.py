"""A wrong argument of any function is a UsageError of one short line that says what is wrong and what would be right; reprs are one line too."""

import unittest

import mxcheck
from mxcheck.candidates.gating import Report, Statement

X = [[float(i % 7) for i in range(64)] for _ in range(4)]
Q = mxcheck.quantize(X)
ONES = mxcheck.cast(X, "e4m3")


def declared(**options):
    return mxcheck.candidate("quantize", **dict(dict(recipes=["rceil"], formats=["e4m3"], blocks=["1x32"]), **options))


# A user's mistake, and words of the answer.
MISTAKES = [
    (lambda: mxcheck.quantize(X, "e4m4"), "unknown format 'e4m4'", "did you mean 'e4m3'?"),
    (lambda: mxcheck.quantize(X, "te"), "a recipe: write recipe='te'"),
    (lambda: mxcheck.quantize(X, X), "format is [[0.0, 1.0,", "torch.float8_e4m3fn"),
    (lambda: mxcheck.quantize(X, recipe="recil"), "did you mean 'rceil'?"),
    (lambda: mxcheck.quantize(X, recipe=3), "recipe is 3"),
    (lambda: mxcheck.quantize(X, block="1x33"), "did you mean '1x32'?"),
    (lambda: mxcheck.quantize(X, block=32), "'1x32' or (1, 32)"),
    (lambda: mxcheck.quantize(X, block=(1, 2.5)), "whole numbers, as (1, 32)"),
    (lambda: mxcheck.quantize(X, offsets=3), "as [0, 128, 256]"),
    (lambda: mxcheck.quantize(X, offsets=X), "an offset is [0.0"),
    (lambda: mxcheck.quantize(X, pad=Q.codes), "pad is mxcheck.Values(e4m3 4 x 64 ["),
    (lambda: mxcheck.quantize(X, threads=-1), "threads is -1"),
    (lambda: mxcheck.quantize([["a"]]), "list of builtins.str"),
    (lambda: mxcheck.quantize(mxcheck.Values(bytes(10), (2, 32), "fp32")), "x has 10 bytes: (2, 32) of fp32 are 256"),
    (lambda: mxcheck.decode(mxcheck.Values(bytes(64), (2, 16), "e4m3"), "e4m3"), "64 bytes", "32"),
    (lambda: mxcheck.Values(bytes(10), (2, 32), "float32").tolist(), "data has 10 bytes: shape (2, 32) of float32 has 256"),
    (lambda: mxcheck.Values(bytes(10), (2, 4), "e5m6").tolist(), "data has 10 bytes: shape (2, 4) of e5m6 has 16"),
    (lambda: mxcheck.quantize([[1.0], [1.0, 2.0]]), "rows of different lengths"),
    (lambda: mxcheck.dequantize(Q.codes), "what mxcheck.quantize returns"),
    (lambda: mxcheck.dequantize(Q, "fp16"), "known are fp32, bf16"),
    (lambda: mxcheck.Quantized(Q.codes, Q.scales, None, "rceil", "1x32", "compact"), "format is None"),
    (lambda: mxcheck.cast(X, "e4m3", "nearest_evn"), "did you mean 'nearest_even'?"),
    (lambda: mxcheck.decode([1, 2], "e4m3"), "write values as 1.0", "mxcheck.Values(bytes([...])"),
    (lambda: mxcheck.scale("448"), "amax is '448'"),
    (lambda: mxcheck.matmul(X, X), "contract is missing", "fp32", "ieee_fp32"),
    (lambda: mxcheck.matmul(Q, Q), "e4m3 with scales", "sm90_fp8+promote32", "sm100_mxf8f6f4"),
    (lambda: mxcheck.mma(ONES, ONES), "contract is missing", "sm90_fp8"),
    (lambda: mxcheck.explain(X, X, (0, 0)), "contract is missing"),
    (lambda: mxcheck.matmul(X, X, "exat"), "did you mean 'exact'?"),
    (lambda: mxcheck.matmul(X, X, "exact", dtype=["fp32"]), "dtype is ['fp32']"),
    (lambda: mxcheck.matmul(X, X, "exact", groups="row"), "did you mean 'rows'?"),
    (lambda: mxcheck.matmul(X, X, "exact", layout=3), "layout is 3"),
    (lambda: mxcheck.explain(X, X, X, "exact"), "as (0, 3)"),
    (lambda: mxcheck.explain(X, X, (0, 0), "exact", expert="a"), "expert is 'a'"),
    (lambda: mxcheck.route(X, "2"), "top_k is '2'"),
    (lambda: mxcheck.route(X, 2, "topk-softmx"), "did you mean 'topk-softmax'?"),
    (lambda: mxcheck.round_tokens(X, 2, "nr"), "did you mean 'nr-"),
    (lambda: mxcheck.scale_layout(Q.scales, 4), "as (4, 128)"),
    (lambda: mxcheck.formats(3), "format is 3"),
    (lambda: mxcheck.recipe(None), "recipe is None"),
    (lambda: mxcheck.identify(lambda a, b: a, "matmull"), "did you mean 'matmul'?"),
    (lambda: mxcheck.identify(lambda a, b: a, formts=("bf16", "bf16")), "did you mean 'formats'?"),
    (lambda: mxcheck.identify(3), "as lambda a, b: ..."),
    (lambda: mxcheck.identify(lambda a, b: a, shape=3), "as (8, 8, 512)"),
    (lambda: mxcheck.identify(lambda a, b: a, formats="bf16"), "as ('bf16', 'bf16')"),
    (lambda: mxcheck.identify(lambda a, b: a, arrays="nmpy"), "did you mean 'numpy'?"),
    (lambda: mxcheck.identify_dump(X, X, X, fromat_a="bf16"), "did you mean 'format_a'?"),
    (lambda: mxcheck.layer({"X": X, "W1": X, "W2": X}, "mxfp8", X, 2, toppk=2), "did you mean 'top_k'?"),
    (lambda: mxcheck.layer({"X": X, "w1": X}, "mxfp8", X, 2), "there is no tensor 'W1'", "did you mean"),
    (lambda: mxcheck.layer_recipe("mxfp9"), "did you mean 'mxfp8'?"),
    (lambda: mxcheck.golden.make("formts", "x"), "did you mean 'formats'?"),
    (lambda: mxcheck.gate(lambda x: x), "is no candidate: declare it"),
    (lambda: mxcheck.gate("gated:right", suite="quik"), "did you mean 'quick'?"),
    (lambda: mxcheck.gate("gated:right", seed="a"), "seed is 'a'"),
    (lambda: mxcheck.gate("gated:right", only=3), "only is 3"),
    (lambda: mxcheck.gate("gated:right", cases=0), "cases is 0: a whole number from 1 to 10000000"),
    (lambda: mxcheck.gate("gated:right", jobs=257), "jobs is 257: a whole number from 0 to 256"),
    (lambda: mxcheck.identify_dump(Q), "b is needed: a product takes a, b, d; given: a"),
    (lambda: mxcheck.decode(Q, "e4m3"), "codes is a mxcheck.Quantized: its tensors are .codes and .scales"),
    (lambda: mxcheck.golden.verify(X, "golden.h5"), "candidate is [[0.0,", "or tensors by name, as {'codes': q.codes, 'scales': q.scales}"),
    (lambda: mxcheck.gate("gated:right", configs="x"), "configs is 'x'"),
    (lambda: mxcheck.gate("gated:rihgt"), "has no rihgt", "did you mean 'right'?"),
    (lambda: mxcheck.gate("no_such_module:x"), "No module named 'no_such_module'", "MXCHECK_PYTHON"),
    (lambda: mxcheck.candidate("quantise"), "did you mean 'quantize'?"),
    (lambda: declared(blocks=["1x34"]), "unknown block '1x34'"),
    (lambda: declared(layouts="compct"), "did you mean 'compact'?"),
    (lambda: declared(types=["float"]), "unknown type 'float'"),
    (lambda: declared(max_rows="a"), "max_rows is 'a'"),
    (lambda: mxcheck.candidate("matmul", contract="exat"), "did you mean 'exact'?"),
    (lambda: mxcheck.candidate("matmul", contract=3), "contract is 3"),
    (lambda: mxcheck.Values([1.0], (1,), "fp32"), "data is [1.0]"),
    (lambda: mxcheck.Values(b"1234", 3, "fp32"), "as (2, 32)"),
    (lambda: mxcheck.Values(b"1234", (1,), "float31"), "did you mean 'float32'?"),
    (lambda: mxcheck.testing.assert_quantized(X, Q.codes, Q.scales, "te"), "recipe='te'"),
]


class Mistakes(unittest.TestCase):
    def test_each_is_told_in_a_line(self):
        for i, (mistake, *words) in enumerate(MISTAKES):
            with self.subTest(i, words=words), self.assertRaises(mxcheck.UsageError) as raised:
                mistake()
            text = str(raised.exception)
            self.assertIsInstance(raised.exception, ValueError)
            self.assertNotIn("\n", text)
            self.assertLess(len(text), 900)
            for word in words:
                self.assertIn(word, text)

    def test_an_attribute_has_its_near_name(self):
        with self.assertRaisesRegex(AttributeError, "did you mean 'quantize'"):
            mxcheck.quantise
        self.assertTrue({"testing", "pytest_plugin", "quantize"} <= set(dir(mxcheck)))


class Reprs(unittest.TestCase):
    def test_each_is_one_line_with_first_values(self):
        self.assertEqual(repr(mxcheck.Values(bytes(8), (2,), "fp32")), "mxcheck.Values(fp32 2 [0, 0])")
        self.assertEqual(repr(Q), "Quantized(codes=mxcheck.Values(e4m3 4 x 64 [0, 104, 112, ...]), scales=mxcheck.Values(e8m0 4 x 2 [121, 121, 121, ...]), "
                                  "format='e4m3', recipe='rceil', block='1x32', layout='compact')")
        self.assertRegex(repr(mxcheck.route(X, 2)), r"^Routes\(experts=mxcheck.Values\(int32 4 x 2 \[6, 13, 6, \.\.\.\]\), weights=.*\)$")
        self.assertNotIn("\n", repr(mxcheck.round_tokens(X, 2)))
        found = mxcheck.identify(lambda a, b: mxcheck.matmul(a, b, "sm90_bf16"), shape=(4, 4, 48), names=["exact"], arrays="values")
        self.assertRegex(repr(found), r"^Identified\(nothing known explains all \d+ outputs\)$")

    def test_a_report_says_verdict_and_cause(self):
        held = Statement("a_equals_b", "held", 1200, 1.0, "", None, "")
        failed = Statement("c_equals_d", "failed", 4, 1.0, "", {}, "c_equals_d\n  cause     ties go away from zero, where even is right\n  found     codes differ")
        self.assertEqual(repr(Report("mine", 0, 1, "quick", 2.04, (held,))), "<mxcheck.Report of mine: held: 1 statements, 1,200 cases, 2.0 s>")
        self.assertEqual(repr(Report("mine", 1, 1, "quick", 2.04, (held, failed))), "<mxcheck.Report of mine: FAILED: 1 of 2 statements failed, 1,204 cases, "
                                                                                   "2.0 s; c_equals_d: ties go away from zero, where even is right>")


if __name__ == "__main__":
    unittest.main()
