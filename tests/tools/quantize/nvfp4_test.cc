// quantize, dequantize, scale and identify with recipes of two levels of scales.

#include <nlohmann/json.hpp>

#include "goldens/io/tensor_file.h"
#include "numerics/format/packing.h"
#include "numerics/scale/recipe.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"
#include "reference/quantize/word_order.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using namespace test;
using nlohmann::json;

class Nvfp4Tool : public ToolTest {
 protected:
  void SetUp() override { write_safetensors(dir / "real.safetensors", real_tensors()); }
  SafetensorsFile quantized(const std::string& arguments) {
    expect_output("quantize real.safetensors:layer0.x -o q.safetensors " + arguments, 0);
    return read_safetensors(dir / "q.safetensors");
  }
  [[nodiscard]] Tensor x() const { return read_tensor(dir / "real.safetensors:layer0.x"); }
  [[nodiscard]] static MatrixView view(const Tensor& x) {
    return {x.format, x.data.data(), x.rows(), x.cols(), x.cols()};
  }
  static const Tensor& part(const SafetensorsFile& file, const std::string& name) {
    for (const Tensor& t : file.tensors) {
      if (t.name == name) return t;
    }
    throw std::runtime_error("no tensor " + name);
  }
};

TEST_F(Nvfp4Tool, a_file_has_the_reference_s_bytes_and_gives_its_values_back) {
  const Tensor matrix = x();
  for (const Recipe& recipe : two_level_recipes()) {
    for (const std::string block : {"1x16", "16x16", "16x1"}) {
      const SafetensorsFile file = quantized("--preset " + recipe.name + " --block " + block);
      const QuantizedTensor q = quantize(view(matrix), Format::e2m1, block_shape_named(block), recipe);
      EXPECT_EQ(part(file, "codes").data, q.codes.data) << recipe.name << " " << block;
      EXPECT_EQ(part(file, "scales").data, q.scales().data);
      EXPECT_EQ(part(file, "tensor_scale").data, q.levels[1].scales.data);
      expect_output("dequantize q.safetensors -o y.npy", 0);
      EXPECT_EQ(read_tensor(dir / "y.npy").data, to_bytes(dequantize(q))) << recipe.name << " " << block;
    }
  }
}

TEST_F(Nvfp4Tool, an_outer_scale_is_of_a_row_or_given) {
  const Tensor matrix = x();
  const Recipe recipe = any_recipe_named("nvfp4");
  const SafetensorsFile rows = quantized("--preset nvfp4 --tensor-scale row --layout tcgen05");
  const QuantizedTensor q = quantize(view(matrix), Format::e2m1, {1, 16}, recipe, {.outer_of_rows = true});
  EXPECT_EQ(part(rows, "tensor_scale").data, q.levels[1].scales.data);
  EXPECT_EQ(part(rows, "scales").data,
            to_bytes(to_layout(ScaleLayout::tcgen05, scale_shape(q), q.scales().as<std::uint8_t>())));
  expect_output("dequantize q.safetensors -o y.npy", 0);
  EXPECT_EQ(read_tensor(dir / "y.npy").data, to_bytes(dequantize(q)));
  const std::vector<float> given{0.25F};
  const SafetensorsFile one = quantized("--preset nvfp4 --tensor-scale 0.25");
  EXPECT_EQ(part(one, "codes").data,
            quantize(view(matrix), Format::e2m1, {1, 16}, recipe, {.outer = given}).codes.data);
  expect_output("quantize real.safetensors:layer0.x -o q.h5 --preset nvfp4_te", 0);
  EXPECT_EQ(read_tensor(dir / "q.h5:/tensor_scale").size(), 1U);
}

// Each code is one of the two beside its value; a seed gives one answer, another another.
TEST_F(Nvfp4Tool, stochastic_rounding_takes_a_seed) {
  const Tensor low = part(quantized("--preset nvfp4 --rounding toward_zero"), "codes");
  const Tensor a = part(quantized("--preset nvfp4 --rounding stochastic --seed 1"), "codes");
  const Tensor again = part(quantized("--preset nvfp4 --rounding stochastic --seed 1"), "codes");
  const Tensor b = part(quantized("--preset nvfp4 --rounding stochastic --seed 2"), "codes");
  EXPECT_EQ(a.data, again.data);
  EXPECT_NE(a.data, b.data);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_LE((a.code(i) & 7) - (low.code(i) & 7), 1U) << i;
    ASSERT_EQ(a.code(i) & 8, low.code(i) & 8) << i;
  }
}

