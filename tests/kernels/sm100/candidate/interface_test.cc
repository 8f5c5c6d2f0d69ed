// The emulated library's offers, its refusals, and that D is right wherever operands lie and groups end: of small
// integers whose product is exact. That D has the contract's bits is the gate's to say (gate_test.cc).

#include <map>

#include "kernels/candidate_matmul.h"
#include "kernels/sm100/candidate/stage.h"
#include "tests/kernels/refusals.h"

namespace mxcheck {
namespace {

// The codes of -2, -1, 0, 1, 2 in E4M3, E5M2 and E2M1; the element at (row, k) of a matrix.
constexpr std::uint8_t kE4m3[] = {0xC0, 0xB8, 0x00, 0x38, 0x40};
constexpr std::uint8_t kE5m2[] = {0xC0, 0xBC, 0x00, 0x3C, 0x40};
constexpr std::uint8_t kE2m1[] = {0xC, 0xA, 0x0, 0x2, 0x4};
int number_at(std::int64_t row, std::int64_t k, std::int64_t salt) {
  return static_cast<int>((row * 7 + k * 3 + row * k + salt) % 5) - 2;
}

struct MatmulOptions {
  std::int64_t m = 5, n = 7, k = 48;
  bool nvfp4 = false;
  std::int32_t grouping = MXCHECK_DENSE;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> index;
  std::int64_t a_rows = 0;  // with an index
  bool adds = false, in_place = false;
  float alpha = 1;
  bool bf16 = false;
};

struct ValidMatmul : ValidCall {
  explicit ValidMatmul(const MatmulOptions& options) : options(options) { make(); }
  explicit ValidMatmul(const std::string&, const MatmulOptions& options = {}) : ValidMatmul(options) {}

  // The right value of an element of D, an integer.
  [[nodiscard]] float expected(std::int64_t row, std::int64_t column) const {
    const MatmulOptions& o = options;
    const bool by_depth = o.grouping == MXCHECK_DEPTH;
    const std::int64_t group = by_depth ? row / o.m : 0;
    std::int64_t a_row = by_depth ? row % o.m : row;
    std::int64_t expert = 0;
    while (o.grouping == MXCHECK_ROWS && o.offsets[static_cast<std::size_t>(expert) + 1] <= a_row) ++expert;
    if (!o.index.empty()) a_row = o.index[static_cast<std::size_t>(a_row)];
    const std::int64_t begin = by_depth ? o.offsets[static_cast<std::size_t>(group)] : 0;
    const std::int64_t end = by_depth ? o.offsets[static_cast<std::size_t>(group) + 1] : o.k;
    int sum = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      // Scales of A are 2 in odd rows, those of B 1 throughout.
      sum += number_at(a_row, k, 0) * number_at(expert * o.n + column, k, 1) * (a_row % 2 == 1 ? 2 : 1);
    }
    return o.alpha * static_cast<float>(sum) + (o.adds ? static_cast<float>(column % 3) : 0.0F);
  }

  MatmulOptions options;
  mxcheck_matmul_policy policy{};
  std::vector<std::byte> space;  // of the workspace

 private:
  void fill(TestTensor& t, std::int64_t k, const std::uint8_t* codes, std::int64_t salt) {
    for (std::int64_t i = 0; i < t.shape[0] * k; ++i) t.memory.data()[i] = codes[number_at(i / k, i % k, salt) + 2];
  }
  // Two a byte; the high half after the last of a row is a code that would count.
  void fill_packed(TestTensor& t, std::int64_t k, std::int64_t salt) {
    const std::int64_t bytes = (k + 1) / 2;
    for (std::int64_t i = 0; i < t.shape[0] * bytes; ++i) {
      const std::int64_t at = i % bytes * 2;
      const auto code = [&](std::int64_t j) { return kE2m1[number_at(i / bytes, j, salt) + 2]; };
      t.memory.data()[i] = static_cast<std::uint8_t>(code(at) | (at + 1 < k ? code(at + 1) : 7) << 4);
    }
  }

