#include <array>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "goldens/format/reader.h"
#include "properties/goldens/input.h"
#include "properties/goldens/suite.h"
#include "properties/operations/layer/golden.h"
#include "properties/operations/moe/golden.h"
#include "properties/operations/router/golden.h"
#include "properties/operations/scaled_blocks/golden.h"
#include "tests/goldens/temporary_directory.h"
#include "tests/properties/goldens/specs.h"

namespace mxcheck {
namespace {

using test::expect_error;

using test::suite_with;

std::string quantize_with(const std::string& more) {
  return suite_with(R"({"name": "g", "kind": "quantize", "format": "e4m3", "block": "1x32", "recipe": "rceil")" + more +
                    "}");
}

TEST(GoldenSuite, reads_every_field) {
  const GoldenSuite s = parse_suite(
      R"({"suite": "mine", "description": "d", "goldens": [
        {"name": "a-1", "kind": "quantize", "description": "e", "format": "e5m2", "block": "32x1", "recipe": "floor",
         "offsets": [0, 3, 3, 7], "layouts": ["deepgemm", "tcgen05"], "pad_byte": 90, "values": true,
         "input": {"bits": ["3f80", "0", "ffff", "7f80", "1", "2", "3"], "rows": 7, "cols": 1, "dtype": "bf16",
                   "plant": [[6, 0, "abcd"]], "rows_of": [0, 7]}},
        {"name": "b", "kind": "layout", "rows": 3, "cols": 4, "pad_byte": 1},
        {"name": "c", "kind": "formats", "formats": ["e2m1", "float8_e4m3fn"]},
        {"name": "d", "kind": "quantize", "format": "e4m3", "block": "row", "recipe": "te",
         "input": {"file": "x.npy", "index": 2, "dtype": "fp16"}}]})",
      "t");
  EXPECT_EQ(s.name, "mine");
  EXPECT_EQ(s.description, "d");
  ASSERT_EQ(s.goldens.size(), 4U);
  EXPECT_EQ(s.goldens[0].kind->name(), "quantize");
  const auto& a = s.goldens[0].get<QuantizeGolden>();
  EXPECT_EQ(a.format, Format::e5m2);
  EXPECT_EQ(a.block, (BlockShape{32, 1}));
  EXPECT_EQ(a.recipe, "floor");
  EXPECT_EQ(a.offsets, (std::vector<std::int64_t>{0, 3, 3, 7}));
  EXPECT_TRUE(a.tcgen05 && a.deepgemm && a.values);
  EXPECT_EQ(int{a.pad_byte}, 90);
  EXPECT_EQ(a.input.bits, (std::vector<std::uint32_t>{0x3F80, 0, 0xFFFF, 0x7F80, 1, 2, 3}));
  ASSERT_EQ(a.input.plants.size(), 1U);
  EXPECT_EQ(a.input.plants[0].bits, 0xABCDU);
  EXPECT_EQ(a.input.row_range->end, 7);
  EXPECT_EQ(s.goldens[1].get<LayoutGolden>().rows * s.goldens[1].get<LayoutGolden>().cols, 12);
  EXPECT_EQ(s.goldens[2].get<FormatsGolden>().formats, (std::vector{Format::e2m1, Format::e4m3}));
  EXPECT_EQ(s.goldens[3].get<QuantizeGolden>().input.file, "x.npy");
  EXPECT_EQ(s.goldens[3].get<QuantizeGolden>().input.index, 2);
  EXPECT_EQ(s.goldens[3].get<QuantizeGolden>().input.file_dtype, "fp16");
  EXPECT_EQ(s.goldens[3].get<QuantizeGolden>().block, (BlockShape{1, 0}));
}

