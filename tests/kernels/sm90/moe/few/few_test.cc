// The forward pass of few tokens against the path of steps, byte for byte, in every output: also where its launches
// overlap, in a workspace that holds nothing of use. And calls that are refused, which write nothing.

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/candidate_kept_weights.h"
#include "kernels/sm90/moe/few/plan.h"
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
  unsigned weights = 2;   // seed

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
  mxcheck_device_report report{};

  [[nodiscard]] bool wrote_nothing() const {
    return std::all_of(outputs.begin(), outputs.end(), [](const std::vector<std::uint8_t>& bytes) {
      return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == kPoison; });
    });
  }
};

using MakePlan = std::function<MoePlan(const mxcheck_call&)>;
constexpr int kRepeats = 20;

void poison(const DeviceBytes& bytes) {
  EXPECT_EQ(cudaMemsetAsync(bytes.data(), kPoison, bytes.size(), nullptr), cudaSuccess);
}

// A layer on the device, which runs a plan.
class FewLayer {
 public:
  explicit FewLayer(const FewCase& layer) : FewLayer(layer, Routes(layer)) {}
  FewLayer(const FewCase& layer, Routes with)
      : c(layer),
        routes(std::move(with)),
        x_(numbers(c.tokens * c.d, 1, c.specials)),
        w1_(numbers(c.experts * c.d * 2 * c.n, c.weights, c.specials)),
        w2_(numbers(c.experts * c.n * c.d, c.weights + 1, c.specials)),
        row_token_(routes.row_token),
        row_weight_(routes.row_weight),
        token_offsets_(routes.token_offsets),
        token_rows_(routes.token_rows),
        offsets_(routes.offsets),
        report_(sizeof(mxcheck_device_report)) {
    routed_ = static_cast<std::int64_t>(routes.row_token.size());
    mxcheck_moe_policy& p = policy_.moe;
    p.policy.size = sizeof p, p.policy.format = "", p.policy.recipe = c.recipe.c_str();
    p.policy.rows = c.tokens, p.policy.cols = c.d;
    p.inner = c.n, p.experts = c.experts, p.routed = routed_;
    p.gate_up = c.interleaved ? MXCHECK_INTERLEAVED : MXCHECK_HALVES;
  }

  // For the calls from then on.
  void use(mxcheck_weights_mode mode, const DeviceBytes& memory) {
    policy_.moe.policy.size = sizeof policy_;
    policy_.kept = {mode, 0, memory.data(), memory.size()};
  }
  std::uint64_t kept_bytes() {
    policy_.moe.policy.size = sizeof policy_, policy_.kept = {MXCHECK_WEIGHTS_BYTES, 0, nullptr, 0};
    mxcheck_call call{};
    call.size = sizeof call, call.policy = &policy_.moe.policy;
    const std::uint64_t bytes = moe_forward_plan(call).kept_bytes;
    policy_.moe.policy.size = sizeof policy_.moe;
    return bytes;
  }

  // One step after the other; then `repeats` times all steps at once, which must write the same bytes.
  Ran run(const MakePlan& plan_of, int repeats = 0) {
    bind();
    mxcheck_call call{};
    std::array<char, 512> message{};
    call.size = sizeof call, call.policy = &policy_.moe.policy;
    call.num_inputs = static_cast<std::int32_t>(inputs_.size()), call.inputs = inputs_.data();
    call.num_outputs = static_cast<std::int32_t>(outs_.size()), call.outputs = outs_.data();
    call.message = message.data(), call.message_bytes = message.size();
    call.report = static_cast<mxcheck_device_report*>(report_.data());
    const DeviceBytes workspace(plan_of(call).workspace_bytes);
    call.workspace = workspace.data(), call.workspace_bytes = workspace.size();
    const MoePlan plan = plan_of(call);
    begin(workspace);
    for (const MoeStep& step : plan.steps) EXPECT_EQ(done(step.enqueue(nullptr)), cudaSuccess) << step.name;
    const Ran ran = finished(plan);
    for (int i = 0; i < repeats && !::testing::Test::HasFailure(); ++i) {
      begin(workspace);
      for (const MoeStep& step : plan.steps) EXPECT_EQ(step.enqueue(nullptr), cudaSuccess) << step.name;
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      const Ran again = finished(plan);
      EXPECT_EQ(again.outputs, ran.outputs) << "run " << i << " of all steps at once wrote other bytes";
      EXPECT_EQ(std::memcmp(&again.report, &ran.report, sizeof ran.report), 0) << i;
    }
    return ran;
  }

