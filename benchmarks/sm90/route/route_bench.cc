// mxcheck_sm90_route_bench [--library PATH] [--only TEXT] [--samples N] [--quick] [--json]: the router's operations,
// each compared with the reference, every output, then timed over copies of its tensors that exceed L2, next to a copy
// of as many bytes in the same run. benchmarks/sm90/route/torch_topk.py sets the times beside torch.topk's.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/sm90/common/command_line.h"
#include "benchmarks/sm90/common/device.h"
#include "benchmarks/sm90/route/router_call.h"
#include "tests/kernels/loaded_library.h"

namespace mxcheck::bench {
namespace {

constexpr std::uint64_t kBeyondL2 = std::uint64_t{256} << 20;
constexpr std::size_t kMostCopies = 24;

struct Options {
  std::string library = MXCHECK_SM90_ROUTE_LIBRARY;
  std::string only;
  bool json = false;
  bool quick = false;
  int samples = 25;
};

struct Row {
  std::string operation;
  std::string text;
  std::uint64_t bytes = 0;
  Spread time;
  std::string difference;
};

template <class Call, class Make>
Row measure(Timer& timer, const Options& options, const char* operation, const RouterShape& shape, const Make& make) {
  std::vector<std::unique_ptr<Call>> calls;
  calls.push_back(make(0));
  const std::uint64_t bytes = calls[0]->bytes();
  const std::size_t copies = std::clamp<std::size_t>(options.quick ? 1 : kBeyondL2 / bytes + 1, 1, kMostCopies);
  while (calls.size() < copies) calls.push_back(make(calls.size()));
  Row row{operation, shape.text(), bytes, {}, calls[0]->difference(timer.stream())};
  std::size_t next = 0;
  const int together = static_cast<int>(std::max<std::size_t>(calls.size(), 4));
  row.time = timer.time(options.samples, together, [&] { calls[next++ % calls.size()]->enqueue(timer.stream()); });
  return row;
}

RouterShape route_shape(const char* variant, bool fp32, std::int64_t tokens, std::int64_t experts, std::int64_t k) {
  RouterShape s;
  s.variant = variant, s.fp32 = fp32, s.tokens = tokens, s.experts = experts, s.top_k = k;
  return s;
}

std::vector<RouterShape> route_shapes() {
  std::vector<RouterShape> all;
  const auto add = [&](const char* variant, bool fp32, std::int64_t tokens, std::int64_t experts, std::int64_t k) {
    all.push_back(route_shape(variant, fp32, tokens, experts, k));
  };
  for (const bool fp32 : {false, true}) {
    add("topk-softmax", fp32, 24576, 128, 8);
    add("topk-softmax", fp32, 32768, 256, 16);
    add("topk-softmax", fp32, 32768, 512, 10);
    add("topk-softmax", fp32, 1048576, 256, 8);
  }
  add("topk-softmax", false, 1048576, 256, 8);
  all.back().refuse_nan = true;
  add("softmax-topk-renorm", false, 32768, 256, 8);
  add("softmax-topk-renorm", false, 1048576, 256, 8);
  add("sigmoid", false, 32768, 256, 8);
  for (const bool fp32 : {false, true}) add("sigmoid", fp32, 1048576, 256, 8);
  return all;
}

// Chosen by scores and a bias: of 384 experts (Kimi K2), of 256 in 8 groups (DeepSeek V3); and a few rows, as in
// decoding.
std::vector<RouterShape> biased_shapes() {
  std::vector<RouterShape> all;
  for (const bool fp32 : {false, true}) all.push_back(route_shape("sigmoid", fp32, 262144, 384, 8));
  all.push_back(route_shape("softmax-topk-renorm", false, 262144, 384, 8));
  for (const std::int64_t tokens : {1, 16, 128}) all.push_back(route_shape("sigmoid", false, tokens, 384, 8));
  for (RouterShape& s : all) s.bias = RouterShape::Bias::drawn;
  all.push_back(route_shape("sigmoid", false, 262144, 384, 8));
  all.back().bias = RouterShape::Bias::zero;
  for (const std::int64_t tokens : {1, 262144}) {
    all.push_back(route_shape("sigmoid", false, tokens, 256, 8));
    all.back().bias = RouterShape::Bias::drawn;
    all.back().groups = 8, all.back().groups_kept = 4;
  }
  return all;
}

void print(const Options& options, const Row& row, double copy, bool first) {
  const double rate = 1e6 * static_cast<double>(row.bytes) / row.time.median;
  if (options.json) {
    fmt::print(
        "{}\n{{\"operation\": \"{}\", \"case\": \"{}\", \"bytes\": {}, \"us\": {:.3f}, \"us_least\": {:.3f}, "
        "\"us_most\": {:.3f}, \"copy_bytes_per_s\": {:.4e}, \"ratio\": {:.4f}, \"difference\": \"{}\"}}",
        first ? "" : ",", row.operation, row.text, row.bytes, row.time.median, row.time.least, row.time.most, copy,
        rate / copy, row.difference);
  } else {
    fmt::print("{:<14} {:<46} {:>7.1f} {:>9.2f} {:>8.2f}-{:<8.2f} {:>6.0f} {:>6.3f}{}\n", row.operation, row.text,
               static_cast<double>(row.bytes) / 1e6, row.time.median, row.time.least, row.time.most, rate / 1e9,
               rate / copy, row.difference.empty() ? "" : "  WRONG: " + row.difference);
  }
  std::fflush(stdout);
}

int run(const Options& options) {
  Timer timer;
  const double copy = timer.large_copy_rate(options.quick ? 1 : options.samples);
  const mxcheck_candidate_table& library = load_candidate(options.library);
  if (options.json) {
    fmt::print("{{\"card\": {}, \"copy_bytes_per_s\": {:.4e}, \"cases\": [", to_line(current_card()), copy);
  } else {
    fmt::print("{}\nthe best copy: {:.0f} GB/s\n{:<14} {:<46} {:>7} {:>9} {:>17} {:>6} {:>6}\n",
               to_text(current_card()), copy / 1e9, "operation", "case", "MB", "us", "least-most", "GB/s", "ratio");
  }
  int wrong = 0;
  bool first = true;
  const auto show = [&](const Row& row) {
    wrong += row.difference.empty() ? 0 : 1;
    print(options, row, copy, first);
    first = false;
  };
  const auto wanted = [&](const RouterShape& s, const char* name) {
    return (std::string(name) + " " + s.text()).find(options.only) != std::string::npos;
  };
  std::vector<RouterShape> shapes = route_shapes();
  for (const RouterShape& s : biased_shapes()) shapes.push_back(s);
  for (RouterShape& s : shapes) {
    if (options.quick && s.tokens > 1024) s.tokens /= 64;
    if (!wanted(s, "route")) continue;
    show(measure<RouteCall>(timer, options, "route", s, [&](std::size_t i) {
      return std::make_unique<RouteCall>(operation(library, "route"), s, i);
    }));
  }
  for (const char* rule : {"none", "nr-f", "nr-s", "balance-f"}) {
    RouterShape s;
    s.tokens = options.quick ? 512 : 32768, s.experts = 256, s.top_k = 8, s.rule = rule;
    if (!wanted(s, "route_round")) continue;
    show(measure<RoundCall>(timer, options, "route_round", s, [&](std::size_t i) {
      return std::make_unique<RoundCall>(operation(library, "route_round"), s, i);
    }));
  }
  for (const std::int64_t tile : {1, 128}) {
    RouterShape s;
    s.tokens = options.quick ? 512 : 32768, s.experts = 256, s.top_k = 8, s.tile = tile;
    if (!wanted(s, "route_metadata")) continue;
    RouteCall routes(operation(library, "route"), s, 1);
    routes.enqueue(timer.stream());
    check_cuda(cudaStreamSynchronize(timer.stream()), "route");
    Row row = measure<MetadataCall>(timer, options, "route_metadata", s, [&](std::size_t) {
      return std::make_unique<MetadataCall>(operation(library, "route_metadata"), s, routes.experts());
    });
    row.text += fmt::format(" tile={}", tile);
    show(row);
  }
  if (options.json) fmt::print("\n]}}\n");
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mxcheck::bench

int main(int argc, char** argv) {
  mxcheck::bench::Options options;
  CLI::App app("Routers of a Hopper library, checked and timed", "mxcheck_sm90_route_bench");
  app.add_option("--library", options.library, "The candidate");
  app.add_option("--only", options.only, "Cases whose operation and text have this");
  app.add_flag("--quick", options.quick, "Small shapes: does it run at all");
  app.add_flag("--json", options.json, "Print JSON");
  mxcheck::bench::add_samples(app, options.samples);
  return mxcheck::bench::run_benchmark(app, argc, argv, [&] { return mxcheck::bench::run(options); });
}