TEST(GoldenSuite, refuses_with_the_place_and_what_would_be_right) {
  const std::string input = R"(, "input": {"real": "layer0.x"})";
  const std::pair<std::string, std::string> table[] = {
      {"", "t: is not valid JSON"},
      {"[]", "t: must be an object"},
      {"{\"suite\": \"s\", \"goldens\": []}", "t.goldens: are at least one"},
      {"{\"suite\": \"s\"}", "t: lacks \"goldens\""},
      {"{\"suite\": \"a/b\", \"goldens\": [{}]}", "t.suite: must be 1 to 64 letters"},
      {"{\"suite\": \"s\", \"suite\": \"s\", \"goldens\": [{}]}", "names 'suite' twice"},
      {std::string(100, '['), "nested too deeply"},
      {suite_with("{}"), "t: goldens[0]: lacks \"name\""},
      {suite_with("3"), "t: goldens[0]: must be an object"},
      {suite_with(R"({"name": "../x", "kind": "formats"})"), "goldens[0].name: must be"},
      {suite_with(R"({"name": "x", "kind": "thing"})"), "goldens[0].kind: must be formats, casts"},
      {suite_with(R"({"name": "x", "kind": "formats"}, {"name": "x", "kind": "formats"})"),
       "goldens[1].name: 'x' is a duplicate"},
      {suite_with(R"({"name": "x", "kind": "formats", "format": "e4m3"})"),
       "has \"format\", which is not a known key here"},
      {suite_with(R"({"name": "x", "kind": "formats", "formats": ["fp32"]})"), "'fp32' is none of e4m3"},
      {suite_with(R"({"name": "x", "kind": "casts", "format": "fp32"})"), "'fp32' is none of"},
      {suite_with(R"({"name": "x", "kind": "scales", "format": "e8m0"})"), "'e8m0' is none of"},
      {suite_with(R"({"name": "x", "kind": "layout", "rows": -1, "cols": 2})"), "rows: must be an integer from 0"},
      {suite_with(R"({"name": "x", "kind": "layout", "rows": 1.5, "cols": 2})"), "rows: must be an integer from 0"},
      {suite_with(R"({"name": "x", "kind": "layout", "rows": 1048576, "cols": 2})"), "times cols must be at most"},
      {suite_with(R"({"name": "x", "kind": "layout", "rows": 1, "cols": 2, "pad_byte": 256})"),
       "pad_byte: must be an integer"},
      {quantize_with(""), "lacks \"input\""},
      {quantize_with(R"(, "input": {})"), "input: takes exactly one of real, file, bits, patterns"},
      {quantize_with(R"(, "input": {"real": "a", "file": "b"})"), "takes exactly one"},
      {quantize_with(R"(, "input": {"real": "a", "rows_of": [3, 1]})"), "rows_of: must be [FIRST, END]"},
      {quantize_with(R"(, "input": {"real": "a", "plant": [[0, 0, "10000"]]})"), "at most 4 hexadecimal digits"},
      {quantize_with(R"(, "input": {"real": "a", "plant": [[0, 0, "-1"]]})"), "hexadecimal digits"},
      {quantize_with(R"(, "input": {"bits": ["1"], "rows": 2, "cols": 1, "dtype": "bf16"})"),
       "holds 1 elements; rows times cols are 2"},
      {quantize_with(R"(, "input": {"patterns": "fp32"})"), "'fp32' is none of bf16, fp16"},
      {quantize_with(input + R"(, "offsets": [1, 2])"), "offsets: "},
      {quantize_with(input + R"(, "offsets": [0, 2, 1])"), "offsets: "},
      {quantize_with(input + R"(, "offsets": [])"), "offsets: are at least two"},
      {quantize_with(input + R"(, "layouts": ["tiles"])"), "layouts: are \"tcgen05\" and \"deepgemm\""},
      {quantize_with(input + R"(, "values": 1)"), "values: must be true or false"},
      {suite_with(R"({"name": "g", "kind": "quantize", "format": "e4m3", "block": "2x2", "recipe": "rceil")" + input +
                  "}"),
       "block: "},
      {suite_with(R"({"name": "g", "kind": "quantize", "format": "e4m3", "block": "1x32", "recipe": "best")" + input +
                  "}"),
       "recipe: "},
      {suite_with(
           R"({"name": "g", "kind": "quantize", "format": "e4m3", "block": "32x32", "recipe": "rceil", "layouts": ["tcgen05"])" +
           input + "}"),
       "layouts: are for E8M0 scales"},
      {suite_with(
           R"({"name": "g", "kind": "quantize", "format": "e4m3", "block": "1x32", "recipe": "fp32", "layouts": ["tcgen05"])" +
           input + "}"),
       "layouts: are for E8M0 scales"},
  };
  for (const auto& [text, message] : table) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::usage, message, [&, &text = text] { (void)parse_suite(text, "t"); });
  }
  expect_error(ErrorKind::usage, "over 1 MiB", [] { (void)parse_suite(std::string((1 << 20) + 1, ' '), "t"); });
}