TEST_F(Nvfp4Tool, stochastic_rounding_by_bytes_is_that_of_the_reference) {
  const Tensor matrix = x();
  const SafetensorsFile file = quantized("--preset nvfp4 --rounding stochastic_bytes --seed 5");
  Recipe recipe = any_recipe_named("nvfp4");
  recipe.rounding = Rounding::stochastic;
  std::vector<std::uint32_t> words;
  for (std::size_t i = 0; i < matrix.size(); ++i) words.push_back(element_byte_word(5, i, {0, 0}));
  const QuantizedTensor q = quantize(view(matrix), Format::e2m1, {1, 16}, recipe, {.words = words});
  EXPECT_EQ(part(file, "codes").data, q.codes.data);
  EXPECT_NE(part(quantized("--preset nvfp4 --rounding stochastic --seed 5"), "codes").data, q.codes.data);
}

// A kernel's bytes for given words are found again under its seed, and what rounds them otherwise is not explained.
TEST_F(Nvfp4Tool, the_words_of_a_kernel_are_those_of_the_reference_and_identify_names_them) {
  const Tensor matrix = x();
  Recipe recipe = any_recipe_named("nvfp4_te");
  recipe.rounding = Rounding::stochastic;
  const auto identified = [&](const std::string& more, int code) {
    return expect_output(
               "identify --x real.safetensors:layer0.x --codes q.safetensors:codes --scales "
               "q.safetensors:scales --tensor-scale q.safetensors:tensor_scale " +
                   more,
               code)
        .out;
  };
  for (const WordOrder& order : word_orders()) {
    for (const auto& output : kWordOutputs) {
      const NamedWords named{&order, output.value};
      const WordMatrix shape = word_matrix(output.value, matrix.rows(), matrix.cols());
      if (!has_words(order, shape)) continue;
      const SafetensorsFile file = quantized(
          "--preset nvfp4_te --rounding stochastic_bytes --seed 18446744073709551615 --first-call 40 --words " +
          to_text(named));
      const std::vector<std::uint32_t> words = ordered_words(order, shape, {~std::uint64_t{0}, 40});
      EXPECT_EQ(part(file, "codes").data,
                quantize(view(matrix), Format::e2m1, {1, 16}, recipe, {.words = words}).codes.data);
    }
  }
  quantized(
      "--preset nvfp4_te --rounding stochastic_bytes --seed 7 --first-call 40 --words te_tuned:columns_of_both "
      "--word-bytes 0123");
  expect_contains(identified("--seed 7 --first-call 40", 0),
                  "explained by  nvfp4_te, words te_tuned:columns_of_both, bytes 0123, every bit");
  identified("--seed 8 --first-call 40", 1);
  identified("", 1);
  quantized("--preset nvfp4_te --rounding stochastic_bytes --seed 7");
  expect_contains(identified("--seed 7", 0), "explained by  nvfp4_te, words stochastic_bytes, every bit");
  quantized("--preset nvfp4_te --rounding stochastic --seed 7");
  expect_contains(identified("--seed 7", 0), "explained by  nvfp4_te, words stochastic, every bit");
}

TEST_F(Nvfp4Tool, refuses_words_that_no_kernel_has) {
  write_safetensors(dir / "odd.safetensors",
                    {{make_tensor("x", Format::fp32, {33, 64}, std::vector<float>(33 * 64, 1.0F))}, {}});
  const auto refused = [&](const std::string& arguments, const std::string& text) {
    expect_contains(mxcheck("quantize odd.safetensors:x -o r.safetensors --preset nvfp4_te " + arguments).err, text);
    EXPECT_FALSE(std::filesystem::exists(dir / "r.safetensors")) << arguments;
  };
  const std::string bytes = "--rounding stochastic_bytes --seed 1 ";
  refused(bytes + "--words te_tuned", "multiples of 32 rows and columns, and the matrix has 33 x 64");
  refused(bytes + "--words te_tuned:columns", "no columns without rows");
  refused(bytes + "--words te", "--words: unknown word order 'te'; known are te_blockwise");
  refused(bytes + "--words te_blockwise:column", "unknown output of words 'column'");
  refused(bytes + "--words te_blockwise --word-bytes 3210", "--word-bytes");
  refused("--rounding stochastic --seed 1 --words te_blockwise", "--words is of --rounding stochastic_bytes");
  refused("--words te_blockwise", "--words is of --rounding stochastic_bytes");
  refused(bytes + "--first-call 3", "--first-call and --word-bytes are of --words");
  expect_contains(mxcheck("identify --x odd.safetensors:x --codes odd.safetensors:x --first-call 1").err,
                  "--first-call is of --seed");
  expect_contains(mxcheck("identify --x odd.safetensors:x --codes odd.safetensors:x --seed 1").err,
                  "--seed is of codes under E4M3 scales");
}

