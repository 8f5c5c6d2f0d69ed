"""benchmarks/roofline.py: the committed picture is what the page gives, its points are where they belong, and wrong pages are refused.

usage: roofline_test.py SOURCE_DIR
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(sys.argv.pop(1))
sys.path.insert(0, str(SOURCE / "benchmarks"))
import roofline  # noqa: E402

PAGE = """# Page

## Hopper quantization kernels

On an H200; the copy moves 4000 GB/s.

| case | MB | GB/s |
|---|---|---|
| quantize 1x32 bf16 1000x2000 | 4.0 | 3000 |

## Hopper NVFP4 quantization

`quantize_nvfp4` of 1000 x 1000, as above.

| case | MB | GB/s |
|---|---|---|
| 1x16 bf16 | 2.0 | 1000 |

## Hopper GEMMs

Run on an H100.

| case | us | TFLOPS |
|---|---|---|
| BF16, 128x256x512 | 1 | 600 |
| NVFP4, 2 groups of 128 rows, 256x512 | 1 | 1,200 |
| BF16, weight gradient, 4 groups of k = 4096, FP32 D + C, 4096x7168 | 1 | 2 |
| BF16, 8 ragged groups, 4096x7168 | 1 | 3 |

## Routers

Run on an H100 whose best copy is at 3000 GB/s.
"""


class Roofline(unittest.TestCase):
    def run_on(self, page, *options):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "page.md")
            path.write_text(page)
            done = subprocess.run([sys.executable, "-B", SOURCE / "benchmarks/roofline.py", *options, path], capture_output=True, text=True, check=False)
            picture = Path(folder, "roofline.svg")
            return done.returncode, done.stderr, picture.read_text() if picture.exists() else ""

    def test_the_committed_picture_is_what_the_page_gives(self):
        done = subprocess.run([sys.executable, "-B", SOURCE / "benchmarks/roofline.py", "--check"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_operations_and_bytes(self):
        points = {point[0]: point for point in [*roofline.gemms(PAGE), *roofline.quantizers(PAGE)]}
        self.assertEqual(len(points), 4)
        self.assertAlmostEqual(points["BF16"][1], 128 * 256 * 512 / (128 * 512 + 256 * 512 + 128 * 256))
        self.assertEqual(points["BF16"][2], 600)
        self.assertAlmostEqual(points["NVFP4"][1], 2 * 128 * 256 * 512 / (0.5625 * (128 + 256) * 512 + 2 * 128 * 256))
        self.assertEqual(points["NVFP4"][2], 1200)
        self.assertAlmostEqual(points["quantizers"][1], 1)
        self.assertAlmostEqual(points["quantizers"][2], 3)
        self.assertAlmostEqual(points["NVFP4 quantizers"][2], 1)

    def test_draws_points_that_are_empty_on_an_h100(self):
        code, error, picture = self.run_on(PAGE)
        self.assertEqual((code, error), (0, ""))
        self.assertRegex(picture, r'fill="none"[^>]*><title>BF16, 128x256x512: 600 TFLOPS')
        self.assertRegex(picture, r'r="4" fill="#\w+"><title>1x16 bf16: 1000 GB/s')
        self.assertNotIn("ragged", picture)
        self.assertRegex(self.run_on(PAGE.replace("Run on an H100.", "Run on an H200."))[2], r'r="4" fill="#\w+"><title>BF16, 128x256x512')

    def test_check_finds_another_picture(self):
        self.assertEqual(self.run_on(PAGE, "--check")[0], 2)  # there is none
        with tempfile.TemporaryDirectory() as folder:
            page, picture = Path(folder, "page.md"), Path(folder, "roofline.svg")
            page.write_text(PAGE)
            program = [sys.executable, "-B", SOURCE / "benchmarks/roofline.py"]
            self.assertEqual(subprocess.run([*program, page], check=False).returncode, 0)
            self.assertEqual(subprocess.run([*program, "--check", page], check=False).returncode, 0)
            picture.write_text(picture.read_text() + " ")
            done = subprocess.run([*program, "--check", page], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("run benchmarks/roofline.py", done.stderr)

    def test_refuses_pages_that_it_cannot_read(self):
        for old, new, words in (("## Routers", "## Roads", 'no section "## Routers"'), ("| BF16, 128", "| FP6, 128", "begins with none of FP8"),
                                ("| 600 |", "| fast |", '"fast" is no number above 0'), ("| 4.0 |", "| 0 |", '"0" is no number above 0'),
                                ("| case | us | TFLOPS |", "| case | us | rate |", 'no table with a column "TFLOPS"'),
                                ("the copy moves 4000 GB/s", "the copy is fast", "the H200's copy is not said"),
                                ("1000x2000", "all", "has no shape")):
            with self.subTest(words):
                code, error, picture = self.run_on(PAGE.replace(old, new))
                self.assertEqual((code, picture), (2, ""))
                self.assertIn(words, error)
                self.assertEqual(error.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
