#include <nlohmann/json.hpp>

#include "goldens/format/writer.h"
#include "reference/router/loss.h"
#include "reference/router/metadata.h"
#include "reference/router/token_rounding.h"
#include "tests/tools/command.h"
#include "tools/route/report.h"

namespace mxcheck {
namespace {

using namespace test;
using nlohmann::json;

constexpr std::int64_t kTokens = 40, kExperts = 6;

// Six values, so that rows have ties.
std::vector<float> logits_with_ties() {
  std::vector<float> x;
  for (std::uint32_t i = 0; i < kTokens * kExperts; ++i)
    x.push_back(static_cast<float>((i * 2654435761U >> 16) % 6) * 0.75F - 2);
  return x;
}

class RouteTool : public ToolTest {
 protected:
  const std::vector<float> x = logits_with_ties();
  const MatrixView view{Format::fp32, std::as_bytes(std::span(x)).data(), kTokens, kExperts, kExperts};

  void SetUp() override { write_npy(dir / "x.npy", make_tensor("", Format::fp32, {kTokens, kExperts}, x)); }
  static Router router_of(const char* variant, std::int64_t top_k) {
    Router router;
    router.variant = &router_variant_named(variant);
    router.top_k = top_k;
    return router;
  }
  SafetensorsFile routed(const std::string& arguments) {
    const Answer ran = expect_output("route " + arguments + " -o r.safetensors", 0);
    return ran.code == 0 ? read_safetensors(dir / "r.safetensors") : SafetensorsFile();
  }
  static void expect_rows(const SafetensorsFile& file, const RoundedTokens& a) {
    const auto rows = static_cast<std::size_t>(a.offsets.back());
    const auto first = [&](auto values) { return values.resize(rows), values; };
    EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "chosen")), a.chosen);
    EXPECT_EQ(values_of<std::int64_t>(tensor_of(file, "offsets")), a.offsets);
    EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "row_token")), first(a.row_token));
    EXPECT_EQ(values_of<float>(tensor_of(file, "row_weight")), first(a.row_weight));
    EXPECT_EQ(values_of<std::int64_t>(tensor_of(file, "token_offsets")), a.token_offsets);
    EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "token_rows")), first(a.token_rows));
  }
};

// Three tokens whose answer needs no reference: equal logits share, the smaller index comes first.
TEST_F(RouteTool, a_choice_that_can_be_checked_by_hand) {
  const std::vector<float> three{1, 2, 2, 0, 5, 5, 5, 5, -INFINITY, 0, -0.0F, -1};
  write_npy(dir / "three.npy", make_tensor("", Format::fp32, {3, 4}, three));
  const SafetensorsFile file = routed("three.npy --top-k 2");
  EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "experts")), (std::vector<std::int32_t>{1, 2, 0, 1, 1, 2}));
  EXPECT_EQ(values_of<float>(tensor_of(file, "weights")), std::vector<float>(6, 0.5F));
  EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "chosen")), (std::vector<std::int32_t>{1, 3, 2, 0}));
  EXPECT_EQ(values_of<std::int64_t>(tensor_of(file, "offsets")), (std::vector<std::int64_t>{0, 1, 4, 6, 6}));
  EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "row_token")), (std::vector<std::int32_t>{1, 0, 1, 2, 0, 2}));
  EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "row_slot")), (std::vector<std::int32_t>{2, 0, 3, 4, 1, 5}));
  EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "slot_row")), (std::vector<std::int32_t>{1, 4, 0, 2, 3, 5}));
  EXPECT_EQ(values_of<std::int64_t>(tensor_of(file, "token_offsets")), (std::vector<std::int64_t>{0, 2, 4, 6}));
  EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "token_rows")), (std::vector<std::int32_t>{1, 4, 0, 2, 3, 5}));
  EXPECT_EQ(tensor_of(file, "experts").format, Format::int32);
  EXPECT_EQ(tensor_of(file, "experts").shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(tensor_of(file, "weights").format, Format::fp32);
  EXPECT_EQ(tensor_of(file, "offsets").format, Format::int64);
  EXPECT_EQ(file.metadata.at("variant"), "topk-softmax");
  EXPECT_EQ(file.metadata.at("top_k"), "2");
  EXPECT_EQ(file.metadata.at("rule"), "none");
}

