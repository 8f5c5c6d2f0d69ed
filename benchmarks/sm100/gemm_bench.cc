// The needs of the Blackwell GEMMs' tiles on an SM, reckoned; and the speed of the emulation that runs them, measured.
//
//   mxcheck_sm100_bench              both tables
//   mxcheck_sm100_bench --quick      smaller shapes
//   mxcheck_sm100_on_sm90_bench      the same on a Hopper card
//
// The first table is no measurement: nobody here has the card. Units: 8192 products of FP8 (4096 of BF16, 16,384 of
// FP4) a clock and SM, which is the vendor's 4,500 TFLOPS; shared memory at 128 bytes a clock, written by TMA and read
// by mma. Of a pair each CTA's B is its half.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "kernels/sm100/gemm/emulated.h"
#include "kernels/sm100/gemm/tile.h"

namespace {

using namespace mxcheck::sm100::gemm;
namespace emulation = mxcheck::emulation::sm100;

#ifdef MXCHECK_SM100_ON_CARD
constexpr bool kOnCard = true;  // a Hopper's: the kernel's own time
#else
constexpr bool kOnCard = false;
#endif

template <class T>
void reckon(const char* name) {
  constexpr double kSharedBytesPerClock = 128;
  constexpr double kPeak = 4500.0 * 8 / T::kEncoding.bits;
  constexpr double multiply = 2.0 * T::kN;  // four mma of 128 x N x 32 bytes, at N / 2 clocks each
  constexpr double read = T::kBytesA + T::kBytesB + T::kScaleBytes * (T::kChunksA + T::kChunksB);
  constexpr double shared = (T::kStageBytes + read) / kSharedBytesPerClock;
  constexpr double bound = multiply < shared ? multiply / shared : 1;
  std::printf("%-18s %4d x %-4d %6d %9u %7u %12d %8.0f %8.0f %8.1f %9.0f\n", name, T::kM, T::kN, T::kStages,
              T::kSharedBytes, T::kScaleColumn + T::kStages * T::kSlotColumns, T::kAccumulators, multiply, shared,
              T::kStageBytes / multiply, kPeak * bound);
}

void measure(std::int64_t size, const Variant& variant, emulation::Schedule schedule) {
  const auto bytes = static_cast<std::size_t>(size * size);
  const std::int64_t chunks = (size + 127) / 128;
  std::vector<std::uint8_t> a(bytes + 16);
  std::vector<std::uint8_t> b(bytes + 16);
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<std::uint8_t>(random() & 0xF7U);  // no NaN: 0x7F and 0xFF are
    b[i] = static_cast<std::uint8_t>(random() & 0xF7U);
  }
  std::vector<std::uint8_t> scales(static_cast<std::size_t>((chunks + 1) * chunks * kChunkBytes) + 16, 127);
  const auto aligned = [](std::vector<std::uint8_t>& v) {
    return v.data() + (16 - reinterpret_cast<std::uintptr_t>(v.data()) % 16) % 16;
  };
  std::vector<float> d(bytes);
  Problem p;
  p.a = aligned(a);
  p.b = aligned(b);
  p.scales_a = p.scales_b = aligned(scales);
  p.chunks_a = p.chunks_b = (chunks + 1) * chunks;
  p.chunks_k = chunks;
  p.d = d.data();
  p.m = p.n = p.k = size;
  const auto begin = std::chrono::steady_clock::now();
  const Emulated out = run_emulated(p, variant, {.schedule = schedule, .seed = 1});
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double seconds = kOnCard ? out.result.seconds : wall;
  std::printf("%5lld^3  %d x %-4d %-7s %9.5f s %8.0f M products/s %9llu mma %10llu switches %5zu findings%s\n",
              static_cast<long long>(size), 128 * variant.cta_group, variant.n, std::string(name_of(schedule)).c_str(),
              seconds,
              static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size) / seconds / 1e6,
              static_cast<unsigned long long>(out.result.mmas), static_cast<unsigned long long>(out.result.switches),
              out.result.findings.size(), (out.error + out.result.dump).c_str());
  for (const auto& finding : out.result.findings) std::printf("  %s\n", emulation::text_of(finding).c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  if (argc > 1 && !quick) {
    std::fprintf(stderr, "mxcheck_sm100_bench: unknown argument %s; --quick is the only one\n", argv[1]);
    return 2;
  }
  std::printf("Reckoned, for 128 bytes of k; TFLOPS if shared memory is what limits:\n");
  std::printf("%-18s %-11s %6s %9s %7s %12s %8s %8s %8s %9s\n", "tile", "M x N", "stages", "shared B", "columns",
              "accumulators", "mma clk", "smem clk", "L2 B/clk", "TFLOPS");
  reckon<Single64>("Single64");
  reckon<Single128>("Single128");
  reckon<Single192>("Single192");
  reckon<Single256>("Single256");
  reckon<Pair128>("Pair128");
  reckon<Pair192>("Pair192");
  reckon<Pair256>("Pair256");
  reckon<HalfSingle128>("HalfSingle128");
  reckon<HalfPair256>("HalfPair256");
  reckon<PromotedSingle128>("PromotedSingle128");
  reckon<PromotedPair128>("PromotedPair128");
  reckon<Nvfp4Single64>("Nvfp4Single64");
  reckon<Nvfp4Single128>("Nvfp4Single128");
  reckon<Nvfp4Pair256>("Nvfp4Pair256");
  std::printf("\nMeasured, the emulation on %s:\n", kOnCard ? "a Hopper card" : "one core");
  for (const auto schedule : {emulation::Schedule::eager, emulation::Schedule::lazy, emulation::Schedule::random}) {
    for (Variant v : {Variant{1, 128, 1}, Variant{1, 64, 1}, Variant{2, 256, 1}, Variant{2, 128, 1}}) {
      if (!kOnCard && (v.n == 64 || (v.cta_group == 2 && v.n == 128))) continue;  // seconds each
      const std::int64_t size = quick ? 256 : 1024;
      const auto tiles = static_cast<unsigned>((size / (128 * v.cta_group)) * (size / v.n));
      v.units = kOnCard ? std::min(132U / static_cast<unsigned>(v.cta_group), tiles) : 1;
      for (int i = 0; i < (kOnCard ? 2 : 1); ++i) measure(size, v, schedule);  // on a card the first call loads it
    }
  }
  return 0;
}
