// Causes: rows that explain every failing case, the rule that confines a row to where it shows, and the slips that any
// operation may have.

#include "properties/core/causes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "numerics/format/codec.h"
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
  EXPECT_EQ(Codes([](auto r, auto c) { return (r * 5 + c * 3) % 7 != 0; }).where(),
            "only in 54 of the 64 elements that it would change");
  // Elements here and there are a cause only where other cases bear it out; one that is as neither has it is none.
  const std::vector<Explanation> here_and_there =
      Codes([](auto r, auto c) { return (r * 5 + c * 3) % 7 == 0; }).explained();
  ASSERT_EQ(here_and_there.size(), 1U);
  EXPECT_TRUE(here_and_there[0].is_unruly);
  Codes odd([](auto, auto) { return true; });
  odd.observed[9] = std::byte{77};
  EXPECT_EQ(odd.where(), "0 rows");
}

Explanation explanation(const char* name, std::int64_t shown, const char* where = "", bool is_general = false) {
  Explanation e{.name = name, .where = where, .shown = shown, .is_general = is_general};
  if (!e.where.empty()) e.places = {e.where};
  return e;
}

// Rules by the shape hold in cases of other sizes, where a number of a row or column does not.
TEST(Causes, places_say_edges_and_remainders) {
  struct Row {
    std::int64_t rows, cols;
    bool (*wrong)(std::int64_t r, std::int64_t c);
    std::string place;
    std::vector<std::int64_t> experts = {};
  };
  const Row table[] = {
      {8, 14, [](auto, auto c) { return c >= 12; }, "in the blocks that the right edge cuts"},
      {7, 8, [](auto r, auto) { return r >= 6; }, "in the blocks that the last row cuts"},
      {8,
       8,
       [](auto r, auto) { return r == 2 || r == 7; },
       "in the blocks that an expert's last row cuts",
       {0, 3, 3, 8}},
      {8, 13, [](auto, auto c) { return c >= 8; }, "in the columns after the last multiple of 8"},
      {3, 9, [](auto r, auto c) { return r * 9 + c >= 24; }, "in the elements after the last multiple of 8"},
      {23, 8, [](auto r, auto) { return r % 8 == 5; }, "in rows 5 modulo 8"},
      {8, 23, [](auto, auto c) { return c % 16 == 3; }, "in columns 3 modulo 16"},
      {20, 8, [](auto r, auto) { return r == 15; }, "in rows 15 modulo 16"},
  };
  for (const Row& row : table) {
    const auto count = static_cast<std::size_t>(row.rows * row.cols);
    Bytes right(count, std::byte{1}), of_row(count, std::byte{2}), observed = right;
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::int64_t>(i);
      if (row.wrong(at / row.cols, at % row.cols)) observed[i] = of_row[i];
    }
    const std::vector<AnswerTensor> outputs{
        {{"codes", Format::e8m0, row.rows, row.cols, 2, 4}, right, observed, row.experts}};
    const std::vector<Explanation> all =
        explanations_of(outputs, {definition_of_output(0, "plus 1", [&] { return of_row; })}, {});
    ASSERT_EQ(all.size(), 1U) << row.place;
    EXPECT_FALSE(all[0].is_scattered) << row.place;
    EXPECT_NE(std::ranges::find(all[0].places, "only " + row.place), all[0].places.end()) << row.place;
  }
}

// A case in which every element shows the row, and another output is right, bears the others' rule out.
TEST(Causes, a_rule_holds_in_cases_of_other_shapes) {
  Causes causes;
  for (const std::int64_t cols : {5, 9, 13, 19, 27}) {
    const auto count = static_cast<std::size_t>(2 * cols);
    const Bytes right(count, std::byte{1}), of_row(count, std::byte{2}), scales(4, std::byte{7});
    Bytes observed = right;
    for (std::int64_t i = 0; i < 2 * cols; ++i) {
      if (i % cols >= cols - cols % 8) observed[static_cast<std::size_t>(i)] = std::byte{2};
    }
    const std::vector<AnswerTensor> outputs{{{"codes", Format::e8m0, 2, cols}, right, observed},
                                            {{"scales", Format::e8m0, 2, 2}, scales, scales}};
    const Definition row{"twos", [&](std::size_t i) { return i == 0 ? of_row : Bytes(4, std::byte{2}); }};
    causes.add(explanations_of(outputs, {row}, {}));
  }
  EXPECT_EQ(causes.named(),
            std::vector<std::string>{"twos, only in codes, in the columns after the last multiple of 8"});
}

TEST(Causes, rules_that_cases_do_not_share_are_none) {
  Causes causes;
  for (const char* where : {"only in row 3", "only in row 5"}) {
    causes.add({explanation("cut", 20, where)});
  }
  EXPECT_EQ(causes.named(), std::vector<std::string>{"cut, only in some of the elements that it would change"});
}

