// The Hopper library's moe_forward and moe_backward: what they offer, what they refuse before they enqueue anything,
// and what they refuse on the device: a status, a sentence, and no output byte changed. That they are right is the
// gate's to say (properties/operations/moe); here they run, with extents of 0 and in a CUDA graph. What needs a GPU is
// skipped without.

#include <random>

#include "kernels/candidate_moe.h"
#include "tests/kernels/sm90/device_interface.h"
#include "tests/kernels/sm90/moe/device.h"

namespace {

constexpr std::size_t kOutputsAt = 2 << 20;
constexpr std::size_t kWorkspaceAt = 6 << 20;
constexpr std::size_t kWorkspaceBytes = 8 << 20;
constexpr std::size_t kReportAt = kWorkspaceAt + kWorkspaceBytes;
constexpr DLDataType kByte{kDLUInt, 8, 1};
constexpr DLDataType kBf16{kDLBfloat, 16, 1};
constexpr DLDataType kFp32{kDLFloat, 32, 1};
constexpr DLDataType kInt32{kDLInt, 32, 1};
constexpr DLDataType kInt64{kDLInt, 64, 1};

const char* const kRecipes[] = {"bf16", "mxfp8",     "mxfp8_floor",       "mxfp8_e5m2_grad", "broken",
                                "dsv3", "dsv3_pow2", "dsv3_128x128_grad", "fp8_tensor"};

// 70 tokens of 128 columns, 3 experts of 128, of which the second has no rows; each token has a row of both others.
struct MoeCall : mxcheck::test::DeviceCall {
  MoeCall()
      : DeviceCall("moe_forward", {kOutputsAt, kWorkspaceAt, kWorkspaceAt, kWorkspaceBytes, kReportAt}, policy.policy) {
    policy.policy.size = sizeof(policy), policy.policy.format = "";
    set_routes(70, 3);
    set("bf16", false);
  }

  void set_routes(std::int64_t tokens, std::int64_t experts) {
    policy.policy.rows = tokens, policy.policy.cols = 128;
    policy.inner = 128, policy.experts = experts, policy.routed = experts == 0 ? 0 : 2 * tokens;
    offsets.assign(static_cast<std::size_t>(experts) + 1, tokens);
    offsets.front() = 0;
    if (experts != 0) offsets.back() = policy.routed;
    row_token.clear(), token_rows.clear(), token_offsets.assign(1, 0);
    for (std::int64_t r = 0; r < policy.routed; ++r) row_token.push_back(static_cast<std::int32_t>(r % tokens));
    for (std::int64_t t = 0; t < tokens; ++t) {
      if (experts != 0) token_rows.insert(token_rows.end(), {static_cast<std::int32_t>(t), -1});
      if (experts != 0) token_rows.push_back(static_cast<std::int32_t>(t + tokens));
      token_offsets.push_back(static_cast<std::int64_t>(token_rows.size()));
    }
  }

  // A call of the recipe and what else the policy says, with tensors one after the other.
  void set(const char* recipe, bool backward) {
    const std::string name(recipe);
    policy.policy.recipe = recipe;
    operation = &mxcheck::operation(*mxcheck_candidate(), backward ? "moe_backward" : "moe_forward");
    inputs.clear(), outputs.clear(), shapes.clear();
    next_in = 0, next_out = kOutputsAt;
    const std::int64_t tokens = policy.policy.rows;
    const std::int64_t d = policy.policy.cols;
    const std::int64_t n = policy.inner;
    add_in(kBf16, {tokens, d});
    add_in(kBf16, {policy.experts * d, 2 * n});
    add_in(kBf16, {policy.experts * n, d});
    const bool codes = name.starts_with("dsv3");
    const auto add_kept = [&](bool input, bool with_x) {
      const auto add = [&](DLDataType type, std::vector<std::int64_t> shape) {
        input ? add_in(type, std::move(shape)) : add_out(type, std::move(shape));
      };
      if (name == "dsv3_pow2") {
        add(kByte, {policy.routed, 12 * ((2 * n + 7) / 8)}), add(kByte, {policy.routed, (2 * n + 127) / 128});
      } else {
        add(kBf16, {policy.routed, 2 * n});
      }
      if (codes) {
        add(kByte, {tokens, d}), add(name == "dsv3_pow2" ? kByte : kFp32, {tokens, (d + 127) / 128});
      } else if (with_x) {
        add(kBf16, {tokens, d});
      }
    };
    if (backward) add_kept(true, true);
    add_routes();
    add_out(kBf16, {tokens, d});
    if (!backward) return add_kept(false, false);
    add_out(kFp32, {policy.experts * d, 2 * n});
    add_out(kFp32, {policy.experts * n, d});
    add_out(kFp32, {policy.routed});
  }

