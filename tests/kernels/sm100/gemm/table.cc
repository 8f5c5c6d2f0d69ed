// Cases, outputs that differ and findings, by kernel and schedule:
//
//   sm100_gemm_table [CASES]      of each kernel, grouping, schedule, rows of A gathered or not; 4 unless said
//   otherwise
//   sm100_gemm_table_on_sm90 [CASES]      the same on a Hopper card
//
// Shapes are random, ragged, and small: up to 300 rows, 330 columns and 600 of k (NVFP4: 1184). Exit code 1 where
// anything differs or is found.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "numerics/error.h"
#include "tests/kernels/sm100/gemm/comparison.h"

namespace {

using namespace mxcheck::sm100::gemm;
using mxcheck::emulation::sm100::LaunchOptions, mxcheck::emulation::sm100::Schedule;

struct Kernel {
  const char* name;
  Operands operands;
  Variant variant;
};

constexpr Kernel kKernels[] = {
    {"MXFP8 128 x 64", Operands::scaled, {1, 64}},   {"MXFP8 128 x 128", Operands::scaled, {1, 128}},
    {"MXFP8 128 x 192", Operands::scaled, {1, 192}}, {"MXFP8 128 x 256", Operands::scaled, {1, 256}},
    {"MXFP8 256 x 128", Operands::scaled, {2, 128}}, {"MXFP8 256 x 192", Operands::scaled, {2, 192}},
    {"MXFP8 256 x 256", Operands::scaled, {2, 256}}, {"BF16 128 x 128", Operands::half, {1, 128}},
    {"BF16 256 x 256", Operands::half, {2, 256}},    {"FP8 128 x 128", Operands::promoted, {1, 128}},
    {"FP8 256 x 128", Operands::promoted, {2, 128}}, {"NVFP4 128 x 64", Operands::nvfp4, {1, 64}},
    {"NVFP4 128 x 128", Operands::nvfp4, {1, 128}},  {"NVFP4 256 x 256", Operands::nvfp4, {2, 256}}};

Case draw(const Kernel& kernel, Grouping grouping, bool gathers, std::mt19937_64& random) {
  const auto up_to = [&](std::uint64_t n) { return static_cast<std::int64_t>(1 + random() % n); };
  Case c;
  const bool fp4 = kernel.operands == Operands::nvfp4;
  c.operands = kernel.operands, c.m = up_to(300), c.n = up_to(330), c.grouping = grouping;
  c.k = (fp4 ? 32 : 16) * up_to(37);
  if (grouping != Grouping::dense) {
    // Ends in steps of 32 (FP4: 64) along k, anywhere along rows; empty groups among them.
    const std::int64_t whole = grouping == Grouping::rows ? c.m : c.k;
    const std::int64_t step = grouping == Grouping::rows ? 1 : fp4 ? 64 : 32;
    c.offsets = {0};
    while (c.offsets.back() < whole && c.offsets.size() < 6) {
      const std::int64_t next =
          c.offsets.back() +
          step * static_cast<std::int64_t>(
                     random() % 5 == 0 ? 0 : random() % static_cast<std::uint64_t>(whole / 2 / step + 1));
      c.offsets.push_back(next < whole ? next : whole);
    }
    c.offsets.push_back(whole);
  }
  if (gathers) c.rows_a = up_to(400);
  c.e5m2_a = random() % 2 == 0, c.e5m2_b = random() % 2 == 0, c.bf16 = random() % 2 == 0, c.adds = random() % 2 == 0;
  c.block_b = random() % 2 == 0 ? 128 : 1;
  c.alpha = random() % 2 == 0 ? 1.0F : 0.7F;
  c.specials = random() % 4 == 0, c.seed = random();
  return c;
}

}  // namespace

int run(long cases);

int main(int argc, char** argv) {
  const long cases = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 4;
  if (argc > 2 || cases < 1) {
    std::fprintf(stderr, "sm100_gemm_table: the number of cases, 1 or more, is the only argument\n");
    return 2;
  }
  try {
    return run(cases);
  } catch (const mxcheck::Error& e) {  // of a card, after a kernel that was stopped too
    std::fflush(stdout);
    std::fprintf(stderr, "sm100_gemm_table: %s\n", e.what());
    return 3;
  }
}

int run(long cases) {
  std::mt19937_64 random(1);
  bool clean = true;
  std::printf("%-18s %-7s %6s %9s %12s %9s %9s %9s\n", "kernel", "", "cases", "mma", "outputs", "differ", "findings",
              "card, ms");
  for (const Kernel& kernel : kKernels) {
    for (const Schedule schedule : {Schedule::eager, Schedule::lazy, Schedule::random}) {
      unsigned long long mmas = 0, outputs = 0, differing = 0, findings = 0;
      double seconds = 0;
      long done = 0;
      for (const Grouping grouping : {Grouping::dense, Grouping::rows, Grouping::depth}) {
        // Rows are gathered where k is not grouped.
        const long all = grouping == Grouping::depth ? cases : 2 * cases;
        for (long i = 0; i < all; ++i, ++done) {
          Variant variant = kernel.variant;
          variant.units = static_cast<unsigned>(1 + random() % 3);
          const LaunchOptions options{.schedule = schedule, .seed = random(), .strict = true};
          const Outcome o = compare(draw(kernel, grouping, i >= cases, random), variant, options);
          if (!o.emulated.error.empty()) {
            std::fprintf(stderr, "sm100_gemm_table: %s\n", o.emulated.error.c_str());
            return 3;
          }
          seconds += o.emulated.result.seconds;
          mmas += o.emulated.result.mmas;
          outputs += static_cast<unsigned long long>(o.outputs);
          differing += static_cast<unsigned long long>(o.differing);
          findings += o.emulated.result.findings.size() + (o.emulated.result.completed ? 0 : 1);
          if (!o.clean()) std::printf("%s\n", text_of(o).c_str());
        }
      }
      clean = clean && differing == 0 && findings == 0;
      std::printf("%-18s %-7s %6ld %9llu %12llu %9llu %9llu %9.2f\n", kernel.name,
                  std::string(name_of(schedule)).c_str(), done, mmas, outputs, differing, findings, seconds * 1e3);
      std::fflush(stdout);  // of a kernel that ends the process what came before is there
    }
  }
  return clean ? 0 : 1;
}
