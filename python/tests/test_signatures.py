"""Python calls what the C header declares: every function one by one, every struct field by field, every exported symbol."""

import ctypes
import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
import typing
import unittest
from pathlib import Path

import mxcheck
from mxcheck import _library

ROOT = Path(__file__).resolve().parents[2]
# The types that the C compiler reads; texts and memory are pointers.
C_TYPES = {"int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint8_t": ctypes.c_uint8, "uint64_t": ctypes.c_uint64, "double": ctypes.c_double,
           "float": ctypes.c_float}


# A user file that `mypy --strict` takes.
USER = """import mxcheck
x = mxcheck.Values(bytes(256), (2, 32), "fp32")
q = mxcheck.quantize(x, "e4m3", recipe="te", block=(1, 32))
print(q.codes, q.dequantize(), mxcheck.quantize(x, recipe="nvfp4_te", packed=True).unpacked().tensor_scale, mxcheck.matmul(q, q, "sm90_fp8+promote128"), mxcheck.route(x, top_k=2).experts)
mxcheck.testing.assert_quantized(x, q.codes, q.scales)
print(mxcheck.formats("e4m3").max, [one.name for one in mxcheck.formats()])
@mxcheck.candidate("quantize", recipes=["rceil"], formats=["e4m3"], blocks=["1x32"])
def quantize(x: object, codes: object, scales: object, policy: mxcheck.Policy) -> None: ...
print([one.text for one in mxcheck.gate(quantize).failures], mxcheck.identify(lambda a, b: a @ b.T).names)
print(mxcheck.golden.verify({"codes": q.codes}, "x.h5")["codes"].causes, mxcheck.layer({"X": x}, "mxfp8", x, 2)["H"])
test_quantize = mxcheck.pytest_plugin.gate_test(quantize)
"""


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", re.sub(r"//.*", "", text), flags=re.S)


def ctype_of(declaration):
    """The type of "const char* name" by rules of their own: those of _library are under test."""
    words = declaration.replace("*", " * ").split()
    if "*" in words:
        return ctypes.c_char_p if words[:2] == ["const", "char"] else ctypes.c_void_p
    return C_TYPES[words[-2]]


def declared():
    table = without_comments((ROOT / "bindings" / "functions.inc").read_text())
    return re.findall(r"MXCHECK_C\((\w+), \(([^)]*)\)\)", table)


def structs():
    """Fields of the header's structs: their name, and (name, type) in order."""
    header = without_comments((ROOT / "bindings" / "mxcheck_c.h").read_text())
    found = {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", header, flags=re.S):
        lines = [line.strip() for line in body.split(";") if line.strip()]
        found[name] = [(re.split(r"[ *]+", line)[-1], ctype_of(line)) for line in lines]
    return found


def structures():
    """ctypes.Structure of the package, by the header's name, which is the first line of their docstring."""
    import importlib
    import pkgutil

    found = {}
    for module in pkgutil.iter_modules(mxcheck.__path__):
        if module.name in ("pytest_plugin", "__main__"):
            continue
        for _, one in inspect.getmembers(importlib.import_module(f"mxcheck.{module.name}"), inspect.isclass):
            if issubclass(one, ctypes.Structure) and (one.__doc__ or "").startswith("mxcheck_c_"):
                found[one.__doc__.strip(".")] = one
    return found


class Functions(unittest.TestCase):
    functions = _library.parse_signatures(_library._library.mxcheck_c_signatures().decode())

    def test_have_the_headers_arguments_one_by_one(self):
        stated = declared()
        self.assertEqual([name for name, _ in stated], list(self.functions))
        self.assertGreaterEqual(len(stated), 14)
        for name, arguments in stated:
            with self.subTest(name):
                wanted = [ctype_of(argument) for argument in arguments.split(",")]
                self.assertEqual(self.functions[name], wanted)
                self.assertEqual(getattr(_library._library, name).argtypes, wanted)
                self.assertIs(getattr(_library._library, name).restype, ctypes.c_int32)

    def test_are_all_that_the_library_exports(self):
        if shutil.which("nm") is None:
            self.skipTest("nm is not installed")
        done = subprocess.run(["nm", "-D", "--defined-only", os.environ["MXCHECK_C_LIBRARY"]], capture_output=True, text=True, check=True)
        exported = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}
        self.assertEqual(exported, {name for name, _ in declared()} | {"mxcheck_c_signatures"})

    def test_refuse_nulls_and_negative_counts_in_words(self):
        for name, types in self.functions.items():
            if name in ("mxcheck_c_version", "mxcheck_c_error"):
                continue
            nulls = [None if kind in (ctypes.c_char_p, ctypes.c_void_p) else 0 for kind in types]
            with self.subTest(name), self.assertRaises(mxcheck.UsageError) as raised:
                _library.call(name, *nulls)
            self.assertGreater(len(str(raised.exception)), 10)
            counts = [b"e4m3" if kind is ctypes.c_char_p else None if kind is ctypes.c_void_p else -1 if kind is ctypes.c_int64 else 0 for kind in types]
            with self.subTest(name), self.assertRaises(mxcheck.UsageError):
                _library.call(name, *counts)

    def test_of_unknown_types_are_refused(self):
        for text in ("f (double x)", "f (char** x)", "f", "f ()"):
            with self.assertRaises((mxcheck.EnvironmentError, KeyError)):
                _library.parse_signatures(text)


