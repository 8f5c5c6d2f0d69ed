#!/usr/bin/env python3
"""Instructions that kernels/sm100/tcgen05 compiles to for sm_100a: every form of forms.txt, and no other. Other targets are refused.

    NVCC=/usr/local/cuda/bin/nvcc CXX=g++ python3 forms_test.py

Needs nvcc and ptxas, not a GPU. What needs them is skipped, with the reason, where there is no nvcc or it does not
know sm_100a.
"""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import ptx_forms

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]


def nvcc():
    return os.environ.get("NVCC") or shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)


@functools.cache
def reason_to_skip():
    if nvcc() is None:
        return "no nvcc: set NVCC, or put it on the PATH"
    known = run(nvcc(), "--list-gpu-arch")
    # Architectures with a letter are not listed; nvcc knows 100 and 100a together.
    if known.returncode != 0 or "compute_100" not in known.stdout:
        return f"{nvcc()} does not know sm_100a: CUDA 12.8 or later does"
    return None


def compile_ptx(source, architecture, to, *macros):
    code = f"arch=compute_{architecture},code=compute_{architecture}"
    return run(nvcc(), "-std=c++20", "-I", str(ROOT), *macros, "-gencode", code, "-ptx", "-o", str(to), str(source))


def assemble(ptx, *options):
    ptxas = pathlib.Path(nvcc()).with_name("ptxas")
    return run(str(ptxas if ptxas.exists() else "ptxas"), "-arch=sm_100a", "-Werror", *options, str(ptx), "-o",
               str(ptx.with_suffix(".cubin")))


def assembled(source, *macros):
    """The source's PTX for sm_100a, and what ptxas -v says to it."""
    with tempfile.TemporaryDirectory() as folder:
        ptx = pathlib.Path(folder) / "kernels.ptx"
        for step in (lambda: compile_ptx(source, "100a", ptx, *macros), lambda: assemble(ptx, "-v")):
            done = step()
            if done.returncode != 0:
                raise AssertionError(done.stderr)
        return ptx.read_text(encoding="ascii"), done.stderr


def table(text):
    """forms.txt: a name, and beside it and indented below it its forms."""
    forms, name = {}, None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            name, _, line = line.partition(" ")
            if name in forms:
                raise ValueError(f"forms.txt:{number}: {name} is there twice")
            forms[name] = []
        elif name is None:
            raise ValueError(f"forms.txt:{number}: a form before any name")
        forms[name] += filter(None, line.strip().split("; "))
    return forms


def differences(expected, found):
    """One line each: the function, what was expected, what was found."""
    lines = [f"{name}: in forms.txt, but no such kernel in forms.cu" for name in expected if name not in found]
    lines += [f"{name}: a kernel of forms.cu that forms.txt does not have" for name in found if name not in expected]
    for name in expected:
        if name not in found:
            continue
        for i in range(max(len(expected[name]), len(found[name]))):
            e = expected[name][i] if i < len(expected[name]) else "(no form)"
            f = found[name][i] if i < len(found[name]) else "(no form)"
            if e != f:
                lines.append(f"{name}, form {i}: expected {e}\n    {' ' * len(name)}        found    {f}")
    return lines