  [[nodiscard]] bool is_fp8() const { return c.recipe.rfind("dsv3", 0) == 0; }
  [[nodiscard]] const std::uint16_t* w1() const { return w1_.data(); }
  [[nodiscard]] const std::uint16_t* w2() const { return w2_.data(); }

  FewCase c;
  Routes routes;

 private:
  void bind() {
    const bool pow2 = c.recipe == "dsv3_pow2";
    inputs_.clear(), outs_.clear(), shapes_.clear(), outputs_.clear();
    add(inputs_, x_.data(), kBf16, {c.tokens, c.d});
    add(inputs_, w1_.data(), kBf16, {c.experts * c.d, 2 * c.n});
    add(inputs_, w2_.data(), kBf16, {c.experts * c.n, c.d});
    add(inputs_, row_token_.data(), kInt32, {routed_});
    add(inputs_, row_weight_.data(), kFp32, {routed_});
    add(inputs_, token_offsets_.data(), kInt64, {c.tokens + 1});
    add(inputs_, token_rows_.data(), kInt32, {static_cast<std::int64_t>(routes.token_rows.size())});
    add(inputs_, offsets_.data(), kInt64, {c.experts + 1});
    add_out(kBf16, c.tokens, c.d);
    if (pow2) {
      add_out(kByte, routed_, 12 * (2 * c.n / 8)), add_out(kByte, routed_, 2 * c.n / 128);
    } else {
      add_out(kBf16, routed_, 2 * c.n);
    }
    if (is_fp8()) add_out(kByte, c.tokens, c.d), add_out(pow2 ? kByte : kFp32, c.tokens, c.d / 128);
  }
  void add(std::vector<DLTensor>& to, const void* data, DLDataType type, std::vector<std::int64_t> shape) {
    shapes_.push_back(std::move(shape));
    DLTensor t{};
    t.data = const_cast<void*>(data), t.device = {kDLCUDA, 0}, t.dtype = type;
    t.ndim = static_cast<int>(shapes_.back().size()), t.shape = shapes_.back().data();
    to.push_back(t);
  }
  void add_out(DLDataType type, std::int64_t rows, std::int64_t cols) {
    outputs_.emplace_back(rows * cols * type.bits / 8);
    add(outs_, outputs_.back().data(), type, {rows, cols});
  }
  void begin(const DeviceBytes& workspace) const {
    poison(workspace);
    for (const auto& out : outputs_) out.poison();
    EXPECT_EQ(cudaMemsetAsync(report_.data(), 0, report_.size(), nullptr), cudaSuccess);
  }
  [[nodiscard]] Ran finished(const MoePlan& plan) const {
    Ran ran;
    ran.launches = plan.steps.size();
    for (const auto& out : outputs_) ran.outputs.push_back(out.read());
    EXPECT_EQ(cudaMemcpy(&ran.report, report_.data(), sizeof ran.report, cudaMemcpyDeviceToHost), cudaSuccess);
    return ran;
  }