class Structs(unittest.TestCase):
    def test_have_the_headers_fields_in_order(self):
        stated, found = structs(), structures()
        self.assertEqual(set(stated), set(found))
        for name, fields in stated.items():
            with self.subTest(name):
                ours = found[name]._fields_
                self.assertEqual([field.rstrip("_") for field, _ in ours], [field for field, _ in fields])
                for (field, kind), (_, wanted) in zip(ours, fields):
                    pointer = wanted is ctypes.c_void_p and issubclass(kind, ctypes._Pointer)
                    self.assertTrue(pointer or kind is wanted, f"{name}.{field} is {kind}, declared {wanted}")


class Package(unittest.TestCase):
    def test_is_imported_in_a_tenth_of_a_second(self):
        code = "import time; start = time.process_time(); import mxcheck; print(time.process_time() - start)"
        with tempfile.TemporaryDirectory() as folder:
            # With compiled bytecode, which pip writes when it installs: the first of the seven writes it here.
            environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            times = [float(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, env=environment).stdout)
                     for _ in range(7)]
        self.assertLess(min(times), 0.1)  # of processor time, the best of seven: the machine may have other work

    def test_every_function_has_types_and_a_docstring(self):
        for name in mxcheck.__all__:
            one = getattr(mxcheck, name)
            if inspect.ismodule(one):
                self.check_types(name, [getattr(one, inner) for inner in one.__all__])
            else:
                self.check_types(name, [one])

    def check_types(self, name, ones):
        """Every function, and every method of a class of this package, has annotations."""
        for one in ones:
            with self.subTest(name, one=one):
                self.assertTrue(inspect.getdoc(one), "a docstring")
            own = [member for key, member in vars(one).items() if inspect.isfunction(member) and (not key.startswith("_") or key == "__init__")
                   and member.__module__.startswith("mxcheck")] if inspect.isclass(one) else [one] if inspect.isfunction(one) else []
            for function in own:
                with self.subTest(name, function=function.__qualname__):
                    hints = typing.get_type_hints(function)
                    self.assertIn("return", hints)
                    self.assertEqual(set(inspect.signature(function).parameters) - set(hints) - {"self"}, set())

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_a_users_file_has_types(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, code in ((USER, 0), (USER + "mxcheck.quantise(x)\n", 1), (USER + "mxcheck.route(x, 'two')\n", 1)):
                (Path(folder) / "user.py").write_text(text)
                done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "user.py"], cwd=folder, capture_output=True, text=True, check=False,
                                      env={**os.environ, "MYPYPATH": str(ROOT / "python")})
                self.assertEqual(done.returncode, code, done.stdout + done.stderr)

    def test_every_function_is_on_the_page(self):
        page = (ROOT / "docs" / "python.md").read_text() + (ROOT / "docs" / "python_candidates.md").read_text()
        for name in mxcheck.__all__:
            one = getattr(mxcheck, name)
            if inspect.isfunction(one):
                self.assertIn(f"{name}(", page, name)


if __name__ == "__main__":
    unittest.main()
