#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/candidate.h"
#include "numerics/error.h"
#include "properties/core/ahead.h"
#include "properties/core/check.h"
#include "properties/core/compare.h"
#include "properties/core/limits.h"
#include "properties/core/notation.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "reference/common/parallel.h"
#include "tests/goldens/temporary_directory.h"

namespace mxcheck {
namespace {

constexpr std::uint8_t kPoison = 0xA5;

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TensorInfo codes(std::int64_t rows, std::int64_t cols) { return {"codes", Format::e4m3, rows, cols, 1, 32, false}; }

std::optional<Difference> compare_codes(const TensorInfo& info, const std::vector<std::uint8_t>& want,
                                        const std::vector<std::uint8_t>& got) {
  return compare(info, bytes_of(want), bytes_of(got), kPoison);
}

// A rows x cols matrix of code 0x38 with others at some places.
std::vector<std::uint8_t> ones(std::int64_t rows, std::int64_t cols,
                               const std::vector<std::pair<std::int64_t, std::uint8_t>>& others = {}) {
  std::vector<std::uint8_t> v(static_cast<std::size_t>(rows * cols), 0x38);
  for (const auto& [at, code] : others) v[static_cast<std::size_t>(at)] = code;
  return v;
}

TEST(Compare, equal_bytes_do_not_differ) {
  EXPECT_FALSE(compare_codes(codes(3, 40), ones(3, 40), ones(3, 40)));
  EXPECT_FALSE(compare_codes(codes(0, 40), {}, {}));
}

TEST(Compare, tells_first_last_worst_count_and_histogram) {
  const auto d = compare_codes(codes(3, 40), ones(3, 40),
                               ones(3, 40, {{5, 0x39}, {41, 0x3A}, {85, 0x48}, {86, 0x36}, {119, 0x39}}));
  ASSERT_TRUE(d);
  EXPECT_EQ(d->count, 5);
  EXPECT_EQ(d->total, 120);
  EXPECT_EQ(d->first.row, 0);
  EXPECT_EQ(d->first.col, 5);
  EXPECT_EQ(d->first.ulps, 1);
  EXPECT_EQ(d->first.expected, 0x38U);
  EXPECT_EQ(d->first.observed, 0x39U);
  EXPECT_EQ(d->worst.row, 2);
  EXPECT_EQ(d->worst.col, 5);
  EXPECT_EQ(d->worst.ulps, 16);
  EXPECT_EQ(d->last.row, 2);
  EXPECT_EQ(d->last.col, 39);
  EXPECT_EQ(d->histogram,
            (std::map<std::string, std::int64_t>{{"1 step", 2}, {"2 to 3 steps", 2}, {"16 steps and more", 1}}));
  EXPECT_EQ(d->neighbours, "(0, 4) right, (0, 6) right, (1, 5) right");
}

TEST(Compare, nan_is_never_equal_to_a_number) {
  for (const bool any_nan : {false, true}) {
    TensorInfo info{"y", Format::fp32, 1, 2, 0, 0, any_nan};
    const std::vector<std::uint32_t> number{0x3F800000, 0x3F800000};
    const std::vector<std::uint32_t> nan{0x3F800000, 0x7FC00000};
    for (const auto& [want, got] : {std::pair(number, nan), std::pair(nan, number)}) {
      const auto d = compare(info, bytes_of(want), bytes_of(got), kPoison);
      ASSERT_TRUE(d);
      EXPECT_EQ(d->first.ulps, -1);
      EXPECT_EQ(d->histogram, (std::map<std::string, std::int64_t>{{"NaN against a number", 1}}));
    }
  }
}

TEST(Compare, a_nan_against_a_number_is_worse_than_any_distance) {
  const auto d = compare_codes(codes(1, 3), {0x00, 0x38, 0x38}, {0xFE, 0x7F, 0x00});
  ASSERT_TRUE(d);
  EXPECT_EQ(d->worst.col, 1);
}

TEST(Compare, the_payload_of_a_nan_counts_only_where_bits_do) {
  TensorInfo info{"y", Format::fp32, 1, 3, 0, 0, true};
  const std::vector<std::uint32_t> want{0x7FC00000, 0, 1};
  const std::vector<std::uint32_t> got{0xFF800001, 0, 1};
  EXPECT_FALSE(compare(info, bytes_of(want), bytes_of(got), kPoison));
  info.any_nan_is_equal = false;
  const auto d = compare(info, bytes_of(want), bytes_of(got), kPoison);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->histogram, (std::map<std::string, std::int64_t>{{"NaN with other bits", 1}}));
  // Codes have no payload: 0x7F and 0xFF are different bytes.
  EXPECT_TRUE(compare_codes(codes(1, 1), {0x7F}, {0xFF}));
}

TEST(Compare, the_signs_of_zero_differ) { EXPECT_TRUE(compare_codes(codes(1, 1), {0x00}, {0x80})); }

TEST(Compare, garbage_above_a_narrow_code_differs) {
  const TensorInfo info{"codes", Format::e2m1, 1, 1, 0, 0, false};
  EXPECT_TRUE(compare_codes(info, {0x05}, {0xA5}));
}

TEST(Compare, names_what_the_differences_have_in_common) {
  struct Row {
    std::vector<std::pair<std::int64_t, std::uint8_t>> wrong;
    const char* pattern;
  };
  const std::int64_t rows = 4, cols = 96;
  const Row table[] = {
      {{{96 + 3, 0}, {96 + 90, 0}}, "only row 1"},
      {{{31, 0}, {96 + 31, 0}}, "only column 31"},
      {{{33, 1}, {40, 1}}, "inside one block"},
      {{{31, 1}, {63, 1}, {96 + 95, 1}}, "columns 31 modulo 32"},
      {{{31, 1}, {96 * 2 + 30, 1}}, "rows 0 modulo 2"},
      {{{31, kPoison}, {96 * 2 + 30, kPoison}}, "never written"},
      {{{31, 0x7F}, {96 * 2 + 30, 0xFF}}, "all observed are NaN"},
      {{{31, 0}, {96 * 2 + 30, 0}}, "all observed are zero"},
  };
  for (const Row& row : table) {
    const auto d = compare_codes(codes(rows, cols), ones(rows, cols), ones(rows, cols, row.wrong));
    ASSERT_TRUE(d);
    EXPECT_NE(d->pattern.find(row.pattern), std::string::npos) << d->pattern << ", expected " << row.pattern;
  }
  const auto tail = compare_codes(codes(2, 40), ones(2, 40), ones(2, 40, {{33, 1}, {40 + 36, 1}}));
  EXPECT_NE(tail->pattern.find("only in the cut block at the right edge"), std::string::npos) << tail->pattern;
  const auto all = compare_codes(codes(1, 2), {1, 1}, {2, 2});
  EXPECT_NE(all->pattern.find("every element"), std::string::npos) << all->pattern;
  const auto none = compare_codes(codes(rows, cols), ones(rows, cols),
                                  ones(rows, cols, {{1, 0x39}, {96 + 34, 0x39}, {96 * 3 + 80, 0x39}}));
  EXPECT_EQ(none->pattern, "") << none->pattern;
  // One element is no pattern, whatever it holds.
  for (const std::uint8_t held : {std::uint8_t{0}, std::uint8_t{0x7F}, kPoison})
    EXPECT_EQ(compare_codes(codes(1, 1), {1}, {held})->pattern, "");
}

TEST(Compare, sizes_that_do_not_fit_are_a_defect_of_the_caller) {
  test::expect_error(ErrorKind::internal, "has 2 expected and 3 observed bytes", [] {
    (void)compare_codes(codes(1, 2), {1, 1}, {1, 1, 1});
  });
  test::expect_error(ErrorKind::internal, "compare", [] { (void)compare_codes(codes(1, 3), {1, 1}, {1, 1}); });
}

TEST(Compare, integers_are_compared_as_numbers_and_shown_as_such) {
  TensorInfo info{"offsets", Format::fp32, 1, 3, 0, 0, true};
  info.integer_bits = 64;
  const std::int64_t want[] = {0, 5, 9};
  const std::int64_t got[] = {0, -1, std::int64_t{1} << 40};
  EXPECT_FALSE(compare(info, std::as_bytes(std::span(want)), std::as_bytes(std::span(want)), 0xA5));
  const auto d = compare(info, std::as_bytes(std::span(want)), std::as_bytes(std::span(got)), 0xA5);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->count, 2);
  EXPECT_EQ(d->first.col, 1);
  EXPECT_EQ(d->worst.col, 2);
  EXPECT_EQ(d->first.ulps, 6);
  EXPECT_EQ(expected_text(*d), "5");
  EXPECT_EQ(observed_text(*d), "-1");
  EXPECT_TRUE(d->histogram.empty());
  EXPECT_EQ(bytes_of_element(info), 8U);
}

