// The forward pass of few tokens against the path of steps, byte for byte, in every output.

#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "kernels/candidate_moe.h"
#include "kernels/sm90/moe/moe_few.h"
#include "kernels/sm90/moe/square_codes.h"
#include "tests/kernels/sm90/moe/device.h"

namespace mxcheck::test {
namespace {

using namespace mxcheck_kernels::sm90;
using mxcheck_kernels::CodeScale;
using mxcheck_kernels::Element;

constexpr DLDataType kByte{kDLUInt, 8, 1};
constexpr DLDataType kBf16{kDLBfloat, 16, 1};
constexpr DLDataType kFp32{kDLFloat, 32, 1};
constexpr DLDataType kInt32{kDLInt, 32, 1};
constexpr DLDataType kInt64{kDLInt, 64, 1};

struct FewCase {
  std::string recipe;
  std::int64_t tokens = 1;
  std::int64_t d = 128;
  std::int64_t n = 128;
  std::int64_t experts = 4;
  std::int64_t top_k = 2;
  bool interleaved = false;
  bool drops = false;     // every third route
  bool crowded = false;   // every token has expert 1
  bool specials = false;  // Inf, NaN, zeros and blocks of tiny numbers among X and weights

  [[nodiscard]] std::string text() const {
    return recipe + " T=" + std::to_string(tokens) + " d=" + std::to_string(d) + " n=" + std::to_string(n) +
           " E=" + std::to_string(experts) + " K=" + std::to_string(top_k) + (interleaved ? " interleaved" : "") +
           (drops ? " drops" : "") + (crowded ? " crowded" : "") + (specials ? " specials" : "");
  }
};

// Routes that agree: rows of an expert ascend by token.
struct Routes {
  std::vector<std::int32_t> row_token, token_rows;
  std::vector<float> row_weight;
  std::vector<std::int64_t> token_offsets, offsets;

  explicit Routes(const FewCase& c) {
    std::mt19937 random(static_cast<unsigned>(c.tokens * 31 + c.experts));
    std::vector<std::vector<std::int64_t>> chosen(at(c.tokens));  // experts of a token; -1: dropped
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      std::vector<std::int64_t> all;
      for (std::int64_t e = 0; e < c.experts; ++e) {
        if (e != 2 || c.experts < 4) all.push_back(e);  // expert 2 never has a row
      }
      std::shuffle(all.begin(), all.end(), random);
      if (c.crowded) std::swap(all.front(), *std::find(all.begin(), all.end(), 1));
      all.resize(at(std::min<std::int64_t>(c.top_k, static_cast<std::int64_t>(all.size()))));
      chosen[at(t)] = all;
    }
    offsets.assign(at(c.experts) + 1, 0);
    std::vector<std::vector<std::int32_t>> row_of(at(c.tokens));
    for (std::int64_t t = 0; t < c.tokens; ++t) row_of[at(t)].assign(chosen[at(t)].size(), -1);
    std::int64_t route = 0;
    for (std::int64_t e = 0; e < c.experts; ++e) {
      for (std::int64_t t = 0; t < c.tokens; ++t) {
        for (std::size_t s = 0; s < chosen[at(t)].size(); ++s) {
          if (chosen[at(t)][s] != e || (c.drops && ++route % 3 == 0)) continue;
          row_of[at(t)][s] = static_cast<std::int32_t>(row_token.size());
          row_token.push_back(static_cast<std::int32_t>(t));
          row_weight.push_back(static_cast<float>(random() % 1000) / 999.0F);
        }
      }
      offsets[at(e) + 1] = static_cast<std::int64_t>(row_token.size());
    }
    token_offsets.push_back(0);
    for (const auto& rows : row_of) {
      token_rows.insert(token_rows.end(), rows.begin(), rows.end());
      token_offsets.push_back(static_cast<std::int64_t>(token_rows.size()));
    }
  }
};

std::vector<std::uint16_t> numbers(std::int64_t count, unsigned seed, bool specials) {
  std::minstd_rand random(seed);
  std::vector<std::uint16_t> words(at(count));
  for (auto& word : words) {
    const auto r = static_cast<std::uint32_t>(random());
    word = static_cast<std::uint16_t>((r >> 4 & 0x8000) | (0x3D00 + (r & 0x2FF)));  // 2^-5 to 2, of both signs
  }
  if (!specials) return words;
  constexpr std::array<std::uint16_t, 6> kSpecial{0x7F80, 0xFF80, 0x7FC1, 0x0000, 0x8000, 0x0001};
  for (std::size_t i = 0; i < words.size(); i += 40961) words[i] = kSpecial[i / 40961 % kSpecial.size()];
  for (std::size_t i = 300; i < words.size() && i < 700; ++i) words[i] &= 0x80FF;  // below BF16's smallest normal, near
  return words;
}

struct Ran {
  std::vector<std::vector<std::uint8_t>> outputs;
  std::size_t launches = 0;
};

// A layer on the device, which runs a plan.
class FewLayer {
 public:
  explicit FewLayer(const FewCase& layer)
      : c(layer),
        routes(layer),
        x_(numbers(c.tokens * c.d, 1, c.specials)),
        w1_(numbers(c.experts * c.d * 2 * c.n, 2, c.specials)),
        w2_(numbers(c.experts * c.n * c.d, 3, c.specials)),
        row_token_(routes.row_token),
        row_weight_(routes.row_weight),
        token_offsets_(routes.token_offsets),
        token_rows_(routes.token_rows),
        offsets_(routes.offsets) {
    routed = static_cast<std::int64_t>(routes.row_token.size());
    policy.policy.size = sizeof policy, policy.policy.format = "", policy.policy.recipe = c.recipe.c_str();
    policy.policy.rows = c.tokens, policy.policy.cols = c.d;
    policy.inner = c.n, policy.experts = c.experts, policy.routed = routed;
    policy.gate_up = c.interleaved ? MXCHECK_INTERLEAVED : MXCHECK_HALVES;
  }