TEST_F(RouteTool, every_variant_is_the_references) {
  for (const RouterVariant& variant : all_router_variants()) {
    const std::string name(variant.name);
    const SafetensorsFile file = routed("x.npy --top-k 3 --variant " + name);
    const Routes routes = route(router_of(name.c_str(), 3), view);
    EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "experts")), routes.experts) << name;
    EXPECT_EQ(values_of<float>(tensor_of(file, "weights")), routes.weights) << name;
  }
}

TEST_F(RouteTool, every_rule_is_the_references_without_what_lies_behind_the_rows) {
  const Router router = router_of("softmax-topk", 2);
  for (const TokenRoundingRuleSpec& rule : all_token_rounding_rules()) {
    const bool capacity = !rounds_to_tiles(rule.rule) && rule.rule != TokenRoundingRule::none;
    for (const char* weights : {"renorm", "raw"}) {
      TokenRounding token_rounding;
      token_rounding.rule = rule.rule, token_rounding.tile = 4,
      token_rounding.renormalize = weights == std::string("renorm");
      std::string arguments = "x.npy --top-k 2 --variant softmax-topk --tile 4 --round " + std::string(rule.name);
      if (rule.rule != TokenRoundingRule::none) arguments += std::string(" --weights ") + weights;
      if (capacity) arguments += " --capacity 9", token_rounding.capacity = 9;
      if (rule.rule == TokenRoundingRule::sr_f) {
        arguments += " --seed 18446744073709551615 --layer 4294967295 --step 9";
        token_rounding.seed = 18446744073709551615U, token_rounding.layer = 4294967295U, token_rounding.step = 9;
      }
      SCOPED_TRACE(arguments);
      const SafetensorsFile file = routed(arguments);
      expect_rows(file, round_tokens(router, token_rounding, view));
      EXPECT_EQ(file.tensors.size(), rule.rule == TokenRoundingRule::none ? 10U : 6U);
    }
  }
}

TEST_F(RouteTool, stochastic_rounding_takes_its_seed_layer_and_step) {
  std::set<std::vector<std::byte>> seeds, layers, steps;
  for (std::uint32_t n = 0; n < 6; ++n) {
    for (auto* set : {&seeds, &layers, &steps}) {
      TokenRounding token_rounding;
      token_rounding.rule = TokenRoundingRule::sr_f, token_rounding.tile = 8;
      token_rounding.seed = set == &seeds ? n : 1, token_rounding.layer = set == &layers ? n : 2,
      token_rounding.step = set == &steps ? n : 3;
      const SafetensorsFile file =
          routed("x.npy --top-k 2 --round sr-f --tile 8 --seed " + std::to_string(token_rounding.seed) + " --layer " +
                 std::to_string(token_rounding.layer) + " --step " + std::to_string(token_rounding.step));
      expect_rows(file, round_tokens(router_of("topk-softmax", 2), token_rounding, view));
      set->insert(tensor_of(file, "offsets").data);
    }
  }
  for (const auto* set : {&seeds, &layers, &steps}) EXPECT_GT(set->size(), 1U);
}

TEST_F(RouteTool, a_capacity_factor_is_the_capacity_that_it_gives) {
  // 40 tokens * 2 / 6 experts are 13.3: up for expert choice, down for the others.
  for (const auto& [rule, capacity] :
       {std::pair("expert-choice", 14), {"capacity-order", 13}, {"capacity-score", 13}}) {
    const std::string arguments = std::string("x.npy --top-k 2 --round ") + rule;
    const SafetensorsFile by_factor = routed(arguments + " --capacity-factor 1");
    const SafetensorsFile by_number = routed(arguments + " --capacity " + std::to_string(capacity));
    EXPECT_EQ(by_factor.metadata.at("capacity"), std::to_string(capacity));
    EXPECT_EQ(by_factor.metadata, by_number.metadata);
    EXPECT_EQ(tensor_of(by_factor, "row_token").data, tensor_of(by_number, "row_token").data);
  }
  // 1.1 of 10 is 11, though the double that is nearest to 1.1 lies above it.
  write_npy(dir / "ten.npy", make_tensor("", Format::fp32, {20, 2}, std::vector<float>(x.begin(), x.begin() + 40)));
  for (const char* factor : {"1.1", "11e-1", "0.11E+1", "1.100"})
    EXPECT_EQ(routed(std::string("ten.npy --top-k 1 --round expert-choice --capacity-factor ") + factor)
                  .metadata.at("capacity"),
              "11");
}

