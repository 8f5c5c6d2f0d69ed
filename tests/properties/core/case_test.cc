#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "numerics/bytes.h"
#include "properties/core/case.h"
#include "properties/core/check.h"
#include "properties/core/invalid_call.h"
#include "properties/core/operation.h"
#include "properties/core/rng.h"
#include "properties/operations/scaled_blocks/fields.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/drawn.h"

namespace mxcheck {
namespace {

constexpr const char* kExample =
    "op=quantize format=e4m3 recipe=rceil block=1x32 layout=tcgen05 x=bf16 rows=3 cols=33 stride=40 experts=0,1,3 "
    "gather=5 "
    "data=normal seed=7 plant=0,31:7f80 pad=255 threads=2";

Case random_case(std::uint64_t seed) {
  Draw draw(seed);
  Case c;
  constexpr const char* kOperations[] = {"quantize", "quantize_dual", "dequantize", "scale_layout"};
  constexpr Format kFormats[] = {Format::e4m3, Format::e5m2, Format::e2m1, Format::mxint8};
  constexpr BlockShape kShapes[] = {{1, 32}, {32, 1}, {32, 32}, {1, 128}, {128, 1}, {128, 128}, {1, 0}};
  constexpr Format kDtypes[] = {Format::bf16, Format::fp32, Format::fp16};
  constexpr const char* kRecipes[] = {"rceil", "floor", "te"};
  c.variant.operation = draw.pick(kOperations);
  blocks_of(c.variant) = {draw.pick(kFormats), draw.pick(kRecipes), draw.pick(kShapes),
                          static_cast<int>(draw.below(2))};
  c.variant.dtype = draw.pick(kDtypes);
  c.rows = draw.between(0, 200), c.cols = draw.between(0, 200);
  if (draw.chance(30)) c.stride = c.cols + draw.between(1, 9);
  if (c.variant.operation.starts_with("quantize") && draw.chance(20))
    c.set_col_stride(draw.between(0, 3), draw.between(0, 2));
  if (draw.chance(40)) c.experts = {0, draw.between(0, c.rows), c.rows};
  c.data = static_cast<Data>(draw.below(std::size(kDataNames)));
  c.seed = draw.word();
  for (std::uint64_t n = draw.below(4); n > 0 && c.elements() > 0; --n) {
    c.plants.push_back(
        {draw.between(0, c.rows - 1), draw.between(0, c.cols - 1), static_cast<std::uint32_t>(draw.below(65536))});
  }
  if (draw.chance(60)) blocks_case(c).pad = static_cast<std::uint8_t>(draw.below(256));
  c.threads = static_cast<int>(draw.below(5));
  return c;
}

TEST(Case, writes_every_digit_of_a_planted_word_and_reads_fewer) {
  const std::string of = "op=cast format=e4m3 recipe=rceil block=1x32 layout=compact x=";
  const std::string at = " rows=1 cols=1 data=zeros seed=1 plant=0,0:";
  for (const auto& [dtype, given, written] :
       {std::tuple{"fp32", "1", "00000001"}, std::tuple{"fp32", "3f80", "00003f80"}, std::tuple{"bf16", "1", "0001"},
        std::tuple{"fp16", "0000003c", "003c"}, std::tuple{"fp64", "1", "00000001"}}) {
    EXPECT_EQ(to_text(parse_case(of + dtype + at + given)), of + dtype + at + written);
  }
}

TEST(Case, reads_the_example_of_its_header) {
  const Case c = parse_case(kExample);
  Variant expected{"quantize", Format::bf16};
  blocks_of(expected) = {Format::e4m3, "rceil", {1, 32}, 1};
  EXPECT_EQ(c.variant, expected);
  EXPECT_EQ(c.rows, 3);
  EXPECT_EQ(c.cols, 33);
  EXPECT_EQ(c.stride, 40);
  EXPECT_EQ(c.experts, (std::vector<std::int64_t>{0, 1, 3}));
  EXPECT_EQ(c.data, Data::normal);
  EXPECT_EQ(c.seed, 7U);
  EXPECT_EQ(c.plants, (std::vector<Plant>{{0, 31, 0x7F80}}));
  EXPECT_EQ(int{blocks_case(c).pad}, 255);
  EXPECT_EQ(c.threads, 2);
  EXPECT_EQ(to_text(c), kExample);
}

TEST(Case, survives_the_way_to_text_and_back) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Case c = random_case(seed);
    ASSERT_EQ(parse_case(to_text(c)), c) << to_text(c);
  }
}