  void add_routes() {
    put_in(kInt32, row_token);
    put_in(kFp32, std::vector<float>(row_token.size(), 0.5F));
    put_in(kInt64, token_offsets);
    put_in(kInt32, token_rows);
    put_in(kInt64, offsets);
  }

  DLTensor& route(std::size_t number) { return inputs[inputs.size() - 5 + number]; }
  // After a change of the vector of a route's input.
  template <class T>
  void put_route(std::size_t number, const std::vector<T>& values) {
    put(static_cast<std::size_t>(static_cast<unsigned char*>(route(number).data) - arena), values);
  }

  void expect_runs() {
    put(kReportAt, std::vector<char>(sizeof(mxcheck_device_report)));
    call.policy = &policy.policy;
    const std::uint64_t bytes = workspace();
    ASSERT_LE(bytes, kWorkspaceBytes);
    call.workspace_bytes = bytes;
    EXPECT_EQ(run(), MXCHECK_OK) << message;
    mxcheck_device_report report{};
    ASSERT_EQ(cudaMemcpy(&report, call.report, sizeof(report), cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(report.status, MXCHECK_OK) << report.message;
  }
  std::vector<unsigned char> output_bytes() {
    std::vector<unsigned char> bytes(kWorkspaceAt - kOutputsAt);
    EXPECT_EQ(cudaMemcpy(bytes.data(), arena + kOutputsAt, bytes.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    return bytes;
  }
  // True if output `number` is bytes of 0.
  bool is_zero(std::size_t number, std::size_t bytes) {
    std::vector<unsigned char> values(bytes, 1);
    EXPECT_EQ(cudaMemcpy(values.data(), outputs[number].data, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return std::all_of(values.begin(), values.end(), [](unsigned char b) { return b == 0; });
  }

  mxcheck_moe_policy policy{};
  std::vector<std::int64_t> offsets, token_offsets;
  std::vector<std::int32_t> row_token, token_rows;

 private:
  static std::size_t bytes_of(DLDataType type, const std::vector<std::int64_t>& shape) {
    std::size_t bytes = type.bits / 8;
    for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
    return bytes;
  }
  DLTensor next(std::size_t& at, DLDataType type, std::vector<std::int64_t> shape) {
    const std::size_t bytes = bytes_of(type, shape);
    const DLTensor t = tensor(at, type, std::move(shape));
    at += (bytes + 255) / 256 * 256;
    return t;
  }
  // BF16 between 1 and 2 of both signs, which is some value in every other type too.
  void add_in(DLDataType type, std::vector<std::int64_t> shape) {
    std::vector<std::uint16_t> words(bytes_of(type, shape) / 2);
    for (auto& word : words) word = static_cast<std::uint16_t>(0x3F80 | (random() & 0x807F));
    put(next_in, words);
    inputs.push_back(next(next_in, type, std::move(shape)));
  }
  void add_out(DLDataType type, std::vector<std::int64_t> shape) {
    outputs.push_back(next(next_out, type, std::move(shape)));
  }
  template <class T>
  void put_in(DLDataType type, const std::vector<T>& values) {
    put(next_in, values);
    inputs.push_back(next(next_in, type, {static_cast<std::int64_t>(values.size())}));
  }

  std::mt19937 random{11};
  std::size_t next_in = 0, next_out = kOutputsAt;
};

TEST(Sm90MoeOffers, every_recipe_in_bf16) {
  MoeCall c;
  mxcheck_moe_policy& policy = c.policy;
  policy.policy.rows = policy.policy.cols = policy.inner = policy.experts = policy.routed = 0;
  for (const char* recipe : kRecipes) {
    policy.policy.recipe = recipe;
    for (const std::int32_t gate_up : {MXCHECK_HALVES, MXCHECK_INTERLEAVED}) {
      policy.gate_up = gate_up;
      EXPECT_EQ(c.operation->supports(&policy.policy, kBf16), MXCHECK_OK) << recipe;
      EXPECT_EQ(c.operation->supports(&policy.policy, kFp32), MXCHECK_UNSUPPORTED) << recipe;
    }
  }
  policy.policy.recipe = "mxfp4";
  EXPECT_EQ(c.operation->supports(&policy.policy, kBf16), MXCHECK_UNSUPPORTED);
}

TEST(Sm90MoeRefusals, before_anything_is_enqueued) {
  mxcheck::test::expect_refused<MoeCall>(
      {{"policy.gate_up is 2: must be 0 or 1", [](auto& c) { c.policy.gate_up = 2; }},
       {"policy.format is given", [](auto& c) { c.policy.policy.format = "e4m3"; }},
       {"policy has blocks of 0x32", [](auto& c) { c.policy.policy.block_cols = 32; }},
       {"policy.layout is 1: must be 0 (compact)", [](auto& c) { c.policy.policy.layout = MXCHECK_TCGEN05; }},
       {"policy.size is", [](auto& c) { c.policy.policy.size = sizeof(mxcheck_policy); }},
       {"policy.inner is -1: must be 0 or more", [](auto& c) { c.policy.inner = -1; }},
       {"policy.routed is 140, of 0 experts", [](auto& c) { c.policy.experts = 0; }},
       {"policy.experts is 65537: at most 65536 is offered", [](auto& c) { c.policy.experts = 65537; },
        MXCHECK_UNSUPPORTED},
       {"multiples of 8 are", [](auto& c) { c.policy.inner = 132; }, MXCHECK_UNSUPPORTED},
       {"multiples of 128 are", [](auto& c) { c.policy.policy.recipe = "dsv3", c.policy.inner = 136; },
        MXCHECK_UNSUPPORTED},
       {"x does not start in memory of a CUDA device", [](auto& c) { c.inputs[0].data = c.host.data(); }},
       {"2 outputs: must be 4", [](auto& c) { c.policy.policy.recipe = "dsv3"; }},
       {"7 inputs: must be 8", [](auto& c) { c.inputs.pop_back(); }}});
}

class Sm90Moe : public mxcheck::test::DeviceTest, public MoeCall {};

TEST_F(Sm90Moe, every_recipe_runs_in_the_workspace_that_it_asks_for) {
  for (const char* recipe : kRecipes) {
    for (const bool backward : {false, true}) {
      for (const std::int32_t gate_up : {MXCHECK_HALVES, MXCHECK_INTERLEAVED}) {
        SCOPED_TRACE(std::string(recipe) + (backward ? ", backward" : ", forward") + std::to_string(gate_up));
        policy.gate_up = gate_up;
        set(recipe, backward);
        expect_runs();
        EXPECT_FALSE(untouched());
        call.workspace_bytes -= 1;
        expect_refused("the workspace has");
      }
    }
  }
}

TEST_F(Sm90Moe, refuses_memory_that_it_cannot_take) {
  mxcheck::test::expect_refused<MoeCall>(
      {{"the workspace has 0 bytes", [](auto& c) { c.call.workspace = nullptr, c.call.workspace_bytes = 0; }},
       {"output 1 overlaps output 0",
        [](auto& c) { c.outputs[1].data = static_cast<unsigned char*>(c.outputs[0].data) + 16; }},
       {"output 3 overlaps input 3", [](auto& c) { c.set("dsv3", true), c.outputs[3].data = c.inputs[3].data; }},
       {"x is not at a multiple of 16 bytes", [](auto& c) { c.inputs[0].byte_offset = 2; }, MXCHECK_UNSUPPORTED}});
}

TEST_F(Sm90Moe, scales_may_be_between_multiples_of_16_bytes) {
  for (const char* recipe : {"dsv3", "dsv3_pow2"}) {
    SCOPED_TRACE(recipe);
    set(recipe, false);
    outputs.back().byte_offset = 4;
    expect_runs();
    set(recipe, true);
    inputs[inputs.size() - 6].byte_offset = 4;
    expect_runs();
  }
}

TEST_F(Sm90Moe, the_first_error_of_the_routes_is_named_and_nothing_is_written) {
  for (const char* recipe : kRecipes) {
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(std::string(recipe) + (backward ? ", backward" : ", forward"));
      set(recipe, backward);
      token_rows[5] = 140, put_route(3, token_rows);
      expect_refused_on_the_device("token_rows[index] must be -1 or a row", 5, 140);
      token_offsets[3] = 400, put_route(2, token_offsets);
      expect_refused_on_the_device("token_offsets must go from 0 to the number of slots", 4, 12);
      row_token[7] = 70, put_route(0, row_token);
      expect_refused_on_the_device("row_token[index] must be a token", 7, 70);
      offsets[3] = 139, put_route(4, offsets);
      expect_refused_on_the_device("the last of the offsets must be the end", 3, 139);
      set_routes(70, 3);
    }
  }
}

TEST_F(Sm90Moe, without_routed_rows_results_are_zeros) {
  for (const char* recipe : kRecipes) {
    SCOPED_TRACE(recipe);
    policy.routed = 0;
    row_token.clear(), token_rows.assign(70, -1), offsets.assign(4, 0);
    for (std::size_t t = 0; t < token_offsets.size(); ++t) token_offsets[t] = static_cast<std::int64_t>(t);
    set(recipe, false);
    expect_runs();
    EXPECT_TRUE(is_zero(0, 70 * 128 * 2));
    set(recipe, true);
    expect_runs();
    EXPECT_TRUE(is_zero(0, 70 * 128 * 2));
    EXPECT_TRUE(is_zero(1, 3 * 128 * 256 * 4));
    EXPECT_TRUE(is_zero(2, 3 * 128 * 128 * 4));
  }
}

TEST_F(Sm90Moe, extents_of_0_are_taken) {
  for (const char* recipe : kRecipes) {
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(std::string(recipe) + (backward ? ", backward" : ", forward"));
      set_routes(70, 3), policy.inner = 0;
      set(recipe, backward), expect_runs();
      EXPECT_TRUE(is_zero(0, 70 * 128 * 2));
      EXPECT_TRUE(!backward || is_zero(3, 140 * 4));
      set_routes(70, 3), policy.policy.cols = 0;
      set(recipe, backward), expect_runs();
      set_routes(0, 3), set(recipe, backward), expect_runs();
      set_routes(0, 0), set(recipe, backward), expect_runs();
      set_routes(70, 0), set(recipe, backward), expect_runs();
      EXPECT_TRUE(is_zero(0, 70 * 128 * 2));
    }
  }
}

TEST_F(Sm90Moe, a_captured_call_gives_the_bytes_of_one_that_is_not) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  for (const char* recipe : kRecipes) {
    for (const bool backward : {false, true}) {
      SCOPED_TRACE(std::string(recipe) + (backward ? ", backward" : ", forward"));
      call.stream = nullptr;
      set(recipe, backward);
      expect_runs();
      const std::vector<unsigned char> expected = output_bytes();
      ASSERT_EQ(cudaMemset(arena + kOutputsAt, kPoison, kWorkspaceAt - kOutputsAt), cudaSuccess);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t run = nullptr;
      ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
      call.stream = stream;
      EXPECT_EQ(operation->run(&call), MXCHECK_OK) << message;
      ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
      EXPECT_TRUE(untouched());
      ASSERT_EQ(cudaGraphInstantiate(&run, graph, 0), cudaSuccess);
      EXPECT_EQ(cudaGraphLaunch(run, stream), cudaSuccess);
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(output_bytes(), expected);
      EXPECT_EQ(cudaGraphExecDestroy(run), cudaSuccess);
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
  }
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