TEST(GoldenSuite, a_file_that_is_not_there_is_said) {
  expect_error(ErrorKind::input, "/nowhere/s.json", [] { (void)read_suite("/nowhere/s.json"); });
  expect_error(ErrorKind::usage, "no suite 'real2'; there are formats, casts", [] { (void)builtin_suite("real2"); });
}

TEST(BuiltinSuites, have_their_files_names_and_reach_every_kind_and_shape) {
  std::set<std::string> names, shapes, recipes;
  std::set<std::string_view> kinds;
  std::set<std::string> layer_recipes;
  for (const GoldenSuite& suite : builtin_suites()) {
    EXPECT_EQ(&builtin_suite(suite.name), &suite);
    EXPECT_NE(suite.description, "");
    EXPECT_TRUE(names.insert(suite.name).second);
    for (const GoldenSpec& golden : suite.goldens) {
      kinds.insert(golden.kind->name());
      if (golden.kind->name() == "layer") layer_recipes.insert(golden.get<LayerGolden>().recipe->name);
      if (golden.kind->name() != "quantize") continue;
      shapes.insert(to_text(golden.get<QuantizeGolden>().block));
      recipes.insert(golden.get<QuantizeGolden>().recipe);
    }
  }
  EXPECT_EQ(kinds.size(), all_golden_kinds().size());
  EXPECT_EQ(kinds.size(), 16U);
  EXPECT_EQ(shapes.size(), kAskedBlockShapes.size());
  EXPECT_EQ(layer_recipes.size(), all_layer_recipes().size());
  EXPECT_EQ(recipes.size(), all_recipes().size());
}

TEST(BuiltinSuites, are_the_files_of_the_tree_byte_for_byte) {
  ASSERT_EQ(builtin_texts().size(), builtin_suites().size());
  for (std::size_t i = 0; i < builtin_texts().size(); ++i) {
    const BuiltinText& text = builtin_texts()[i];
    EXPECT_EQ(builtin_suites()[i].name, text.name);
    EXPECT_EQ(test::read_file(std::string(MXCHECK_GOLDENS_DATA) + "/../suites/" + text.name + ".json"), text.text);
  }
}

}  // namespace

// The "input" of a spec, as suite_input.cc reads it.

namespace {

using test::expect_error;

InputSpec parsed(const std::string& text) { return parse_input(parse_json(text, "t", 6, ErrorKind::usage), "input"); }

TEST(InputSpec, keeps_every_field_of_each_source) {
  const InputSpec bits = parsed(R"({"bits": ["3f80", "0"], "rows": 1, "cols": 2, "dtype": "bf16",
                                    "rows_of": [0, 1], "cols_of": [1, 2], "plant": [[0, 1, "7F80"]]})");
  EXPECT_EQ(bits.bits, (std::vector<std::uint32_t>{0x3F80, 0}));
  EXPECT_EQ(bits.row_range->end, 1);
  EXPECT_EQ(bits.col_range->first, 1);
  ASSERT_EQ(bits.plants.size(), 1U);
  EXPECT_EQ(bits.plants[0].col, 1);
  EXPECT_EQ(bits.plants[0].bits, 0x7F80U);
  EXPECT_EQ(parsed(R"({"bits": ["ffffffff"], "rows": 1, "cols": 1, "dtype": "fp32"})").bits[0], 0xFFFFFFFFU);
  const InputSpec patterns = parsed(R"({"patterns": "fp16"})");
  EXPECT_EQ(patterns.dtype, Format::fp16);
  EXPECT_EQ(patterns.rows * patterns.cols, 65536);
  const InputSpec loads = parsed(R"({"loads": [1, 2], "dtype": "fp32"})");
  EXPECT_EQ(loads.synthetic, SyntheticLogits::loads);
  EXPECT_EQ(loads.rows, 3);
  EXPECT_EQ(loads.cols, 2);
  EXPECT_EQ(parsed(R"({"file": "x.npy", "index": 1, "dtype": "bf16"})").file_dtype, "bf16");
}

