#pragma once
// The measures that the field tests kernels by, and their thresholds: DeepGEMM's calc_diff < 1e-3, torchao's SQNR of at
// least 27 dB, 1 - cosine similarity < 1e-2.

#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <span>
#include <string>

#include "tests/libraries/catalogue.h"

namespace mxcheck {

// The worst of several tensors. A NaN stays.
struct Measures {
  double cosine = 1, sqnr = std::numeric_limits<double>::infinity(), calc_diff = 0;

  void add(std::span<const float> is, std::span<const double> right) {
    double xy = 0, xx = 0, yy = 0, noise = 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
      const double x = is[i];
      xy += x * right[i], xx += right[i] * right[i], yy += x * x;
      noise += (x - right[i]) * (x - right[i]);
    }
    const auto worse = [](double worst, double one, bool one_is_worse) {
      return std::isnan(worst) || std::isnan(one) ? NAN : one_is_worse ? one : worst;
    };
    const double one_cosine = xy / std::sqrt(xx * yy);
    const double one_sqnr = 10 * std::log10(xx / noise);
    const double one_diff = 1 - 2 * xy / (xx + yy);
    cosine = worse(cosine, one_cosine, one_cosine < cosine);
    sqnr = worse(sqnr, one_sqnr, one_sqnr < sqnr);
    calc_diff = worse(calc_diff, one_diff, one_diff > calc_diff);
  }
};

// Rows of a Markdown table, and in the end how many faults each measure lets through. The control is no fault.
class MeasureTable {
 public:
  MeasureTable() { std::puts("| fault | 1 - cos < 1e-2 | SQNR >= 27 dB | calc_diff < 1e-3 |\n|---|---|---|---|"); }

  void add(const std::string& name, const Measures& m) {
    const bool cosine = 1 - m.cosine < 1e-2;
    const bool sqnr = m.sqnr >= 27;
    const bool diff = m.calc_diff < 1e-3;
    const auto verdict = [](bool pass) { return pass ? "passes" : "fails"; };
    std::printf("| %s | %s (%.1e) | %s (%.1f) | %s (%.1e) |\n", name.c_str(), verdict(cosine), 1 - m.cosine,
                verdict(sqnr), m.sqnr, verdict(diff), m.calc_diff);
    std::fflush(stdout);
    if (name == "control") return;
    ++faults_;
    cosine_ += cosine ? 1 : 0, sqnr_ += sqnr ? 1 : 0, diff_ += diff ? 1 : 0;
    all_ += cosine && sqnr && diff ? 1 : 0;
  }
  void add_not_run(const std::string& name, const char* why) {
    std::printf("| %s | does not run: %s | | |\n", name.c_str(), why);
    if (name != "control") ++faults_;
  }
  void print_sums() const {
    std::printf("\nOf %d faults let through by cosine %d, by SQNR %d, by calc_diff %d, by all three %d.\n", faults_,
                cosine_, sqnr_, diff_, all_);
  }

 private:
  int faults_ = 0, cosine_ = 0, sqnr_ = 0, diff_ = 0, all_ = 0;
};

// The main function of a program for each library of the catalogue: `PROGRAM CATALOGUE PREFIX` measures PREFIXNAME.so
// of every row, the control first. `measure(path, worst)` adds a library's tensors, or returns why it does not run.
template <class Measure>
int print_measures(int argc, char** argv, const char* library, Measure measure) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s catalogue.tsv .../libmxcheck_%s_fault_\n", argv[0], library);
    return 2;
  }
  try {
    MeasureTable table;
    for (const test::WrongLibrary& one : test::read_catalogue(argv[1], library)) {
      if (one.name.starts_with("kept_weights_")) continue;  // right in one call without the option
      Measures worst;
      const char* const why_not = measure(std::string(argv[2]) + one.name + ".so", worst);
      if (why_not == nullptr) {
        table.add(one.name, worst);
      } else {
        table.add_not_run(one.name, why_not);
      }
    }
    table.print_sums();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
  return 0;
}

}  // namespace mxcheck