TEST_F(RouteTool, bias_groups_scale_and_nan_reach_the_reference) {
  const std::vector<float> bias{0, 3, -3, 0.5F, 0, 1};
  write_npy(dir / "b.npy", make_tensor("", Format::fp32, {kExperts}, bias));
  Router router = router_of("sigmoid", 2);
  router.bias = bias, router.groups = 3, router.groups_kept = 2, router.scale = 2.5F;
  const SafetensorsFile file =
      routed("x.npy --top-k 2 --variant sigmoid --bias b.npy --groups 3 --groups-kept 2 --scale 2.5");
  const Routes routes = route(router, view);
  EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "experts")), routes.experts);
  EXPECT_EQ(values_of<float>(tensor_of(file, "weights")), routes.weights);
  EXPECT_NE(routes.experts, route(router_of("sigmoid", 2), view).experts);
  write_npy(dir / "n.npy", make_tensor("", Format::fp32, {1, 3}, std::vector<float>{NAN, 1, NAN}));
  EXPECT_EQ(values_of<std::int32_t>(tensor_of(routed("n.npy --top-k 2 --nan last"), "experts")),
            (std::vector<std::int32_t>{1, 0}));
}

// Files that were written are read again in either format, and logits are read from all three.
TEST_F(RouteTool, files_of_all_formats_say_the_same) {
  const SafetensorsFile one = routed("x.npy --top-k 2");
  write_safetensors(dir / "x.safetensors", {{make_tensor("logits", Format::fp32, {kTokens, kExperts}, x),
                                             make_tensor("other", Format::fp32, {1, 1}, std::vector<float>{0})},
                                            {}});
  GoldenWriter writer(dir / "x.h5",
                      {{}, {{"logits", Role::input, "float32", Format::uint32, {kTokens, kExperts}, {}}}});
  writer.append(0, std::as_bytes(std::span(x)));
  writer.commit();
  for (const char* logits : {"x.safetensors:logits", "x.safetensors --name logits", "x.h5:/logits",
                             "x.h5 --name logits", "x.h5 --name /logits"}) {
    const SafetensorsFile same = routed(std::string(logits) + " --top-k 2");
    ASSERT_EQ(same.tensors.size(), one.tensors.size()) << logits;
    for (std::size_t i = 0; i < one.tensors.size(); ++i) EXPECT_EQ(same.tensors[i].data, one.tensors[i].data) << logits;
  }
  for (const char* out : {"r.h5", "r.hdf5"}) {
    ASSERT_EQ(mxcheck(std::string("route x.npy --top-k 2 -o ") + out).code, 0);
    for (const Tensor& t : one.tensors) {
      const Tensor again = read_tensor(dir / (std::string(out) + ":/" + t.name));
      EXPECT_EQ(again.format, t.format) << t.name;
      EXPECT_EQ(again.shape, t.shape) << t.name;
      EXPECT_EQ(again.data, t.data) << t.name;
    }
  }
  // Indices that were written can be read where offsets are wanted.
  const std::vector<float> matrix(80 * 32, 1.0F);
  write_npy(dir / "m.npy", make_tensor("", Format::fp32, {80, 32}, matrix));
  for (const char* offsets : {"r.safetensors:offsets", "r.h5:/offsets"})
    EXPECT_EQ(mxcheck(std::string("quantize m.npy -o q.safetensors --offsets ") + offsets).code, 0) << offsets;
}