TEST(Case, has_a_name_for_every_distribution) {
  for (std::size_t i = 0; i < std::size(kDataNames); ++i) {
    Case c;
    c.variant.operation = "quantize", c.data = static_cast<Data>(i);
    EXPECT_NE(to_text(c).find("data=" + std::string(kDataNames[i]) + " "), std::string::npos);
  }
  EXPECT_EQ(static_cast<std::size_t>(Data::real) + 1, std::size(kDataNames));
}

TEST(Case, fields_come_in_any_order_with_any_spaces) {
  EXPECT_EQ(parse_case("  rows=2   op=quantize cols=4 "), parse_case("op=quantize cols=4 rows=2"));
}

TEST(Case, refuses_what_it_cannot_mean) {
  test::expect_refused({
      {"", "a case without op="},
      {"rows=2 cols=2", "a case without op="},
      {"op=quantize rows", "of the form FIELD=VALUE"},
      {"op=quantize color=red", "case field color=red is not a field of op=quantize"},
      {"op=quantize rows=two", "case field rows=two is not a number"},
      {"op=quantize rows=", "case field rows= is not a number"},
      {"op=quantize rows=2x", "case field rows=2x is not a number"},
      {"op=quantize rows=-1", "a case of -1 x 0 elements"},
      {"op=quantize rows=99999999999999999999", "is not a number in range"},
      {"op=quantize rows=68719476737 cols=1", "at most 2^36"},
      {"op=quantize rows=1048576 cols=1048576", "at most 2^36"},
      {"op=quantize rows=68719476736 cols=1 stride=137438953472", "at most 2^36"},
      {"op=quantize rows=2 cols=4 stride=3", "case field stride is less than cols"},
      {"op=quantize rows=2 cols=4 stride=-1", "stride"},
      {"op=quantize rows=2 cols=4 col_stride=2", "beside a stride of at least 1"},
      {"op=quantize rows=2 cols=4 stride=8 col_stride=-2", "case field col_stride is 1 to 2^36"},
      {"op=quantize rows=2 cols=4 stride=6 col_stride=2", "put two elements in one place"},
      {"op=quantize rows=3 cols=4 stride=1 col_stride=2", "put two elements in one place"},
      {"op=quantize rows=2 cols=4 gather=3 stride=1 col_stride=2", "put two elements in one place"},
      {"op=quantize rows=2 cols=99 stride=1 col_stride=68719476736", "span more than 2^36 elements"},
      {"op=dequantize rows=2 cols=4 stride=1 col_stride=2", "not for op=dequantize"},
      {"op=quantize rows=2 cols=4 gather=-1", "case field gather"},
      {"op=quantize rows=2 cols=4 gather=68719476736", "case field gather"},
      {"op=quantize format=e9m9", "case field format=e9m9 is not a format"},
      {"op=quantize x=double", "case field x=double is not a format"},
      {"op=quantize recipe=best", "best"},
      {"op=quantize block=7", "7"},
      {"op=quantize layout=flat", "case field layout=flat is not one of compact, tcgen05"},
      {"op=quantize pad=256", "case field pad=256 is not a number in range"},
      {"op=quantize pad=-1", "case field pad=-1 is not a number in range"},
      {"op=quantize seed=-1", "case field seed=-1 is not a number in range"},
      {"op=quantize threads=-1", "case field threads is negative"},
      {"op=quantize data=nice", "case field data=nice is not a distribution"},
      {"op=quantize rows=3 cols=1 experts=1,3", "offset"},
      {"op=quantize rows=3 cols=1 experts=0,2", "offset"},
      {"op=quantize rows=3 cols=1 experts=0,3,2,3", "offset"},
      {"op=quantize rows=3 cols=1 experts=", "case field experts= is not a list"},
      {"op=quantize rows=3 cols=1 experts=0,,3", "case field experts= is not a number"},
      {"op=quantize rows=2 cols=2 plant=0,0", "is not ROW,COL:HEXBITS"},
      {"op=quantize rows=2 cols=2 plant=0:0,1", "is not ROW,COL:HEXBITS"},
      {"op=quantize rows=2 cols=2 plant=0,0:zz", "case field plant=zz is not a number"},
      {"op=quantize rows=2 cols=2 plant=2,0:0", "lies outside the matrix"},
      {"op=quantize rows=2 cols=2 plant=0,-1:0", "lies outside the matrix"},
      {"op=quantize x=bf16 rows=2 cols=2 plant=0,0:10000", "more bits than x=bf16"},
      {"op=quantize rows=1 cols=1 plant=0,0:1 plant=0,0:1 plant=0,0:1 plant=0,0:1 plant=0,0:1 plant=0,0:1 plant=0,0:1 "
       "plant=0,0:1 plant=0,0:1",
       "more than 8"},
  });
}

