// Causes: rows that explain every failing case, the rule that confines a row to where it shows, and the slips that any
// operation may have.

#include "properties/core/causes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "properties/core/check.h"
#include "properties/core/operation.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kRows = 8, kCols = 8;

// Codes of 8 x 8, in which `wrong` says which elements of the row's the candidate has.
struct Codes {
  Bytes right = Bytes(kRows * kCols), of_row = Bytes(kRows * kCols), observed = Bytes(kRows * kCols);
  TensorInfo info{"codes", Format::e8m0, kRows, kCols, 1, 4};

  template <class Wrong>
  explicit Codes(Wrong wrong) {
    for (std::int64_t i = 0; i < kRows * kCols; ++i) {
      const auto at = static_cast<std::size_t>(i);
      right[at] = static_cast<std::byte>(i), of_row[at] = static_cast<std::byte>(i + 100);
      observed[at] = wrong(i / kCols, i % kCols) ? of_row[at] : right[at];
    }
  }
  [[nodiscard]] AnswerTensor tensor() const { return {info, right, observed}; }
  [[nodiscard]] std::vector<Explanation> explained() const {
    const std::vector<AnswerTensor> outputs{tensor()};
    return explanations_of(outputs, {definition_of_output(0, "plus 100", [b = of_row] { return b; })}, {});
  }
  [[nodiscard]] std::string where() const {
    const std::vector<Explanation> all = explained();
    return all.size() == 1 ? all[0].where : std::to_string(all.size()) + " rows";
  }
};

TEST(Causes, a_row_is_confined_to_where_it_shows) {
  EXPECT_EQ(Codes([](auto, auto) { return true; }).where(), "");
  EXPECT_EQ(Codes([](auto, auto c) { return c >= 5; }).where(), "only from column 5 on");
  EXPECT_EQ(Codes([](auto, auto c) { return c < 2; }).where(), "only up to column 1");
  EXPECT_EQ(Codes([](auto r, auto) { return r >= 3; }).where(), "only from row 3 on");
  EXPECT_EQ(Codes([](auto r, auto) { return r == 3; }).where(), "only in row 3");
  EXPECT_EQ(Codes([](auto r, auto c) { return r * kCols + c >= 29; }).where(), "only from element 29 on");
  EXPECT_EQ(Codes([](auto, auto c) { return c % 2 == 1; }).where(), "only in odd columns");
  EXPECT_EQ(Codes([](auto r, auto c) { return (r * 2 + c / 4) % 3 == 0; }).where(),
            "only in 6 of the 16 blocks that it would change");
  // Elements here and there, and one that is as neither has it: no rule, no cause.
  EXPECT_EQ(Codes([](auto r, auto c) { return (r * 5 + c * 3) % 7 == 0; }).where(), "0 rows");
  Codes odd([](auto, auto) { return true; });
  odd.observed[9] = std::byte{77};
  EXPECT_EQ(odd.where(), "0 rows");
}

TEST(Causes, outputs_that_are_right_are_part_of_the_rule) {
  const Codes wrong([](auto, auto) { return true; }), right([](auto, auto) { return false; });
  std::vector<AnswerTensor> outputs{wrong.tensor(), right.tensor()};
  outputs[1].info.name = "scales";
  const Definition both{"plus 100", [&](std::size_t) { return wrong.of_row; }};
  const std::vector<Explanation> all = explanations_of(outputs, {both}, {});
  ASSERT_EQ(all.size(), 2U);  // the name of the output with it, and the row confined to it
  EXPECT_EQ(all[0].name, "codes: plus 100");
  EXPECT_EQ(all[1].where, "only in codes");
}

Explanation explanation(const char* name, std::int64_t shown, const char* where = "", bool is_general = false) {
  return {.name = name, .where = where, .shown = shown, .is_general = is_general};
}

TEST(Causes, a_name_explains_every_case) {
  Causes causes;
  causes.add({explanation("cut", 1), explanation("floor", 1)});
  EXPECT_EQ(causes.named(), (std::vector<std::string>{"cut", "floor"}));
  causes.add({explanation("floor", 9), explanation("cut twice", 9)});
  EXPECT_EQ(causes.named(), std::vector<std::string>{"floor"});
  EXPECT_TRUE(causes.is_settled());
  causes.add({explanation("cut", 9)});
  EXPECT_TRUE(causes.named().empty());
  EXPECT_TRUE(causes.of_every_case().empty());
}