// -1 has the bits of a NaN: any NaN is as good as another, and -1 is not as good as -2.
TEST(Compare, integers_are_no_nan) {
  TensorInfo info{"row_token", Format::fp32, 1, 2, 0, 0, true};
  info.integer_bits = 32;
  const std::int32_t want[] = {-1, -1};
  const std::int32_t got[] = {-1, -2};
  const auto d = compare(info, std::as_bytes(std::span(want)), std::as_bytes(std::span(got)), 0xA5);
  ASSERT_TRUE(d);
  EXPECT_EQ(d->count, 1);
  EXPECT_EQ(observed_text(*d), "-2");
  EXPECT_EQ(d->pattern, "");
}

TEST(Compare, integers_that_were_never_written_are_told) {
  TensorInfo info{"offsets", Format::fp32, 1, 2, 0, 0, false};
  info.integer_bits = 64;
  const std::int64_t want[] = {0, 5};
  const std::vector<std::byte> got(16, std::byte{0x3C});
  const auto d = compare(info, std::as_bytes(std::span(want)), got, 0x3C);
  ASSERT_TRUE(d);
  EXPECT_NE(d->pattern.find("never written"), std::string::npos) << d->pattern;
}

std::vector<Case> some_cases(int count) {
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i)
    cases.push_back(parse_case("op=quantize block=1x32 rows=" + std::to_string(1 + i % 7) +
                               " cols=" + std::to_string(31 + i) + " data=normal seed=" + std::to_string(i)));
  return cases;
}

