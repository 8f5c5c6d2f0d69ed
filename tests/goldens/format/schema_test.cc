#include "goldens/format/schema.h"

#include <gtest/gtest.h>

#include "tests/goldens/format/golden_samples.h"

namespace mxcheck {
namespace {

std::string objection_to(const DatasetInfo& set) { return objection({{}, {set}}, "golden"); }

TEST(Schema, has_nothing_against_goldens_of_every_kind) {
  for (const char* kind : {"golden", "quantized", "record", "routes", "layer"})
    EXPECT_EQ(objection(test::small_info(), kind), "");
  EXPECT_EQ(objection({{}, {}}, "golden"), "");
}

TEST(Schema, names_what_is_wrong_with_a_dataset) {
  const DatasetInfo right{"x", Role::output, "bfloat16", Dtype::u16, {2}, {}};
  EXPECT_EQ(objection_to(right), "");
  const auto with = [&](auto change) {
    DatasetInfo set = right;
    change(set);
    return objection_to(set);
  };
  EXPECT_EQ(with([](auto& s) { s.name = "1x"; }),
            "dataset '1x': a name has letters, digits and '_', and does not begin with a digit");
  EXPECT_EQ(with([](auto& s) {
              s.shape = {1, 1, 1};
            }),
            "dataset 'x': has rank 3; a golden's datasets have rank 1 or 2");
  EXPECT_EQ(with([](auto& s) { s.shape = {-1}; }), "dataset 'x': has a negative extent");
  EXPECT_EQ(with([](auto& s) { s.dtype = Dtype::u8; }), "dataset 'x': has elements too narrow for format 'bfloat16'");
  EXPECT_EQ(with([](auto& s) { s.dtype = Dtype::f32; }),
            "dataset 'x': has elements that are none of u8 u16 u32 i32 i64");
  EXPECT_EQ(with([](auto& s) { s.format = "int32"; }),
            "dataset 'x': has format 'int32', which its elements do not fit");
  EXPECT_EQ(with([](auto& s) { s.attributes = {{"role", "x"}}; }), "dataset 'x': attribute 'role' is the writer's own");
  EXPECT_EQ(with([](auto& s) { s.attributes = {{"a", ""}, {"a", ""}}; }), "dataset 'x': attribute 'a' is there twice");
  EXPECT_EQ(with([](auto& s) {
              s.attributes = {{"a b", ""}};
            }),
            "dataset 'x': attribute 'a b': a key has letters, digits, '_', '.' and '-'");
  EXPECT_EQ(objection({{}, {right, right}}, "golden"), "dataset 'x' is there twice");
}

TEST(Schema, bounds_attributes_datasets_and_kinds) {
  EXPECT_EQ(objection({{{"a", std::string(kMaxText, 'x')}}, {}}, "golden"), "");
  EXPECT_EQ(objection({{{"a", std::string(kMaxText + 1, 'x')}}, {}}, "golden"), "attribute 'a' has over 64 KiB");
  EXPECT_EQ(objection({{{"a", std::string("\0", 1)}}, {}}, "golden"), "attribute 'a' holds a zero byte");
  EXPECT_NE(objection({{}, {}}, "gold"), "");
  Attributes many;
  for (std::size_t i = 0; i + 2 < kMaxAttributes; ++i) many.emplace_back("a" + std::to_string(i), "");
  EXPECT_EQ(objection({many, {}}, "golden"), "");  // two are the writer's
  many.emplace_back("one_more", "");
  EXPECT_EQ(objection({many, {}}, "golden"), "more than 256 attributes");
}

}  // namespace
}  // namespace mxcheck
