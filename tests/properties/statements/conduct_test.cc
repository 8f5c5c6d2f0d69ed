#include "properties/core/statement.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/candidate.h"
#include "properties/core/check.h"
#include "tests/properties/spoilt_runner.h"

namespace mxcheck {
namespace {

using test::found;
using test::found_in;

const Case& some_case() {
  static const Case c = parse_case(
      "op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact pad=0 x=bf16 rows=40 cols=70 data=normal seed=1");
  return c;
}

void change(Outcome& outcome) { outcome.outputs[0][5] ^= std::byte{1}; }

TEST(Conduct, the_reference_behaves) {
  for (const Statement& s : conduct_statements()) {
    // The reference answers good calls alone.
    if (s.name == "bad_arguments_are_refused_and_nothing_is_written") continue;
    if (s.name == "sizes_that_wrap_and_offsets_out_of_order_are_refused") continue;
    if (s.name == "a_refused_call_changes_nothing_after_it") continue;
    EXPECT_EQ(found(s.name, some_case()), "") << s.name;
  }
}

TEST(Conduct, threads_are_of_the_host_and_streams_of_the_device) {
  std::map<std::string_view, Statement::Device> devices;
  for (const Statement& s : conduct_statements()) devices[s.name] = s.device;
  EXPECT_EQ(devices.size(), 11U);
  EXPECT_EQ(devices.at("the_thread_count_changes_nothing"), Statement::Device::host);
  EXPECT_EQ(devices.at("the_stream_changes_nothing"), Statement::Device::cuda);
  EXPECT_EQ(devices.at("the_same_call_gives_the_same_bytes"), Statement::Device::any);
}

TEST(Conduct, an_access_outside_is_a_crash_between_inaccessible_pages) {
  const char* law = "nothing_is_accessed_outside_the_tensors";
  const std::string crash = found(law, some_case(), [](const Call& call, int, Outcome& outcome) {
    EXPECT_TRUE(call.guard_pages);
    outcome.kind = OutcomeKind::crashed, outcome.signal = 11;
  });
  EXPECT_NE(crash.find("signal 11"), std::string::npos) << crash;
  EXPECT_NE(crash.find("every tensor ended at an inaccessible page"), std::string::npos) << crash;
  EXPECT_EQ(found(law, some_case(), [](const Call&, int, Outcome& o) { o.out_of_bounds = "past output 0"; }),
            "the candidate wrote past output 0");
}

TEST(Conduct, a_thread_count_that_changes_a_byte_is_named) {
  const char* law = "the_thread_count_changes_nothing";
  for (const auto& [threads, words] : {std::pair{3, "3"}, std::pair{8, "8"}, std::pair{0, "the library's choice"}}) {
    EXPECT_EQ(found(law, some_case(),
                    [threads = threads](const Call& call, int, Outcome& outcome) {
                      if (read<mxcheck_policy>(call.policy).threads == threads) change(outcome);
                    }),
              std::string("codes differ between 1 thread and ") + words);
  }
}

TEST(Conduct, a_call_that_remembers_is_found) {
  const char* law = "the_same_call_gives_the_same_bytes";
  const char* words = "codes differ between two runs of the same call";
  EXPECT_EQ(found(law, some_case(),
                  [](const Call&, int number, Outcome& outcome) {
                    if (number == 4) change(outcome);
                  }),
            words);
  EXPECT_EQ(found(law, some_case(),
                  [](const Call& call, int, Outcome& outcome) {  // an element that is never written
                    outcome.outputs[0][5] = std::byte{call.poison};
                  }),
            words);
}

// Other data of the same shape, half of the rows, the same call over another poison.
TEST(Conduct, what_lies_between_two_runs_is_other_data_and_another_shape) {
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<std::uint8_t> poisons;
  EXPECT_EQ(found("the_same_call_gives_the_same_bytes", some_case(),
                  [&](const Call& call, int, Outcome&) {
                    shapes.push_back(call.inputs[0].shape), poisons.push_back(call.poison);
                  }),
            "");
  EXPECT_EQ(shapes, (std::vector<std::vector<std::int64_t>>{{40, 70}, {40, 70}, {20, 70}, {40, 70}}));
  EXPECT_EQ(poisons, (std::vector<std::uint8_t>{kPoisons[0], kPoisons[1], kPoisons[1], kPoisons[1]}));
}

TEST(Conduct, a_stream_that_changes_a_byte_is_named) {
  const char* law = "the_stream_changes_nothing";
  const std::pair<StreamMode, const char*> ways[] = {{StreamMode::behind, "after run has returned"},
                                                     {StreamMode::legacy, "in the default stream"},
                                                     {StreamMode::captured, "in a graph"},
                                                     {StreamMode::crowded, "in three streams"}};
  for (const auto& [mode, words] : ways) {
    const auto in = [mode = mode](void (*spoil)(Outcome&)) -> test::Spoil {
      return [=](const Call& call, int, Outcome& outcome) {
        if (call.stream == mode) spoil(outcome);
      };
    };
    const std::string differs = found(law, some_case(), in(change));
    EXPECT_TRUE(differs.starts_with("codes differ ")) << differs;
    EXPECT_NE(differs.find(words), std::string::npos) << differs;
    const std::string waits = found(law, some_case(), in([](Outcome& o) { o.conduct = "run waited"; }));
    EXPECT_TRUE(waits.starts_with("run waited; ")) << waits;
    EXPECT_NE(waits.find(words), std::string::npos) << waits;
  }
}

// A resource that grows in both stretches is found, however slow the calls are. A pool's few threads are none, nor is a
// resource that one stretch takes.
TEST(Conduct, resources_that_calls_leave_taken_are_named) {
  const char* law = "ten_thousand_calls_keep_no_memory";
  struct Row {
    std::int64_t MemoryUse::*use;
    std::int64_t begin, middle, end;
    const char* words;
  };
  const Row rows[] = {
      {&MemoryUse::files, 10, 19, 28, "the number of open files grows with every call: by 18 in 32 calls"},
      {&MemoryUse::threads, 3, 12, 21, "the number of threads grows with every call: by 18 in 32 calls"},
      {&MemoryUse::children, 0, 16, 32, "the number of children grows with every call: by 32 in 32 calls"},
      {&MemoryUse::threads, 3, 11, 21, ""},
      {&MemoryUse::threads, 3, 67, 67, ""},
      {&MemoryUse::files, 1024, 1024, 1024, "the number of open files grows to 1024, all that the process may have"},
      {&MemoryUse::files, 1023, 1023, 1023, ""},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(found(law, some_case(),
                    [&](const Call&, int, Outcome& outcome) {
                      MemoryOfCalls& m = outcome.memory;
                      m.calls = 16, m.most_files = 1024;
                      m.begin.*row.use = row.begin, m.middle.*row.use = row.middle, m.end.*row.use = row.end;
                    }),
              row.words);
  }
}

TEST(Conduct, a_policy_of_a_later_version_is_64_bytes_larger) {
  const char* law = "a_policy_of_a_later_version_changes_nothing";
  std::vector<std::uint32_t> sizes;
  const auto look = [&](const Call& call, int, Outcome&) {
    EXPECT_EQ(read<mxcheck_policy>(call.policy).size, call.policy.num_bytes);
    sizes.push_back(call.policy.num_bytes);
  };
  EXPECT_EQ(found(law, some_case(), look), "");
  EXPECT_EQ(sizes, (std::vector<std::uint32_t>{sizeof(mxcheck_policy), sizeof(mxcheck_policy) + 64}));
  const auto in_larger = [](void (*spoil)(Outcome&)) -> test::Spoil {
    return [=](const Call& call, int, Outcome& outcome) {
      if (call.policy.num_bytes > sizeof(mxcheck_policy)) spoil(outcome);
    };
  };
  const std::string how = " with a policy of a later version, which has 64 bytes more";
  EXPECT_EQ(found(law, some_case(), in_larger(change)), "codes differ" + how);
  const std::string refused = found(law, some_case(), in_larger([](Outcome& o) { o.status = MXCHECK_INVALID; }));
  EXPECT_TRUE(refused.starts_with("the candidate refused") && refused.ends_with(";" + how)) << refused;
  const auto unsupported = [](Outcome& o) { o.status = MXCHECK_UNSUPPORTED, o.outputs_untouched = true; };
  Case option = some_case();
  option.experts = {0, 20, 40};
  EXPECT_EQ(found(law, option, in_larger(unsupported)), "the candidate refused a case as UNSUPPORTED;" + how);
}

// Its size says that a call has options: where a library may be asked for some, a larger one would announce them.
TEST(Conduct, a_policy_of_no_options_is_not_made_larger_where_a_larger_one_has_some) {
  const char* law = "a_policy_of_a_later_version_changes_nothing";
  const Operation& operation = operation_named("quantize_nvfp4");
  for (const char* contract : {"exact", "exact+options"}) {
    const OperationInfo info{"quantize_nvfp4", contract};
    bool had_plain = false, had_options = false;
    for (const Variant& v : operation.askable_under(info.name, info.contract)) {
      const bool has_options = operation.question(v).num_bytes > sizeof(mxcheck_policy);
      if (std::exchange(has_options ? had_options : had_plain, true)) continue;  // one of each
      test::SpoiltRunner runner({}, {info});
      CheckContext context{runner, {}};
      Case c = operation.large_cases(v, Suite::full).front();
      c.rows = c.cols = 128, c.experts.clear();  // whole groups of any transform
      EXPECT_FALSE(test::statement_named(law).check(context, c));
      EXPECT_EQ(context.not_applicable, info.contract != "exact" && !has_options) << to_text(v);
    }
  }
}

TEST(Conduct, a_call_or_a_question_in_between_that_changes_a_byte_is_named) {
  const char* law = "questions_between_calls_change_nothing";
  const auto between = [](const Call& call, int, Outcome& outcome) {
    if (call.between == nullptr) return;
    EXPECT_EQ(call.between->inputs[0].shape, (std::vector<std::int64_t>{20, 70}));
    change(outcome);
  };
  EXPECT_EQ(found(law, some_case(), between), "codes differ when another call comes between its workspace and its run");
  const auto asked = [](const Call& call, int, Outcome& outcome) {
    if (call.asked) change(outcome);
  };
  EXPECT_EQ(found(law, some_case(), asked), "codes differ when supports() is asked between its workspace and its run");
  EXPECT_EQ(found(law, some_case(),
                  [](const Call& call, int, Outcome& o) {
                    if (call.asked) o.conduct = "the library sang";
                  }),
            "the library sang; when supports() is asked between its workspace and its run");
}

// Answers every call alike: invalid calls are no problem that the reference could be asked.
class Answering final : public CandidateRunner {
 public:
  explicit Answering(Outcome outcome) : outcome_(std::move(outcome)) {}
  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  Outcome run(const Call&) override {
    ++calls_;
    return outcome_;
  }
  void restart() override {}
  [[nodiscard]] int calls() const { return calls_; }

