"""benchmarks/compare.py on forged results: which ratios it prints, and which it refuses.

usage: compare_test.py BENCHMARKS
"""

import copy
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BENCHMARKS = Path(sys.argv.pop(1))
sys.path.insert(0, str(BENCHMARKS))
from compare import Refused, card_of, require_same_card  # noqa: E402

H200 = {"name": "NVIDIA H200", "processors": 132, "sm_clock_mhz": 1980, "memory_clock_mhz": 3201, "driver": "580.65.06", "driver_cuda": 13000}
QUANTIZE = {"card": H200, "cases": [{"case": "quantize 1x32", "us": 200.0}, {"case": "quantize 32x1", "us": 90.0}]}
GEMM = {"card": H200, "cases": [{"case": "bf16, 1 x 2 x 3", "times": {"ours": {"us": 10.0, "ratio": 1.0}, "cuBLASLt bf16": {"us": 8.0}}}]}
LAYER = {"card": H200, "shapes": [{"tokens": 1, "d": 2, "n": 3, "experts": 4, "top_k": 5, "recipes": [
    {"recipe": "bf16", "forward": {"us": 30.0, "steps": [{"name": "up", "us": 20.0}, {"name": "up", "us": 5.0}]}}]}]}


class Compare(unittest.TestCase):
    def compared(self, first, second):
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder, name) for name in ("before.json", "after.json")]
            for path, result in zip(paths, (first, second)):
                path.write_text(result if isinstance(result, str) else json.dumps(result))
            done = subprocess.run([sys.executable, BENCHMARKS / "compare.py", *paths], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout, done.stderr.replace(folder + "/", "")

    def assert_refused(self, first, second, *parts):
        code, out, error = self.compared(first, second)
        self.assertEqual((code, out), (2, ""), error)
        for part in parts:
            self.assertIn(part, error)
        self.assertEqual(error.count("\n"), 1, error)

    def test_prints_ratios_of_results_of_one_card(self):
        after = copy.deepcopy(QUANTIZE)
        after["cases"][0]["us"] = 160.0
        code, out, error = self.compared(QUANTIZE, after)
        self.assertEqual((code, error), (0, ""))
        self.assertIn("NVIDIA H200 at 1980 MHz (memory 3201 MHz, driver 580.65.06)\n", out)
        self.assertRegex(out, r"quantize 1x32 +200\.00 +160\.00 +1\.250\n")
        self.assertRegex(out, r"quantize 32x1 +90\.00 +90\.00 +1\.000\n")

    def test_knows_every_contender_and_step(self):
        self.assertRegex(self.compared(GEMM, GEMM)[1], r"bf16, 1 x 2 x 3 ours +10\.00(.|\n)*cuBLASLt bf16 +8\.00")
        out = self.compared(LAYER, LAYER)[1]
        for line in (r"1,2,3,4,5 bf16 forward +30\.00", r"1,2,3,4,5 bf16 forward up +20\.00", r"1,2,3,4,5 bf16 forward up #2 +5\.00"):
            self.assertRegex(out, line)

    def test_says_which_cases_are_in_one_result_alone(self):
        fewer = {**QUANTIZE, "cases": QUANTIZE["cases"][:1]}
        code, out, _ = self.compared(QUANTIZE, fewer)
        self.assertEqual(code, 0)
        self.assertIn("1 only in", out)
        self.assert_refused(QUANTIZE, GEMM, "no case in common")

    def test_refuses_another_card_clock_or_driver_either_way(self):
        for key, value, words in (("name", "NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3 at 1980 MHz"),
                                  ("sm_clock_mhz", 1755, "NVIDIA H200 at 1755 MHz"),
                                  ("memory_clock_mhz", 2619, "memory 2619 MHz"), ("driver", "570.1.2", "driver 570.1.2")):
            other = {**QUANTIZE, "card": {**H200, key: value}}
            ours = "NVIDIA H200 at 1980 MHz (memory 3201 MHz, driver 580.65.06)"
            with self.subTest(key):
                self.assert_refused(QUANTIZE, other, "no ratio of two cards", f"before.json is of {ours}", words, "after.json of ")
                self.assert_refused(other, QUANTIZE, "no ratio of two cards", words, f"after.json of {ours}")

    def test_does_not_mind_what_is_no_card_or_clock(self):
        more = {**QUANTIZE, "card": {**H200, "processors": 131, "driver_cuda": 1, "new": True}}
        self.assertEqual(self.compared(QUANTIZE, more)[0], 0)

    def test_refuses_results_that_do_not_state_their_card(self):
        for card, words in ((None, '"card" must have name, sm_clock_mhz, memory_clock_mhz, driver'), ({}, '"card" has no name'),
                            ({**H200, "sm_clock_mhz": 0}, "no sm_clock_mhz"), ({**H200, "sm_clock_mhz": True}, "no sm_clock_mhz"),
                            ({**H200, "memory_clock_mhz": "fast"}, "no memory_clock_mhz"), ({**H200, "driver": ""}, "no driver")):
            with self.subTest(words):
                self.assert_refused({**QUANTIZE, "card": card}, QUANTIZE, "before.json", words)
                self.assert_refused(QUANTIZE, {**QUANTIZE, "card": card}, "after.json", words)

    def test_refuses_what_is_no_result(self):
        self.assert_refused("{", QUANTIZE, "before.json is not the JSON of a benchmark")
        self.assert_refused("[1]", QUANTIZE, "before.json does not state its card")
        self.assert_refused("[" * 100000, QUANTIZE, "before.json")
        done = subprocess.run([sys.executable, BENCHMARKS / "compare.py", "none.json", "none.json"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (2, "compare.py: none.json: No such file or directory\n"))

    def test_refuses_torch_on_another_card(self):  # as benchmarks/sm90/route/torch_topk.py asks it
        card = card_of(QUANTIZE, "ours")
        require_same_card(card, "ours", {**card, "name": "NVIDIA H200"}, "torch")
        with self.assertRaisesRegex(Refused, "ours is of NVIDIA H200 .*, torch of NVIDIA H100"):
            require_same_card(card, "ours", {**card, "name": "NVIDIA H100"}, "torch")


if __name__ == "__main__":
    unittest.main()