TEST(InputSpec, refuses_with_the_place_and_what_would_be_right) {
  const std::pair<const char*, const char*> table[] = {
      {"{}", "input: takes exactly one of real, file, bits, patterns, ties, loads"},
      {R"({"real": "x", "file": "y"})", "input: takes exactly one of"},
      {R"({"real": "x", "rows_of": [2, 1]})", "input.rows_of: must be [FIRST, END]"},
      {R"({"real": "x", "rows_of": [1]})", "input.rows_of: must be [FIRST, END]"},
      {R"({"real": "x", "plant": [[0, 0]]})", "input.plant: each is [row, column, \"BITS\"]"},
      {R"({"real": "x", "plant": [[-1, 0, "0"]]})", "input.plant: rows and columns are integers from 0"},
      {R"({"real": "x", "plant": [[0, 0, "10000"]]})", "input.plant: bits are strings of at most 4"},
      {R"({"bits": ["0x1"], "rows": 1, "cols": 1, "dtype": "bf16"})", "input.bits: bits are strings"},
      {R"({"bits": [], "rows": 1, "cols": 1, "dtype": "bf16"})", "input.bits: holds 0 elements; rows times cols are 1"},
      {R"({"bits": [], "rows": 0, "cols": 0, "dtype": "e4m3"})", "input.dtype: 'e4m3' is none of bf16, fp16, fp32"},
      {R"({"patterns": "fp32"})", "input.patterns: 'fp32' is none of bf16, fp16"},
      {R"({"file": "x", "plant": []})", "has \"plant\", which is not a known key here"},
  };
  for (const auto& [text, message] : table) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::usage, message, [&, &t = text] { (void)parsed(t); });
  }
}

}  // namespace

// The keys of the kinds swiglu and layer, as their operations read them.

