"""route and round_tokens give the command line's bytes for every variant and rule, and refuse what does not fit."""

import array
import struct
import unittest

import command_line
import mxcheck

# Names of the command line's tensors by those of RoundedTokens.
_ROWS = ("chosen", "offsets", "row_token", "row_weight", "token_offsets", "token_rows")


def finite(rows, cols, dtype):
    """Logits without infinities, with ties and zeros of both signs."""
    x = command_line.words(rows, cols, dtype)
    infinite = {"fp32": 0x7F800000, "bf16": 0x7F80, "fp16": 0x7C00}[dtype]
    each = {"fp32": 4, "bf16": 2, "fp16": 2}[dtype]
    for at in range(0, len(x.data), each):
        word = int.from_bytes(x.data[at : at + each], "little")
        if word & infinite == infinite or at % (11 * each) == 0:
            x.data[at : at + each] = bytes(each)
    return x


class SameAsCommandLine(command_line.InFolder):
    def told(self, logits, *flags):
        source, target = self.folder / "x.safetensors", self.folder / "r.safetensors"
        command_line.write_safetensors(source, logits)
        command_line.run("route", f"{source}:x", "-o", str(target), *flags)
        return command_line.read_safetensors(target)

    def test_every_variant_and_type(self):
        for variant in mxcheck.routers():
            for dtype in ("fp32", "bf16", "fp16"):
                logits = finite(9, 40, dtype)
                with self.subTest(variant=variant, dtype=dtype):
                    tensors = self.told(logits, "--variant", variant, "--top-k", "6", "--scale", "2.5")
                    routes = mxcheck.route(logits, 6, variant, scale=2.5)
                    self.assertEqual(routes.experts.tobytes(), tensors["experts"])
                    self.assertEqual(routes.weights.tobytes(), tensors["weights"])

    def test_groups_bias_and_nan(self):
        logits = finite(6, 16, "fp32")
        logits.data[20:24] = struct.pack("f", float("nan"))
        bias = array.array("f", [i % 5 * 0.25 for i in range(16)])
        numbers = self.folder / "b.safetensors"
        command_line.write_safetensors(numbers, mxcheck.Values(bias, (16,), "fp32"))
        tensors = self.told(logits, "--variant", "sigmoid", "--top-k", "3", "--groups", "4", "--groups-kept", "2", "--nan", "last", "--bias",
                            f"{numbers}:x")
        routes = mxcheck.route(logits, 3, "sigmoid", mxcheck.Values(bias, (16,), "fp32"), 4, 2, "last")
        self.assertEqual((routes.experts.tobytes(), routes.weights.tobytes()), (tensors["experts"], tensors["weights"]))
        with self.assertRaises(mxcheck.InputError) as raised:
            mxcheck.route(logits, 3)
        self.assertIn("NaN", str(raised.exception))

    def test_every_rule(self):
        logits = finite(50, 8, "bf16")
        for rule in mxcheck.rounding_rules():
            takes = rule.startswith("capacity") or rule == "expert-choice"
            flags = ["--round", rule, "--top-k", "2"]
            options = {}
            if takes:
                flags += ["--capacity", "5"]
                options["capacity"] = 5
            elif rule != "none":
                flags += ["--tile", "4"]
                options["tile"] = 4
            if rule == "sr-f":
                flags += ["--seed", "3", "--step", "7", "--layer", "2"]
                options.update(seed=3, step=7, layer=2)
            with self.subTest(rule=rule):
                tensors = self.told(logits, *flags)
                rows = mxcheck.round_tokens(logits, 2, rule, **options)
                for name in _ROWS:
                    self.assertEqual(getattr(rows, name).tobytes(), tensors[name], name)

    def test_no_tokens(self):
        routes = mxcheck.route(mxcheck.Values(b"", (0, 8), "fp32"), 2)
        self.assertEqual((routes.experts.shape, routes.experts.tobytes()), ((0, 2), b""))
        self.assertEqual(mxcheck.round_tokens(mxcheck.Values(b"", (0, 8), "fp32"), 2).row_token.shape, (0,))


class Refusals(command_line.Refusing):
    logits = mxcheck.Values(array.array("f", range(32)), (4, 8), "fp32")

    def test_what_does_not_fit(self):
        x = self.logits
        self.refused(("softmax", "topk-softmax"), mxcheck.route, x, 2, "softmax")
        self.refused(("9",), mxcheck.route, x, 9)
        self.refused(("0",), mxcheck.route, x, 0)
        self.refused(("top_k",), mxcheck.route, x, 2.0)
        self.refused(("top_k",), mxcheck.route, x, 2**70)
        self.refused(("groups",), mxcheck.route, x, 2, groups=3)
        self.refused(("nan", "last"), mxcheck.route, x, 2, nan="first")
        self.refused(("scale",), mxcheck.route, x, 2, scale=1e60)
        self.refused(("bias", "8 experts"), mxcheck.route, x, 2, bias=mxcheck.Values(bytes(12), (3,), "fp32"))
        self.refused(("3 dimensions",), mxcheck.route, mxcheck.Values(bytes(32), (2, 2, 2), "fp32"), 1)
        self.refused(("threads",), mxcheck.route, x, 2, threads=-2)
        self.refused(("nearest", "nr-f"), mxcheck.round_tokens, x, 2, "nearest")
        self.refused(("tile",), mxcheck.round_tokens, x, 2, tile=0)
        self.refused(("seed",), mxcheck.round_tokens, x, 2, "sr-f", seed=-1)
        self.refused(("layer",), mxcheck.round_tokens, x, 2, "sr-f", layer=2**32)


if __name__ == "__main__":
    unittest.main()