TEST(Causes, what_is_confined_or_general_needs_elements_to_be_believed) {
  Causes few;
  few.add({explanation("cut", 2, "only in row 3"), explanation("zeros", 2, "", true)});
  EXPECT_TRUE(few.named().empty());
  Causes more;
  more.add({explanation("cut", 20, "only in row 3"), explanation("zeros", 20, "", true)});
  EXPECT_EQ(more.named(), std::vector<std::string>{"zeros"});  // which shows everywhere
  Causes confined;
  confined.add({explanation("cut", 20, "only in row 3"), explanation("zeros", 20, "only in row 3", true)});
  EXPECT_EQ(confined.named(), std::vector<std::string>{"cut, only in row 3"});
  Explanation scattered = explanation("cut", 20, "only in 2 of the 9 blocks that it would change");
  scattered.hidden = 90, scattered.is_scattered = true;
  Causes here_and_there;
  here_and_there.add({scattered});
  EXPECT_TRUE(here_and_there.named().empty());
}

// Slips of any operation, of a case whose answer is changed so.

template <class Wrong>
std::vector<std::string> names_of(const char* text, Wrong wrong) {
  const std::unique_ptr<Problem> p = make_problem(parse_case(text));
  std::vector<Bytes> observed;
  const std::vector<ExpectedTensor> expected = p->answer();
  for (const ExpectedTensor& t : expected) observed.push_back(t.bytes);
  wrong(*p, observed);
  Finding finding;
  tell_matches(*p, expected, observed, finding);
  return finding.matches;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

constexpr const char* kDequantize =
    "op=dequantize format=e4m3 recipe=rceil block=1x32 layout=compact x=fp32 rows=9 cols=96 data=bits seed=3";

// The problem's answer to a call with another input.
template <class Change>
auto other_call(std::size_t input, Change change) {
  return [=](const Problem& p, std::vector<Bytes>& observed) {
    Call call = p.call();
    CallTensor& t = call.inputs[input];
    Bytes bytes(t.data, t.data + t.bytes);
    change(bytes, static_cast<std::size_t>(t.shape.back()));
    t.data = call.own(std::move(bytes));
    const std::vector<ExpectedTensor> other = operation_named(call.operation).problem_of(call)->answer();
    for (std::size_t i = 0; i < observed.size(); ++i) observed[i] = other[i].bytes;
  };
}

TEST(GeneralSlips, of_inputs_and_outputs_have_names) {
  const auto row_before = [](Bytes& b, std::size_t cols) {
    std::copy_backward(b.begin(), b.end() - static_cast<std::ptrdiff_t>(cols), b.end());
  };
  EXPECT_TRUE(has(names_of(kDequantize, other_call(1, row_before)), "each row taken from the row before of scales"));
  const auto first_for_all = [](Bytes& b, std::size_t cols) {
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = b[i / cols * cols];
  };
  EXPECT_TRUE(
      has(names_of(kDequantize, other_call(1, first_for_all)), "the first element of a row in all of it of scales"));
  const auto unwritten = [](const Problem&, std::vector<Bytes>& out) {
    std::fill(out[0].begin() + 96 * 4 * 6, out[0].end(), std::byte{kPoisons[0]});
  };
  EXPECT_EQ(names_of(kDequantize, unwritten),
            std::vector<std::string>{"memory that is not written, only from row 6 on"});
}

TEST(GeneralSlips, another_variant_has_a_name) {
  const std::string own = "op=quantize_transposed format=e4m3 recipe=rceil block=32x1 layout=compact x=bf16";
  const auto as_floor = [](const Problem& p, std::vector<Bytes>& observed) {
    Case c = p.c;
    c.variant = parse_variant("op=quantize_transposed format=e4m3 recipe=floor block=32x1 layout=compact x=bf16");
    const std::vector<ExpectedTensor> other = make_problem(c)->answer();
    for (std::size_t i = 0; i < observed.size(); ++i) observed[i] = other[i].bytes;
  };
  EXPECT_TRUE(has(names_of((own + " rows=40 cols=9 data=normal seed=3").c_str(), as_floor), "recipe floor"));
}

}  // namespace
}  // namespace mxcheck