  void make() {
    const MatmulOptions& o = options;
    const std::int64_t experts = o.offsets.empty() ? 1 : static_cast<std::int64_t>(o.offsets.size()) - 1;
    const std::int64_t a_rows = o.index.empty() ? o.m : o.a_rows;
    const std::int64_t b_rows = o.grouping == MXCHECK_ROWS ? experts * o.n : o.n;
    const std::int64_t d_rows = o.grouping == MXCHECK_DEPTH ? experts * o.m : o.m;
    const std::int64_t block = o.nvfp4 ? 16 : 32;
    std::int64_t columns = o.grouping == MXCHECK_DEPTH ? 0 : (o.k + block - 1) / block;
    for (std::size_t e = 1; o.grouping == MXCHECK_DEPTH && e < o.offsets.size(); ++e) {
      columns += (o.offsets[e] - o.offsets[e - 1] + block - 1) / block;
    }
    policy.policy = make_policy(o.nvfp4 ? "e2m1" : "e4m3", "", 1, block);
    policy.policy.size = sizeof policy;
    policy.policy.rows = o.m, policy.policy.cols = o.n, policy.format_b = o.nvfp4 ? "e2m1" : "e5m2";
    policy.block_b_rows = 1, policy.block_b_cols = block, policy.depth = o.k;
    policy.scale_type = o.nvfp4 ? static_cast<std::int32_t>(MXCHECK_E4M3) : MXCHECK_E8M0;
    policy.grouping = o.grouping;
    policy.accumulate = o.adds ? 1 : 0;
    policy.alpha = o.alpha;
    TestTensor& a = memory.matrix(kU8Type, a_rows, o.nvfp4 ? (o.k + 1) / 2 : o.k);
    TestTensor& b = memory.matrix(kU8Type, b_rows, o.nvfp4 ? (o.k + 1) / 2 : o.k);
    if (o.nvfp4) {
      fill_packed(a, o.k, 0), fill_packed(b, o.k, 1);
    } else {
      fill(a, o.k, kE4m3, 0), fill(b, o.k, kE5m2, 1);
    }
    TestTensor& scales_a = memory.matrix(kU8Type, a_rows, columns);
    TestTensor& scales_b = memory.matrix(kU8Type, b_rows, columns);
    const int one = o.nvfp4 ? 0x38 : 127;
    const int two = o.nvfp4 ? 0xC0 : 128;  // whose sign counts for nothing in E4M3
    for (std::int64_t i = 0; i < a_rows * columns; ++i)
      scales_a.memory.data()[i] = static_cast<std::uint8_t>(i / columns % 2 == 1 ? two : one);
    for (std::int64_t i = 0; i < b_rows * columns; ++i) scales_b.memory.data()[i] = static_cast<std::uint8_t>(one);
    in = {&a, &b, &scales_a, &scales_b};
    const DLDataType type = o.bf16 ? kBf16Type : kFp32Type;
    TestTensor& d = memory.matrix(type, d_rows, o.n);
    if (o.adds) {
      TestTensor& c = o.in_place ? d : memory.matrix(type, d_rows, o.n);
      for (std::int64_t i = 0; i < d_rows * o.n; ++i) {
        const auto value = static_cast<float>(i % o.n % 3);
        if (!o.bf16) std::memcpy(c.memory.data() + i * 4, &value, 4);
        if (o.bf16) std::memcpy(c.memory.data() + i * 2, reinterpret_cast<const std::byte*>(&value) + 2, 2);
      }
      in.push_back(&c);
    }
    if (!o.offsets.empty()) in.push_back(&memory.offsets(o.offsets));
    if (!o.index.empty()) {
      in.push_back(
          &memory.flat({kDLInt, 32, 1}, static_cast<std::int64_t>(o.index.size()), std::as_bytes(std::span(o.index))));
    }
    out = {&d};
    bind(policy.policy);
    std::uint64_t bytes = 0;
    const mxcheck_candidate_table& table = *mxcheck_candidate();
    EXPECT_EQ(operation(table, "matmul", o.nvfp4 ? "sm100_nvf4" : "sm100_mxf8f6f4").workspace(&call, &bytes),
              MXCHECK_OK)
        << message.data();
    space.assign(bytes + 256, std::byte{0xC7});
    const std::size_t past = reinterpret_cast<std::uintptr_t>(space.data()) % 256;
    call.workspace = space.data() + (256 - past) % 256, call.workspace_bytes = bytes;
  }
};

const mxcheck_operation& matmul(bool nvfp4 = false) {
  return operation(*mxcheck_candidate(), "matmul", nvfp4 ? "sm100_nvf4" : "sm100_mxf8f6f4");
}

void expect_right(const MatmulOptions& options) {
  ValidMatmul v(options);
  ASSERT_EQ(matmul(options.nvfp4).run(&v.call), MXCHECK_OK) << v.message.data();
  EXPECT_TRUE(v.memory.kept_inside());
  const auto bytes = v.out[0]->memory.data();
  for (std::int64_t i = 0; i < v.out[0]->shape[0] * options.n; ++i) {
    float value = 0;
    if (!options.bf16) std::memcpy(&value, bytes + i * 4, 4);
    if (options.bf16) std::memcpy(reinterpret_cast<std::byte*>(&value) + 2, bytes + i * 2, 2);
    ASSERT_EQ(value, v.expected(i / options.n, i % options.n))
        << "row " << i / options.n << " column " << i % options.n;
  }
}

TEST(Sm100Candidate, the_table_says_what_it_is) {
  const mxcheck_candidate_table& table = *mxcheck_candidate();
  EXPECT_STREQ(table.name, "sm100_emulated");
  EXPECT_EQ(table.device, kDLCPU);
  EXPECT_EQ(table.num_operations, 2);
}

TEST(Sm100Candidate, both_formats_and_types_are_offered_with_their_scales_alone) {
  ValidMatmul v(MatmulOptions{});
  const auto supports = [&](DLDataType type) { return matmul().supports(&v.policy.policy, type); };
  for (const char* a : {"e4m3", "e5m2"}) {
    for (const char* b : {"e4m3", "e5m2"}) {
      v.policy.policy.format = a, v.policy.format_b = b;
      EXPECT_EQ(supports(kFp32Type), MXCHECK_OK);
      EXPECT_EQ(supports(kBf16Type), MXCHECK_OK);
      EXPECT_EQ(supports({kDLFloat, 16, 1}), MXCHECK_UNSUPPORTED);
    }
  }
  v.policy.block_b_cols = 128;
  EXPECT_EQ(supports(kFp32Type), MXCHECK_UNSUPPORTED);
  v.policy.block_b_cols = 32, v.policy.scale_type = MXCHECK_FP32;
  EXPECT_EQ(supports(kFp32Type), MXCHECK_UNSUPPORTED);
}

TEST(Sm100Candidate, nvfp4_is_offered_with_its_scales_alone) {
  ValidMatmul v(MatmulOptions{.nvfp4 = true});
  const auto supports = [&] { return matmul(true).supports(&v.policy.policy, kFp32Type); };
  EXPECT_EQ(supports(), MXCHECK_OK);
  EXPECT_EQ(matmul(true).supports(&v.policy.policy, kBf16Type), MXCHECK_OK);
  EXPECT_EQ(matmul().supports(&v.policy.policy, kFp32Type), MXCHECK_UNSUPPORTED);
  const ValidMatmul mxfp8(MatmulOptions{});
  EXPECT_EQ(matmul(true).supports(&mxfp8.policy.policy, kFp32Type), MXCHECK_UNSUPPORTED);
  v.policy.block_b_cols = 32;
  EXPECT_EQ(supports(), MXCHECK_UNSUPPORTED);
  v.policy.block_b_cols = 16, v.policy.format_b = "e4m3";
  EXPECT_EQ(supports(), MXCHECK_UNSUPPORTED);
  v.policy.format_b = "e2m1", v.policy.scale_type = MXCHECK_E8M0;
  EXPECT_EQ(supports(), MXCHECK_UNSUPPORTED);
}

// In place (rows of 16 bytes), of an odd k, gathered, and of groups that end inside of a byte, a block and an mma.
TEST(Sm100Candidate, nvfp4_products_are_right_in_place_and_copied) {
  expect_right({.m = 130, .n = 66, .k = 288, .nvfp4 = true});
  expect_right({.m = 150, .n = 200, .k = 96, .nvfp4 = true, .adds = true, .alpha = -0.5F});
  expect_right({.m = 3, .n = 5, .k = 37, .nvfp4 = true, .adds = true, .alpha = -0.5F});
  expect_right({.m = 3, .n = 5, .k = 1, .nvfp4 = true});
  expect_right({.m = 4, .n = 6, .k = 0, .nvfp4 = true, .adds = true, .alpha = 3});
  const std::vector<std::int32_t> index{8, 0, 3, 3, 1, 2, 9, 4, 8};
  expect_right({.m = 9, .n = 80, .k = 33, .nvfp4 = true, .index = index, .a_rows = 10, .bf16 = true});
  expect_right({.m = 9, .n = 80, .k = 96, .nvfp4 = true, .index = index, .a_rows = 10});
  const std::vector<std::int64_t> rows{0, 0, 1, 130, 130, 140};
  expect_right({.m = 140, .n = 40, .k = 64, .nvfp4 = true, .grouping = MXCHECK_ROWS, .offsets = rows});
  expect_right({.m = 140, .n = 40, .k = 63, .nvfp4 = true, .grouping = MXCHECK_ROWS, .offsets = rows});
  const std::vector<std::int64_t> whole{0, 64, 64, 256, 288, 288};
  expect_right({.m = 6, .n = 9, .k = 288, .nvfp4 = true, .grouping = MXCHECK_DEPTH, .offsets = whole});
  const std::vector<std::int64_t> odd{0, 1, 34, 34, 99, 100};
  expect_right({.m = 6, .n = 9, .k = 100, .nvfp4 = true, .grouping = MXCHECK_DEPTH, .offsets = odd});
}

TEST(Sm100Candidate, dense_products_are_right_in_place_and_copied) {
  expect_right({.m = 130, .n = 66, .k = 144});                            // rows of 16 bytes
  expect_right({.m = 3, .n = 5, .k = 37, .adds = true, .alpha = -0.5F});  // padded
  expect_right({.m = 9, .n = 80, .k = 33, .index = {8, 0, 3, 3, 1, 2, 9, 4, 8}, .a_rows = 10, .bf16 = true});
  expect_right({.m = 9, .n = 80, .k = 48, .index = {8, 0, 3, 3, 1, 2, 9, 4, 8}, .a_rows = 10});  // row 9 of a, 9 of d
  expect_right({.m = 4, .n = 6, .k = 0, .adds = true, .alpha = 3});
}

TEST(Sm100Candidate, groups_are_right_wherever_they_end) {
  expect_right({.m = 140, .n = 40, .k = 64, .grouping = MXCHECK_ROWS, .offsets = {0, 0, 1, 130, 130, 140}});
  expect_right({.m = 5, .n = 9, .k = 7, .grouping = MXCHECK_ROWS, .offsets = {0, 2, 5}});
  expect_right({.m = 5, .n = 9, .k = 0, .grouping = MXCHECK_ROWS, .offsets = {0, 2, 5}, .adds = true});
  expect_right({.m = 6, .n = 9, .k = 176, .grouping = MXCHECK_DEPTH, .offsets = {0, 32, 32, 128, 176, 176}});
  expect_right({.m = 6, .n = 9, .k = 100, .grouping = MXCHECK_DEPTH, .offsets = {0, 1, 34, 34, 99, 100}});
  expect_right({.m = 3, .n = 2, .k = 0, .grouping = MXCHECK_DEPTH, .offsets = {0, 0, 0}, .adds = true});
}

// Row i of D is of row index[i] of a; the copies' place in the workspace stays as it was where TMA can read the rows.
TEST(Sm100Candidate, gathered_rows_are_copied_only_where_they_cannot_be_read) {
  std::vector<std::int32_t> index;
  for (std::int32_t i = 0; i < 290; ++i) index.push_back(i % 7 == 0 ? 69 : i * 13 % 70);
  const auto expect_gathered = [&](std::int64_t k, std::vector<std::int64_t> offsets, bool copied) {
    MatmulOptions o{.m = 290, .n = 72, .k = k, .index = index, .a_rows = 70, .adds = true};
    if (!offsets.empty()) o.grouping = MXCHECK_ROWS, o.offsets = std::move(offsets);
    ValidMatmul v(o);
    ASSERT_EQ(matmul().run(&v.call), MXCHECK_OK) << v.message.data();
    for (std::int64_t i = 0; i < o.m * o.n; ++i) {
      float value = 0;
      std::memcpy(&value, v.out[0]->memory.data() + i * 4, 4);
      ASSERT_EQ(value, v.expected(i / o.n, i % o.n)) << "row " << i / o.n << " column " << i % o.n;
    }
    const auto plan = mxcheck_kernels::sm100::plan_workspace(v.call);
    const auto* copies = static_cast<const std::byte*>(v.call.workspace);
    const bool untouched =
        std::all_of(copies + plan.a_at, copies + plan.scales_a_at, [](std::byte b) { return b == std::byte{0xC7}; });
    EXPECT_EQ(untouched, !copied);
  };
  expect_gathered(144, {}, false);
  expect_gathered(80, {0, 0, 1, 130, 130, 290}, false);
  expect_gathered(100, {}, true);
  expect_gathered(33, {0, 0, 1, 130, 130, 290}, true);
}

TEST(Sm100Candidate, c_may_be_d) { expect_right({.m = 20, .n = 30, .k = 64, .adds = true, .in_place = true}); }

// All seven, and three of NVFP4, and the same one for the same shape.
TEST(Sm100Candidate, every_tile_is_chosen_for_some_shape) {
  const auto tile = [](std::int64_t m, std::int64_t n, std::int64_t groups = 1) {
    const auto v =
        mxcheck_kernels::sm100::variant_of({.m = m, .n = n, .k = 96, .groups = groups, .by_rows = groups > 1});
    return std::to_string(v.cta_group) + "x" + std::to_string(v.n);
  };
  std::map<std::string, int> chosen;
  for (std::int64_t m = 1; m <= 264; m += 3) {
    for (std::int64_t n = 1; n <= 264; n += 5) ++chosen[tile(m, n)];
  }
  EXPECT_EQ(chosen.size(), 7U);
  for (const auto& [name, times] : chosen) EXPECT_GE(times, 100) << name;
  std::map<std::string, int> of_nvfp4;
  for (std::int64_t m = 1; m <= 264; m += 3) {
    for (std::int64_t n = 1; n <= 264; n += 5) {
      const auto v =
          mxcheck_kernels::sm100::variant_of({.m = m, .n = n, .k = 96}, mxcheck::sm100::gemm::Operands::nvfp4);
      ++of_nvfp4[std::to_string(v.cta_group) + "x" + std::to_string(v.n)];
    }
  }
  EXPECT_EQ(of_nvfp4.size(), 3U);
  for (const auto& [name, times] : of_nvfp4) EXPECT_GE(times, 100) << name;
  EXPECT_EQ(tile(264, 64), "1x64");
  EXPECT_EQ(tile(256, 256, 2).front(), '1');  // 128 rows a group
  EXPECT_EQ(tile(257, 256, 2).front(), '2');
  EXPECT_EQ(tile(200, 200), tile(200, 200));
}

TEST(Sm100Candidate, wrong_calls_are_refused_with_a_reason) {
  const std::vector<InvalidCall<ValidMatmul>> refusals{
      {"no policy", "policy is null", [](auto& v) { v.call.policy = nullptr; }},
      {"the base policy", "that of mxcheck_matmul_policy",
       [](auto& v) { v.policy.policy.size = sizeof(mxcheck_policy); }},
      {"threads", "policy.threads is -1", [](auto& v) { v.policy.policy.threads = -1; }},
      {"layout", "layout must be 0", [](auto& v) { v.policy.policy.layout = 1; }, MXCHECK_UNSUPPORTED},
      {"format", "format e2m1 is not offered", [](auto& v) { v.policy.format_b = "e2m1"; }, MXCHECK_UNSUPPORTED},
      {"scales", "policy.scale_type is 4", [](auto& v) { v.policy.scale_type = 4; }},
      {"scales of NVFP4", "operands are offered with E8M0 scales", [](auto& v) { v.policy.scale_type = MXCHECK_E4M3; },
       MXCHECK_UNSUPPORTED},
      {"grouping", "policy.grouping is -1", [](auto& v) { v.policy.grouping = -1; }},
      {"accumulate", "policy.accumulate is 2", [](auto& v) { v.policy.accumulate = 2; }},
      {"depth", "policy.depth is -1", [](auto& v) { v.policy.depth = -1; }},
      {"rows", "policy.rows is", [](auto& v) { v.policy.policy.rows = INT64_MAX; }},
      {"shape of a", "a has shape 5 x 48: must be 5 x 49", [](auto& v) { v.policy.depth = 49; }},
      {"device", "a is on DLPack device 2",
       [](auto& v) {
         v.inputs[0].device = {kDLCUDA, 0};
       }},
      {"host number", "scales of b is on host number 1", [](auto& v) { v.inputs[3].device.device_id = 1; }},
      {"strides", "b has row stride 64: must be contiguous", [](auto& v) { v.set_strides(v.inputs[1], 64, 1); }},
      {"scales missing", "3 inputs: must be 4 to 6", [](auto& v) { v.call.num_inputs = 3; }},
      {"no outputs", "a matmul has one output, d", [](auto& v) { v.call.outputs = nullptr; }},
      {"no workspace", "the workspace has", [](auto& v) { v.call.workspace = nullptr; }},
      {"a short one", "bytes: must have", [](auto& v) { --v.call.workspace_bytes; }},
      {"alignment", "aligned to 256", [](auto& v) { v.call.workspace = static_cast<char*>(v.call.workspace) + 16; }},
      {"groups without offsets", "offsets of groups are missing", [](auto& v) { v.policy.grouping = MXCHECK_ROWS; }},
      {"size", "", [](auto& v) { v.call.size = 4; }, MXCHECK_INVALID, false},
  };
  expect_refusals<ValidMatmul>(*mxcheck_candidate(), "matmul", refusals);
}

TEST(Sm100Candidate, what_the_emulation_finds_is_an_error) {
  using mxcheck_kernels::sm100::require_clean;
  emulation::sm100::LaunchResult result;
  result.completed = true;
  EXPECT_NO_THROW(require_clean("the GEMM", result));
  const auto refused = [&result]() -> std::string {
    try {
      require_clean("the GEMM", result);
    } catch (const mxcheck_kernels::Refusal& refusal) {
      EXPECT_EQ(refusal.status(), MXCHECK_DEVICE_ERROR);
      return refusal.what();
    }
    return "nothing";
  };
  result.completed = false;
  EXPECT_EQ(refused(), "emulation of the GEMM: it did not come to its end");
  using emulation::sm100::Hazard;
  result.findings.push_back({Hazard::phase, "cta 0", "mbarrier.try_wait", "a\nphase", "a wait"});
  result.findings.push_back({Hazard::exit, "cta 0", "", "columns", ""});
  EXPECT_EQ(refused(), "emulation of the GEMM: phase: cta 0, mbarrier.try_wait: a phase; right: a wait (and 1 more)");
}

TEST(Sm100Candidate, an_output_that_is_not_kept_is_what_it_was) {
  std::vector<std::byte> output{std::byte{1}, std::byte{2}};
  std::vector<std::byte> memory(2);
  mxcheck_kernels::Checked checked;
  checked.data = output.data(), checked.bytes = 2;
  {
    mxcheck_kernels::sm100::Saved saved(checked, memory.data());
    output[1] = std::byte{9};
    saved.keep_new();
  }
  EXPECT_EQ(output[1], std::byte{9});
  {
    const mxcheck_kernels::sm100::Saved saved(checked, memory.data());
    output[0] = std::byte{7};
  }
  EXPECT_EQ(output[0], std::byte{1});
}

struct Grouped : ValidMatmul {
  explicit Grouped(const std::string&)
      : ValidMatmul(
            MatmulOptions{.grouping = MXCHECK_ROWS, .offsets = {0, 2, 5}, .index = {0, 1, 2, 3, 2}, .a_rows = 4}) {}
};

TEST(Sm100Candidate, values_of_offsets_and_row_index_are_looked_at) {
  const std::vector<InvalidCall<Grouped>> refusals{
      {"begin", "offsets[0] is 1: must be 0", [](auto& v) { v.set(4, 0, std::int64_t{1}); }},
      {"order", "offsets[1] is -1: must be at least the one before it", [](auto& v) { v.set(4, 1, std::int64_t{-1}); }},
      {"end", "the last of the offsets is 6: must be the end", [](auto& v) { v.set(4, 2, std::int64_t{6}); }},
      {"no groups", "offsets are given, and policy.grouping is 0", [](auto& v) { v.policy.grouping = 0; }},
      {"row", "row index[3] is 4: must be a row of a, 0 to 3", [](auto& v) { v.set(5, 3, std::int32_t{4}); }},
      {"row", "row index[0] is -1: must be", [](auto& v) { v.set(5, 0, std::int32_t{-1}); }},
      {"twice", "input 5 is a second tensor", [](auto& v) { v.inputs[5] = v.inputs[4]; }},
      {"depth", "a row index is not offered with groups along depth",
       [](auto& v) { v.policy.grouping = MXCHECK_DEPTH; }, MXCHECK_UNSUPPORTED},
  };
  expect_refusals<Grouped>(*mxcheck_candidate(), "matmul", refusals);
}

}  // namespace
}  // namespace mxcheck