// Another statement may have what a few elements here are not enough for.
TEST(Causes, all_that_explain_every_case_are_told_apart_from_the_best) {
  Causes causes;
  causes.add({explanation("cut", 9), explanation("zeros", 1, "only in row 3", true)}, 9);
  EXPECT_EQ(causes.named(), std::vector<std::string>{"cut"});
  const std::vector<NamedCause> all = causes.explaining();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].row, "zeros");
  EXPECT_EQ(all[1].text, "zeros, only in row 3");
  EXPECT_TRUE(all[1].is_confined);
  EXPECT_EQ(all[1].elements, 9);
}

TEST(Causes, a_further_case_leaves_the_rules_that_it_shares) {
  NamedCause cause{"cut", "cut, only in row 3; remark", 2, 9, true, {"only in row 3", "only in the last row"}};
  EXPECT_FALSE(cause.takes(explanation("cut", 9, "only in row 5")));
  EXPECT_FALSE(cause.takes(explanation("floor", 9)));
  EXPECT_TRUE(cause.takes(explanation("cut", 9)));
  EXPECT_EQ(cause.text, "cut, only in row 3; remark");
  EXPECT_TRUE(cause.takes(explanation("cut", 9, "only in the last row")));
  EXPECT_EQ(cause.text, "cut, only in the last row; remark");
  EXPECT_EQ(cause.places, std::vector<std::string>{"only in the last row"});
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

TEST(Causes, one_rule_in_several_cases_is_believed_of_few_elements) {
  Explanation last = explanation("zeros", 1, "only in column 4", true);
  last.hidden = 60, last.places = {"only in column 4", "only in the last element"};
  Causes causes;
  for (int i = 0; i < 3; ++i) causes.add({last});
  EXPECT_TRUE(causes.named().empty());
  last.where = "only in column 9", last.places = {"only in column 9", "only in the last element"};
  causes.add({last});
  EXPECT_EQ(causes.named(), std::vector<std::string>{"zeros, only in the last element"});
}

TEST(Causes, a_row_that_would_change_a_right_case_stands_behind_one_that_would_not) {
  Causes causes;
  causes.add({explanation("cut", 9), explanation("floor", 9)}, 9);
  causes.add({explanation("cut", 9), explanation("floor", 9)}, 9);
  causes.add_right(std::vector<std::string>{"cut"});
  EXPECT_EQ(causes.named(), std::vector<std::string>{"floor"});
  EXPECT_EQ(causes.extent().cases, 2);
  EXPECT_EQ(causes.extent().elements, 18);
  causes.add_right(std::vector<std::string>{"floor", "cut"});
  EXPECT_EQ(causes.named(), std::vector<std::string>{"floor, only in some of the cases that it would change"});
}

TEST(Causes, a_row_that_says_nothing_about_a_case_is_neither_borne_out_nor_refuted) {
  Causes causes;
  causes.add({explanation("cut", 9)}, 9);
  causes.add({explanation("cut", 9)}, 9);
  causes.add({{.name = "cut", .is_silent = true}}, 9);
  EXPECT_EQ(causes.named(), std::vector<std::string>{"cut"});
  EXPECT_EQ(causes.extent().cases, 2);
  for (int i = 0; i < 2; ++i) causes.add({{.name = "cut", .is_silent = true}}, 9);
  EXPECT_TRUE(causes.named().empty());  // of most cases nothing is known
}

TEST(Causes, elements_without_a_rule_need_other_cases_that_are_exact) {
  Explanation unruly = explanation("cut", 9, "only in some of the elements that it would change");
  unruly.is_unruly = true;
  Causes causes;
  causes.add({unruly});
  EXPECT_TRUE(causes.named().empty());
  for (int i = 0; i < 3; ++i) causes.add({explanation("cut", 9)});
  EXPECT_EQ(causes.named(), std::vector<std::string>{"cut, only in some of the elements that it would change"});
}

// A row whose bits alone tell it comes before one that gives the same bits by a sum with them.
TEST(Causes, memory_that_is_not_written_comes_first) {
  Explanation unwritten = explanation("memory that is not written", 9, "only in row 3", true);
  unwritten.is_told = true;
  Causes causes;
  causes.add({explanation("added to what was there", 9, "", true), unwritten});
  EXPECT_EQ(causes.named(), std::vector<std::string>{"memory that is not written, only in row 3"});
}

// Codes in blocks whose scale is wrong may be anything: the scale's cause is said, with the remark.
TEST(Causes, a_remark_stands_beside_a_cause_that_does_not_give_every_output) {
  const Codes scales([](auto, auto) { return true; });
  std::vector<AnswerTensor> outputs{scales.tensor(), scales.tensor()};
  const Bytes other(kRows * kCols, std::byte{9});
  outputs[0].info.name = "codes", outputs[0].observed = other;
  outputs[1].info.name = "scales";
  Definition follows = definition_of_output(
      0, "codes beside wrong scales", [&] { return other; }, "", true);
  follows.remark = "codes do not follow";
  const Definition plus = definition_of_output(1, "plus 100", [&] { return scales.of_row; });
  Causes causes;
  causes.add(explanations_of(outputs, {follows, plus}, {}));
  EXPECT_EQ(causes.named(), std::vector<std::string>{"plus 100; codes do not follow"});
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

// Codes of NaN, of the largest number and of subnormals.
TEST(GeneralSlips, of_codes_have_names) {
  const char* const text = "op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact x=fp32 rows=64 cols=96 ";
  const auto names = [&](const char* data, auto change) {
    const auto each = [&](const Problem&, std::vector<Bytes>& out) {
      for (std::byte& b : out[0]) b = static_cast<std::byte>(change(std::to_integer<int>(b)));
    };
    return names_of((text + std::string(data)).c_str(), each);
  };
  EXPECT_TRUE(
      has(names("data=specials seed=3", [](int b) { return b == 0x7F ? 0x7E : b; }), "NaN of codes written as 0x7e"));
  EXPECT_TRUE(has(names("data=boundaries seed=3", [](int b) { return (b & 0x7F) == 0x7E ? b - 1 : b; }),
                  "the largest value written as the one below it"));
  EXPECT_TRUE(
      has(names("data=boundaries seed=3", [](int b) { return (b & 0x7F) < 8 ? (b & 0x80) | (b & 0x7F) << 1 : b; }),
          "results of codes: subnormal values a binade too high"));
}

TEST(GeneralSlips, a_subnormal_code_decoded_with_another_exponent_has_a_name) {
  const auto with = [](double (*change)(double)) {
    return [change](const Problem& p, std::vector<Bytes>& out) {
      const Call call = p.call();
      for (std::size_t i = 0; i < out[0].size() / 4; ++i) {
        const double v = decode(Format::e4m3, std::to_integer<std::uint32_t>(call.inputs[0].data[i]));
        if (std::fabs(v) >= 0x1p-6 || v == 0) continue;
        float value = 0;
        std::memcpy(&value, out[0].data() + 4 * i, 4);
        value = static_cast<float>(value * (change(v) / v));
        std::memcpy(out[0].data() + 4 * i, &value, 4);
      }
    };
  };
  EXPECT_TRUE(has(names_of(kDequantize, with([](double v) { return 2 * v; })), "subnormal codes a binade too high"));
  EXPECT_TRUE(has(names_of(kDequantize, with([](double v) { return v / 2; })), "subnormal codes a binade too low"));
  EXPECT_TRUE(has(names_of(kDequantize, with([](double v) { return v / 2 + std::copysign(0x1p-7, v); })),
                  "subnormal codes with the leading one of normal ones"));
}

TEST(GeneralSlips, of_strides_and_pitches_have_names) {
  const char* const turned =
      "op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact x=fp32 rows=40 cols=70 stride=1 col_stride=45 "
      "data=normal seed=3";
  const auto without_col_stride = [](const Problem& p, std::vector<Bytes>& observed) {
    Call call = p.call();
    CallTensor& t = call.inputs[0];
    Bytes packed(static_cast<std::size_t>(40 * 70 * 4));
    for (std::size_t i = 0; i < 40; ++i) std::memcpy(packed.data() + i * 70 * 4, t.data + i * 4, 70 * 4);
    t.strides.clear(), t.bytes = packed.size(), t.data = call.own(std::move(packed));
    const std::vector<ExpectedTensor> other = operation_named(call.operation).problem_of(call)->answer();
    for (std::size_t i = 0; i < observed.size(); ++i) observed[i] = other[i].bytes;
  };
  EXPECT_TRUE(has(names_of(turned, without_col_stride), "a column stride of 1 in place of that of x"));
  const auto at_pitch_100 = [](const Problem&, std::vector<Bytes>& out) {
    const Bytes right = out[0];
    std::fill(out[0].begin(), out[0].end(), std::byte{kPoisons[0]});
    for (std::size_t i = 0; i < 9 * 98; ++i) {
      const std::size_t at = i / 98 * 100 + i % 98;
      if (at < 9 * 98) std::memcpy(&out[0][at * 4], &right[i * 4], 4);
    }
  };
  EXPECT_TRUE(has(names_of("op=dequantize format=e4m3 recipe=rceil block=1x32 layout=compact x=fp32 rows=9 cols=98 "
                           "data=bits seed=3",
                           at_pitch_100),
                  "rows of y stored at a pitch of a multiple of 4"));
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