TEST(Case, says_where_its_tensors_begin) {
  constexpr const char* kText =
      "op=quantize format=e4m3 recipe=rceil block=1x32 layout=compact x=bf16 rows=1 cols=2 data=zeros seed=0 "
      "misaligned=2,8,0,0/5,0,0,63";
  const Case c = parse_case(kText);
  EXPECT_EQ(c.misaligned.of_input(0), 2);
  EXPECT_EQ(c.misaligned.of_input(7), 0);
  EXPECT_EQ(c.misaligned.of_output(0), 5);
  EXPECT_EQ(c.misaligned.of_output(4), 63);
  EXPECT_EQ(to_text(c), kText);
  for (const char* wrong : {"1", "1,2/3", "64,0,0,0/0,0,0,0", "0,0,0,0/0,0,0", "0,0,0,0/0,0,0,x", "-1,0,0,0/0,0,0,0"}) {
    test::expect_error(ErrorKind::usage, "case field misaligned=", [&] {
      (void)parse_case(std::string("op=quantize rows=1 cols=1 misaligned=") + wrong);
    });
  }
}

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
  EXPECT_FALSE(wrong(good, false, 0, "its column stride is 0"));    // of whoever takes none "is 2" says enough
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
  EXPECT_TRUE(named(disagreeing_extents({}), "the policy's cols disagree with the tensors").make(good.call));
  EXPECT_EQ(read<mxcheck_policy>(good.call.policy).cols, 41);
  EXPECT_EQ(read<mxcheck_policy>(good.call.policy).rows, 4);
  const InvalidCall never = invalid_policy<mxcheck_policy>("never", [](mxcheck_policy&) { return false; });
  EXPECT_FALSE(never.make(good.call));
}

TEST(InvalidCall, offsets_are_changed_at_every_place) {
  std::set<std::vector<std::int64_t>> lists;
  for (std::uint64_t drawn = 0; drawn < 2048; ++drawn) {
    for (const InvalidCall& one : misplaced_offsets(drawn)) {
      Good good(" experts=0,1,2,4");
      ASSERT_TRUE(one.make(good.call));
      lists.insert(values_in<std::int64_t>({good.call.inputs[1].data, good.call.inputs[1].bytes}));
    }
  }
  const std::int64_t word = std::int64_t{1} << 32;
  const std::set<std::vector<std::int64_t>> expected{{0, 3, 2, 4},
                                                     {0, 1, 0, 4},
                                                     {word, 1, 2, 4},
                                                     {0, 1 + word, 2, 4},
                                                     {0, 1, 2 + word, 4},
                                                     {0, 1, 2, 4 + word},
                                                     {INT64_MIN, 1, 2, 4},
                                                     {0, 1 + INT64_MIN, 2, 4},
                                                     {0, 1, 2 + INT64_MIN, 4},
                                                     {0, 1, 2, 4 + INT64_MIN}};
  EXPECT_EQ(lists, expected);
  Good without;
  for (const InvalidCall& one : misplaced_offsets(0)) EXPECT_FALSE(one.make(without.call));
}

