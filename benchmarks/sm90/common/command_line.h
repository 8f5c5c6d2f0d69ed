#pragma once
// The command line of the benchmarks on a device, and their exit codes: 0 measured and right, 1 something differs, 2
// the command line, 3 the machine.

#include <cstdio>
#include <exception>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace mxcheck::bench {

inline void add_samples(CLI::App& app, int& samples) {
  app.add_option("--samples", samples, "Times of which the median is taken")->check(CLI::Range(1, 1'000'000));
}

// run() after the arguments of `app` are read.
template <class Run>
int run_benchmark(CLI::App& app, int argc, char** argv, const Run& run) {
  try {
    app.parse(argc, argv);
    return run();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: error: {}\n", app.get_name(), e.what());
    return 3;
  }
}

}  // namespace mxcheck::bench