TEST(ReferencePrefetcher, are_those_that_are_computed_in_turn) {
  const std::vector<Case> cases = some_cases(60);
  for (const int threads : {1, 3, 8}) {
    ReferencePrefetcher ahead(cases, threads);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (i % 5 == 2) continue;  // passed over: a case that was not asked for
      ahead.go_to(i);
      const std::unique_ptr<ProblemAndAnswer> posed = ahead.take(cases[i]);
      ASSERT_TRUE(posed) << i;
      const ProblemAndAnswer now = pose(cases[i]);
      EXPECT_EQ(posed->problem->c, cases[i]);
      ASSERT_EQ(posed->answer.size(), now.answer.size());
      for (std::size_t n = 0; n < now.answer.size(); ++n) EXPECT_EQ(posed->answer[n].bytes, now.answer[n].bytes);
    }
  }
}

TEST(ReferencePrefetcher, are_of_the_case_that_is_next_and_given_once) {
  const std::vector<Case> cases = some_cases(3);
  ReferencePrefetcher ahead(cases, 2);
  EXPECT_FALSE(ahead.take(cases[1]));
  ahead.go_to(1);
  EXPECT_FALSE(ahead.take(cases[0]));
  EXPECT_TRUE(ahead.take(cases[1]));
  EXPECT_FALSE(ahead.take(cases[1]));
  ahead.go_to(3);
  EXPECT_FALSE(ahead.take(cases[2]));
}

