"""The examples of docs/python_candidates.md: what runs on the host is gated, and Triton's indexing is run by its interpreter."""

import importlib.util
import os
import subprocess
import sys
import unittest
from pathlib import Path

import mxcheck
from gated_tensors import there_is

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
EQUAL = "quantize_equals_the_reference"

# Codes say nothing here, as Triton's interpreter has an FP8 cast wrong; scales and what is written where do.
INTERPRETED = """
import sys
sys.path.insert(0, {folder!r})
import torch, mxcheck, triton_quantize
torch.manual_seed(1)
x = torch.randn(5, 100)
x[0, :32], x[1, 3], x[2, 40] = 0, float("nan"), float("inf")
x[3, :32] = 448
for candidate in (triton_quantize.right, triton_quantize.wrong):
    codes, scales = torch.full((5, 100), 99, dtype=torch.uint8), torch.full((5, 4), 99, dtype=torch.uint8)
    candidate(x, codes, scales, None)
    q = mxcheck.quantize(x, "e4m3", "rceil", "1x32")
    special = q.scales.view(torch.uint8).repeat_interleave(32, 1)[:, :100] == 255
    print(candidate.name, (q.scales.view(torch.uint8) != scales).nonzero().tolist(), int((codes[special] != 0x7F).sum()),
          int(((codes ^ q.codes.view(torch.uint8)) & 0x80).ne(0)[~special].sum()))
"""


class Examples(unittest.TestCase):
    def gate(self, name, only=EQUAL, **options):
        return mxcheck.gate(f"{EXAMPLES}/{name}", seed=1, only=only, **options)

    @unittest.skipUnless(there_is("numpy"), "numpy is not installed")
    def test_numpy(self):
        for only in (EQUAL, "every_amax_is_scaled_as_the_reference"):
            report = self.gate("numpy_quantize.py:quantize", only)
            self.assertTrue(report, report.text())
        self.assertRegex(repr(self.gate("numpy_quantize.py:ties_away")), "FAILED: 1 of 1 statements failed, .*: ties away from zero: gives every bit of")

    @unittest.skipUnless(there_is("torch"), "torch is not installed")
    def test_torch_as_it_is(self):
        report = self.gate("compiled_quantize.py:eager")
        self.assertTrue(report, report.text())

    @unittest.skipUnless(there_is("torch") and there_is("triton"), "torch and triton are not installed")
    def test_triton_in_its_interpreter(self):
        done = subprocess.run([sys.executable, "-c", INTERPRETED.format(folder=str(EXAMPLES))], capture_output=True, text=True, check=False,
                              env=dict(os.environ, TRITON_INTERPRET="1"))
        self.assertEqual(done.stdout.splitlines(), ["right [] 0 0", "wrong [[3, 0]] 0 0"], done.stderr)

    @unittest.skipUnless(there_is("torch") and importlib.util.find_spec("triton") and __import__("torch").cuda.is_available(), "no CUDA device")
    def test_on_a_device(self):
        self.assertTrue(self.gate("triton_quantize.py:right", "*"))
        wrong = self.gate("triton_quantize.py:wrong")
        self.assertEqual(wrong.exit_code, 1)
        self.assertIn("scales differ", wrong.text())
        self.assertTrue(self.gate("compiled_quantize.py:quantize"))


if __name__ == "__main__":
    unittest.main()
