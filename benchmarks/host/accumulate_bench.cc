#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "benchmarks/host/benchmarks.h"
#include "numerics/format/codec.h"
#include "reference/accumulate/accumulate.h"
#include "reference/matmul/matmul.h"

namespace mxcheck::bench {
namespace {

// Codes of normal data, in the smallest type that holds them.
template <class Code>
std::vector<Code> normal_codes(Format format, std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Code> codes(static_cast<std::size_t>(count));
  for (Code& code : codes) {
    code = static_cast<Code>(encode(format, normal(random), Rounding::nearest_even, Overflow::saturate));
  }
  return codes;
}

// Products of a and b cancel in pairs: every sum is 0.
template <class Code>
void cancel(std::vector<Code>& a, std::vector<Code>& b, Format format) {
  for (std::size_t i = 1; i < a.size(); i += 2) {
    a[i] = a[i - 1];
    b[i] = static_cast<Code>(b[i - 1] ^ (1U << (spec(format).bits - 1)));
  }
}

template <class Code>
void tile(benchmark::State& state, const Contract& contract, Format format, std::int64_t side, std::int64_t k,
          bool cancels = false) {
  std::vector<Code> a_codes = normal_codes<Code>(format, side * k, 1);
  std::vector<Code> b_codes = normal_codes<Code>(format, side * k, 2);
  if (cancels) cancel(a_codes, b_codes, format);
  const PackedOperand a(contract, format, {a_codes.data(), side, k, k});
  const PackedOperand b(contract, format, {b_codes.data(), side, k, k});
  std::vector<std::uint32_t> acc(static_cast<std::size_t>(side * side));
  for (auto _ : state) {
    std::fill(acc.begin(), acc.end(), 0U);
    accumulate_tile(a, {0, side}, b, {0, side}, {0, k}, acc.data(), side);
    benchmark::DoNotOptimize(acc.data());
  }
  state.SetItemsProcessed(state.iterations() * side * side * k);
}

// accumulate() itself: the plain model, on decoded factors.
template <class Code>
void plain(benchmark::State& state, const Contract& contract, Format format, std::int64_t k) {
  const auto factors = [&](unsigned seed) {
    std::vector<Factor> out;
    for (const Code code : normal_codes<Code>(format, k, seed)) out.push_back(operand(contract, format, code));
    return out;
  };
  const std::vector<Factor> a = factors(1);
  const std::vector<Factor> b = factors(2);
  for (auto _ : state) benchmark::DoNotOptimize(accumulate(contract, a, b, 0));
  state.SetItemsProcessed(state.iterations() * k);
}

template <class Code>
void pack(benchmark::State& state, const Contract& contract, Format format, std::int64_t side, std::int64_t k) {
  const std::vector<Code> codes = normal_codes<Code>(format, side * k, 1);
  for (auto _ : state) {
    const PackedOperand a(contract, format, {codes.data(), side, k, k});
    benchmark::DoNotOptimize(&a);
  }
  state.SetItemsProcessed(state.iterations() * side * k);
}

template <class Code>
void register_contract(const std::string& name, Format format) {
  const Contract& contract = contract_named(name);
  const std::string suffix = name + "/" + std::string(spec(format).name);
  const auto add = [&](const std::string& what, auto body) {
    benchmark::RegisterBenchmark((what + "/" + suffix).c_str(), body)->Unit(benchmark::kMillisecond);
  };
  add("accumulate_tile", [=, &contract](benchmark::State& s) { tile<Code>(s, contract, format, 256, 4096); });
  add("accumulate_pack", [=, &contract](benchmark::State& s) { pack<Code>(s, contract, format, 256, 4096); });
  add("accumulate_plain", [=, &contract](benchmark::State& s) { plain<Code>(s, contract, format, 4096); });
}

// A whole matmul, its operands prepared too, of E4M3 with FP32 scales of 1x128.
void scaled_matmul(benchmark::State& state, const std::string& contract, std::int64_t side, std::int64_t k) {
  const std::vector<std::uint8_t> a = normal_codes<std::uint8_t>(Format::e4m3, side * k, 1);
  const std::vector<std::uint8_t> b = normal_codes<std::uint8_t>(Format::e4m3, side * k, 2);
  std::mt19937 random(3);
  std::vector<float> scales(static_cast<std::size_t>(side * k / 128));
  for (float& scale : scales) scale = std::uniform_real_distribution<float>(0.5, 2)(random);
  Matmul m;
  m.contract = parse_matmul_contract(contract);
  m.a = {Format::e4m3, a.data(), side, k, k, 1, {1, 128}, Format::fp32, scales.data(), k / 128};
  m.b = m.a;
  m.b.codes = b.data();
  m.threads = 1;
  std::vector<float> d(static_cast<std::size_t>(side * side));
  for (auto _ : state) {
    matmul(m, d.data());
    benchmark::DoNotOptimize(d.data());
  }
  state.SetItemsProcessed(state.iterations() * side * side * k);
}

template <class Code>
void register_exact(Format format) {
  register_contract<Code>("exact", format);
  const Contract& contract = contract_named("exact");
  benchmark::RegisterBenchmark(
      ("accumulate_tile/exact/" + std::string(spec(format).name) + "_cancelling").c_str(),
      [=, &contract](benchmark::State& s) { tile<Code>(s, contract, format, 256, 4096, true); })
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

void register_accumulate_benchmarks() {
  register_contract<std::uint8_t>("sm90_fp8", Format::e4m3);
  register_contract<std::uint16_t>("sm90_bf16", Format::bf16);
  register_contract<std::uint8_t>("sm100_f8f6f4", Format::e4m3);
  register_exact<std::uint8_t>(Format::e4m3);
  register_exact<std::uint16_t>(Format::bf16);
  register_exact<std::uint32_t>(Format::fp32);
  benchmark::RegisterBenchmark("accumulate_matmul/exact/e4m3_scaled", [](benchmark::State& s) {
    scaled_matmul(s, "exact", 512, 4096);
  })->Unit(benchmark::kMillisecond);
}

}  // namespace mxcheck::bench
