// Every word that an H200's tensor cores returned into goldens/records/h200_sums.safetensors, computed again by the
// plain model from the operands in the file.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "numerics/accumulate/contract.h"
#include "tests/kernels/sm90/gemm/mma/words.h"

namespace mxcheck {
namespace {

std::map<std::string, const Tensor*> by_name(const SafetensorsFile& file) {
  std::map<std::string, const Tensor*> all;
  for (const Tensor& t : file.tensors) all[t.name] = &t;
  return all;
}

std::uint32_t word(const Tensor& t, std::int64_t at) {
  std::uint32_t w = 0;
  const std::size_t width = size_of(t.format);
  std::memcpy(&w, t.data.data() + static_cast<std::size_t>(at) * width, width);
  return w;
}

class MmaWords : public testing::TestWithParam<test::MmaKind> {};

TEST_P(MmaWords, are_those_of_the_contract) {
  static const SafetensorsFile file = read_safetensors(MXCHECK_MMA_WORDS);
  const auto tensors = by_name(file);
  const test::MmaKind& kind = GetParam();
  const Contract& contract = contract_named(kind.contract);
  ASSERT_EQ(contract.step.terms, kind.terms);
  std::int64_t compared = 0;
  for (const Data data : test::kMmaData) {
    for (const std::int64_t steps : {1, 3}) {
      const std::string name = test::mma_name(kind, data, steps);
      const std::int64_t n = test::kMmaSide;
      const std::int64_t k = steps * kind.terms;
      const Tensor& a = *tensors.at(name + ".a");
      const Tensor& b = *tensors.at(name + ".b");
      const Tensor& c = *tensors.at(name + ".c");
      const Tensor& d = *tensors.at(name + ".d");
      ASSERT_EQ(a.shape, (std::vector<std::int64_t>{n, k}));
      ASSERT_EQ(d.shape, (std::vector<std::int64_t>{n, n}));
      const auto row = [&](const Tensor& t, Format format, std::int64_t i) {
        std::vector<Factor> x;
        for (std::int64_t at = i * k; at < (i + 1) * k; ++at) x.push_back(operand(contract, format, word(t, at)));
        return x;
      };
      for (std::int64_t i = 0; i < n; ++i) {
        const std::vector<Factor> fa = row(a, kind.a, i);
        for (std::int64_t j = 0; j < n; ++j) {
          ASSERT_EQ(word(d, i * n + j), accumulate(contract, fa, row(b, kind.b, j), word(c, i * n + j)))
              << name << " at " << i << ", " << j;
          ++compared;
        }
      }
    }
  }
  EXPECT_EQ(compared, 10 * 64 * 64);
}

INSTANTIATE_TEST_SUITE_P(H200, MmaWords, testing::ValuesIn(test::kMmaKinds),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mxcheck