  template <class Plan>
  Ran run(const Plan& plan_of) {
    const bool pow2 = c.recipe == "dsv3_pow2";
    std::deque<Output<std::uint8_t>> outputs;
    inputs.clear(), outs.clear(), shapes.clear();
    shapes.reserve(16);
    add(inputs, x_.data(), kBf16, {c.tokens, c.d});
    add(inputs, w1_.data(), kBf16, {c.experts * c.d, 2 * c.n});
    add(inputs, w2_.data(), kBf16, {c.experts * c.n, c.d});
    add(inputs, row_token_.data(), kInt32, {routed});
    add(inputs, row_weight_.data(), kFp32, {routed});
    add(inputs, token_offsets_.data(), kInt64, {c.tokens + 1});
    add(inputs, token_rows_.data(), kInt32, {static_cast<std::int64_t>(routes.token_rows.size())});
    add(inputs, offsets_.data(), kInt64, {c.experts + 1});
    const auto add_out = [&](DLDataType type, std::int64_t rows, std::int64_t cols) {
      outputs.emplace_back(rows * cols * type.bits / 8);
      add(outs, outputs.back().data(), type, {rows, cols});
    };
    add_out(kBf16, c.tokens, c.d);
    if (pow2) {
      add_out(kByte, routed, 12 * (2 * c.n / 8)), add_out(kByte, routed, 2 * c.n / 128);
    } else {
      add_out(kBf16, routed, 2 * c.n);
    }
    if (is_fp8()) add_out(kByte, c.tokens, c.d), add_out(pow2 ? kByte : kFp32, c.tokens, c.d / 128);
    mxcheck_call call{};
    std::array<char, 512> message{};
    call.size = sizeof call, call.policy = &policy.policy;
    call.num_inputs = static_cast<std::int32_t>(inputs.size()), call.inputs = inputs.data();
    call.num_outputs = static_cast<std::int32_t>(outs.size()), call.outputs = outs.data();
    call.message = message.data(), call.message_bytes = message.size();
    const std::uint64_t bytes = plan_of(call).workspace_bytes;
    const DeviceBytes workspace(bytes);
    cudaMemset(workspace.data(), 0xFF, bytes);
    call.workspace = workspace.data(), call.workspace_bytes = bytes;
    Ran ran;
    const MoePlan plan = plan_of(call);
    for (const MoeStep& step : plan.steps) EXPECT_EQ(done(step.enqueue(nullptr)), cudaSuccess) << step.name;
    for (const MoeStep& step : plan.steps) EXPECT_EQ(step.enqueue(nullptr), cudaSuccess) << step.name;  // overlapping
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ran.launches = plan.steps.size();
    for (const auto& out : outputs) ran.outputs.push_back(out.read());
    return ran;
  }