class WithCompiler(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = reason_to_skip()
        if reason is not None:
            raise unittest.SkipTest(reason)


class Forms(WithCompiler):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.ptx = pathlib.Path(folder.name) / "forms.ptx"
        cls.compiled = compile_ptx(HERE / "forms.cu", "100a", cls.ptx)
        if cls.compiled.returncode != 0:
            raise AssertionError("forms.cu does not compile for sm_100a:\n" + cls.compiled.stderr)
        cls.text = cls.ptx.read_text(encoding="ascii")

    def test_forms_are_those_of_the_table(self):
        expected = table((HERE / "forms.txt").read_text(encoding="ascii"))
        lines = differences(expected, ptx_forms.forms_of(self.text))
        self.assertEqual([], lines, "\n" + "\n".join(lines))

    def test_every_function_of_the_headers_has_a_form(self):
        names = set()
        for header in sorted((ROOT / "kernels/sm100/tcgen05").glob("*.h")):
            text = header.read_text(encoding="ascii")
            # Functions of a detail namespace are called by the others, constexpr ones are values: descriptor_test.cc.
            text = re.sub(r"namespace \w+_detail \{.*?\}  // namespace \w+_detail", "", text, flags=re.S)
            names |= set(re.findall(r"^MXCHECK_SM100_DEVICE [\w:<>, ]+?(\w+)\(", text, flags=re.M))
        self.assertGreater(len(names), 50)
        kernels = {name.split("__")[0] for name in ptx_forms.forms_of(self.text)}
        self.assertEqual(set(), names - kernels - {"lane_index"}, "functions that no kernel of forms.cu calls")

    def test_no_register_of_a_load_is_read_before_its_wait(self):
        self.assertEqual([], ptx_forms.suspects_of(ptx_forms.functions_of(self.text)))

    def test_dynamic_shared_memory_is_aligned_to_the_swizzle(self):
        self.assertRegex(self.text, r"\.extern \.shared \.align 1024 \.b8 \w*dynamic_shared_memory")

    def test_compiler_and_assembler_warn_of_nothing(self):
        self.assertEqual("", self.compiled.stderr)
        done = assemble(self.ptx, "-warn-spills", "-warn-lmem-usage")
        self.assertEqual((0, "", ""), (done.returncode, done.stdout, done.stderr))


# Without the pin of tmem_wait_ld the product does not change within the loop, and is computed before it and its wait.
LOOP = """
#include "kernels/sm100/tcgen05/tmem.h"
using namespace mxcheck::sm100;
extern "C" __global__ void f(TmemAddress address, int count, unsigned* out) {
  Fragment<1> fragment;
  tmem_ld<TmemShape::lanes32x32b, 1>(fragment, address);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    tmem_wait_ld(fragment);
    out[i] = fragment.r[0] * 77;
  }
}
"""


class Pin(WithCompiler):
    def test_what_is_computed_from_a_load_stays_behind_its_wait(self):
        with tempfile.TemporaryDirectory() as folder:
            source, ptx = pathlib.Path(folder) / "loop.cu", pathlib.Path(folder) / "loop.ptx"
            source.write_text(LOOP, encoding="ascii")
            done = compile_ptx(source, "100a", ptx)
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            opcodes = [s.opcode for s in ptx_forms.functions_of(ptx.read_text(encoding="ascii"))[0].statements]
        products = [i for i, opcode in enumerate(opcodes) if opcode.startswith("mul.lo")]
        self.assertEqual(1, len(products), opcodes)
        self.assertGreater(products[0], opcodes.index("tcgen05.wait::ld.sync.aligned"), opcodes)


class Targets(WithCompiler):
    def test_other_targets_are_refused(self):
        for architecture, what in {"100f": "the family sm_100f", "90a": "sm_90a", "103a": "sm_103a", "120a": "sm_120a",
                                   "100": "an architecture without its own features"}.items():
            with self.subTest(architecture), tempfile.TemporaryDirectory() as folder:
                done = compile_ptx(HERE / "forms.cu", architecture, pathlib.Path(folder) / "forms.ptx")
                self.assertNotEqual(0, done.returncode, f"compiled for {architecture}")
                self.assertRegex(done.stderr, r"#error.*compiled for " + what + r".*compile for sm_100a")

    def compiled_for_hopper(self, architecture):
        with tempfile.TemporaryDirectory() as folder:
            return run(nvcc(), "-std=c++20", "-I", str(ROOT), "-DMXCHECK_SM100_FOR_SM90", "--expt-relaxed-constexpr",
                       "-gencode", f"arch=compute_{architecture},code=sm_{architecture}", "-cubin", "-o",
                       str(pathlib.Path(folder) / "forms.cubin"), str(HERE / "forms.cu"))

    def test_the_body_for_hopper_has_every_form(self):
        done = self.compiled_for_hopper("90a")
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_the_body_for_hopper_is_never_that_of_another_target(self):
        for architecture in ("90", "100a", "100f", "103a", "120a"):
            done = self.compiled_for_hopper(architecture)
            self.assertNotEqual(0, done.returncode, architecture)
            self.assertRegex(done.stderr, r"#error.*MXCHECK_SM100_FOR_SM90 is for sm_90a alone", architecture)

    def test_a_host_pass_alone_compiles(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run(nvcc(), "-std=c++20", "-I", str(ROOT), "-gencode", "arch=compute_100a,code=sm_100a", "-c", "-o",
                       str(pathlib.Path(folder) / "forms.o"), str(HERE / "forms.cu"))
        self.assertEqual((0, ""), (done.returncode, done.stderr))


# Code that must not compile, and a word of the message.
REFUSED = {
    "void f() { tmem_alloc<1, 48>(0); }": "power of two",
    "void f() { tmem_dealloc<1, 1024>(0); }": "power of two",
    "void f() { tmem_relinquish<3>(); }": "cta_group is 1 or 2",
    "void f() { tma_load<3>(0, nullptr, 0, 0, 0); }": "",
    "void f() { tma_gather4<3>(0, nullptr, 0, 0, 0, 0, 0, 0); }": "cta_group is 1 or 2",
    "void f() { set_max_registers<20, true>(); }": "24 to 256",
    "void f() { tmem_wait_ld(); }": "name the fragments",
    "void f(Fragment<128>& r) { tmem_ld<TmemShape::lanes16x256b, 64>(r, 0); }": "",
    "void f(Fragment<4>& r) { tmem_ld<TmemShape::lanes16x256b, 2>(r, 0); }": "",
    "auto f() { return load_shared<char>(0); }": "",
    "auto f() { return instruction_descriptor<ScaledInstruction{.m = 64, .n = 128}>(); }": "no such instruction",
    "auto f() { return instruction_descriptor<HalfInstruction{.m = 128, .n = 8}>(); }": "no such instruction",
    "auto f() { return shared_descriptor<mn_major(Swizzle::b128, 8, 1024)>(0); }": "multiples of 16",
}
HEADERS = "".join(f'#include "kernels/sm100/tcgen05/{name}.h"\n' for name in ("mma", "tma", "warp"))


class PlainCompiler(unittest.TestCase):
    def compile(self, *source, text=None):
        compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
        if compiler is None:
            self.skipTest("no C++ compiler: set CXX, or put c++ on the PATH")
        warnings = ("-Wall", "-Wextra", "-Wconversion", "-Wno-missing-field-initializers", "-Werror")
        options = ("-std=c++20", "-I", str(ROOT), *warnings, "-fsyntax-only", "-x", "c++")
        return subprocess.run((compiler, *options, *source), input=text, capture_output=True, text=True, check=False,
                              timeout=600)

    def test_the_same_kernels_compile_as_plain_cxx(self):
        done = self.compile(str(HERE / "forms.cu"))
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_what_the_instruction_set_does_not_have_does_not_compile(self):
        for text, message in {"void f() { tmem_relinquish<1>(); }": None, **REFUSED}.items():
            with self.subTest(text):
                done = self.compile("-", text=HEADERS + "using namespace mxcheck::sm100;\n" + text)
                self.assertEqual(message is None, done.returncode == 0, done.stderr)
                self.assertIn(message or "", done.stderr)


FUNCTION = """
.visible .entry f(
  .param .u32 f_param_0, .param .u64 f_param_1, .param .u64 f_param_2
)
{
  .reg .pred   %p<2>;
  .reg .b32   %r<9>;
  ld.param.u32   %r1, [f_param_0];
  ld.param.u64   %rd1, [f_param_1];
  ld.param.u64   %rd2, [f_param_2];
  // begin inline asm
  BODY
  // end inline asm
  ret;
}
"""


class Reader(unittest.TestCase):
    """ptx_forms.py on texts: needs no compiler."""

    def forms(self, body):
        return ptx_forms.forms_of(FUNCTION.replace("BODY", body))["f"]

    def test_operands_are_parameters(self):
        body = "{ .reg .pred p; setp.ne.b32 p, %r1, 0; tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r1, p; }"
        self.assertEqual(["tcgen05.mma.cta_group::1.kind::f16 [$0], $1, $2, $0, $0 != 0"], self.forms(body))

    def test_two_operands_that_change_places_change_the_form(self):
        form = "tcgen05.mma.cta_group::1.kind::f16 [%r1], {}, {}, %r1, 1;"
        self.assertNotEqual(self.forms(form.format("%rd1", "%rd2")), self.forms(form.format("%rd2", "%rd1")))

    def test_an_inverted_predicate_changes_the_form(self):
        mma = "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r1, p;"
        form = "{{ .reg .pred p; setp.{}.b32 p, %r1, 0; " + mma + " }}"
        self.assertNotEqual(self.forms(form.format("ne")), self.forms(form.format("eq")))

    def test_a_register_list_out_of_order_is_written_out(self):
        load = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r2, %r3}, [%r1];"
        body = load + "st.global.u32 [%rd1], %r3; st.global.u32 [%rd1+4], %r2;"
        self.assertEqual(["tcgen05.ld.sync.aligned.32x32b.x2.b32 {out[1], out[0]}, [$0]"], self.forms(body))

    def test_names_of_two_asm_statements_are_apart(self):
        block = "{{ .reg .b32 t; mov.b32 t, {}; mbarrier.init.shared::cta.b64 [%r1], t; }}"
        self.assertEqual(["mbarrier.init.shared::cta.b64 [$0], 1", "mbarrier.init.shared::cta.b64 [$0], 2"],
                         self.forms(block.format(1) + "\n" + block.format(2)))

    def test_a_wait_that_does_not_go_back_is_seen(self):
        wait = "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r1], 0;\n"
        self.assertEqual("@!#0 bra #0", self.forms("again:\n" + wait + "@!%p1 bra again;")[1])
        self.assertEqual("@#0 bra #0", self.forms("again:\n" + wait + "@%p1 bra again;")[1])
        self.assertEqual("@!#0 bra forward", self.forms(wait + "@!%p1 bra done;\ndone:")[1])

    def test_suspects_are_named(self):
        load = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1];\n"
        wait = "tcgen05.wait::ld.sync.aligned;\n"
        store = "st.global.u32 [%rd1], %r2;\n"

        def suspects(body):
            return ptx_forms.suspects_of(ptx_forms.functions_of(FUNCTION.replace("BODY", body)))

        self.assertEqual([], suspects(load + wait + store))
        self.assertRegex(suspects(load + store + wait)[0], "f: st.global.u32 reads %r2 between")
        self.assertRegex(suspects("mbarrier.arrive.shared::cta.b64 _, [%r1];")[0], "names no scope")
        both = "tcgen05.relinquish_alloc_permit.cta_group::{}.sync.aligned;"
        self.assertRegex(suspects(both.format(1) + both.format(2))[0], "both cta_group::1 and cta_group::2")

    def test_a_summary_counts_opcodes_and_fails_on_suspects(self):
        arrive = "mbarrier.arrive{}.shared::cta.b64 _, [%r1];"
        for scope, code in ((".release.cta", 0), ("", 1)):
            with tempfile.TemporaryDirectory() as folder:
                ptx = pathlib.Path(folder) / "kernel.ptx"
                ptx.write_text(FUNCTION.replace("BODY", arrive.format(scope) * 3), encoding="ascii")
                done = run(sys.executable, str(HERE / "ptx_forms.py"), str(ptx), "--summary")
            self.assertEqual(code, done.returncode, done.stdout + done.stderr)
            self.assertIn(f"     3 mbarrier.arrive{scope}.shared::cta.b64\n", done.stdout)
            self.assertEqual(3 * code, done.stdout.count("suspect: f: "))

    def test_numbers_have_no_sign(self):
        form = "mbarrier.init.shared::cta.b64 [%r1], {};"
        for text, number in (("-1", 2**32 - 1), ("0x10", 16), (str(-(2**63)), 2**63), (str(2**62), 2**62)):
            self.assertEqual([f"mbarrier.init.shared::cta.b64 [$0], {number}"], self.forms(form.format(text)))

    def test_a_difference_names_function_expected_and_found(self):
        lines = differences({"f": ["a 1"], "g": []}, {"f": ["a 2"], "h": []})
        self.assertEqual(3, len(lines))
        self.assertRegex(lines[0], "^g: in forms.txt")
        self.assertRegex(lines[1], "^h: a kernel")
        self.assertRegex(lines[2], r"^f, form 0: expected a 1\n\s+found    a 2$")


if __name__ == "__main__":
    unittest.main()
