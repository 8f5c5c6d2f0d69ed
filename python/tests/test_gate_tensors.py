"""numpy arrays and torch tensors of a candidate: what it may return, and what is found. Skipped without them; with a device, the same there."""

import gc
import unittest
import unittest.mock
import weakref

import gated_tensors
import mxcheck

EQUAL = "quantize_equals_the_reference"
PERMUTED = "permuting_blocks_permutes_results"


def has_a_device():
    if not gated_tensors.there_is("torch"):
        return False
    import torch

    return torch.cuda.is_available()


class Gated(unittest.TestCase):
    def run_gate(self, name, only, **options):
        return mxcheck.gate(f"gated_tensors:{name}", seed=1, only=only, jobs=1, **options)

    def holds(self, name, only=PERMUTED, **options):
        report = self.run_gate(name, only, **options)
        self.assertTrue(report, report.text())

    def fails(self, name, text, only=PERMUTED, code=1, **options):
        report = self.run_gate(name, only, **options)
        self.assertEqual(report.exit_code, code, report.text())
        self.assertIn(text, report.text())


@unittest.skipUnless(gated_tensors.there_is("numpy"), "numpy is not installed")
class Numpy(Gated):
    def test_right_ones_hold(self):
        self.holds("numpy_writes", EQUAL)
        self.holds("numpy_returns")
        self.holds("numpy_of_every_type", "padding_has_no_influence")

    def test_an_array_of_float64(self):
        self.holds("numpy_casts_fp64", "cast_equals_the_reference", cases=40)

    def test_every_statement(self):
        self.holds("numpy_writes", "*")

    def test_what_is_returned_must_fit(self):
        self.fails("numpy_returns_one", "returned 1 tensors: 2 are the operation's outputs")
        self.fails("numpy_returns_another_shape", "output 1 has shape (1,): must be (1, 1)")
        self.fails("numpy_returns_floats", "output 1 is of float32: must be of uint8")
        self.fails("numpy_returns_strides", "output 0 is not contiguous: its strides are")
        self.fails("numpy_returns_a_list", "output 0 is a list: a numpy array is needed")

    def test_memory_that_was_returned_is_the_callers(self):
        self.fails("numpy_returns_the_same_memory_again", "output 0 is memory of what an earlier call returned", EQUAL)

    def test_inputs_are_not_to_be_changed(self):
        self.fails("numpy_changes_its_input", "into input 0", EQUAL)


class Freed:
    """torch.empty of an allocator that returns the block that was freed last, as it was left; a new one holds 7, the last answer."""

    def __init__(self, torch):
        self.full = torch.full
        self.blocks = []  # [memory, a weak reference to the tensor that has it]

    def __call__(self, *shape, dtype=None, device=None):
        extents = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        gc.collect()  # a tensor that is kept by a cycle alone is free
        found = [block for block in self.blocks if block[1]() is None and block[0].shape == extents and block[0].dtype == dtype]
        block = found[-1] if found else [self.full(extents, 7, dtype=dtype), None]
        tensor = block[0][:]  # a tensor of its own on the same memory
        block[1] = weakref.ref(tensor)
        self.blocks = [one for one in self.blocks if one is not block] + [block]
        return tensor


@unittest.skipUnless(gated_tensors.there_is("torch"), "torch is not installed")
class Torch(Gated):
    def test_right_ones_hold(self):
        self.holds("torch_writes")
        self.holds("torch_returns_fp8")

    def test_what_is_not_written_is_seen(self):
        self.fails("torch_leaves_its_tail", "codes differ from the reference", EQUAL)

    def test_memory_that_is_not_written_does_not_hold_the_last_answer(self):
        import torch

        # Which memory torch.empty returns is up to its allocator, and no test can rely on it. This one returns what was freed last.
        memory = Freed(torch)
        with unittest.mock.patch.object(torch, "empty", memory):
            self.poisoned(torch)
        self.assertEqual(len(memory.blocks), 2)  # the first answer is still held, and the second has the memory of what poisoned it

    def poisoned(self, torch):
        from mxcheck.candidates.calls import TorchResults
        from mxcheck.candidates.policy import make_policy

        answers = iter([7, None])

        def function(x, codes, policy):
            made, answer = torch.empty(64, 4096, dtype=torch.uint8), next(answers)
            return made if answer is None else made.fill_(answer)

        of = mxcheck.candidate("cast", formats=["e4m3"], tensors="torch")(function)
        results, codes = TorchResults("cpu"), torch.zeros(64, 4096, dtype=torch.uint8)
        policy = make_policy("cast", [64, 4096, 0, 0, 0, 0, 0], ["e4m3", ""])
        results.call(of, 0, [torch.zeros(1)], [codes], policy, {})
        self.assertTrue((codes == 7).all())
        results.call(of, 0, [torch.zeros(1)], [codes], policy, {})
        self.assertTrue((codes == 0xA5).all())

    def test_what_is_returned_must_fit(self):
        self.fails("torch_requires_grad", "output 0 is of torch.float32: must be of torch.uint8")
        self.fails("torch_returns_a_subclass", "output 0 is a Lazy: a plain torch.Tensor is needed")
        self.fails("torch_returns_a_transpose", "output 0 is not contiguous: its strides are")
        self.fails("torch_returns_its_input", "output 0 is memory of an input")

    def test_what_is_written_later_is_seen(self):
        report = self.run_gate("torch_writes_later", EQUAL)
        self.assertIn(report.exit_code, (1, 6), report.text())

    @unittest.skipIf(has_a_device(), "there is a device")
    def test_a_device_is_needed_where_it_is_declared(self):
        with self.assertRaisesRegex(mxcheck.EnvironmentError, "CUDA"):
            mxcheck.gate("gated_tensors:cuda_right", only=EQUAL)


@unittest.skipUnless(has_a_device(), "torch sees no CUDA device")
class Device(Gated):
    def test_a_right_one_holds_in_every_statement(self):
        self.holds("cuda_right_without_graphs", "*")

    def test_another_stream_is_found(self):
        self.fails("cuda_in_another_stream", "", "the_stream_changes_nothing")

    def test_a_wait_is_found_unless_it_is_declared(self):
        self.fails("cuda_waits", "run waited for work in its stream", "the_stream_changes_nothing")
        self.holds("cuda_says_that_it_waits", "the_stream_changes_nothing")

    def test_what_allocates_cannot_be_captured(self):
        report = self.run_gate("cuda_right", "the_stream_changes_nothing")
        self.assertIn(report.exit_code, (0, 1), report.text())

    def test_what_is_returned_is_on_the_device(self):
        self.fails("cuda_leaves_the_host", "output 0 is on cpu: must be on cuda:0")


if __name__ == "__main__":
    unittest.main()