TEST_F(RouteTool, takes_bf16_fp16_three_dimensions_and_real_logits) {
  std::vector<std::uint16_t> bits;
  for (const float value : x) bits.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  write_npy(dir / "bf.npy", make_tensor("", Format::bf16, {kTokens, kExperts}, bits));
  write_npy(dir / "u.npy", make_tensor("", Format::uint16, {kTokens, kExperts}, bits));
  std::vector<float> twice(x.size(), 0);
  twice.insert(twice.end(), x.begin(), x.end());
  write_npy(dir / "t.npy", make_tensor("", Format::fp32, {2, kTokens, kExperts}, twice));
  const std::vector<std::byte> weights = tensor_of(routed("x.npy --top-k 2"), "weights").data;
  for (const char* logits : {"bf.npy", "u.npy --dtype bf16", "t.npy --index 1"})
    EXPECT_EQ(tensor_of(routed(std::string(logits) + " --top-k 2"), "weights").data, weights) << logits;
  write_npy(dir / "h.npy", make_tensor("", Format::fp16, {1, 2}, std::vector<std::uint16_t>{0x3C00, 0x4000}));  // 1, 2
  EXPECT_EQ(values_of<std::int32_t>(tensor_of(routed("h.npy --top-k 1"), "experts")), std::vector<std::int32_t>{1});
  EXPECT_EQ(tensor_of(routed("real:layer0.router_logits --top-k 4"), "experts").shape,
            (std::vector<std::int64_t>{2048, 4}));
}

TEST_F(RouteTool, no_tokens_give_empty_tensors) {
  write_npy(dir / "e.npy", {"", Format::fp32, {0, 5}, {}});
  for (const char* more : {"", " --round nr-f", " --round expert-choice --capacity-factor 1"}) {
    const SafetensorsFile file = routed(std::string("e.npy --top-k 2") + more);
    EXPECT_EQ(values_of<std::int64_t>(tensor_of(file, "offsets")), std::vector<std::int64_t>(6, 0)) << more;
    EXPECT_EQ(tensor_of(file, "row_token").shape, std::vector<std::int64_t>{0});
  }
}

// Loads of 1, 4, 0 and 7 with tiles of 4. nr-f: 0, 4, 0, 8. The token that comes to expert 3 is the one with the
// largest score for it, and expert 0's is left without any.
TEST_F(RouteTool, reports_loads_padding_and_changes) {
  std::vector<float> logits;
  const std::vector<std::size_t> expert{0, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3};
  for (std::size_t t = 0; t < expert.size(); ++t) {
    std::vector<float> row{0, 0, -1, 0};
    row[expert[t]] = 4;
    if (t == 2) row[3] = 2;
    logits.insert(logits.end(), row.begin(), row.end());
  }
  write_npy(dir / "l.npy", make_tensor("", Format::fp32, {12, 4}, logits));
  EXPECT_EQ(mxcheck("route l.npy --top-k 1 --round nr-f --tile 4").out,
            "l.npy: 12 tokens, 4 experts, top 1 by topk-softmax, then nr-f to tiles of 4\n"
            "chosen    min 0, mean 3.0, max 7; 1 expert without tokens\n"
            "kept      min 0, mean 3.0, max 8; 2 experts without tokens\n"
            "experts   by tokens kept: 0: 2, 4: 1, 8: 1\n"
            "padding   to tiles of 4: 4 of 16 rows (25.0 %) before, 0 of 12 rows (0.0 %) after\n"
            "changed   pairs added 1, dropped 1; tokens without an expert 1, most experts of a token 2\n");
  const auto loads = mxcheck("route l.npy --top-k 1 --tile 4 --loads -o r.h5");
  EXPECT_EQ(loads.out,
            "r.h5: 12 tokens, 4 experts, top 1 by topk-softmax\n"
            "chosen    min 0, mean 3.0, max 7; 1 expert without tokens\n"
            "  expert    chosen      kept   padding\n"
            "       0         1         1         3\n"
            "       1         4         4         0\n"
            "       2         0         0         0\n"
            "       3         7         7         1\n"
            "padding   to tiles of 4: 4 of 16 rows (25.0 %) before, 4 of 16 rows (25.0 %) after\n"
            "changed   pairs added 0, dropped 0; tokens without an expert 0, most experts of a token 1\n");
  // Loads from 127 to 648: eight bins of 66.
  expect_contains(mxcheck("route real:layer0.router_logits --top-k 4").out,
                  "by tokens kept: 127 to 192: 7, 193 to 258: 13, ");
  const json j = json::parse(mxcheck("route l.npy --top-k 1 --round nr-f --tile 4 --json").out);
  EXPECT_EQ(j["chosen"], json({1, 4, 0, 7}));
  EXPECT_EQ(j["kept"], json({0, 4, 0, 8}));
  EXPECT_EQ(j["before"], json({{"rows", 16}, {"padding", 4}}));
  EXPECT_EQ(j["after"], json({{"rows", 12}, {"padding", 0}}));
  EXPECT_EQ(j["added"], 1);
  EXPECT_EQ(j["dropped"], 1);
  EXPECT_EQ(j["tokens_without_expert"], 1);
  EXPECT_EQ(j["most_experts_of_a_token"], 2);
  EXPECT_FALSE(j.contains("z_loss"));
}

