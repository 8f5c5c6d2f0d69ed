"""The wheel (python/wheel_backend.py): its tag is that of the symbols that its files take from the C library and from libstdc++, and its
libraries are those of the configuration."""

import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import wheel_backend  # noqa: E402


class Tag(unittest.TestCase):
    def policy(self, glibc, glibcxx):
        with mock.patch.object(wheel_backend, "newest", lambda files, name: {"GLIBC": glibc, "GLIBCXX": glibcxx}[name]):
            return wheel_backend.policy_of([])

    def test_is_the_least_that_has_all_symbols(self):
        self.assertEqual(self.policy((2, 14), (3, 4, 19)), "manylinux_2_17")
        self.assertEqual(self.policy((2, 34), (3, 4, 29)), "manylinux_2_34")
        self.assertEqual(self.policy((2, 17), (3, 4, 29)), "manylinux_2_34")
        self.assertEqual(self.policy((2, 29), (3, 4, 11)), "manylinux_2_31")

    def test_what_is_too_new_is_refused_unless_it_is_asked_for(self):
        for needs in (((2, 36), (3, 4, 29)), ((2, 34), (3, 4, 30))):
            with self.assertRaisesRegex(SystemExit, "GLIBC 2.3[46] and GLIBCXX 3.4.(29|30).*MXCHECK_WHEEL_ANY_GLIBC"):
                self.policy(*needs)
        with mock.patch.dict("os.environ", {"MXCHECK_WHEEL_ANY_GLIBC": "1"}):
            self.assertEqual(self.policy((2, 34), (3, 4, 30)), "manylinux_2_35")
            self.assertEqual(self.policy((2, 36), (3, 4, 30)), "manylinux_2_38")
            with self.assertRaises(SystemExit):
                self.policy((2, 99), (3, 4, 30))

    @unittest.skipUnless(shutil.which("objdump"), "objdump is not installed")
    def test_symbols_are_read_from_files(self):
        import os

        newest = wheel_backend.newest([Path(os.environ["MXCHECK_C_LIBRARY"])], "GLIBC")
        self.assertGreaterEqual(newest, (2, 4))
        self.assertEqual(wheel_backend.newest([Path(os.environ["MXCHECK_C_LIBRARY"])], "NO_LIBRARY"), (0,))


class Libraries(unittest.TestCase):
    def test_of_an_earlier_configuration_stay_out(self):
        with tempfile.TemporaryDirectory() as name:
            build = Path(name)
            (build / "lib").mkdir()
            for left in ("libmxcheck_cpu.so", "libmxcheck_sm90.so"):
                (build / "lib" / left).touch()

            def run(*command):
                if "targets" in command:
                    return "lib/libmxcheck_cpu.so: CXX_SHARED_LIBRARY_LINKER__mxcheck_cpu_Release\nmxcheck_cpu: phony\n"
                return "libhwy.so.1 => /usr/lib/libhwy.so.1 (0x0)\n" if command[0] == "ldd" else ""

            with mock.patch.object(wheel_backend, "_run", run):
                built = [file.name for file in wheel_backend._built(build, "OFF")]
            self.assertEqual(built, ["mxcheck", "libmxcheck_cpu.so", "libhwy.so.1"])


if __name__ == "__main__":
    unittest.main()
