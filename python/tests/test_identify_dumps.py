"""identify_dump gives the answers of `mxcheck identify`, of tensors of every kind; answers as JSON and as pictures."""

import array
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import mxcheck
from box_numbers import words

CODES = mxcheck.Values(bytes(w & 0xF7 for w, _ in zip(words(3), range(8 * 256))), (8, 256), "e4m3")


def fp32(seed, shape, spread=12):
    source = words(seed)
    numbers = [((next(source) >> 40) / 2.0**23 - 1) * 2.0 ** (next(source) % spread - spread // 2) for _ in range(shape[0] * shape[1])]
    return mxcheck.Values(array.array("f", numbers), shape, "fp32")


class Dumps(unittest.TestCase):
    def test_products(self):
        d = mxcheck.matmul(CODES, CODES, "sm90_fp8+promote64")
        found = mxcheck.identify_dump(CODES, CODES, d)
        self.assertEqual(found.names[0], "sm90_fp8+promote64")
        self.assertEqual(found.compared, 64)
        self.assertEqual(found.notes, ["that is also split-k of 4 in parts of 64, no promotion within them"])
        d.data[0] ^= 1
        found = mxcheck.identify_dump(CODES, CODES, d)
        self.assertFalse(found)
        self.assertEqual((found.closest[0].name, found.closest[0].equal), ("sm90_fp8+promote64", 63))
        self.assertIn("first in D at (0, 0)", found.closest[0].first)

    def test_the_same_as_the_command(self):
        d = mxcheck.matmul(CODES, CODES, "sm90_fp8+promote96")
        with tempfile.TemporaryDirectory() as folder:
            for name, x, shape, dtype in (("a", CODES, (8, 256), "|u1"), ("d", d, (8, 8), "<f4")):
                header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
                header += " " * (-(len(header) + 11) % 64) + "\n"
                with open(os.path.join(folder, name + ".npy"), "wb") as file:
                    file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + x.tobytes())
            tool = os.environ.get("MXCHECK_TOOL") or "mxcheck"
            done = subprocess.run([tool, "identify", "--a", "a.npy", "--b", "a.npy", "--d", "d.npy", "--json"], cwd=folder,
                                  stdout=subprocess.PIPE, check=True)
        command = json.loads(done.stdout.decode())
        found = mxcheck.identify_dump(CODES, CODES, d).json()
        for member in ("explained", "explaining", "compared", "declared"):
            self.assertEqual(found[member], command[member])
        self.assertEqual(found["explaining"][0], "sm90_fp8+promote96")

    def test_scales_of_either_block(self):
        x, w = fp32(1, (16, 256)), fp32(2, (136, 256))
        a, b = mxcheck.quantize(x, "e4m3", "fp32", "1x128"), mxcheck.quantize(w, "e4m3", "fp32", "128x128")
        for contract in ("sm90_fp8+promote128", "sm90_fp8+promote128+b_first"):
            d = mxcheck.matmul(a, b, contract)
            self.assertEqual(mxcheck.identify_dump(a, b, d).names[0], contract)
            found = mxcheck.identify_dump(a.codes, b.codes, d, a.scales, b.scales, scale_k=128, order=True)
            self.assertEqual(found.names[0], contract)
            self.assertEqual(found.tree.shape, "fused steps of 32, promoted every 128")
        with self.assertRaises(mxcheck.UsageError) as raised:
            mxcheck.identify_dump(a, b, mxcheck.Values(bytes(4 * 16 * 8), (16, 8), "fp32"))
        self.assertIn("D is F32, BF16 or F16 of 16 x 136", str(raised.exception))
        self.assertNotIn("/", str(raised.exception))  # no name of a file that the caller has not

    def test_results_of_this_package_stand_for_their_tensors(self):
        x = fp32(5, (64, 64))
        q = mxcheck.quantize(x, "e4m3", "floor", "32x32")
        self.assertIn("floor", mxcheck.identify_dump(x=x, codes=q).names)
        routes = mxcheck.route(x, 4, "sigmoid")
        self.assertEqual(mxcheck.identify_dump(logits=x, experts=routes).names,
                         mxcheck.identify_dump(logits=x, experts=routes.experts, weights=routes.weights).names)
        for given, name in ((dict(x=x, codes=q, scales=q.scales), "scales"), (dict(x=x, codes=q, format="e4m3"), "format"),
                            (dict(a=q, b=q, d=x, scale_a=q.scales), "scale_a"), (dict(logits=x, experts=routes, weights=routes.weights), "weights")):
            with self.assertRaisesRegex(mxcheck.UsageError, f"{name} is given, and .*which has its own: leave {name} out"):
                mxcheck.identify_dump(**given)
        with self.assertRaisesRegex(mxcheck.UsageError, "codes has scales in layout tcgen05"):
            mxcheck.identify_dump(x=x, codes=mxcheck.quantize(x, layout="tcgen05"))

    def test_casts_quantizations_and_routers(self):
        x = fp32(5, (64, 64))
        codes = mxcheck.cast(x, "e5m2", "toward_zero", "saturate")
        self.assertEqual(mxcheck.identify_dump(x=x, codes=codes).names[0], "toward_zero, saturate")
        quantized = mxcheck.quantize(x, "e4m3", "te")
        self.assertIn("without scales the codes are those of a cast", mxcheck.identify_dump(x=x, codes=quantized.codes, format="e4m3").notes)
        random = mxcheck.Values(array.array("I", [0x40000000] * 4096), (64, 64), "uint32")
        codes = mxcheck.cast(x, "e5m2", "stochastic", "saturate", words=random)
        self.assertEqual(mxcheck.identify_dump(x=x, codes=codes, words=random).names[0], "stochastic with these words, saturate")
        for recipe, block in (("floor", "1x32"), ("even", "32x32"), ("fp32", "1x128")):
            q = mxcheck.quantize(x, "e4m3", recipe, block)
            found = mxcheck.identify_dump(x=x, codes=q.codes, scales=q.scales, block=block)
            self.assertIn(recipe, found.names, found)
        routes = mxcheck.route(x, 4, "sigmoid")
        found = mxcheck.identify_dump(logits=x, experts=routes.experts, weights=routes.weights)
        self.assertEqual(found.names[0], "sigmoid")
        with self.assertRaises(mxcheck.UsageError):
            mxcheck.identify_dump(x=x)
        with self.assertRaises(mxcheck.UsageError):
            mxcheck.identify_dump()
        with self.assertRaises(mxcheck.UsageError):
            mxcheck.identify_dump(x=x, codes=codes, format="e9m9")

    def test_numpy_and_torch(self):
        try:
            import numpy
            import torch
        except ImportError:
            self.skipTest("numpy or torch is not installed")
        x = numpy.frombuffer(fp32(7, (32, 64)).tobytes(), dtype=numpy.float32).reshape(32, 64)
        q = mxcheck.quantize(x, "e4m3", "te", "1x32")
        self.assertIn("te", mxcheck.identify_dump(x=x, codes=q.codes, scales=q.scales).names)
        t = torch.from_numpy(x.copy()).to(torch.bfloat16)
        found = mxcheck.identify_dump(x=t, codes=t.to(torch.float8_e5m2))
        self.assertIn("nearest_even, non_saturate", found.names)
        routes = mxcheck.route(t, 4)
        self.assertIn("topk-softmax", mxcheck.identify_dump(logits=t, experts=routes.experts.to(torch.int64), weights=routes.weights).names)


class Forms(unittest.TestCase):
    def test_json_keeps_its_form(self):
        found = mxcheck.identify(lambda a, b: mxcheck.matmul(a, b, "sm90_bf16"), shape=(4, 4, 48), names=["exact"])
        answer = json.loads(json.dumps(found.json()))
        self.assertEqual(list(answer), ["explained", "explaining", "also", "declared", "closest", "compared", "order", "scales", "elements"])
        self.assertEqual(answer["order"]["tree"], "(((0..15) 16..31) 32..47)")
        self.assertEqual(list(answer["order"]), ["tree", "why_not", "arithmetic", "compared", "masks"])
        self.assertEqual(list(answer["closest"][0]), ["name", "equal", "first"])

    def test_pictures(self):
        found = mxcheck.identify(lambda a, b: mxcheck.matmul(a, b, "sm90_bf16+promote32"), shape=(4, 4, 96), names=["exact"])
        picture = ElementTree.fromstring(found.svg())
        drawn = sorted(int(term) for g in picture.iter() for term in g.get("data-terms", "").split())
        self.assertEqual(drawn, list(range(96)))
        with self.assertRaises(mxcheck.UsageError):
            mxcheck.identify(lambda a, b: mxcheck.matmul(a, b, "exact"), shape=(4, 4, 16)).svg()

    def test_the_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "box.py"), "w", encoding="utf-8") as file:
                file.write("import mxcheck\ndef f(a, b):\n    return mxcheck.matmul(a, b, 'sm90_bf16')\n")
            done = subprocess.run([sys.executable, "-m", "mxcheck.identifying", "box:f", "shape=(4,4,48)", "--json", "names=['exact']", "--svg", "t.svg"],
                                  cwd=folder, env={**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}, stdout=subprocess.PIPE)
            self.assertEqual(done.returncode, 1)
            self.assertFalse(json.loads(done.stdout.decode())["explained"])
            with open(os.path.join(folder, "t.svg"), encoding="utf-8") as file:
                self.assertIn("data-terms", file.read())


if __name__ == "__main__":
    unittest.main()
