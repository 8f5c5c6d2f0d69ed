#include <nlohmann/json.hpp>

#include "cost/card.h"
#include "tests/pages/xml_checker.h"
#include "tests/tools/command.h"

namespace mxcheck {
namespace {

using namespace test;
using nlohmann::json;

const std::string kLayer = " --tokens 32768 --d-model 4096 --d-expert 1024 --experts 128 --top-k 8";

class CostTool : public ToolTest {
 protected:
  json cost(const std::string& arguments) { return json::parse(expect_output("cost --json " + arguments, 0).out); }
};

TEST_F(CostTool, shows_one_recipe_step_by_step_beside_what_was_measured) {
  expect_output(
      "cost" + kLayer + " --recipe dsv3_pow2", 0,
      {"layer       32768 tokens, d_model 4096, d_expert 1024, 128 experts, top 8\n",
       "recipe      dsv3_pow2: ", "\n  quantize W1 ", "\n  d_w1                      fp8 lines ",
       "measured, us                     8601", "docs/performance_log.md, Every case of whole layers",
       "= 0.880 GiB for the backward pass; in BF16 1.250", "scales      CUDA cores apply the scales of blocks in ",
       "pays        faster than bf16 at every d_expert; from "});
  // Other loads than the measured one are not compared with it.
  EXPECT_EQ(mxcheck("cost" + kLayer + " --recipe dsv3_pow2 --load balanced").out.find("measured, us"),
            std::string::npos);
}

TEST_F(CostTool, compares_all_recipes_where_none_is_named) {
  const Answer all = expect_output("cost" + kLayer, 0, {"\nbf16 ", "\nmxfp8 ", "\nquartet2 "});
  EXPECT_EQ(all.out.find("\nbroken "), std::string::npos);
  const Answer two = expect_output("cost" + kLayer + " --recipe mxfp8,nvfp4 --card B200", 0,
                                   {"\nmxfp8 ", "\nnvfp4 ", "some of the card's rates are assumed"});
  EXPECT_EQ(two.out.find("\nbf16 "), std::string::npos);
  EXPECT_EQ(two.out.find(" \n"), std::string::npos) << "spaces at the end of a line";
}

TEST_F(CostTool, json_holds_the_text_s_numbers) {
  const json answer = cost(kLayer + " --recipe dsv3_pow2 --gpus 1,64 --load balanced");
  EXPECT_EQ(answer["layer"]["tokens"], 32768);
  EXPECT_EQ(answer["load"]["rows"], 262144);
  EXPECT_EQ(answer["load"]["padding"], 0);
  const json& recipe = answer["recipes"][0];
  double sum = 0;
  for (const json& step : recipe["forward"]["steps"]) sum += step["us"].get<double>();
  EXPECT_NEAR(recipe["forward"]["us"], sum, 1e-6);
  EXPECT_EQ(recipe["forward"]["steps"][3]["name"], "up");
  EXPECT_EQ(recipe["forward"]["steps"][3]["operations"], 2.0 * 262144 * 4096 * 2048);
  EXPECT_EQ(recipe["pays_from"]["d_expert"], 1);
  ASSERT_EQ(answer["clusters"].size(), 2U);
  EXPECT_EQ(answer["clusters"][1]["expert_parallel"], 64);
  EXPECT_GT(answer["clusters"][1]["dispatch"]["network_bytes"], 0);
  EXPECT_EQ(answer["clusters"][0]["step_us"], answer["clusters"][0]["compute_us"]);
  EXPECT_EQ(cost(kLayer).at("recipes").size(), 13U);
}

TEST_F(CostTool, takes_the_numbers_of_a_model) {
  const json answer = cost("--model Qwen3-235B-A22B --tokens 4096 --recipe mxfp8");
  EXPECT_EQ(answer["layer"]["d_model"], 4096);
  EXPECT_EQ(answer["layer"]["d_expert"], 1536);
  EXPECT_EQ(answer["layer"]["experts"], 128);
  EXPECT_EQ(answer["layer"]["top_k"], 8);
  EXPECT_EQ(cost("--model Qwen3-235B-A22B --tokens 4096 --recipe mxfp8 --experts 64")["layer"]["experts"], 64);
}

TEST_F(CostTool, takes_counts_of_experts_from_a_file) {
  write_file(dir / "counts.txt", "128, 0\n129 1\n");
  const std::string layer = " --tokens 200 --d-model 64 --d-expert 32 --experts 4 --top-k 2 --recipe bf16";
  const json answer = cost(layer + " --load counts.txt");
  EXPECT_EQ(answer["load"]["kind"], "counts");
  EXPECT_EQ(answer["load"]["rows"], 258);
  EXPECT_EQ(answer["load"]["tile_rows"], 512);
  expect_output("cost" + layer + " --load zipf:0.5", 0, {"load        zipf:0.5: 400 rows"});
}

TEST_F(CostTool, prints_cards_with_sources_and_measured_layers) {
  expect_output(
      "cost --cards", 0,
      {"H100\n", "\nB200\n", "mx, peak                             4500 TFLOPS     NVIDIA DGX B200", "assumed: "});
  EXPECT_EQ(cost("--cards").size(), all_cards().size());
  expect_output("cost --measured", 0,
                {"dsv3_pow2", "docs/performance.md, Layers in NVFP4",
                 "31 layers, both passes: no estimate is off by more than "});
  EXPECT_EQ(cost("--measured").size(), 3 * 9 + 4U);
}

TEST_F(CostTool, draws_the_committed_picture) {
  expect_output("cost" + kLayer + " --svg cost.svg", 0);
  const std::string picture = read_file(dir / "cost.svg");
  EXPECT_EQ(XmlChecker(picture).check(), "");
  EXPECT_EQ(picture, read_file(MXCHECK_SOURCE_DIR "/docs/cost.svg"))
      << "run: mxcheck cost" << kLayer << " --svg docs/cost.svg";
}

TEST_F(CostTool, leaves_out_of_the_picture_what_cannot_be) {
  write_file(dir / "b200.json",
             R"({"name": "mx", "base": "mxfp8", "gemms": [{"name": "up", "contract": "sm100_mxf8f6f4"}]})");
  const std::string layer = " --tokens 8192 --d-model 64 --d-expert 32 --experts 4 --top-k 2";
  expect_output("cost" + layer + " --card B200 --recipe b200.json --svg b.svg", 0);
  EXPECT_EQ(XmlChecker(read_file(dir / "b.svg")).check(), "");
  const std::string wide = " --tokens 1 --d-model 461168601842738 --d-expert 32 --experts 4 --top-k 2";
  expect_output("cost" + wide + " --recipe bf16 --svg w.svg", 0);
}

TEST_F(CostTool, says_what_is_wrong_and_what_would_be_right) {
  write_file(dir / "two.txt", "1 2");
  write_file(dir / "words.txt", "one two");
  const std::string four = " --d-model 8 --d-expert 8 --experts 4 --top-k 2 --recipe mxfp8 ";
  for (const auto& [text, arguments] : {
           std::pair{"--tokens is needed: the layer is --tokens with --model, or with --d-model", std::string()},
           {"--d-model is needed", "--tokens 8"},
           {"--tokens: '0' is not a whole number from 1 to", "--tokens 0" + four},
           {"--tokens: '-1' is not a whole number from 1 to", "--tokens -1" + four},
           {"--tokens: '99999999999999999999' is not a whole number from 1 to", "--tokens 99999999999999999999" + four},
           {"layer: H: 4611686018427387904 x 2 is beyond 2^63 - 1; use smaller dimensions",
            "--tokens 4611686018427387904" + four},
           {"layer: top_k is 5, and there are 4 experts: a token has each expert at most once",
            "--tokens 8 --d-model 8 --d-expert 8 --experts 4 --top-k 5"},
           {"layer: 2000000 experts: at most 65536 can be estimated",
            "--tokens 8 --d-model 8 --d-expert 8 --experts 2000000 --top-k 5"},
           {"unknown card 'H20'; known are H100, H200, B200; did you mean 'H200'?", "--tokens 8 --card H20" + four},
           {"unknown layer recipe 'mxpf8'", "--model DeepSeek-V3 --tokens 8 --recipe mxpf8"},
           {"unknown model 'DeepSeek-V5'", "--model DeepSeek-V5 --tokens 8"},
           {"--load: not random, balanced or zipf:S, and as a file of counts randm: cannot be opened",
            "--tokens 8 --load randm" + four},
           {"did you mean 'random'?", "--tokens 8 --load randm" + four},
           {"--load zipf:11: zipf:S needs an exponent S from 0 to 10", "--tokens 8 --load zipf:11" + four},
           {"load: 2 counts, and 4 experts: one count an expert is needed", "--tokens 8 --load two.txt" + four},
           {"words.txt: 'one' is no number of rows", "--tokens 8 --load words.txt" + four},
           {"GPUs: 0: 1 to 1000000 can be estimated", "--tokens 8 --gpus 0" + four},
           {"--gpus: 'x' is no number of GPUs; 1,8,1000 are three", "--tokens 8 --gpus 8,x" + four},
           {"expert parallel: 3 does not divide both 8 GPUs and 4 experts; 4 does",
            "--tokens 8 --gpus 8 --expert-parallel 3" + four},
           {"--expert-parallel, --node and --network are of --gpus", "--tokens 8 --node 8" + four},
           {"--gpus is of one --recipe", "--tokens 8 --gpus 8 --model DeepSeek-V3"},
           {"network: a rate above 0 GB/s is needed", "--tokens 8 --gpus 8 --network 0" + four},
           {"cost.png: name the picture OUT.svg", "--tokens 8 --svg cost.png" + four},
           {"--cards excludes --measured", "--cards --measured"},
       }) {
    expect_refused(2, text, "cost " + arguments);
  }
}

}  // namespace
}  // namespace mxcheck