TEST_F(Nvfp4Tool, refuses_what_contradicts_itself) {
  const auto refused = [&](const std::string& arguments, const std::string& text) {
    expect_contains(mxcheck("quantize real.safetensors:layer0.x -o r.safetensors " + arguments).err, text);
    EXPECT_FALSE(std::filesystem::exists(dir / "r.safetensors")) << arguments;
  };
  refused("--tensor-scale 2", "--tensor-scale is of recipes with two levels of scales; rceil has one");
  refused("--preset nvfp4 --tensor-scale rows", "must be row, or the number that is stored");
  refused("--preset nvfp4 --tensor-scale 0", "must be finite and greater than 0");
  refused("--preset nvfp4 --tensor-scale nan", "must be finite and greater than 0");
  refused("--preset nvfp4 --tensor-scale row --block 16x16", "needs blocks of one row");
  refused("--preset nvfp4 --inf saturate", "are of one level of scales; nvfp4 has two");
  refused("--preset nvfp4 --layout deepgemm", "E4M3 scales need layout compact or tcgen05");
  refused("--preset nvfp4 --block 16x16 --layout tcgen05", "blocks of one row or one column");
  refused("--rounding stochastic", "needs --seed");
  refused("--rounding stochastic_bytes", "--rounding stochastic_bytes needs --seed");
  refused("--seed 3", "--seed is of --rounding stochastic");
  refused("--preset nvfp5", "nvfp4");
}

// A file that was changed: every part is checked.
TEST_F(Nvfp4Tool, a_damaged_file_is_refused_in_words) {
  const SafetensorsFile file = quantized("--preset nvfp4_te");
  const auto refused = [&](const std::function<void(SafetensorsFile&)>& change, const std::string& text) {
    SafetensorsFile other = file;
    change(other);
    write_safetensors(dir / "bad.safetensors", other);
    const auto ran = mxcheck("dequantize bad.safetensors -o y.npy");
    EXPECT_NE(ran.code, 0);
    expect_contains(ran.err, text);
  };
  refused(
      [](SafetensorsFile& f) { std::erase_if(f.tensors, [](const Tensor& t) { return t.name == "tensor_scale"; }); },
      "'codes', 'scales' and 'tensor_scale'");
  refused([](SafetensorsFile& f) { f.metadata["stored_scale"] = "inverse"; }, "'inverse', which is not known");
  refused([](SafetensorsFile& f) { f.metadata["limit"] = "nan"; }, "which is no positive number");
  refused([](SafetensorsFile& f) { f.metadata["limit"] = "-448"; }, "which is no positive number");
  refused([](SafetensorsFile& f) { f.metadata.erase("tensor_scale_of"); }, "its metadata has no 'tensor_scale_of'");
  refused([](SafetensorsFile& f) { f.metadata["tensor_scale_of"] = "row"; }, "'tensor_scale' is F32 [1 x 1]");
}

