"""The Python examples on committed goldens: golden_examples_test.py MXCHECK SOURCE_DIR"""

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

MXCHECK, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
EXAMPLES, GOLDENS = SOURCE / "examples/goldens", SOURCE / "goldens/data"


def run(*command, cwd=None):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False, cwd=cwd)


def check(golden, *more, cwd=None):
    return run(EXAMPLES / "check_mine.py", GOLDENS / golden, "--mxcheck", MXCHECK, *more, cwd=cwd)


class Examples(unittest.TestCase):
    def test_every_committed_golden_can_be_read_without_mxcheck(self):
        files = sorted(GOLDENS.glob("*/*.h5"))
        self.assertGreater(len(files), 100)
        sys.path.insert(0, str(EXAMPLES))
        import read_golden

        for file in files:
            printed = io.StringIO()
            with unittest.mock.patch.object(sys, "argv", ["", str(file)]), contextlib.redirect_stdout(printed):
                read_golden.main()
            self.assertIn(f"name          {file.stem}\n", printed.getvalue())

    def test_numpy_understands_codes_and_scales_as_we_do(self):
        answer = run(EXAMPLES / "read_golden.py", GOLDENS / "real/layer0_x_1x32.h5")
        self.assertRegex(answer.stdout, r"SQNR .*: 31\.\d\d dB over 51200 of 51200 elements")

    def test_a_golden_that_was_changed_is_not_read(self):
        with tempfile.TemporaryDirectory() as directory:
            data = bytearray((GOLDENS / "formats/formats.h5").read_bytes())
            data[1000] ^= 1
            (pathlib.Path(directory) / "formats.h5").write_bytes(data)
            (pathlib.Path(directory) / "manifest.txt").write_bytes((GOLDENS / "formats/manifest.txt").read_bytes())
            self.assertEqual(run(EXAMPLES / "read_golden.py", pathlib.Path(directory) / "formats.h5").returncode, 5)

    def test_a_right_quantizer_is_found_right(self):
        for golden in ("real/layer0_dO_1x32.h5", "real/layer3_w1_32x1.h5", "blocks/e4m3_128x128.h5", "blocks/e4m3_row.h5"):
            answer = check(golden, "--quantizer", "numpy")
            self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)

    def test_ml_dtypes_agrees_where_it_is_installed(self):
        answer = check("real/layer0_dO_1x32.h5", "--quantizer", "ml_dtypes")
        self.assertIn(answer.returncode, (0, 3), answer.stdout + answer.stderr)

    def test_a_wrong_quantizer_is_found_wrong_and_the_cause_is_named(self):
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "mine.py").write_text(
                "import numpy as np, check_mine as c\n"
                "def floor(x, attributes):\n"
                "    blocks = c.blocks_of(x, attributes)\n"
                "    amax = np.abs(blocks).max(axis=(1, 3))\n"
                "    scales = np.where(amax == 0, 0, np.frexp(amax)[1] - 1 - 8 + 127).astype(np.uint8)\n"
                "    c.rceil_bytes = lambda _: scales\n"
                "    return c.with_numpy(x, attributes)\n"
            )
            answer = check("real/layer0_x_1x32.h5", "--quantizer", "mine:floor", cwd=directory)
            self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
            self.assertIn("floor", answer.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