  std::int64_t routed_ = 0;
  mxcheck_moe_kept_policy policy_{};
  std::vector<DLTensor> inputs_, outs_;
  std::deque<std::vector<std::int64_t>> shapes_;
  std::deque<Output<std::uint8_t>> outputs_;
  Input<std::uint16_t> x_, w1_, w2_;
  Input<std::int32_t> row_token_;
  Input<float> row_weight_;
  Input<std::int64_t> token_offsets_;
  Input<std::int32_t> token_rows_;
  Input<std::int64_t> offsets_;
  DeviceBytes report_;
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
    const Ran steps = layer.run(moe_forward_steps_plan);
    const Ran few = layer.run(moe_forward_plan, kRepeats);
    EXPECT_GT(steps.launches, 3U);
    EXPECT_LE(few.launches, 3U);
    EXPECT_EQ(difference(layer, steps, few), "");
    if (!layer.is_fp8()) return;
    const Codes codes(layer);
    const Ran coded = layer.run([&](const mxcheck_call& call) { return moe_few_plan(call, codes.weights); }, kRepeats);
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

// --- refusals ----

struct WrongRoutes {
  const char* how;
  void (*make)(Routes& routes);
};
constexpr std::array<WrongRoutes, 6> kWrongRoutes{{
    {"a row is of token -1", [](Routes& r) { r.row_token.back() = -1; }},
    {"a row is of a token that there is not",
     [](Routes& r) { r.row_token[1] = static_cast<std::int32_t>(r.token_offsets.size()) - 1; }},
    {"a slot's row is the number of rows",
     [](Routes& r) { r.token_rows[2] = static_cast<std::int32_t>(r.row_token.size()); }},
    {"token_offsets do not start at 0", [](Routes& r) { r.token_offsets[0] = 1; }},
    {"the offsets descend", [](Routes& r) { r.offsets[2] = -1; }},
    {"the offsets end after the last row", [](Routes& r) { ++r.offsets.back(); }},
}};

std::vector<std::uint8_t> bytes_of(const DeviceBytes& memory) {
  std::vector<std::uint8_t> bytes(memory.size());
  EXPECT_EQ(cudaMemcpy(bytes.data(), memory.data(), bytes.size(), cudaMemcpyDeviceToHost), cudaSuccess);
  return bytes;
}

TEST_F(Sm90MoeFew, wrong_routes_are_reported_as_by_the_steps_and_nothing_is_written) {
  for (const char* recipe : {"bf16", "dsv3", "dsv3_pow2"}) {
    for (const WrongRoutes& wrong : kWrongRoutes) {
      SCOPED_TRACE(std::string(recipe) + ": " + wrong.how);
      const FewCase c{recipe, 9, 256, 128, 5, 2};
      Routes routes(c);
      wrong.make(routes);
      FewLayer layer(c, routes);
      const Ran steps = layer.run(moe_forward_steps_plan);
      const Ran few = layer.run(moe_forward_plan, kRepeats);
      EXPECT_EQ(few.launches, 3U);
      EXPECT_EQ(few.report.status, MXCHECK_INVALID);
      EXPECT_STRNE(few.report.message, "");
      EXPECT_EQ(std::string(few.report.message), steps.report.message);
      EXPECT_EQ(few.report.index, steps.report.index);
      EXPECT_EQ(few.report.value, steps.report.value);
      EXPECT_TRUE(few.wrote_nothing());
      EXPECT_TRUE(steps.wrote_nothing());
    }
  }
}

TEST_F(Sm90MoeFew, memory_of_other_weights_is_refused_and_that_of_the_layer_has_its_bits) {
  for (const char* recipe : {"dsv3", "dsv3_pow2"}) {
    SCOPED_TRACE(recipe);
    FewLayer layer({recipe, 9, 256, 128, 5, 2});
    const Ran plain = layer.run(moe_forward_plan);
    const DeviceBytes memory(layer.kept_bytes());
    poison(memory);
    layer.use(MXCHECK_WEIGHTS_KEPT, memory);
    const Ran refused = layer.run(moe_forward_plan, kRepeats);
    EXPECT_EQ(refused.launches, 3U);
    EXPECT_EQ(refused.report.status, MXCHECK_INVALID);
    EXPECT_TRUE(refused.wrote_nothing());
    layer.use(MXCHECK_WEIGHTS_KEEP, memory);
    EXPECT_EQ(difference(layer, plain, layer.run(moe_forward_plan)), "");
    layer.use(MXCHECK_WEIGHTS_KEPT, memory);
    const Ran kept = layer.run(moe_forward_plan, kRepeats);
    EXPECT_EQ(kept.report.status, MXCHECK_OK);
    EXPECT_EQ(difference(layer, plain, kept), "");
  }
}

// Whatever a recipe keeps: codes, values, scales, the amax of a tensor.
TEST_F(Sm90MoeFew, a_refused_call_leaves_each_byte_of_kept_weights) {
  for (const char* recipe : {"dsv3", "dsv3_pow2", "fp8_tensor", "mxfp8", "mxfp8_floor", "nvfp4", "nvfp4_46"}) {
    SCOPED_TRACE(recipe);
    FewCase c{recipe, 9, 256, 128, 5, 2};
    FewLayer first(c);
    const DeviceBytes memory(first.kept_bytes());
    poison(memory);
    first.use(MXCHECK_WEIGHTS_KEEP, memory);
    EXPECT_EQ(first.run(moe_forward_plan).report.status, MXCHECK_OK);
    const std::vector<std::uint8_t> kept = bytes_of(memory);
    EXPECT_NE(kept, std::vector<std::uint8_t>(kept.size(), kPoison));
    c.weights = 7;
    for (const WrongRoutes& wrong : kWrongRoutes) {
      Routes routes(c);
      wrong.make(routes);
      FewLayer other(c, routes);
      other.use(MXCHECK_WEIGHTS_KEEP, memory);
      EXPECT_EQ(other.run(moe_forward_plan).report.status, MXCHECK_INVALID) << wrong.how;
      EXPECT_EQ(bytes_of(memory), kept) << wrong.how;
    }
    FewLayer other(c);
    other.use(MXCHECK_WEIGHTS_KEEP, memory);
    EXPECT_EQ(other.run(moe_forward_plan).report.status, MXCHECK_OK);
    EXPECT_NE(bytes_of(memory), kept);
  }
}

}  // namespace
}  // namespace mxcheck::test