TEST_F(RouteTool, losses_are_the_references) {
  const Routes routes = route(router_of("topk-softmax", 2), view);
  std::vector<std::int32_t> counts(kExperts);
  for (const std::int32_t e : routes.experts) ++counts[static_cast<std::size_t>(e)];
  const json j = json::parse(mxcheck("route x.npy --top-k 2 --losses --json").out);
  EXPECT_EQ(static_cast<float>(j["balance_loss"].get<double>()), load_balancing_loss(view, counts, 1).value);
  EXPECT_EQ(static_cast<float>(j["z_loss"].get<double>()), router_z_loss(view, 1).value);
  expect_contains(mxcheck("route x.npy --top-k 2 --losses").out, "losses    load balancing 1.");
  const json tenth = json::parse(mxcheck("route x.npy --top-k 2 --losses --coefficient 0.1 --json").out);
  EXPECT_EQ(static_cast<float>(tenth["balance_loss"].get<double>()), load_balancing_loss(view, counts, 0.1F).value);
  EXPECT_EQ(static_cast<float>(tenth["z_loss"].get<double>()), router_z_loss(view, 0.1F).value);
  EXPECT_EQ(static_cast<float>(tenth["coefficient"].get<double>()), 0.1F);
  expect_contains(mxcheck("route x.npy --top-k 2 --losses --coefficient 0.1").out, "each with a coefficient of 0.1\n");
}

// Slots are the routes: of token choice top_k a token, best first; after a rule as many as the token keeps, experts
// ascending.
TEST_F(RouteTool, padded_metadata_is_the_references) {
  const auto expect_padded = [](const SafetensorsFile& file, const RouteMetadata& m) {
    const auto rows = static_cast<std::size_t>(m.offsets.back());
    const auto first = [&](auto values) { return values.resize(rows), values; };
    EXPECT_EQ(values_of<std::int64_t>(tensor_of(file, "padded_offsets")), m.offsets);
    EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "padded_row_slot")), first(m.row_slot));
    EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "padded_row_token")), first(m.row_token));
    EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "padded_row_expert")), first(m.row_expert));
    EXPECT_EQ(values_of<std::int32_t>(tensor_of(file, "padded_slot_row")), m.slot_row);
  };
  const SafetensorsFile chosen = routed("x.npy --top-k 2 --tile 8 --padded");
  expect_padded(chosen, route_metadata(route(router_of("topk-softmax", 2), view).experts, 2, {}, kExperts, 8));
  EXPECT_EQ(values_of<std::int64_t>(tensor_of(chosen, "padded_offsets"))[1] % 8, 0);
  EXPECT_EQ(values_of<std::int64_t>(tensor_of(chosen, "offsets")).back(), kTokens * 2) << "these stay without padding";

  const SafetensorsFile kept = routed("x.npy --top-k 2 --tile 8 --round capacity-order --capacity 9 --padded");
  TokenRounding nine;
  nine.rule = TokenRoundingRule::capacity_order, nine.capacity = 9;
  const RoundedTokens a = round_tokens(router_of("topk-softmax", 2), nine, view);
  std::vector<std::int32_t> slots;
  for (std::int64_t i = 0; i < a.token_offsets.back(); ++i) {
    const std::int64_t row = a.token_rows[static_cast<std::size_t>(i)];
    std::int32_t expert = 0;
    while (a.offsets[static_cast<std::size_t>(expert) + 1] <= row) ++expert;
    slots.push_back(expert);
  }
  expect_padded(kept, route_metadata(slots, 0, a.token_offsets, kExperts, 8));
}

