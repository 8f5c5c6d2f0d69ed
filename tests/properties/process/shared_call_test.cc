#include <array>
#include <cfenv>
#include <cstring>

#include <gtest/gtest.h>

#include "properties/core/operation.h"
#include "properties/process/call_watch.h"
#include "properties/process/shared_call.h"

namespace mxcheck {
namespace {

// An input of 5 bytes, an output of 7, and one of 2^40 that stays on the device.
struct Three {
  std::array<std::byte, 5> input{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}, std::byte{5}};
  Call call;
  Three() {
    CallTensor in;
    in.dtype = Format::e4m3, in.shape = {1, 5}, in.data = input.data(), in.bytes = 5;
    CallTensor out;
    out.dtype = Format::e4m3, out.shape = {7, 1}, out.bytes = 7;
    CallTensor far;
    far.dtype = Format::fp32, far.shape = {1 << 19, 1 << 19}, far.bytes = std::uint64_t{1} << 40, far.on_device = true;
    call.inputs = {in}, call.outputs = {far, out};
    call.poison = 0x3C;
    call.workspace = {0x7F, 1}, call.repeat = 12;
  }
};

TEST(SharedCall, what_stays_on_the_device_has_no_place) {
  const Three t;
  const SharedCall shared(t.call);
  EXPECT_LT(shared.bytes(), 64U * 1024);
  EXPECT_EQ(shared.bytes_on_device(), std::uint64_t{1} << 40);
  const wire::Message& m = shared.message();
  EXPECT_EQ(m.num_inputs, 1);
  EXPECT_EQ(m.num_outputs, 2);
  EXPECT_EQ(m.poison, 0x3C);
  EXPECT_EQ(m.workspace.poison, 0x7F);
  EXPECT_EQ(m.workspace.keep, 1);
  EXPECT_EQ(m.repeat, 12U);
  EXPECT_EQ(m.tensors[0].on_device + m.tensors[2].on_device, 0);
  EXPECT_EQ(m.tensors[1].on_device, 1);
  EXPECT_EQ(m.tensors[1].bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(m.tensors[1].shape[1], 1 << 19);
}

// The same three looks: at the outputs, at the input, at what lies between.
TEST(SharedCall, holds_what_is_expected_and_nothing_else_changed) {
  Three t;
  t.call.outputs.erase(t.call.outputs.begin());
  const SharedCall shared(t.call);
  std::vector<std::byte> memory(shared.bytes());
  shared.write(memory.data());
  const std::vector<std::byte> sevens(7, std::byte{7});
  const auto holds = [&] { return shared.holds(memory.data(), {sevens}); };
  EXPECT_FALSE(holds());
  const std::uint64_t output = shared.message().tensors[1].offset;
  std::memcpy(memory.data() + output, sevens.data(), 7);
  EXPECT_TRUE(holds());
  EXPECT_FALSE(shared.holds(memory.data(), {std::span(sevens).first(6)}));
  for (const std::uint64_t at :
       {output + 6, output + 7, output - 1, std::uint64_t{0}, shared.bytes() - 1, shared.message().tensors[0].offset}) {
    memory[at] ^= std::byte{1};
    EXPECT_FALSE(holds()) << at;
    memory[at] ^= std::byte{1};
  }
  EXPECT_TRUE(holds());
}

TEST(SharedCall, outputs_are_read_and_whatever_else_was_written_is_out_of_bounds) {
  const Three t;
  const SharedCall shared(t.call);
  std::vector<std::byte> memory(shared.bytes());
  shared.write(memory.data());
  const std::uint64_t input = shared.message().tensors[0].offset;
  const std::uint64_t output = shared.message().tensors[2].offset;
  EXPECT_EQ(std::memcmp(memory.data() + input, t.input.data(), 5), 0);
  Outcome untouched;
  shared.read(memory.data(), untouched);
  EXPECT_TRUE(untouched.outputs_untouched);
  EXPECT_FALSE(untouched.out_of_bounds);
  ASSERT_EQ(untouched.outputs.size(), 2U);
  EXPECT_TRUE(untouched.outputs[0].empty());
  EXPECT_EQ(untouched.outputs[1], std::vector<std::byte>(7, std::byte{0x3C}));

  Three open;
  open.call.outputs[1].open = {{1, 3}, {6, 7}, {6, 90}};  // the last one is not of this output
  Outcome closed;
  SharedCall(open.call).read(memory.data(), closed);
  const std::byte poison{0x3C}, none{0};
  EXPECT_EQ(closed.outputs[1], (std::vector<std::byte>{poison, none, none, poison, poison, poison, none}));
  EXPECT_EQ(SharedCall(open.call).message().open_outputs, 1);
  EXPECT_EQ(shared.message().open_outputs, 0);

  struct Row {
    std::uint64_t at;
    const char* out_of_bounds;  // or none
  };
  for (const Row& row : {Row{output + 6, nullptr}, Row{output + 7, "past the last output"}, Row{input, "into input 0"},
                         Row{input - 1, "before input 0"}, Row{output - 1, "before output 1"}}) {
    shared.write(memory.data());
    memory[row.at] = std::byte{0xEE};
    Outcome outcome;
    shared.read(memory.data(), outcome);
    EXPECT_EQ(outcome.out_of_bounds.value_or("none"), row.out_of_bounds == nullptr ? "none" : row.out_of_bounds);
    EXPECT_EQ(outcome.outputs_untouched, row.out_of_bounds != nullptr);
  }
}

// Whatever is written later into the memory, what was equal at the one look is the answer, and a copy stays as it was.
TEST(SharedCall, outputs_that_are_the_answer_are_not_brought) {
  Three t;
  const std::vector<ExpectedTensor> answer{{{}, {}}, {{}, std::vector<std::byte>(7, std::byte{7})}};
  t.call.outputs[0].on_device = false, t.call.outputs[0].bytes = 0;
  t.call.answer = &answer, t.call.brings_other_outputs_only = true;
  const SharedCall shared(t.call);
  std::vector<std::byte> memory(shared.bytes());
  shared.write(memory.data());
  std::byte* const output = memory.data() + shared.message().tensors[2].offset;
  std::memset(output, 7, 7);
  const auto read = [&](const SharedCall& from) {
    Outcome outcome;
    from.read(memory.data(), outcome);
    return outcome;
  };
  const Outcome equal = read(shared);
  EXPECT_TRUE(equal.is_the_answer);
  EXPECT_TRUE(equal.outputs.empty());
  EXPECT_FALSE(equal.outputs_untouched);
  EXPECT_FALSE(equal.out_of_bounds);
  output[7] = std::byte{7};  // past the end
  EXPECT_TRUE(read(shared).out_of_bounds);
  output[7] = std::byte{t.call.poison};
  output[6] = std::byte{8};
  const Outcome differs = read(shared);
  EXPECT_FALSE(differs.is_the_answer);
  ASSERT_EQ(differs.outputs.size(), 2U);
  output[6] = std::byte{7};  // too late
  EXPECT_EQ(differs.outputs[1][6], std::byte{8});

  Three open = t;
  open.call.outputs[1].open = {{6, 7}};
  output[6] = std::byte{8};
  EXPECT_TRUE(read(SharedCall(open.call)).is_the_answer);
  output[5] = std::byte{8};
  EXPECT_FALSE(read(SharedCall(open.call)).is_the_answer);
  output[5] = output[6] = std::byte{7};
  t.call.brings_other_outputs_only = false;
  EXPECT_EQ(read(SharedCall(t.call)).outputs.size(), 2U);
}

TEST(CallWatch, what_has_not_changed_is_not_told) {
  const SignalHandlers handlers = SignalHandlers::now();
  const ProcessState process = ProcessState::now();
  const CallWatch watch(handlers, process);
  std::feraiseexcept(FE_INEXACT | FE_OVERFLOW);  // raised, not trapped: any sum of floats does it
  EXPECT_EQ(watch.undo_changes(), "");
  std::feclearexcept(FE_ALL_EXCEPT);
}

TEST(CallWatch, a_change_is_told_once_and_undone) {
  const SignalHandlers handlers = SignalHandlers::now();
  const ProcessState process = ProcessState::now();
  const CallWatch watch(handlers, process);
  std::fesetround(FE_UPWARD);
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGBUS, &action, nullptr);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  const std::string told = watch.undo_changes();
  EXPECT_EQ(told.find("installed a handler for SIGBUS, which hides accesses outside of tensors; changed the "
                      "floating-point environment: rounding "),
            0U)
      << told;
  EXPECT_TRUE(told.ends_with("; changed the signal mask")) << told;
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  struct sigaction is {};
  sigaction(SIGBUS, nullptr, &is);
  EXPECT_NE(is.sa_handler, action.sa_handler);
  EXPECT_EQ(watch.undo_changes(), "");
}

TEST(SignalHandlers, of_other_signals_are_a_librarys_own_affair_when_it_is_loaded) {
  const SignalHandlers before = SignalHandlers::now();
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGFPE, &action, nullptr);
  EXPECT_EQ(before.undo_changes(false), "");
  EXPECT_EQ(before.undo_changes(true), "installed a handler for SIGFPE");
}

TEST(Conduct, of_a_reply_is_added_to_and_cut_where_it_does_not_fit) {
  wire::Reply reply;
  add_conduct(reply, "one");
  add_conduct(reply, "two");
  EXPECT_STREQ(reply.conduct, "one; two");
  add_conduct(reply, std::string(1000, 'x'));
  EXPECT_EQ(std::string(reply.conduct).size(), sizeof(reply.conduct) - 1);
}

}  // namespace
}  // namespace mxcheck