TEST(InvalidCall, counts_may_descend_and_are_as_many_as_there_are_groups) {
  Good good(" experts=0,1,2,4");
  const Operation& operation = operation_named(good.call.operation);
  EXPECT_TRUE(tensor_places(good.call, operation)[1].may_have_any_cols);
  good.call.inputs[1].is_counts = true;
  EXPECT_FALSE(tensor_places(good.call, operation)[1].may_have_any_cols);
  EXPECT_FALSE(misplaced_offsets(0)[0].make(good.call));
  EXPECT_TRUE(misplaced_offsets(0)[1].make(good.call));
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
    const auto values = values_in<std::int32_t>({index.data, index.bytes});
    EXPECT_EQ(std::ranges::count(values, -1) + std::ranges::count(values, 9), 1);
  }
}

TEST(InvalidCall, one_of_many_values_is_at_either_end_or_between) {
  std::array<int, 5> times{};
  for (std::int32_t first = 0; first < 60; ++first) {
    const std::vector<std::int32_t> list{first, 1, 2, 3, 4};
    CallTensor input = index_tensor(list);
    Call call;
    ASSERT_TRUE(change_one<std::int32_t>(call, input, -7));
    const auto values = values_in<std::int32_t>({input.data, input.bytes});
    ++times[static_cast<std::size_t>(std::ranges::find(values, -7) - values.begin())];
  }
  EXPECT_GT(times[0], 5);
  EXPECT_GT(times[2], 5);
  EXPECT_GT(times[4], 5);
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

TEST(Operation, each_is_found_by_its_name) {
  std::set<std::string_view> names;
  for (const Operation* o : all_operations()) {
    EXPECT_TRUE(names.insert(o->name()).second) << o->name();
    EXPECT_EQ(find_operation(o->name()), o);
    EXPECT_EQ(&operation_named(o->name()), o);
  }
  for (const char* name : {"quantize", "quantize_dual", "dequantize", "scale_layout", "cast", "matmul", "route",
                           "route_round", "route_metadata", "route_backward"})
    EXPECT_TRUE(names.count(name)) << name;
  EXPECT_EQ(find_operation("matmul:any_contract"), find_operation("matmul"));
  EXPECT_EQ(find_operation("quantise"), nullptr);
  EXPECT_EQ(find_operation(""), nullptr);
  test::expect_error(ErrorKind::usage, "no operation 'quantise'; known are quantize, quantize_dual, dequantize",
                     [] { (void)operation_named("quantise"); });
}

// The gate relies on this, of all that could be asked: a variant is its text, in a case and alone.
TEST(Operation, what_can_be_asked_survives_the_way_to_text_and_back) {
  for (const Operation* o : all_operations()) {
    const bool has_contract = o->name() == "matmul";
    const std::string operation = o->variant_name(has_contract ? "sm90_fp8+promote128" : "exact");
    const std::vector<Variant> variants = o->askable(operation);
    EXPECT_FALSE(variants.empty()) << operation;
    std::set<std::string> texts;
    for (const Variant& v : variants) {
      const std::string text = to_text(v);
      ASSERT_TRUE(texts.insert(text).second) << text;
      ASSERT_EQ(parse_variant(text), v) << text;
      ASSERT_EQ(find_operation(v.operation), o) << text;
    }
    EXPECT_TRUE(offers(variants, variants.back()));
    EXPECT_FALSE(offers({}, variants.back()));
  }
}

TEST(Operation, every_statement_has_a_name_of_its_own_and_a_check) {
  std::set<std::string_view> names;
  for (const Statement& s : all_statements()) {
    EXPECT_TRUE(names.insert(s.name).second) << s.name;
    EXPECT_FALSE(s.sentence.empty() || s.source.empty()) << s.name;
    EXPECT_TRUE(s.applies && s.check) << s.name;
    EXPECT_TRUE(!s.data.empty() || s.corners) << s.name;
  }
}

TEST(Operation, strides_of_x_are_part_of_its_contract) {
  EXPECT_EQ(operation_named("cast").variant_name("exact+col_stride"), "cast");
  EXPECT_THROW((void)operation_named("cast").variant_name("exact+column_stride"), Error);
  EXPECT_THROW((void)operation_named("dequantize").variant_name("exact+col_stride"), Error);
}

TEST(Case, strides_keep_their_kind_and_their_gap_when_extents_change) {
  const auto with_extents = [](const char* text, std::int64_t rows, std::int64_t cols) {
    const Case was = parse_case(text);
    Case c = was;
    c.rows = rows, c.cols = cols;
    c.fit_strides(was);
    return std::pair{c.stride, c.col_stride};
  };
  using Strides = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(with_extents("op=cast rows=9 cols=4", 5, 3), (Strides{0, 0}));
  EXPECT_EQ(with_extents("op=cast rows=9 cols=4 stride=6", 5, 3), (Strides{5, 0}));
  EXPECT_EQ(with_extents("op=cast rows=9 cols=4 stride=1 col_stride=9", 5, 3), (Strides{1, 5}));
  EXPECT_EQ(with_extents("op=cast rows=9 cols=4 stride=1 col_stride=11", 0, 3), (Strides{1, 3}));
  EXPECT_EQ(with_extents("op=quantize rows=9 cols=4 gather=20 stride=1 col_stride=21", 5, 3), (Strides{1, 21}));
  EXPECT_EQ(with_extents("op=cast rows=9 cols=4 stride=15 col_stride=3", 5, 3), (Strides{12, 3}));
}

TEST(Operation, half_the_rows_have_no_experts_and_options_are_told) {
  const Operation& quantize = operation_named("quantize");
  Case c = parse_case("op=quantize rows=9 cols=4 experts=0,2,9");
  EXPECT_TRUE(quantize.is_option(c));
  quantize.halve_rows(c);
  EXPECT_EQ(c.rows, 4);
  EXPECT_TRUE(c.experts.empty());
  EXPECT_FALSE(quantize.is_option(c));
  EXPECT_TRUE(quantize.is_option(parse_case("op=quantize rows=9 cols=4 stride=5")));
  EXPECT_TRUE(quantize.is_option(parse_case("op=quantize rows=9 cols=4 gather=5")));
  EXPECT_FALSE(quantize.is_option(parse_case("op=quantize rows=9 cols=4 stride=4")));
  EXPECT_FALSE(quantize.is_option(parse_case("op=quantize rows=9 cols=4 stride=8 col_stride=2")));  // by contract
  EXPECT_TRUE(quantize.has_invalid_calls(c));
  EXPECT_FALSE(quantize.has_invalid_calls(parse_case("op=quantize rows=1 cols=4")));
}

TEST(Operation, a_problem_is_its_case_and_its_call_gives_it_back) {
  const Case c = parse_case("op=quantize block=1x32 rows=3 cols=40 data=normal seed=5");
  const std::unique_ptr<Problem> p = make_problem(c);
  EXPECT_EQ(p->c, c);
  const Call call = p->call();
  const std::unique_ptr<Problem> again = operation_named(call.operation).problem_of(call);
  const auto a = p->answer(), b = again->answer();
  ASSERT_EQ(a.size(), p->outputs.size());
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].bytes, b[i].bytes) << a[i].info.name;
  const std::vector<std::size_t> order = p->order();
  EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), p->outputs.size());
}

}  // namespace
}  // namespace mxcheck
