#include "tests/kernels/sm100/candidate/call.h"

#include <span>

namespace mxcheck::test {

void ValidMatmul::make() {
  const MatmulOptions& o = options;
  const std::int64_t experts = o.offsets.empty() ? 1 : static_cast<std::int64_t>(o.offsets.size()) - 1;
  const std::int64_t a_rows = o.index.empty() ? o.m : o.a_rows;
  const std::int64_t b_rows = o.grouping == MXCHECK_ROWS ? experts * o.n : o.n;
  const std::int64_t d_rows = o.grouping == MXCHECK_DEPTH ? experts * o.m : o.m;
  std::int64_t columns = o.grouping == MXCHECK_DEPTH ? 0 : (o.k + 31) / 32;
  for (std::size_t e = 1; o.grouping == MXCHECK_DEPTH && e < o.offsets.size(); ++e) {
    columns += (o.offsets[e] - o.offsets[e - 1] + 31) / 32;
  }
  policy.policy = make_policy("e4m3", "", 1, 32);
  policy.policy.size = sizeof policy;
  policy.policy.rows = o.m, policy.policy.cols = o.n;
  policy.format_b = "e5m2";
  policy.block_b_rows = 1, policy.block_b_cols = 32;
  policy.depth = o.k;
  policy.scale_type = MXCHECK_E8M0;
  policy.grouping = o.grouping;
  policy.accumulate = o.adds ? 1 : 0;
  policy.alpha = o.alpha;
  TestTensor& a = memory.matrix(kU8Type, a_rows, o.k);
  TestTensor& b = memory.matrix(kU8Type, b_rows, o.k);
  fill(a, o.k, kE4m3, 0);
  fill(b, o.k, kE5m2, 1);
  TestTensor& scales_a = memory.matrix(kU8Type, a_rows, columns);
  TestTensor& scales_b = memory.matrix(kU8Type, b_rows, columns);
  for (std::int64_t i = 0; i < a_rows * columns; ++i) {
    scales_a.memory.data()[i] = i / columns % 2 == 1 ? 128 : 127;
  }
  for (std::int64_t i = 0; i < b_rows * columns; ++i) scales_b.memory.data()[i] = 127;
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
  EXPECT_EQ(operation(table, "matmul").workspace(&call, &bytes), MXCHECK_OK) << message.data();
  space.assign(bytes + 256, std::byte{0xC7});
  const std::size_t past = reinterpret_cast<std::uintptr_t>(space.data()) % 256;
  call.workspace = space.data() + (256 - past) % 256;
  call.workspace_bytes = bytes;
}

}  // namespace mxcheck::test