 private:
  CandidateInfo info_;
  Outcome outcome_;
  int calls_ = 0;
};

TEST(Conduct, invalid_calls_are_refused_with_a_message_and_nothing_written) {
  const char* law = "bad_arguments_are_refused_and_nothing_is_written";
  Outcome refusal;
  refusal.status = MXCHECK_INVALID, refusal.message = "no", refusal.outputs_untouched = true;
  Answering refuses(refusal);
  EXPECT_EQ(found_in(refuses, law, some_case()), "");
  EXPECT_GE(refuses.calls(), 15);

  struct Row {
    std::function<void(Outcome&)> change;
    const char* words;
  };
  const Row rows[] = {
      {[](Outcome& o) { o.status = MXCHECK_OK; }, "returned MXCHECK_OK"},
      {[](Outcome& o) { o.message.clear(); }, "refused without a message"},
      {[](Outcome& o) { o.outputs_untouched = false; }, "refused but wrote to an output"},
      {[](Outcome& o) { o.out_of_bounds = "into input 0"; }, "refused but wrote into input 0"},
      {[](Outcome& o) { o.kind = OutcomeKind::crashed, o.signal = 11; }, "crashed (signal 11)"},
      {[](Outcome& o) { o.kind = OutcomeKind::timed_out; }, "did not return"},
  };
  for (const Row& row : rows) {
    Outcome outcome = refusal;
    row.change(outcome);
    Answering answers(outcome);
    const std::string finding = found_in(answers, law, some_case());
    EXPECT_TRUE(finding.ends_with(std::string(", and the candidate ") + row.words)) << finding;
  }
}

TEST(Conduct, a_refusal_of_what_is_claimed_is_passed_on) {
  for (const Statement& s : conduct_statements()) {
    if (s.name == "bad_arguments_are_refused_and_nothing_is_written") continue;
    if (s.name == "sizes_that_wrap_and_offsets_out_of_order_are_refused") continue;
    const std::string finding = found(s.name, some_case(), [](const Call&, int, Outcome& o) {
      o.status = MXCHECK_UNSUPPORTED, o.message = "not today", o.outputs_untouched = true;
    });
    EXPECT_NE(finding.find("refused a case that it claims to support"), std::string::npos) << s.name;
  }
}

}  // namespace
}  // namespace mxcheck
