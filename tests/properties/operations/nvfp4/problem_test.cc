// quantize_nvfp4: its cases as text, its tensors, and whether its inputs tell the orders of rounding apart.

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "kernels/candidate.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "properties/core/check.h"
#include "properties/operations/nvfp4/problem.h"
#include "properties/operations/scaled_blocks/operation.h"
#include "tests/properties/spoilt_runner.h"
#include "tests/testing.h"

namespace mxcheck {
namespace {

using namespace test;

Case nvfp4_case(const std::string& recipe, Data data, std::uint64_t seed, BlockShape block = {1, 16},
                Format dtype = Format::bf16) {
  Case c;
  c.variant = {"quantize_nvfp4", dtype};
  blocks_of(c.variant) = {Format::e2m1, recipe, block, MXCHECK_COMPACT};
  c.rows = 32, c.cols = 256, c.data = data, c.seed = seed;
  return c;
}

TEST(Nvfp4Problem, the_scale_of_the_tensor_is_part_of_the_case) {
  Case c = nvfp4_case("nvfp4_te", Data::normal, 3);
  blocks_case(c).tensor_scale = 0x40490FDB;
  const std::string text = to_text(c);
  expect_contains(text, "op=quantize_nvfp4 format=e2m1 recipe=nvfp4_te block=1x16");
  expect_contains(text, "tensor_scale=0x40490fdb");
  EXPECT_EQ(parse_case(text), c);
  EXPECT_EQ(Nvfp4Problem(c).tensor_scale, std::vector<float>{std::bit_cast<float>(0x40490FDBU)});
  for (const std::string wrong : {"0x00000000", "0x7f800000", "0x7fc00000", "0xbf800000", "1.5"}) {
    const std::string other = text.substr(0, text.find("tensor_scale=")) + "tensor_scale=" + wrong;
    EXPECT_THROW(parse_case(other), Error) << wrong;
  }
}

// A problem that is read from a call equals the one that made it: a record can be replayed.
TEST(Nvfp4Problem, a_problem_of_a_call_has_the_same_answer) {
  for (const Recipe& recipe : two_level_recipes()) {
    for (const Data data : {Data::boundaries, Data::specials, Data::real, Data::zeros}) {
      Case c = nvfp4_case(recipe.name, data, 77);
      c.stride = 259, c.cols = 255;
      const Nvfp4Problem p(c);
      const Nvfp4Problem again(p.call());
      EXPECT_EQ(again.tensor_scale, p.tensor_scale);
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(again.answer()[i].bytes, p.answer()[i].bytes) << recipe.name;
      EXPECT_EQ(p.answer()[0].bytes.size(), 32U * 128U);
    }
  }
}

// Row i of what is quantized is row index[i] of x, rows that nothing names are NaN, and the call says the same.
TEST(Nvfp4Problem, gathered_rows_are_the_source_rows_that_the_index_names) {
  for (const std::int64_t source_rows : {1, 9, 32, 70}) {
    Case c = nvfp4_case("nvfp4_te", Data::slots, 5);
    c.stride = 260, c.gather = source_rows, c.experts = {0, 3, 3, 32};
    EXPECT_EQ(parse_case(to_text(c)), c);
    const Nvfp4Problem p(c);
    const Call call = p.call();
    ASSERT_EQ(call.inputs.size(), 4U);
    EXPECT_EQ(call.inputs[0].shape, (std::vector<std::int64_t>{source_rows, 256}));
    EXPECT_TRUE(call.inputs[2].is_offsets && call.inputs[3].is_index);
    std::vector<bool> named(static_cast<std::size_t>(source_rows));
    for (std::size_t i = 0; i < 32; ++i) {
      const auto from = static_cast<std::size_t>(p.gathered.index[i]);
      ASSERT_LT(from, named.size());
      named[from] = true;
      EXPECT_EQ(std::memcmp(call.inputs[0].data + from * 520, p.input.bytes.data() + i * 520, 512), 0);
    }
    for (std::size_t row = 0; row < named.size(); ++row)
      EXPECT_TRUE(named[row] || call.inputs[0].data[row * 520] == std::byte{0xFF});
    const Nvfp4Problem again(call);
    Case plain = c;
    plain.gather = 0;
    const Nvfp4Problem given(plain, p.input, p.tensor_scale[0]);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(again.answer()[i].bytes, p.answer()[i].bytes);
      EXPECT_EQ(given.answer()[i].bytes, p.answer()[i].bytes);
    }
  }
}

TEST(Nvfp4Problem, an_x_that_is_given_is_gathered_without_repeats) {
  Case c = nvfp4_case("nvfp4", Data::normal, 6);
  const Nvfp4Problem whole(c);
  c.gather = 2;
  const Nvfp4Problem p(c, whole.input, 1);
  EXPECT_EQ(p.input.bytes, whole.input.bytes);
  EXPECT_EQ(p.c.gather, c.rows);
}

TEST(Nvfp4Problem, names_the_rows_that_were_read_in_place_of_those_of_the_index) {
  Case c = nvfp4_case("nvfp4_te", Data::normal, 8);
  c.gather = 140'000, c.experts = {0, 13, 32};
  const Nvfp4Problem p(c);
  const std::vector<ExpectedTensor> answer = p.answer();
  std::set<std::string> names;
  for (const Definition& row : p.definitions({})) {
    const std::vector<Bytes> observed{bytes_of_row(row, 0), bytes_of_row(row, 1)};
    if (observed[0].empty() || observed[0] == answer[0].bytes) continue;
    names.insert(row.name);
  }
  for (const char* name :
       {"rows are not gathered", "the row index is read as 16 bits", "the row index of the row before",
        "the row index of the row after", "the last row has the row index of the one before it",
        "the row index begins again at each expert"})
    EXPECT_TRUE(names.contains(name)) << name;
}

// Numbers on ties tell each order of roundings from the others.
TEST(Nvfp4Problem, boundaries_tell_recipes_apart) {
  for (const Format dtype : {Format::bf16, Format::fp32}) {
    std::set<std::string> missed;
    for (const Recipe& own : two_level_recipes()) {
      for (const Recipe& other : two_level_recipes()) {
        if (own.name == other.name || own.two_level.stored != other.two_level.stored) continue;
        bool told = false;
        for (std::uint64_t seed = 100; seed < 116 && !told; ++seed) {
          const Nvfp4Problem p(nvfp4_case(own.name, Data::boundaries, seed, {1, 16}, dtype));
          told = p.outputs_of(p.quantized(own)) != p.outputs_of(p.quantized(other));
        }
        if (!told) missed.insert(own.name + " as " + other.name);
      }
    }
    EXPECT_TRUE(missed.empty()) << spec(dtype).name << ": " << missed.size() << ", " << *missed.begin();
  }
}

// Blocks of normal data whose scale byte is not that of TransformerEngine where one of the four other orders of
// roundings computes it.
TEST(Nvfp4Problem, random_data_hardly_tells_an_order_of_roundings_from_another) {
  std::size_t blocks = 0, told = 0;
  for (std::uint64_t seed = 1; blocks < 40'000; ++seed) {
    const Nvfp4Problem p(nvfp4_case("nvfp4_te", Data::normal, seed));
    Recipe recipe = any_recipe_named("nvfp4_te");
    const Tensor own = p.quantized(recipe).scales();
    std::vector<bool> differs(own.size());
    for (const BlockQuotient order : {BlockQuotient::quotient_times_encode, BlockQuotient::product_times_encode,
                                      BlockQuotient::over_scaled_decode, BlockQuotient::quotient_over_decode}) {
      recipe.two_level.block = order;
      const Tensor other = p.quantized(recipe).scales();
      for (std::size_t i = 0; i < own.size(); ++i) differs[i] = differs[i] || own.code(i) != other.code(i);
    }
    blocks += own.size();
    told += static_cast<std::size_t>(std::ranges::count(differs, true));
  }
  EXPECT_EQ(blocks, 40'448U);
  EXPECT_EQ(told, 11U);
}

// Each block under the ties of a case: where the block's quotient is halfway between two E4M3 numbers, codes too.
TEST(Nvfp4Problem, boundaries_hold_scales_of_every_kind) {
  std::map<std::uint32_t, int> scales;
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    const Nvfp4Problem p(nvfp4_case("nvfp4", Data::boundaries, seed));
    const QuantizedTensor q = p.quantized(p.recipe());
    for (std::size_t i = 0; i < q.scales().size(); ++i) ++scales[q.scales().code(i)];
  }
  EXPECT_GT(scales[0], 0) << "underflow";
  EXPECT_GT(scales[0x7E], 0) << "saturation";
  std::size_t subnormal = 0;
  for (std::uint32_t code = 1; code < 8; ++code) subnormal += scales.contains(code) ? 1U : 0U;
  EXPECT_GE(subnormal, 6U);
  EXPECT_GT(scales.size(), 110U) << "of 127";
}

TEST(Nvfp4Problem, the_reference_keeps_every_law_under_every_recipe) {
  for (const Recipe& recipe : two_level_recipes()) {
    for (const Data data : {Data::boundaries, Data::codes, Data::normal, Data::slots, Data::zeros}) {
      for (const Statement& law : nvfp4_laws()) {
        for (const std::int64_t source_rows : {0, 20, 40}) {
          Case c = nvfp4_case(recipe.name, data, 1);
          c.gather = source_rows;
          const std::string summary = test::found(law.name, c);
          EXPECT_TRUE(summary.empty() || summary == "nothing") << law.name << ", " << recipe.name << ": " << summary;
        }
      }
    }
  }
}

TEST(Nvfp4Problem, names_the_definition_that_another_recipe_is) {
  for (const auto& [own, other] : std::vector<std::pair<std::string, std::string>>{
           {"nvfp4_te", "nvfp4_te_2_8"}, {"nvfp4_vllm", "nvfp4_trtllm"}, {"nvfp4", "nvfp4_mslk"}}) {
    std::set<std::string> names;
    for (std::uint64_t seed = 100; seed < 116; ++seed) {
      const Nvfp4Problem p(nvfp4_case(own, Data::boundaries, seed));
      const std::vector<Bytes> observed = p.outputs_of(p.quantized(any_recipe_named(other)));
      const std::vector<ExpectedTensor> answer = p.answer();
      if (answer[0].bytes == observed[0] && answer[1].bytes == observed[1]) continue;
      const std::vector<AnswerTensor> answers{{p.outputs[0], answer[0].bytes, observed[0]},
                                              {p.outputs[1], answer[1].bytes, observed[1]}};
      const std::vector<std::string> found = names_that_explain(answers, p.definitions(observed));
      EXPECT_TRUE(std::find(found.begin(), found.end(), "recipe " + other) != found.end()) << own << " " << seed;
      names.insert(found.begin(), found.end());
    }
    EXPECT_TRUE(names.contains("recipe " + other)) << other;
  }
}

}  // namespace
}  // namespace mxcheck