  [[nodiscard]] bool is_fp8() const { return c.recipe.rfind("dsv3", 0) == 0; }
  [[nodiscard]] const std::uint16_t* w1() const { return w1_.data(); }
  [[nodiscard]] const std::uint16_t* w2() const { return w2_.data(); }

  FewCase c;
  Routes routes;
  std::int64_t routed = 0;
  mxcheck_moe_policy policy{};

 private:
  void add(std::vector<DLTensor>& to, const void* data, DLDataType type, std::vector<std::int64_t> shape) {
    shapes.push_back(std::move(shape));
    DLTensor t{};
    t.data = const_cast<void*>(data), t.device = {kDLCUDA, 0}, t.dtype = type;
    t.ndim = static_cast<int>(shapes.back().size()), t.shape = shapes.back().data();
    to.push_back(t);
  }

  std::vector<DLTensor> inputs, outs;
  std::vector<std::vector<std::int64_t>> shapes;
  Input<std::uint16_t> x_, w1_, w2_;
  Input<std::int32_t> row_token_;
  Input<float> row_weight_;
  Input<std::int64_t> token_offsets_;
  Input<std::int32_t> token_rows_;
  Input<std::int64_t> offsets_;
};

// Any NaN of an output in BF16 equals any other.
std::string difference(const FewLayer& layer, const Ran& expected, const Ran& got) {
  static constexpr std::array<const char*, 4> kNames{"o", "h", "third", "fourth"};
  for (std::size_t i = 0; i < expected.outputs.size(); ++i) {
    const auto& e = expected.outputs[i];
    const auto& g = got.outputs[i];
    const bool bf16 = i == 0 || (i == 1 && layer.c.recipe != "dsv3_pow2");
    for (std::size_t b = 0; b < e.size(); b += 2) {
      const auto two = [b](const std::vector<std::uint8_t>& bytes) {
        return static_cast<std::uint16_t>(b + 1 < bytes.size() ? bytes[b] | bytes[b + 1] << 8 : bytes[b]);
      };
      const std::uint16_t first = two(e);
      const std::uint16_t second = two(g);
      if (first == second || (bf16 && same_bf16(first, second))) continue;
      return std::string(kNames.at(i)) + " at byte " + std::to_string(b) + " of " + std::to_string(e.size()) + " is " +
             std::to_string(second) + ": must be " + std::to_string(first);
    }
  }
  return {};
}

class Sm90MoeFew : public DeviceTest {
 protected:
  static void expect_equal(const FewCase& c) {
    SCOPED_TRACE(c.text());
    FewLayer layer(c);
    const Ran steps = layer.run([](const mxcheck_call& call) { return moe_forward_steps_plan(call); });
    const Ran few = layer.run([](const mxcheck_call& call) { return moe_forward_plan(call); });
    EXPECT_GT(steps.launches, 3U);
    EXPECT_LE(few.launches, 3U);
    EXPECT_EQ(difference(layer, steps, few), "");
    if (!layer.is_fp8()) return;
    const Codes codes(layer);
    const Ran coded = layer.run([&](const mxcheck_call& call) { return moe_few_plan(call, codes.weights); });
    EXPECT_EQ(difference(layer, steps, coded), "") << "with weights as codes";
  }