TEST_F(RouteTool, lists_every_variant_and_rule) {
  const Answer list = expect_output("route --list", 0);
  const auto line = [](std::string_view name, std::string_view meaning) {
    std::string text(name);
    text.resize(22, ' ');
    return "\n  " + text + std::string(meaning) + "\n";
  };
  for (const RouterVariant& v : all_router_variants())
    EXPECT_NE(list.out.find(line(v.name, v.meaning)), std::string::npos) << list.out << v.name;
  for (const TokenRoundingRuleSpec& r : all_token_rounding_rules())
    EXPECT_NE(list.out.find(line(r.name, r.meaning)), std::string::npos) << list.out << r.name;
}

TEST_F(RouteTool, lists_variants_and_rules_as_json) {
  const json j = json::parse(mxcheck("route --list --json").out);
  ASSERT_EQ(j["variants"].size(), all_router_variants().size());
  ASSERT_EQ(j["rules"].size(), all_token_rounding_rules().size());
  EXPECT_EQ(j["variants"][0]["name"], all_router_variants()[0].name);
  EXPECT_EQ(j["variants"][0]["meaning"], all_router_variants()[0].meaning);
  EXPECT_EQ(j["rules"][1]["name"], "nr-f");
}

TEST_F(RouteTool, threads_and_repetition_change_nothing) {
  for (const char* out : {"a.safetensors", "a.h5"}) {
    std::set<std::string> files;
    for (const char* threads : {"1", "3", "0"}) {
      const auto ran = mxcheck(std::string("route real:layer3.router_logits --top-k 4 --round nr-s --threads ") +
                               threads + " -o " + out);
      ASSERT_EQ(ran.code, 0) << ran.err;
      files.insert(read_file(dir / out));
    }
    EXPECT_EQ(files.size(), 1U);
  }
}

TEST_F(RouteTool, refuses_what_cannot_be_meant) {
  const std::string x3 = "route x.npy --top-k 3 -o r.safetensors ";
  expect_refused(2, "LOGITS is needed", "route --top-k 2");
  expect_refused(2, "--top-k is needed", "route x.npy -o r.safetensors");
  expect_refused(2, "--top-k", "route x.npy --top-k 0");
  expect_refused(2, "x.npy: top_k", "route x.npy --top-k 7 -o r.safetensors");
  expect_refused(2, "topk-softmax, ", x3 + "--variant softmax");
  expect_refused(2, "nr-even, ", x3 + "--round nearest");
  expect_refused(2, "--weights: of --round none", x3 + "--weights raw");
  expect_refused(2, "--weights", x3 + "--round up --weights sum");
  expect_refused(2, "are for --round sr-f", x3 + "--round nr-f --seed 1");
  expect_refused(2, "are for --round sr-f", x3 + "--step 0");
  expect_refused(2, "--seed", x3 + "--round sr-f --seed -1");
  expect_refused(2, "--seed", x3 + "--round sr-f --seed 18446744073709551616");
  expect_refused(2, "--step", x3 + "--round sr-f --step 1.5");
  expect_refused(2, "--layer", x3 + "--round sr-f --layer 4294967296");
  expect_refused(2, "--tile", x3 + "--tile 0");
  expect_refused(2, "are for --round expert-choice", x3 + "--capacity 3");
  expect_refused(2, "are for --round expert-choice", x3 + "--round up --capacity-factor 1");
  expect_refused(2, "needs --capacity or --capacity-factor", x3 + "--round capacity-score");
  expect_refused(2, "--capacity", x3 + "--round capacity-score --capacity 3 --capacity-factor 1");
  expect_refused(2, "--capacity", x3 + "--round capacity-score --capacity -1");
  for (const char* factor : {"0", "nan", "inf", "-1", "1.1x", "1.1.1", "0x1p0"})
    expect_refused(2, std::string("capacity factor '") + factor + "'",
                   x3 + "--round capacity-score --capacity-factor '" + factor + "'");
  expect_refused(2, "--capacity-factor: a name is needed", x3 + "--round capacity-score --capacity-factor ''");
  expect_refused(2, "beyond 2^63 - 1", x3 + "--round expert-choice --capacity-factor 1e40");
  for (const char* scale : {"nan", "inf", "-inf", "1e40"}) {
    expect_refused(2, std::string("--scale: '") + scale + "' is no finite number", x3 + "--scale " + scale);
    expect_refused(2, std::string("--coefficient: '") + scale + "' is no finite number",
                   x3 + "--losses --coefficient " + scale);
  }
  expect_refused(2, "--coefficient requires --losses", x3 + "--coefficient 2");
  expect_refused(2, "--padded requires --output", "route x.npy --top-k 3 --padded");
  expect_refused(2, "leaves no token for an expert", x3 + "--round capacity-score --capacity-factor 0.04");
  expect_refused(2, "--groups", x3 + "--groups-kept 1");
  expect_refused(2, "x.npy: ", x3 + "--groups 4 --groups-kept 2");
  expect_refused(2, "--nan", x3 + "--nan first");
  expect_refused(2, "--threads", x3 + "--threads -1");
}