TEST(ReferencePrefetcher, end_with_cases_that_nobody_took) {
  for (int i = 0; i < 20; ++i) {
    ReferencePrefetcher ahead(some_cases(30), 4);
    ahead.go_to(static_cast<std::size_t>(i));
  }
}

TEST(ReferencePrefetcher, throw_where_the_answer_is_taken) {
  std::vector<Case> cases = some_cases(2);
  cases[1].variant.operation = "no operation";
  ReferencePrefetcher ahead(cases, 2);
  EXPECT_TRUE(ahead.take(cases[0]));
  ahead.go_to(1);
  EXPECT_THROW(ahead.take(cases[1]), Error);
}

TEST(OneThreadEach, is_of_its_own_thread_and_ends_with_its_scope) {
  const std::int64_t machine = thread_count(0);
  {
    const OneThreadEach one;
    EXPECT_EQ(thread_count(0), 1);
    EXPECT_EQ(thread_count(3), 3);
    std::int64_t other = 0;
    std::thread([&] { other = thread_count(0); }).join();
    EXPECT_EQ(other, machine);
  }
  EXPECT_EQ(thread_count(0), machine);
}

// Answers calls as the function says, in this process.
class Scripted final : public CandidateRunner {
 public:
  explicit Scripted(std::function<Outcome(const Call&)> answer) : answer_(std::move(answer)) {
    info_.operations = {{"quantize", "exact", 100, 100, 1, 1}};
  }
  [[nodiscard]] const CandidateInfo& info() const override { return info_; }
  Outcome run(const Call& call) override { return ++calls, answer_(call); }
  void restart() override {}
  int calls = 0;

 private:
  CandidateInfo info_;
  std::function<Outcome(const Call&)> answer_;
};

const Case& plain() {
  static const Case c = parse_case("op=quantize block=1x32 rows=3 cols=40 data=normal seed=1");
  return c;
}

Outcome right(const Call& call) {
  Outcome outcome;
  for (ExpectedTensor& t : operation_named(call.operation).problem_of(call)->answer())
    outcome.outputs.push_back(std::move(t.bytes));
  return outcome;
}

CallVerdict ran(const Outcome& outcome, const Case& c = plain()) {
  Scripted runner([&](const Call&) { return outcome; });
  return run_checked(runner, Call{}, c);
}

TEST(Check, a_status_has_the_name_that_libraries_know_and_its_number) {
  EXPECT_EQ(status_text(MXCHECK_OK), "MXCHECK_OK (0)");
  EXPECT_EQ(status_text(MXCHECK_UNSUPPORTED), "MXCHECK_UNSUPPORTED (1: this combination is not offered)");
  EXPECT_EQ(status_text(MXCHECK_INVALID), "MXCHECK_INVALID (2: the arguments are wrong)");
  EXPECT_EQ(status_text(MXCHECK_FAILED), "MXCHECK_FAILED (5)");
  EXPECT_EQ(status_text(-3), "-3, which is no mxcheck_status");
}

TEST(Check, whatever_a_call_may_not_do_is_a_finding) {
  Outcome o;
  EXPECT_TRUE(ran(o).outcome);
  EXPECT_FALSE(ran(o).finding);
  o.out_of_bounds = "past the last output";
  EXPECT_EQ(ran(o).finding->kind, FindingKind::out_of_bounds);
  o = {}, o.conduct = "it waited";
  EXPECT_EQ(ran(o).finding->summary, "it waited");
  o = {}, o.status = MXCHECK_INVALID, o.message = "no";
  EXPECT_EQ(ran(o).finding->kind, FindingKind::refused);
  EXPECT_NE(ran(o).finding->summary.find("status MXCHECK_INVALID (2: the arguments are wrong), \"no\""),
            std::string::npos);
  o = {}, o.kind = OutcomeKind::timed_out;
  EXPECT_EQ(ran(o).finding->kind, FindingKind::fault);
  o = {}, o.kind = OutcomeKind::crashed, o.signal = 11;
  EXPECT_NE(ran(o).finding->summary.find("died (signal 11"), std::string::npos);
}