 private:
  struct Codes {
    explicit Codes(const FewLayer& l)
        : w1(l.c.experts * 2 * l.c.n * l.c.d),
          w2(l.c.experts * l.c.n * l.c.d),
          s1(w1.read().size() / 4096),
          s2(w2.read().size() / 4096) {
      const CodeScale scale = l.c.recipe == "dsv3_pow2" ? CodeScale::rceil : CodeScale::fp32;
      encode(l.w1(), l.c.experts, l.c.d, 2 * l.c.n, scale, w1.data(), s1.data());
      encode(l.w2(), l.c.experts, l.c.n, l.c.d, scale, w2.data(), s2.data());
      weights = {w1.data(), s1.data(), w2.data(), s2.data()};
    }
    static void encode(const std::uint16_t* w, std::int64_t experts, std::int64_t rows, std::int64_t cols,
                       CodeScale scale, std::uint8_t* codes, void* scales) {
      SquareJob job;
      job.x = w, job.cols = cols, job.expert_rows = rows;
      job.rows.rows = experts * rows, job.rows.tiles = (experts * rows + 127) / 128;
      job.coding = device_coding({Element::e4m3, scale, 128});
      job.kind = SquareScales::shared, job.transposed = codes, job.transposed_scales = scales;
      EXPECT_EQ(done(launch_square(job, nullptr)), cudaSuccess);
    }
    Output<std::uint8_t> w1, w2, s1, s2;
    MoeCodedWeights weights;
  };
};

constexpr std::array<std::int64_t, 8> kTokens{1, 2, 7, 8, 9, 64, 255, 256};

TEST_F(Sm90MoeFew, bf16_has_the_bits_of_the_steps) {
  for (const std::int64_t tokens : kTokens) {
    expect_equal({"bf16", tokens, 128, 128, 5, 2});
    expect_equal({"bf16", tokens, 384, 384, 64, 6, true, true});
    expect_equal({"nvfp4_backward", tokens, 136, 72, 7, 3, tokens % 2 != 0, false, true});
  }
}

TEST_F(Sm90MoeFew, bf16_of_any_width_has_the_bits_of_the_steps) {
  for (const bool interleaved : {false, true}) {
    expect_equal({"bf16", 3, 8, 8, 4, 2, interleaved});
    expect_equal({"bf16", 17, 200, 264, 6, 2, interleaved});
    expect_equal({"bf16", 40, 56, 1032, 3, 1, interleaved, true});
    expect_equal({"bf16", 9, 4096, 256, 5, 3, interleaved, false, false, true});
    expect_equal({"bf16", 1, 256, 4096, 9, 6, interleaved});
  }
}

TEST_F(Sm90MoeFew, fp8_has_the_bits_of_the_steps) {
  for (const std::int64_t tokens : kTokens) {
    expect_equal({"dsv3", tokens, 128, 128, 5, 2});
    expect_equal({"dsv3_128x128_grad", tokens, 384, 384, 64, 6, true, true});
    expect_equal({"dsv3_pow2", tokens, 256, 384, 7, 3, tokens % 2 != 0, false, true});
  }
}

TEST_F(Sm90MoeFew, fp8_of_wide_layers_has_the_bits_of_the_steps) {
  for (const char* recipe : {"dsv3", "dsv3_pow2"}) {
    for (const bool interleaved : {false, true}) {
      expect_equal({recipe, 9, 4096, 256, 5, 3, interleaved, false, false, true});
      expect_equal({recipe, 1, 256, 4096, 9, 6, interleaved, false, false, true});
      expect_equal({recipe, 256, 512, 256, 2, 2, interleaved, true, true});
    }
  }
}

// Many tiles: of 128 columns, and more than there are blocks of threads.
TEST_F(Sm90MoeFew, wide_tiles_have_the_bits_of_the_steps) {
  for (const bool interleaved : {false, true}) {
    expect_equal({"bf16", 8, 256, 1288, 16, 6, interleaved});
    expect_equal({"bf16", 8, 2568, 136, 16, 6, interleaved, true});
    expect_equal({"dsv3", 8, 256, 1280, 16, 6, interleaved});
    expect_equal({"dsv3_pow2", 8, 2432, 128, 16, 6, interleaved, true});
  }
}

TEST_F(Sm90MoeFew, many_experts_and_rows_have_the_bits_of_the_steps) {
  for (const char* recipe : {"bf16", "dsv3"}) {
    expect_equal({recipe, 256, 128, 128, 1024, 16});
    expect_equal({recipe, 256, 128, 128, 16, 15});
    expect_equal({recipe, 200, 128, 128, 1, 1});
  }
}

}  // namespace
}  // namespace mxcheck::test