TEST_F(RouteTool, refuses_tensors_that_are_no_logits) {
  expect_refused(2, "none.npy", "route none.npy --top-k 1 -o r.h5");
  expect_refused(2, "no real tensor 'layer9.router_logits'", "route real:layer9.router_logits --top-k 1");
  write_npy(dir / "v.npy", make_tensor("", Format::fp32, {3}, std::vector<float>{1, 2, 3}));
  expect_refused(2, "has 1 dimensions; two are needed", "route v.npy --top-k 1 -o r.h5");
  write_npy(dir / "i.npy", make_tensor("", Format::int32, {1, 1}, std::vector<std::int32_t>{1}));
  expect_refused(2, "has dtype I32; F32, BF16 or F16 is needed", "route i.npy --top-k 1 -o r.h5");
  expect_refused(2, "holds one tensor, without a name", "route x.npy --name x --top-k 1");
  write_npy(dir / "n.npy", make_tensor("", Format::fp32, {2, 3}, std::vector<float>{1, 2, 3, 4, NAN, 6}));
  expect_refused(2, "n.npy: ", "route n.npy --top-k 1 -o r.h5");
  write_npy(dir / "f.npy", make_tensor("", Format::fp32, {1, 3}, std::vector<float>{1, -INFINITY, 3}));
  expect_refused(2, "f.npy: ", "route f.npy --top-k 1 --losses -o r.h5");
  expect_refused(2, "f.npy: ", "route f.npy --top-k 1 --variant topk-softmax-packed -o r.h5");
  expect_refused(2, "v.npy: bias of 3 values: must be one of each of the 6 experts",
                 "route x.npy --top-k 1 --bias v.npy -o r.h5");
  write_npy(dir / "bn.npy", make_tensor("", Format::fp32, {6}, std::vector<float>{0, 0, NAN, 0, 0, 0}));
  expect_refused(2, "bn.npy: NaN in the bias of expert 2", "route x.npy --top-k 1 --bias bn.npy -o r.h5");
  write_npy(dir / "bi.npy", make_tensor("", Format::fp32, {6}, std::vector<float>{0, 0, 0, INFINITY, 0, 0}));
  expect_refused(2, "bi.npy: Inf in the bias of expert 3: packed order takes finite numbers alone",
                 "route x.npy --top-k 1 --bias bi.npy --variant topk-softmax-packed -o r.h5");
  expect_refused(2, "a bias is one vector of F32", "route x.npy --top-k 1 --bias x.npy -o r.h5");
  write_npy(dir / "e.npy", {"", Format::fp32, {0}, {}});
  expect_refused(2, "e.npy: is empty", "route x.npy --top-k 1 --bias e.npy -o r.h5");
}