TEST(Check, a_crash_is_tried_again_and_the_summary_says_how_that_went) {
  for (const bool confirmed : {false, true}) {
    int calls = 0;
    Scripted runner([&](const Call&) {
      Outcome o;
      if (++calls == 1 || confirmed) o.kind = OutcomeKind::crashed, o.signal = 6;
      return o;
    });
    const CallVerdict r = run_checked(runner, Call{}, plain());
    EXPECT_EQ(runner.calls, 2);
    EXPECT_EQ(r.finding->summary.find("not in a fresh process") == std::string::npos, confirmed);
  }
}

TEST(Check, unsupported_is_an_answer_to_an_option_alone) {
  Outcome o;
  o.status = MXCHECK_UNSUPPORTED, o.outputs_untouched = true;
  EXPECT_TRUE(ran(o).finding);
  Case option = plain();
  option.experts = {0, 3};
  const CallVerdict r = ran(o, option);
  EXPECT_FALSE(r.finding || r.outcome);
  o.outputs_untouched = false;  // it wrote before it refused
  EXPECT_TRUE(ran(o, option).finding);
}

TEST(Check, a_shape_beyond_the_limits_is_not_asked_for) {
  Scripted runner(right);
  CheckContext context{runner, {}};
  Case large = plain();
  large.cols = 101;
  const CallOutputs got = run_problem(context, *make_problem(large));
  EXPECT_EQ(runner.calls, 0);
  EXPECT_TRUE(got.outside_limits);
  EXPECT_FALSE(got.usable());
  EXPECT_FALSE(propagate(context, got));
  EXPECT_TRUE(context.not_applicable);
  EXPECT_FALSE(context.not_offered);
}

TEST(Check, an_answer_is_compared_over_each_poison_and_a_difference_is_explained) {
  Scripted good(right);
  CheckContext context{good, {}};
  const std::unique_ptr<Problem> p = make_problem(plain());
  EXPECT_FALSE(equals_answer(context, *p, p->answer(), {}));
  EXPECT_EQ(good.calls, 2);
  EqualityOptions once;
  once.one_poison_above = 1;
  EXPECT_FALSE(equals_answer(context, *p, p->answer(), once));
  EXPECT_EQ(good.calls, 3);

  Scripted bad([](const Call& call) {
    Outcome o = right(call);
    if (call.poison == kPoisons[1]) o.outputs[0][7] ^= std::byte{1};  // the second run alone
    return o;
  });
  CheckContext thorough{bad, {}};
  thorough.thorough = true;
  const auto finding = equals_answer(thorough, *p, p->answer(), {});
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->summary, "codes differ from the reference");
  EXPECT_EQ(finding->difference->first.col, 7);
  EXPECT_FALSE(finding->element.empty());
  EXPECT_FALSE(finding->relevant.empty());
  EXPECT_TRUE(finding->matches.empty());  // a bit that no row of the table has otherwise
  EXPECT_EQ(finding->matched, static_cast<std::int64_t>(p->answer()[0].bytes.size() + p->answer()[1].bytes.size()));
}

TEST(Check, a_finding_has_the_rows_that_give_every_bit_where_it_is_thorough) {
  Scripted floors([](const Call& call) {
    Outcome o = right(call);
    Case c = plain();
    blocks_of(c.variant).recipe = "floor";
    const std::vector<ExpectedTensor> answer = make_problem(c)->answer();
    for (std::size_t i = 0; i < answer.size(); ++i) o.outputs[i] = answer[i].bytes;
    return o;
  });
  const std::unique_ptr<Problem> p = make_problem(plain());
  for (const bool is_thorough : {false, true}) {
    CheckContext context{floors, {}};
    context.thorough = is_thorough;
    const auto finding = equals_answer(context, *p, p->answer(), {});
    ASSERT_TRUE(finding);
    const auto& names = finding->matches;
    EXPECT_EQ(std::find(names.begin(), names.end(), "recipe floor") != names.end(), is_thorough);
  }
}