TEST_F(Nvfp4Tool, scale_prints_what_each_recipe_gives_a_block) {
  const json rows = json::parse(mxcheck("scale --tensor-amax 1 --json 1 0x1p-22").out)["rows"];
  ASSERT_EQ(rows.size(), 2 * two_level_recipes().size());
  for (const json& row : rows) {
    const Recipe recipe = any_recipe_named(std::string(row["rule"]));
    const OuterScale outer = outer_scale(recipe.two_level, 6, 1);
    const BlockScale scale = block_scale(recipe, Format::e2m1, {.amax = row["value"]}, outer);
    EXPECT_EQ(row["byte"], scale.byte) << row;
    EXPECT_EQ(row["code"], encode_element(recipe, Format::e2m1, scale, row["value"])) << row;
  }
  expect_contains(mxcheck("scale --rule nvfp4 1").err, "--tensor-amax, the tensor's largest magnitude, is needed");
  expect_contains(mxcheck("scale --rule rceil --tensor-amax 1 1").err, "rceil has one");
  expect_contains(mxcheck("scale --tensor-amax -1 1").err, "is negative");
}

// Codes one a byte, two a byte, F4; scales compact, padded and in tiles; the scale of the tensor as a number, or as a
// tensor: the recipe is named in every form.
TEST_F(Nvfp4Tool, identify_names_the_recipe_of_a_dump_in_every_form) {
  const Tensor matrix = x();
  write_safetensors(dir / "x.safetensors", {{{"x", matrix.format, matrix.shape, matrix.data}}, {}});
  for (const std::string name : {"nvfp4_te", "nvfp4_46"}) {
    const Recipe recipe = any_recipe_named(name);
    const QuantizedTensor q = quantize(view(matrix), Format::e2m1, {1, 16}, recipe);
    const std::vector<std::uint8_t> packed = pack_e2m1(q.codes.as<std::uint8_t>());
    const auto tiles = to_layout(ScaleLayout::tcgen05, scale_shape(q), q.scales().as<std::uint8_t>());
    SafetensorsFile dump;
    dump.tensors = {{"x", matrix.format, matrix.shape, matrix.data},
                    {"codes", Format::uint8, q.codes.shape, q.codes.data},
                    {"packed", Format::uint8, {q.rows(), q.cols() / 2}, to_bytes(packed)},
                    {"f4", Format::e2m1, q.codes.shape, q.codes.data},
                    {"scales", Format::e4m3, q.scales().shape, q.scales().data},
                    {"tiles", Format::uint8, {std::ssize(tiles)}, to_bytes(tiles)},
                    {"outer", Format::fp32, {1}, q.levels[1].scales.data}};
    write_safetensors(dir / "d.safetensors", dump);
    for (const std::string codes : {"codes", "packed", "f4"}) {
      for (const std::string scales : {"scales", "tiles"}) {
        const auto ran = mxcheck("identify --x d.safetensors:x --codes d.safetensors:" + codes +
                                 " --scales d.safetensors:" + scales + " --tensor-scale d.safetensors:outer");
        EXPECT_EQ(ran.code, 0) << ran.err;
        expect_contains(ran.out, name);
      }
    }
    EXPECT_EQ(mxcheck("identify --x d.safetensors:x --codes d.safetensors:f4 --scales d.safetensors:scales").code, 0);
    expect_contains(mxcheck("identify --x d.safetensors:x --codes d.safetensors:f4 --scales d.safetensors:scales "
                            "--tensor-scale 123.25")
                        .out,
                    "explained by  " + name + ", under the scale of its own amax");
  }
}

TEST_F(Nvfp4Tool, identify_refuses_dumps_that_do_not_fit) {
  const SafetensorsFile file = quantized("--preset nvfp4_te");
  const std::string dump = "identify --x real.safetensors:layer0.x --codes q.safetensors:codes ";
  expect_contains(mxcheck(dump + "--tensor-scale 1").err, "--scales is needed");
  expect_contains(mxcheck(dump + "--scales q.safetensors:scales --tensor-scale 0").err, "must be positive and finite");
  expect_contains(mxcheck(dump + "--scales q.safetensors:scales --tensor-scale nan").err,
                  "must be positive and finite");
  expect_contains(mxcheck(dump + "--scales q.safetensors:tensor_scale --tensor-scale 1").err, "are F8_E4M3, or U8");
  expect_contains(mxcheck(dump + "--scales q.safetensors:codes --tensor-scale 1").err, "are those of no block");
  expect_contains(mxcheck("identify --x real.safetensors:layer0.x --codes q.safetensors:scales --scales "
                          "q.safetensors:scales --tensor-scale 1")
                      .err,
                  "two a byte");
}

}  // namespace
}  // namespace mxcheck
