// The matcher of definitions: which rows explain outputs, wholly or mostly, of one call or of several.

#include "properties/core/definitions.h"

#include <gtest/gtest.h>

#include <cstring>

#include "numerics/error.h"

namespace mxcheck {
namespace {

Bytes bytes_of_codes(std::initializer_list<int> codes) {
  Bytes bytes;
  for (const int code : codes) bytes.push_back(static_cast<std::byte>(code));
  return bytes;
}

Definition codes_row(std::size_t output, const char* name, std::initializer_list<int> codes, bool derived = false) {
  return definition_of_output(
      output, name, [bytes = bytes_of_codes(codes)] { return bytes; }, "", derived);
}

TensorInfo codes_named(const char* name) {
  TensorInfo info;
  info.name = name, info.format = Format::e8m0;
  return info;
}

// Codes and scales of one call.
struct Answered {
  Bytes codes, scales, own_codes, own_scales;
  [[nodiscard]] std::vector<AnswerTensor> tensors() const {
    return {{codes_named("codes"), codes, own_codes}, {codes_named("scales"), scales, own_scales}};
  }
};

TEST(Definitions, a_row_explains_where_it_gives_every_output) {
  const Answered a{bytes_of_codes({1, 2, 3}), bytes_of_codes({7}), bytes_of_codes({1, 2, 4}), bytes_of_codes({7})};
  const Table table{codes_row(0, "cut", {1, 2, 4}),
                    codes_row(0, "other", {1, 2, 5}),
                    codes_row(1, "large", {8}),
                    {"both", [](std::size_t output) {
                       return output == 0 ? bytes_of_codes({1, 2, 4}) : bytes_of_codes({9});
                     }}};
  EXPECT_EQ(names_that_explain(a.tensors(), table), std::vector<std::string>{"cut"});  // "both" has another scale
  const Answered right{a.codes, a.scales, a.codes, a.scales};
  EXPECT_TRUE(names_that_explain(right.tensors(), table).empty());
}

TEST(Definitions, outputs_that_follow_from_a_wrong_one_need_no_row) {
  const Answered a{bytes_of_codes({1, 2}), bytes_of_codes({7}), bytes_of_codes({3, 4}), bytes_of_codes({8})};
  const Table follows{codes_row(0, "right for the scales", {3, 4}, true), codes_row(1, "large", {8})};
  EXPECT_EQ(names_that_explain(a.tensors(), follows), std::vector<std::string>{"large"});
  const Table apart{codes_row(0, "swapped", {3, 4}), codes_row(1, "large", {8})};
  EXPECT_EQ(names_that_explain(a.tensors(), apart), std::vector<std::string>{"codes: swapped; scales: large"});
  EXPECT_TRUE(names_that_explain(a.tensors(), {codes_row(1, "large", {8})}).empty());  // the codes have no name
}

TEST(Definitions, a_row_that_another_output_contradicts_is_named_for_its_output_alone) {
  const Answered a{bytes_of_codes({1, 2}), bytes_of_codes({7}), bytes_of_codes({1, 2}), bytes_of_codes({8})};
  const Definition floor{"recipe floor", [](std::size_t output) {
                           return output == 0 ? bytes_of_codes({1, 9}) : bytes_of_codes({8});
                         }};
  EXPECT_EQ(names_that_explain(a.tensors(), {floor}), std::vector<std::string>{"scales: recipe floor"});
  EXPECT_EQ(names_that_explain(a.tensors(), {floor, codes_row(1, "large", {8})}), std::vector<std::string>{"large"});
}

TEST(Definitions, any_nan_equals_another_where_the_output_says_so) {
  TensorInfo info;
  info.name = "y", info.format = Format::fp32;
  const auto word = [](std::uint32_t bits) {
    Bytes bytes(4);
    std::memcpy(bytes.data(), &bits, 4);
    return bytes;
  };
  const Bytes expected = word(0x3F800000), observed = word(0x7FC00001);
  const Table table{definition_of_output(0, "NaN", [&] { return word(0xFFC00000); })};
  const std::vector<AnswerTensor> bits{{info, expected, observed}};
  EXPECT_TRUE(names_that_explain(bits, table).empty());
  info.any_nan_is_equal = true;
  const std::vector<AnswerTensor> values{{info, expected, observed}};
  EXPECT_EQ(names_that_explain(values, table), std::vector<std::string>{"NaN"});
}

TEST(Definitions, a_row_that_is_not_defined_here_is_left_out_and_other_errors_pass) {
  const Answered a{bytes_of_codes({1}), {}, bytes_of_codes({2}), {}};
  const auto throws = [](ErrorKind kind) {
    return definition_of_output(0, "none", [kind]() -> Bytes { throw Error(kind, "not here"); });
  };
  EXPECT_EQ(names_that_explain(a.tensors(), {throws(ErrorKind::usage), codes_row(0, "two", {2})}),
            std::vector<std::string>{"two"});
  EXPECT_THROW(names_that_explain(a.tensors(), {throws(ErrorKind::internal)}), Error);
}

TEST(Definitions, the_likeliest_causes_are_those_that_explain_most_and_contradict_little) {
  const Bytes expected(20, std::byte{0});
  Bytes observed = expected;
  for (std::size_t i = 0; i < 10; ++i) observed[i] = std::byte{1};
  Bytes nine = observed;
  nine[0] = std::byte{0};
  Bytes all = expected;
  for (std::byte& b : all) b = std::byte{1};
  const AnswerTensor t{codes_named("codes"), expected, observed};
  const auto row = [](const char* name, const Bytes& bytes) {
    return definition_of_output(0, name, [bytes] { return bytes; });
  };
  EXPECT_EQ(likeliest_causes(t, {row("nine", nine), row("all ones", all)}, 0, "code"),
            std::vector<std::string>{"9 of the 10 wrong codes are those of nine"});
  EXPECT_EQ(likeliest_causes(t, {row("nine", nine), row("ten", observed), row("ten again", observed)}, 0, "code"),
            std::vector<std::string>{"every code is that of ten (identical here: ten again)"});
}

TEST(Definitions, answers_that_are_computed_together_are_computed_once) {
  int computed = 0;
  const auto memo = std::make_shared<AnswerMemo>();
  const Definition row = definition_of_all(
      "both",
      [&] {
        return ++computed, std::vector<Bytes>{bytes_of_codes({1}), bytes_of_codes({2})};
      },
      memo);
  EXPECT_EQ(row.bytes(1), bytes_of_codes({2}));
  EXPECT_EQ(row.bytes(0), bytes_of_codes({1}));
  EXPECT_TRUE(row.bytes(2).empty());
  EXPECT_EQ(computed, 1);
}

TEST(Definitions, a_box_is_explained_by_rows_that_give_every_probe) {
  const auto probe = [](const char* name, std::initializer_list<int> observed, std::initializer_list<int> one,
                        std::initializer_list<int> two) {
    return Probe{
        name, {codes_named("codes")}, {bytes_of_codes(observed)}, {codes_row(0, "one", one), codes_row(0, "two", two)}};
  };
  const std::vector<Probe> probes{probe("first", {1, 2}, {1, 2}, {1, 2}), probe("second", {3}, {3}, {4})};
  const Match match = match_answers(probes, "two");
  EXPECT_EQ(match.explaining, std::vector<std::string>{"one"});
  EXPECT_FALSE(match.holds());
  ASSERT_TRUE(match.not_declared);
  EXPECT_EQ(match.not_declared->equal, 2);
  EXPECT_EQ(match.not_declared->first.probe, "second");
  EXPECT_EQ(match.not_declared->probes, std::vector<std::string>{"first"});
  EXPECT_EQ(match.compared, 3);
  EXPECT_EQ(match.tried, 2U);
}

TEST(Definitions, slips_are_apart_from_definitions) {
  Probe probe{"p", {codes_named("codes")}, {bytes_of_codes({5})}, {codes_row(0, "four", {4})}};
  Match match = match_answers({&probe, 1});
  EXPECT_FALSE(match.explained());
  probe.table = {codes_row(0, "one too large", {5}), codes_row(0, "zero", {0})};
  try_slips(match, {&probe, 1});
  EXPECT_EQ(match.slips, std::vector<std::string>{"one too large"});
  EXPECT_FALSE(match.explained());
  EXPECT_EQ(match.tried, 3U);
  EXPECT_NE(to_text(match).find("a slip        one too large: every bit"), std::string::npos) << to_text(match);
}

}  // namespace
}  // namespace mxcheck