TEST(Check, a_case_chooses_what_its_workspace_holds) {
  std::set<int> met;  // a byte, or -1 for what the last call left
  Case c = plain();
  for (c.seed = 0; c.seed < 100; ++c.seed) {
    for (const std::uint8_t poison : kPoisons) {
      const WorkspaceFill fill = workspace_of(c, poison);
      EXPECT_EQ(fill.poison, workspace_of(c, poison).poison);
      met.insert(fill.keep != 0 ? -1 : fill.poison);
    }
  }
  EXPECT_EQ(met, (std::set<int>{-1, 0x00, 0x3F, 0x7F, 0xC7, 0xFF}));
}

TEST(Check, the_cpu_library_is_asked_where_there_is_one) {
  Scripted candidate(right), cpu(right);
  CheckContext context{candidate, {}};
  EXPECT_FALSE(equals_cpu_library(context, plain()));
  EXPECT_TRUE(context.not_offered);
  EXPECT_EQ(candidate.calls, 0);
  context.not_offered = false, context.cpu = &cpu;
  EXPECT_FALSE(equals_cpu_library(context, plain()));
  EXPECT_FALSE(context.not_offered);
  EXPECT_EQ(cpu.calls, 1);
  Scripted other([](const Call& call) {
    Outcome o = right(call);
    o.outputs[1][0] ^= std::byte{1};
    return o;
  });
  context.cpu = &other;
  EXPECT_EQ(equals_cpu_library(context, plain())->summary, "scales differ from the CPU library's");
}

TEST(Limits, extents_go_up_to_the_multiples) {
  const OperationInfo huge{"quantize", "exact", 0, 0, 1024, 1024};
  const Case c = within_limits(parse_case("op=quantize rows=3 cols=2000 stride=2003 experts=0,1,3"), huge);
  EXPECT_EQ(c.rows, 1024);
  EXPECT_EQ(c.cols, 2048);
  EXPECT_EQ(c.stride, 2051);
  EXPECT_EQ(c.experts, (std::vector<std::int64_t>{0, 1, 1024}));
}

TEST(Limits, limits_clip_and_move_plants_and_experts_inside) {
  const OperationInfo small{"quantize", "exact", 40, 100, 16, 8};
  const Case c = within_limits(parse_case("op=quantize rows=90 cols=200 experts=0,50,90 plant=80,150:1"), small);
  EXPECT_EQ(c.rows, 32);
  EXPECT_EQ(c.cols, 96);
  EXPECT_EQ(c.experts, (std::vector<std::int64_t>{0, 32, 32}));
  EXPECT_EQ(c.plants, (std::vector<Plant>{{31, 95, 1}}));
}

TEST(Limits, an_extent_goes_up_to_its_multiple_but_never_past_the_limit) {
  EXPECT_EQ(to_multiple(0, 16, 0), 0);
  EXPECT_EQ(to_multiple(1, 16, 0), 16);
  EXPECT_EQ(to_multiple(16, 16, 0), 16);
  EXPECT_EQ(to_multiple(90, 16, 40), 32);
  EXPECT_EQ(to_multiple(3, 64, 40), 0);  // no multiple lies within the limit
  for (const std::int64_t rows : {0, 1, 17, 100}) {
    const OperationInfo limits{"quantize", "exact", 64, 96, 16, 32};
    Case c = parse_case("op=quantize rows=1 cols=1");
    c.rows = rows, c.cols = 3 * rows;
    EXPECT_TRUE(is_within_limits(within_limits(c, limits), limits)) << rows;
  }
}