TEST_F(RouteTool, an_output_is_whole_or_is_what_was_there) {
  expect_refused(2, "name the output OUT.safetensors or OUT.h5", "route x.npy --top-k 1 -o r.npy");
  write_safetensors(dir / "x.safetensors", {{make_tensor("a", Format::fp32, {kTokens, kExperts}, x)}, {}});
  expect_refused(2, "is an input file", "route x.safetensors:a --top-k 1 -o x.safetensors");
  expect_refused(2, "is an input file", "route x.safetensors --name a --top-k 1 -o ./x.safetensors");
  write_safetensors(dir / "b.safetensors", {{make_tensor("b", Format::fp32, {2}, std::vector<float>{1, 2})}, {}});
  expect_refused(2, "is an input file", "route x.npy --top-k 1 --bias b.safetensors:b -o b.safetensors");
  expect_refused(2, "no_such_folder", "route x.npy --top-k 1 -o no_such_folder/r.h5");
  // A disk that fills up.
  for (const char* out : {"r.safetensors", "r.h5"}) {
    expect_refused(3, out, std::string("route real:layer0.router_logits --top-k 4 -o ") + out, "ulimit -f 4; ");
    ASSERT_EQ(mxcheck(std::string("route x.npy --top-k 1 -o ") + out).code, 0);
    const std::string before = read_file(dir / out);
    expect_refused(3, out, std::string("route real:layer0.router_logits --top-k 4 -o ") + out, "ulimit -f 4; ");
    EXPECT_EQ(read_file(dir / out), before);
  }
}

TEST_F(RouteTool, an_answer_that_nobody_can_read_leaves_no_file) {
  for (const char* out : {"r.safetensors", "r.h5"}) {
    for (const char* more : {"", " --json", " --padded"})
      expect_refused(3, "standard output cannot be written",
                     std::string("route x.npy --top-k 1 -o ") + out + more + " > /dev/full");
  }
}

TEST(PaddingOf, counts_rows_up_to_whole_tiles) {
  const std::array<std::int64_t, 4> loads{0, 1, 8, 9};
  EXPECT_EQ(padding_of(loads, 8).rows, 32);
  EXPECT_EQ(padding_of(loads, 8).padding, 14);
  EXPECT_EQ(padding_of(loads, 1).padding, 0);
  EXPECT_EQ(padding_of({}, 8).rows, 0);
}

// Three tokens, two of three experts each; then token 0 loses expert 1, token 1 loses both, token 2 gains expert 0.
RouteReport sample_routes() {
  Routes before;
  before.tokens = 3, before.top_k = 2;
  before.experts = {1, 0, 2, 1, 1, 2};
  RoundedTokens after;
  after.tokens = 3, after.experts = 3;
  after.chosen = {1, 3, 2};
  after.offsets = {0, 2, 3, 4};
  after.token_offsets = {0, 1, 1, 4};
  after.token_rows = {0, 1, 2, 3};
  return report_of(before, after, 2);
}

TEST(RouteReport, counts_pairs_that_one_side_alone_has) {
  const RouteReport r = sample_routes();
  EXPECT_EQ(r.chosen, (std::vector<std::int64_t>{1, 3, 2}));
  EXPECT_EQ(r.kept, (std::vector<std::int64_t>{2, 1, 1}));
  EXPECT_EQ(r.added, 1);
  EXPECT_EQ(r.dropped, 3);
  EXPECT_EQ(r.without_expert, 1);
  EXPECT_EQ(r.most_experts, 3);
}

TEST(RouteReport, says_the_same_to_people_and_machines) {
  EXPECT_EQ(to_text(sample_routes(), false),
            "chosen    min 1, mean 2.0, max 3; 0 experts without tokens\n"
            "kept      min 1, mean 1.3, max 2; 0 experts without tokens\n"
            "experts   by tokens kept: 1: 2, 2: 1\n"
            "padding   to tiles of 2: 2 of 8 rows (25.0 %) before, 2 of 6 rows (33.3 %) after\n"
            "changed   pairs added 1, dropped 3; tokens without an expert 1, most experts of a token 3\n");
  const Json json = to_json(sample_routes());
  EXPECT_EQ(to_text(*json.find("before"), {-1}), R"({"rows":8,"padding":2})");
  EXPECT_EQ(to_text(*json.find("kept"), {-1}), "[2,1,1]");
  EXPECT_EQ(json.find("z_loss"), nullptr);
}

}  // namespace
}  // namespace mxcheck
