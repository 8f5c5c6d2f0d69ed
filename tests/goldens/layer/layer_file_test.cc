#include "goldens/layer/layer_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "goldens/format/reader.h"
#include "goldens/io/sha256.h"
#include "goldens/layer/recipe_json.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/reference/layer/test_layer.h"

namespace mxcheck {
namespace {

LayerData small_layer(const std::string& recipe) {
  const test::TestLayer t({24, 64, 32, 4}, 2, 7);
  LayerData d;
  d.shape = t.shape, d.recipe = layer_recipe_named(recipe), d.gate_up = t.gate_up;
  d.x = t.x, d.w1 = t.w1, d.w2 = t.w2, d.d_o = t.d_o;
  d.routes = t.routes(), d.has_backward = true;
  compute(d);
  return d;
}

std::vector<std::byte> bytes_of(const LayerTensor& t) { return {t.data.begin(), t.data.end()}; }

GoldenReader reader_of(const std::string& path) {
  const std::string bytes = test::read_file(path);
  return GoldenReader(path, {sha256(std::as_bytes(std::span(bytes))), bytes.size(), ""});
}

TEST(LayerFile, both_files_hold_every_tensor_of_every_recipe) {
  const test::TemporaryDirectory dir;
  for (const LayerRecipe& r : all_layer_recipes()) {
    LayerData d = small_layer(r.name);
    write_layer(dir / "l.h5", d, {});
    write_layer(dir / "l.safetensors", d, {});
    const GoldenReader h5 = reader_of(dir / "l.h5");
    EXPECT_EQ(h5.file_kind(), "layer");
    const SafetensorsFile file = read_safetensors(dir / "l.safetensors");
    const std::vector<LayerTensor> all = tensors_of(d);
    ASSERT_EQ(h5.info().datasets.size(), all.size());
    ASSERT_EQ(file.tensors.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(h5.info().datasets[i].name, all[i].name);
      EXPECT_EQ(h5.info().datasets[i].format, all[i].format);
      EXPECT_EQ(h5.read(all[i].name).data, bytes_of(all[i])) << all[i].name;
      const auto same = [&](const Tensor& t) { return t.name == all[i].name; };
      const auto at = std::find_if(file.tensors.begin(), file.tensors.end(), same);
      ASSERT_NE(at, file.tensors.end()) << all[i].name;
      EXPECT_EQ(at->shape, all[i].shape);
      EXPECT_EQ(at->data, bytes_of(all[i]));
    }
  }
}

TEST(LayerFile, attributes_explain_the_file) {
  const test::TemporaryDirectory dir;
  LayerData d = small_layer("dsv3_pow2");
  write_layer(dir / "l.h5", d, {}, {{"variant", "softmax"}});
  const GoldenReader h5 = reader_of(dir / "l.h5");
  const Attributes& a = h5.info().attributes;
  EXPECT_EQ(layer_recipe_from(attribute(a, "recipe"), "r"), d.recipe);
  EXPECT_EQ(attribute(a, "up.b.block"), "128x128");
  EXPECT_EQ(attribute(a, "down.contract"), "sm90_fp8+promote128");
  EXPECT_EQ(attribute(a, "gate_up"), "halves");
  EXPECT_EQ(attribute(a, "variant"), "softmax");
  EXPECT_EQ(attribute(a, "rows"), std::to_string(d.rows()));
  const DatasetInfo* w1 = h5.info().find("W1");
  EXPECT_EQ(attribute(w1->attributes, "shape"), "4 x 64 x 64");
  EXPECT_EQ(w1->shape, (std::vector<std::int64_t>{256, 64}));
  EXPECT_EQ(w1->role, Role::input);
  EXPECT_EQ(attribute(h5.info().find("kept_h_codes")->attributes, "step"), "keep");
}

TEST(LayerFile, writes_what_is_asked_for_and_the_same_bytes_again) {
  const test::TemporaryDirectory dir;
  LayerData d = small_layer("mxfp8");
  for (const std::string name : {"a.h5", "b.h5"}) write_layer(dir / name, d, {"dS", "H"});
  EXPECT_EQ(test::read_file(dir / "a.h5"), test::read_file(dir / "b.h5"));
  const GoldenReader h5 = reader_of(dir / "a.h5");
  ASSERT_EQ(h5.info().datasets.size(), 2U);
  EXPECT_EQ(h5.info().datasets[0].name, "H");
  EXPECT_EQ(h5.info().datasets[1].name, "dS");
  test::expect_error(ErrorKind::usage, "'h' is no tensor of this run, which has X, W1, W2, offsets",
                     [&] { write_layer(dir / "c.h5", d, {"h"}); });
  EXPECT_THROW(write_layer(dir / "c.h5", d, {}, {}, [] { throw Error(ErrorKind::environment, "x"); }), Error);
  EXPECT_EQ(dir.names().size(), 2U);
}

TEST(LayerFile, the_forward_pass_alone_has_no_gradients) {
  LayerData d = small_layer("bf16");
  d.has_backward = false;
  const std::vector<LayerTensor> all = tensors_of(d);
  EXPECT_EQ(all.back().name, "O");
  EXPECT_TRUE(std::none_of(all.begin(), all.end(), [](const LayerTensor& t) { return t.name.starts_with("d"); }));
}

TEST(LayerFile, each_name_is_of_its_own_tensor) {
  LayerData d = small_layer("dsv3_pow2");
  const std::vector<LayerTensor> all = tensors_of(d);
  const auto is = [&](const std::string& name, const void* data) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const LayerTensor& t) { return t.name == name; });
    ASSERT_NE(at, all.end()) << name;
    EXPECT_EQ(at->data.data(), data) << name;
  };
  is("X", d.x.data()), is("W1", d.w1.data()), is("W2", d.w2.data()), is("dO", d.d_o.data());
  is("offsets", d.routes.offsets.data()), is("token_offsets", d.routes.token_offsets.data());
  is("row_token", d.routes.row_token.data()), is("row_weight", d.routes.row_weight.data());
  is("token_rows", d.routes.token_rows.data());
  const LayerForward& f = d.forward;
  is("H", f.h.data()), is("A", f.a.data()), is("Y", f.y.data()), is("O", f.o.data());
  is("up_a_codes", f.up_a.quantized.codes.data.data()), is("up_b_scales", f.up_b.quantized.scales().data.data());
  is("down_a_codes", f.down_a.quantized.codes.data.data()), is("down_b_codes", f.down_b.quantized.codes.data.data());
  is("kept_h_codes", f.kept.h.quantized.codes.data.data());
  const LayerBackward& b = d.backward;
  is("P", b.p.data()), is("A_again", b.a.data()), is("scaled_A", b.scaled_a.data()), is("dH", b.dh.data());
  is("dS", b.ds.data()), is("dW2", b.dw2.data()), is("dX_rows", b.dx_rows.data()), is("dW1", b.dw1.data());
  is("dX", b.dx.data()), is("d_down_a_codes", b.d_down_a.quantized.codes.data.data());
  is("d_down_b_codes", b.d_down_b.quantized.codes.data.data()),
      is("d_w2_a_codes", b.d_w2_a.quantized.codes.data.data());
  is("d_w2_b_codes", b.d_w2_b.quantized.codes.data.data()), is("d_up_a_codes", b.d_up_a.quantized.codes.data.data());
  is("d_up_b_codes", b.d_up_b.quantized.codes.data.data()), is("d_w1_a_codes", b.d_w1_a.quantized.codes.data.data());
  is("d_w1_b_codes", b.d_w1_b.quantized.codes.data.data());
}

// A tensor written through its name is the layer's own.
TEST(LayerFile, names_are_views_of_the_data) {
  LayerData d = small_layer("mxfp8");
  for (LayerTensor& t : tensors_of(d)) std::fill(t.data.begin(), t.data.end(), std::byte{1});
  EXPECT_EQ(d.forward.h[0], 0x0101);
  EXPECT_EQ(d.backward.d_w1_b.quantized.scales().code(0), 1);
  EXPECT_EQ(d.routes.token_offsets[1], 0x0101010101010101);
}

}  // namespace
}  // namespace mxcheck