// Shrinking tries these in order: each is smaller and comes once, and the largest is the extent less one, so that a
// search which goes on from what still fails ends at the threshold itself.
TEST(Limits, smaller_extents_lead_to_any_threshold) {
  EXPECT_TRUE(smaller_extents(0).empty());
  EXPECT_TRUE(smaller_extents(1).empty());
  for (const std::int64_t extent : {2, 3, 31, 32, 33, 1000, 65537, 1 << 24}) {
    const std::vector<std::int64_t> smaller = smaller_extents(extent);
    EXPECT_EQ(smaller.front(), 1);
    EXPECT_EQ(*std::max_element(smaller.begin(), smaller.end()), extent - 1);
    EXPECT_EQ(std::set<std::int64_t>(smaller.begin(), smaller.end()).size(), smaller.size());
    EXPECT_LE(smaller.size(), 40U);
    for (const std::int64_t e : smaller) EXPECT_TRUE(e >= 1 && e < extent) << e;
  }
}

TEST(Limits, every_source_row_is_drawn_before_one_comes_again) {
  const std::vector<std::int32_t> index = draw_index(9, 25, 10);
  ASSERT_EQ(index.size(), 25U);
  for (const int round : {0, 10}) {
    const std::set<std::int32_t> rows(index.begin() + round, index.begin() + round + 10);
    EXPECT_EQ(rows.size(), 10U);
    EXPECT_EQ(*rows.begin(), 0);
    EXPECT_EQ(*rows.rbegin(), 9);
  }
  EXPECT_EQ(index, draw_index(9, 25, 10));
  EXPECT_NE(index, draw_index(10, 25, 10));
  EXPECT_TRUE(draw_index(9, 0, 10).empty());
}

TEST(Notation, gives_bits_fields_hexfloat_and_decimal) {
  struct Row {
    Format format;
    std::uint32_t bits;
    const char* text;
  };
  const Row rows[] = {
      {Format::bf16, 0x43E0, "0x43e0 = 0.10000111.1100000 = 0x1.cp+8 = 448"},
      {Format::e4m3, 0x7E, "0x7e = 0.1111.110 = 0x1.cp+8 = 448"},
      {Format::e4m3, 0x81, "0x81 = 1.0000.001 = -0x1p-9 = -0.001953125"},
      {Format::e4m3, 0x7F, "0x7f = 0.1111.111 = nan = nan"},
      {Format::e5m2, 0xFC, "0xfc = 1.11111.00 = -inf = -inf"},
      {Format::e8m0, 0x7F, "0x7f = 01111111 = 0x1p+0 = 1"},
      {Format::mxint8, 0xC0, "0xc0 = 11000000 = -0x1p+0 = -1"},
      {Format::e2m1, 0x7, "0x7 = 0.11.1 = 0x1.8p+2 = 6"},
      {Format::fp32, 0x80000000, "0x80000000 = 1.00000000.00000000000000000000000 = -0x0p+0 = -0"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(notations(row.format, row.bits), row.text);
  }
  EXPECT_EQ(notations(448.0), "0x1.cp+8 = 448");
}

TEST(Notation, steps_are_counted_on_the_ordered_line) {
  struct Row {
    Format format;
    std::uint32_t a, b;
    std::int64_t steps;
  };
  const Row rows[] = {
      {Format::e4m3, 0x00, 0x80, 1},
      {Format::e4m3, 0x7E, 0xFE, 2 * 0x7E + 1},
      {Format::e4m3, 0x38, 0x39, 1},
      {Format::e4m3, 0x7F, 0xFF, 0},
      {Format::e4m3, 0x7F, 0x7E, -1},
      {Format::e4m3, 0x00, 0x7F, -1},
      {Format::e8m0, 0, 254, 254},
      {Format::e8m0, 255, 254, -1},
      {Format::mxint8, 0x80, 0x7F, 255},
      {Format::bf16, 0x7F7F, 0x7F80, 1},
      {Format::fp32, 0x7FC00000, 0xFFC00001, 0},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(ulp_distance_of_codes(row.format, row.a, row.b), row.steps) << row.a << ' ' << row.b;
    EXPECT_EQ(ulp_distance_of_codes(row.format, row.b, row.a), row.steps) << row.b << ' ' << row.a;
  }
}

}  // namespace
}  // namespace mxcheck