namespace {

using test::expect_error;
using test::layer_of;
using test::swiglu_of;

GoldenSpec suite_layer_test_parsed(const std::string& golden) {
  return parse_suite(suite_with(golden), "t").goldens.at(0);
}

TEST(LayerSuites, keep_every_field_of_swiglu) {
  const GoldenSpec spec =
      suite_layer_test_parsed(swiglu_of(R"(, "gate_up": "interleaved", "h_codes": {"format": "e5m2", "recipe": "floor"},
    "codes": [{"of": "dH", "format": "e4m3", "block": "1x128", "recipe": "fp32", "along": "tokens"},
              {"of": "A", "format": "e4m3", "block": "1x32", "recipe": "rceil"}])"));
  EXPECT_EQ(spec.kind->name(), "swiglu");
  const auto& g = spec.get<SwigluGolden>();
  EXPECT_EQ(g.gate_up, GateUp::interleaved);
  EXPECT_EQ(g.offsets, (std::vector<std::int64_t>{0, 33, 33, 70}));
  EXPECT_EQ(g.gate.normal, 1U);
  EXPECT_EQ(g.up.normal, 2U);
  EXPECT_EQ(g.p.dtype, Format::fp32);
  EXPECT_EQ(g.weights.cols, 1);
  EXPECT_FALSE(g.has_h);
  EXPECT_EQ(g.h_codes->format, Format::e5m2);
  EXPECT_EQ(g.h_codes->recipe, "floor");
  ASSERT_EQ(g.codes.size(), 2U);
  EXPECT_EQ(name_of(g.codes[0]), "dH_T_e4m3_1x128_fp32");
  EXPECT_EQ(name_of(g.codes[1]), "A_e4m3_1x32_rceil");
}

TEST(LayerSuites, keep_every_field_of_a_layer) {
  const GoldenSpec spec = suite_layer_test_parsed(layer_of("dsv3", R"(, "rules": ["nr-f"], "tile": 8)"));
  EXPECT_EQ(spec.kind->name(), "layer");
  const auto& g = spec.get<LayerGolden>();
  EXPECT_EQ(g.recipe->name, "dsv3");
  EXPECT_EQ(g.closed, std::vector<std::int64_t>{1});
  EXPECT_EQ(g.x.normal, 1U);
  EXPECT_EQ(g.d_o.normal, 2U);
  EXPECT_EQ(g.route.input.normal, 3U);
  EXPECT_EQ(g.gate.at(2).normal, 12U);
  EXPECT_EQ(g.up.at(1).normal, 21U);
  EXPECT_EQ(g.down.at(0).normal, 30U);
  EXPECT_EQ(g.route.router.top_k, 2);
  ASSERT_EQ(g.route.variants.size(), 1U);
  EXPECT_EQ(g.route.variants[0]->name, "softmax-topk");
  EXPECT_EQ(g.route.rules, std::vector{TokenRoundingRule::nr_f});
  EXPECT_EQ(g.route.token_rounding.tile, 8);
}

TEST(LayerSuites, refuse_what_cannot_be_meant_and_say_where) {
  const auto codes = [](const std::string& one) { return swiglu_of(R"(, "codes": [)" + one + "]"); };
  const std::string closed = layer_of(), ending = R"("closed": [1])";
  const auto with_closed = [&](const std::string& list) {
    return std::string(closed).replace(closed.find(ending), ending.size(), "\"closed\": " + list);
  };
  const std::vector<std::array<std::string, 2>> table{
      {swiglu_of(R"(, "h": {"real": "layer0.h"})"), "h: or gate and up are needed"},
      {test::golden_of("swiglu", ""), "h: or gate and up are needed"},
      {test::golden_of("swiglu", R"("gate": {"real": "layer0.h"})"), "lacks \"up\""},
      {test::golden_of("swiglu", R"("h": {"real": "layer0.h"})"), "lacks \"p\""},
      {swiglu_of(R"(, "gate_up": "mixed")"), "gate_up: must be halves or interleaved"},
      {swiglu_of(R"(, "h_codes": {"format": "e4m3"})"), "h_codes: lacks \"recipe\""},
      {swiglu_of(R"(, "h_codes": {"format": "e4m3", "recipe": "rceil", "block": "1x32"})"), "has \"block\""},
      {swiglu_of(R"(, "tile": 1)"), "has \"tile\", which is not a known key"},
      {codes(R"({"of": "P", "format": "e4m3", "block": "1x32", "recipe": "rceil"})"), "codes[0].of: must be A"},
      {codes(R"({"of": "A", "format": "bf16", "block": "1x32", "recipe": "rceil"})"), "codes[0].format: 'bf16'"},
      {codes(R"({"of": "A", "format": "e4m3", "block": "32x1", "recipe": "rceil"})"), "codes[0].block: must be of one"},
      {codes(R"({"of": "A", "format": "e4m3", "block": "1x32", "recipe": "up"})"), "codes[0].recipe: "},
      {codes(R"({"of": "A", "format": "e4m3", "block": "1x32", "recipe": "rceil", "along": "rows"})"),
       "along: must be"},
      {codes(R"({"of": "A", "format": "e4m3", "block": "1x32", "recipe": "rceil"},
                {"of": "A", "format": "e4m3", "block": "1x32", "recipe": "rceil"})"),
       "codes[1]: A_e4m3_1x32_rceil is a duplicate"},
      {layer_of("mxfp9"), "recipe: "},
      {layer_of("mxfp8", R"(, "rules": ["up", "down"], "tile": 8)"), "rules: of a layer are one"},
      {layer_of("mxfp8", R"(, "tile": 8)"), "has \"tile\", which is not a known key"},
      {with_closed("[3]"), "closed: are integers from 0 to 2"},
      {with_closed("[1, 1]"), "closed: names expert 1 twice"},
      {with_closed("[0, 1, 2]"), "closed: leaves no expert"},
      {test::golden_of("layer", R"("recipe": "bf16")"), "lacks \"x\""},
      {swiglu_of().replace(swiglu_of().find("normal"), 6, "cycle"), "cycle"},
      {swiglu_of(R"(, "h_codes": 1)"), "h_codes: must be an object"},
  };
  for (const auto& [golden, message] : table) {
    SCOPED_TRACE(golden);
    expect_error(ErrorKind::usage, message, [&, text = suite_with(golden)] { (void)parse_suite(text, "t"); });
  }
}

}  // namespace

// The keys of the kinds about routers, as their operations read them.

namespace {

using test::expect_error;
using test::golden_of;
using test::kTies;
using test::ties;

TEST(RouteSuites, keep_every_field) {
  const GoldenSuite s = parse_suite(
      suite_with(golden_of("route_round", ties(R"("top_k": 3, "variant": "sigmoid", "groups": 4, "groups_kept": 2,
        "nan": "last", "scale": "40000000", "bias": ["3f800000"], "rules": ["sr-f", "capacity-order"], "tile": 16,
        "capacity": 5, "weights": "raw", "seed": 7, "layer": 8, "step": 9)"))),
      "t");
  const auto& r = s.goldens.at(0).get<RouteGolden>();
  EXPECT_EQ(r.router.top_k, 3);
  EXPECT_EQ(r.router.groups, 4);
  EXPECT_EQ(r.router.groups_kept, 2);
  EXPECT_EQ(r.router.nan, NanLogits::last);
  EXPECT_EQ(r.router.scale, 2.0F);
  EXPECT_EQ(r.bias, std::vector<float>{1});
  ASSERT_EQ(r.variants.size(), 1U);
  EXPECT_EQ(r.variants[0]->name, "sigmoid");
  EXPECT_EQ(r.rules, (std::vector{TokenRoundingRule::sr_f, TokenRoundingRule::capacity_order}));
  EXPECT_EQ(r.token_rounding.tile, 16);
  EXPECT_EQ(r.token_rounding.capacity, 5);
  EXPECT_FALSE(r.token_rounding.renormalize);
  EXPECT_EQ(r.token_rounding.seed, 7U);
  EXPECT_EQ(r.token_rounding.layer, 8U);
  EXPECT_EQ(r.token_rounding.step, 9U);
}

TEST(RouteSuites, refuse_what_cannot_be_meant_and_say_where) {
  const std::string round = ties(R"("top_k": 2, "variant": "sigmoid", "tile": 4, "rules": )");
  const std::string slots = R"("experts": 3, "tile": 1, "slots": )";
  const std::vector<std::array<std::string, 3>> table{
      {"route", "", "lacks \"input\""},
      {"route", kTies, "lacks \"top_k\""},
      {"route", ties(R"("top_k": 0)"), "top_k: "},
      {"route", ties(R"("top_k": 1, "variants": [])"), "variants: are at least one"},
      {"route", ties(R"("top_k": 1, "variants": ["softmax"])"), "variants: "},
      {"route", ties(R"("top_k": 1, "variants": [1])"), "variants: "},
      {"route", ties(R"("top_k": 1, "variants": ["sigmoid", "sigmoid"])"), "variants: 'sigmoid' is a duplicate"},
      {"route", ties(R"("top_k": 1, "variant": "sigmoid")"), "has \"variant\", which is not a known key"},
      {"route", ties(R"("top_k": 1, "nan": "first")"), "nan: must be refuse or last"},
      {"route", ties(R"("top_k": 1, "scale": 1)"), "scale: bits are strings"},
      {"route", ties(R"("top_k": 1, "bias": [])"), "bias: has one number an expert"},
      {"route", ties(R"("top_k": 1, "bias": ["123456789"])"), "bias: bits are strings"},
      {"route", ties(R"("top_k": 1, "groups": 2)"), "lacks \"groups_kept\""},
      {"route", ties(R"("top_k": 1, "groups": 0, "groups_kept": 1)"), "groups: "},
      {"route_round", ties(R"("top_k": 2, "tile": 4)"), "lacks \"variant\""},
      {"route_round", ties(R"("top_k": 2, "variant": "sigmoid", "tile": 0)"), "tile: "},
      {"route_round", ties(R"("top_k": 2, "variant": "sigmoid", "tile": 4)"), "lacks \"capacity\""},
      {"route_round", round + "[]", "rules: are at least one"},
      {"route_round", round + R"(["up", "up"])", "rules: 'up' is a duplicate"},
      {"route_round", round + R"(["nearest"])", "rules: "},
      {"route_round", round + R"(["sr-f"])", "lacks \"seed\""},
      {"route_round", round + R"(["up"], "seed": 1)", "has \"seed\", which is not a known key"},
      {"route_round", round + R"(["up"], "capacity": 1)", "has \"capacity\", which is not a known key"},
      {"route_round", round + R"(["sr-f"], "seed": 1, "layer": 4294967296, "step": 0)", "layer: "},
      {"route_round", round + R"(["up"], "weights": "sum")", "weights: must be renorm or raw"},
      {"route_metadata", slots + "[3], \"width\": 1", "slots: are integers from -1 to 2"},
      {"route_metadata", slots + "[-2], \"width\": 1", "slots: are integers from -1 to 2"},
      {"route_metadata", slots + "[0]", "width: or token_offsets is needed"},
      {"route_metadata", slots + "[0], \"width\": 1, \"token_offsets\": [0, 1]", "width: or token_offsets is needed"},
      {"route_metadata", slots + "[], \"token_offsets\": []", "token_offsets: are at least one"},
      {"route_losses", ties(R"("top_k": 1, "variant": "sigmoid")"), "lacks \"coefficient\""},
      {"route_losses", ties(R"("top_k": 1, "variant": "sigmoid", "coefficient": "7f800000")"), "must be finite"},
      {"route", R"("top_k": 1, "input": {"ties": "fp16", "rows": 1, "cols": 1})", "ties: 'fp16' is none of"},
      {"route", R"("top_k": 1, "input": {"ties": "fp32", "rows": 1048577, "cols": 1})", "rows: "},
      {"route", R"("top_k": 1, "input": {"ties": "fp32", "rows": 1024, "cols": 1025})", "over 1048576 elements"},
      {"route", R"("top_k": 1, "input": {"loads": [], "dtype": "fp32"})", "loads: are at least one"},
      {"route", R"("top_k": 1, "input": {"loads": [-1], "dtype": "fp32"})", "loads: are integers from 0"},
      {"route", R"("top_k": 1, "input": {"loads": [1048576, 1], "dtype": "fp32"})", "over 1048576 elements"},
      {"route", R"("top_k": 1, "input": {"loads": [1], "ties": "fp32"})", "takes exactly one of"},
  };
  for (const auto& [kind, more, message] : table) {
    const std::string text = suite_with(golden_of(kind, more));
    SCOPED_TRACE(text);
    expect_error(ErrorKind::usage, message, [&] { (void)parse_suite(text, "t"); });
  }
}

}  // namespace

namespace {

using test::read_file;

std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

// True if git has the golden's file. The larger goldens of two suites are not in git: the manifest has their hashes,
// and making them again gives the files.
bool is_in_git(const std::string& suite, const ManifestEntry& golden) {
  constexpr std::uint64_t kMost = 400'000;
  return (suite != "swiglu" && suite != "layer") || golden.size < kMost;
}

class CommittedGoldens : public testing::TestWithParam<std::string> {
 protected:
  const std::filesystem::path folder = std::filesystem::path(MXCHECK_GOLDENS_DATA) / GetParam();
};

TEST_P(CommittedGoldens, regenerate_from_their_spec_to_the_same_bytes) {
  const test::TemporaryDirectory dir;
  const Manifest made = make_suite(builtin_suite(GetParam()), dir.path(), {});
  EXPECT_TRUE(read_manifest(folder / kManifestName).entries == made.entries);
  std::set<std::string> names{kManifestName};
  for (const ManifestEntry& entry : made.entries) {
    if (!is_in_git(GetParam(), entry)) continue;
    names.insert(entry.name);
    EXPECT_TRUE(read_file(folder / entry.name) == read_file(dir / entry.name)) << entry.name;
  }
  EXPECT_EQ(names_in(folder), names);
}

TEST_P(CommittedGoldens, can_be_read_as_their_manifest_vouches) {
  for (const ManifestEntry& entry : read_manifest(folder / kManifestName).entries) {
    if (!is_in_git(GetParam(), entry)) continue;
    const GoldenReader golden((folder / entry.name).string());
    EXPECT_EQ(attribute(golden.info().attributes, "name") + ".h5", entry.name);
    for (const DatasetInfo& set : golden.info().datasets) EXPECT_EQ(golden.read(set.name).shape, set.shape);
  }
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const GoldenSuite& suite : builtin_suites()) names.push_back(suite.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, CommittedGoldens, testing::ValuesIn(suite_names()),
                         [](const auto& info) { return info.param; });

TEST(CommittedGoldensTogether, stay_below_16_megabytes) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(MXCHECK_GOLDENS_DATA)) {
    if (entry.is_regular_file() && entry.path().extension() != ".safetensors") bytes += entry.file_size();
  }
  EXPECT_LT(bytes, 16'000'000U);
}

}  // namespace

}  // namespace mxcheck
