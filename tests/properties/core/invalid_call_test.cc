#include "properties/core/invalid_call.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "numerics/bytes.h"
#include "properties/core/check.h"

namespace mxcheck {
namespace {

// A quantize call of 4 x 40, with offsets and an index of the rows where asked for.
struct Good {
  explicit Good(const char* options = "")
      : problem(make_problem(
            parse_case("op=quantize block=1x32 rows=4 cols=40 data=normal seed=1" + std::string(options)))),
        call(problem->call()) {}
  std::unique_ptr<Problem> problem;
  Call call;
};

const InvalidCall& named(const std::vector<InvalidCall>& all, std::string_view how) {
  for (const InvalidCall& invalid : all) {
    if (invalid.how == how) return invalid;
  }
  throw Error(ErrorKind::internal, "no invalid call: " + std::string(how));
}

TEST(InvalidCall, each_common_one_applies_and_spares_the_problem) {
  std::set<std::string> names;
  for (const InvalidCall& invalid : common_invalid_calls()) {
    SCOPED_TRACE(invalid.how);
    EXPECT_TRUE(names.insert(invalid.how).second);
    Good good;
    const bool of_longer_policies = std::string_view(invalid.how).find("own fields") != std::string_view::npos;
    EXPECT_NE(invalid.make(good.call), of_longer_policies);
    const Call untouched = good.problem->call();
    EXPECT_EQ(untouched.inputs[0].shape, (std::vector<std::int64_t>{4, 40}));
    EXPECT_EQ(read<mxcheck_policy>(untouched.policy).rows, 4);
  }
  EXPECT_GE(names.size(), 8U);
}

TEST(InvalidCall, does_what_it_says) {
  const std::vector<InvalidCall> common = common_invalid_calls();
  Good good;
  EXPECT_TRUE(named(common, "inputs is a null pointer").make(good.call));
  EXPECT_EQ(good.call.defect, CallDefect::null_inputs);
  EXPECT_TRUE(named(common, "the last input is there twice").make(good.call));
  EXPECT_EQ(good.call.inputs.size(), 2U);
  EXPECT_TRUE(named(common, "the last output is missing").make(good.call));
  EXPECT_EQ(good.call.outputs.size(), 1U);
  EXPECT_TRUE(named(common, "the policy's rows are negative").make(good.call));
  EXPECT_EQ(read<mxcheck_policy>(good.call.policy).rows, -1);
}

// Makes the tensor at a place wrong in this way; empty where that does not apply.
std::optional<CallTensor> wrong(Good& good, bool output, std::size_t number, std::string_view how) {
  for (const TensorPlace& place : tensor_places(good.call, operation_named("quantize"))) {
    if (place.is_output != output || place.number != number) continue;
    for (const InvalidTensor& invalid : invalid_tensors()) {
      CallTensor& tensor = tensor_at(good.call, place);
      if (invalid.how == how) return invalid.make(good.call, tensor, place) ? std::optional(tensor) : std::nullopt;
    }
  }
  throw Error(ErrorKind::internal, "no invalid tensor: " + std::string(how));
}

TEST(InvalidTensor, does_what_it_says) {
  const auto of_x = [](std::string_view how) {
    Good good;
    return wrong(good, false, 0, how);
  };
  EXPECT_EQ(of_x("it has another dtype")->dtype, Format::e4m3);
  EXPECT_EQ(of_x("its dtype has two lanes")->lanes, 2);
  EXPECT_TRUE(of_x("it is on another kind of device")->elsewhere);
  EXPECT_EQ(of_x("it is on device number 1")->device_id, 1);
  EXPECT_EQ(of_x("its column stride is 2")->strides, (std::vector<std::int64_t>{40, 2}));
  EXPECT_EQ(of_x("its rows overlap by an element")->strides, (std::vector<std::int64_t>{39, 1}));
  EXPECT_EQ(of_x("its row stride is 0")->strides, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(of_x("its row stride is negative")->strides, (std::vector<std::int64_t>{-40, 1}));
  EXPECT_EQ(of_x("it has one dimension too few")->shape, (std::vector<std::int64_t>{160}));
  EXPECT_EQ(of_x("it has one dimension too many")->shape, (std::vector<std::int64_t>{1, 4, 40}));
  EXPECT_EQ(of_x("it has one row too many")->bytes, 5U * 40 * 2);
}

TEST(InvalidTensor, spares_what_a_call_may_have) {
  Good good;
  EXPECT_FALSE(wrong(good, false, 0, "it has gaps between rows"));  // x may
  EXPECT_TRUE(wrong(good, true, 0, "it has gaps between rows"));    // codes may not
  Good gathered(" gather=9");                                       // x has any number of rows
  EXPECT_FALSE(wrong(gathered, false, 0, "it has one row too many"));
  EXPECT_TRUE(wrong(gathered, false, 1, "it has one column too many"));
  Good grouped(" experts=0,1,4");  // any number of experts
  EXPECT_FALSE(wrong(grouped, false, 1, "it has one column too few"));
}

TEST(InvalidCall, policies_are_made_wrong_in_one_place) {
  Good good;
  EXPECT_TRUE(unknown_format().make(good.call));
  EXPECT_STREQ(read<mxcheck_policy>(good.call.policy).format, "z4m3");
  EXPECT_TRUE(unknown_recipe().make(good.call));
  EXPECT_STREQ(read<mxcheck_policy>(good.call.policy).recipe, "zceil");
  EXPECT_TRUE(unknown_layout().make(good.call));
  EXPECT_EQ(read<mxcheck_policy>(good.call.policy).layout, 7);
  EXPECT_TRUE(named(invalid_blocks(), "the blocks have a negative number of columns").make(good.call));
  EXPECT_EQ(read<mxcheck_policy>(good.call.policy).block_cols, -32);
  EXPECT_TRUE(disagreeing_cols().make(good.call));
  EXPECT_EQ(read<mxcheck_policy>(good.call.policy).cols, 41);
  EXPECT_EQ(read<mxcheck_policy>(good.call.policy).rows, 4);
  const InvalidCall never = invalid_policy<mxcheck_policy>("never", [](mxcheck_policy&) { return false; });
  EXPECT_FALSE(never.make(good.call));
}

TEST(InvalidCall, offsets_are_added_or_replaced) {
  const std::vector<InvalidCall> all = invalid_offsets([](const Call&) { return 4; });
  const std::vector<std::vector<std::int64_t>> expected{{0, 4, 1, 4}, {0, 2, 5}, {1, 4}};
  ASSERT_EQ(all.size(), expected.size());
  for (const char* options : {"", " experts=0,1,4"}) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      Good good(options);
      EXPECT_TRUE(all[i].make(good.call));
      ASSERT_EQ(good.call.inputs.size(), 2U);
      const CallTensor& offsets = good.call.inputs[1];
      EXPECT_TRUE(offsets.is_offsets);
      EXPECT_EQ(values_in<std::int64_t>({offsets.data, offsets.bytes}), expected[i]) << all[i].how;
    }
  }
  Good good;  // two rows cannot be out of order
  EXPECT_FALSE(invalid_offsets([](const Call&) { return 2; })[0].make(good.call));
}

TEST(InvalidCall, a_row_index_is_made_wrong_where_there_is_one) {
  for (const InvalidCall& invalid : invalid_row_index()) {
    Good none;
    EXPECT_FALSE(invalid.make(none.call));
    Good gathered(" gather=9");
    EXPECT_TRUE(invalid.make(gathered.call));
    const CallTensor& index = gathered.call.inputs.back();
    ASSERT_TRUE(index.is_index);
    const std::int32_t last = values_in<std::int32_t>({index.data, index.bytes}).back();
    EXPECT_TRUE(last == -1 || last == 9) << last;
  }
}

TEST(InvalidCall, a_value_behind_the_tensor_is_not_changed) {
  Good gathered(" gather=9");
  CallTensor& index = gathered.call.inputs.back();
  const std::byte* before = index.data;
  EXPECT_FALSE(change_value<std::int32_t>(gathered.call, index, 4, -1));
  EXPECT_EQ(index.data, before);
  EXPECT_TRUE(change_value<std::int32_t>(gathered.call, index, 3, -1));
  EXPECT_NE(index.data, before);  // the call's own copy
}

}  // namespace
}  // namespace mxcheck
