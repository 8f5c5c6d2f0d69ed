// One rank of mxcheck parallel layer: meets the others, agrees with them, computes its part, and tells rank 0.

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "goldens/io/byte_source.h"
#include "goldens/io/sha256.h"
#include "kernels/parallel/library_call.h"
#include "kernels/parallel/nccl.h"
#include "kernels/parallel/ranks.h"
#include "mxcheck_version.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "properties/core/operation.h"
#include "properties/core/policy.h"
#include "properties/process/candidate_process.h"
#include "properties/process/cuda_driver.h"
#include "tools/parallel/parallel.h"

namespace mxcheck {

namespace parallel = mxcheck_kernels::parallel;

namespace {

using parallel::Fault;
using parallel::Memory;
using parallel::ParallelError;
using parallel::Parts;

// ---- Libraries ----

struct Engine {
  std::vector<const mxcheck_candidate_table*> tables;
  std::string names;    // "sm90_moe 0.1.0, ..."
  std::string digests;  // of the files
  bool on_gpu = false;
};

const mxcheck_candidate_table& load_table(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    throw Error(ErrorKind::environment, "--engine " + one_line(path) + ": " + (why == nullptr ? "" : why));
  }
  void* const symbol = dlsym(library, MXCHECK_CANDIDATE_SYMBOL);
  if (symbol == nullptr)
    throw Error(ErrorKind::usage, "--engine " + one_line(path) + ": exports no " + MXCHECK_CANDIDATE_SYMBOL);
  mxcheck_candidate_function function = nullptr;
  std::memcpy(&function, &symbol, sizeof(symbol));
  const mxcheck_candidate_table* const table = function();
  if (table == nullptr) throw Error(ErrorKind::environment, "--engine " + one_line(path) + ": cannot run here");
  if (table->interface_version != MXCHECK_CANDIDATE_VERSION) {
    throw Error(ErrorKind::usage, "--engine " + one_line(path) + ": has version " +
                                      std::to_string(table->interface_version) + " of the interface, not " +
                                      std::to_string(MXCHECK_CANDIDATE_VERSION));
  }
  return *table;
}

Engine load_engine(const std::string& text) {
  Engine engine;
  if (text == "reference") {
    engine.tables = {&reference_library()}, engine.names = "reference", engine.digests = kVersion;
    return engine;
  }
  const std::string list = text == "sm90" ? "sm90_moe,sm90_layer,sm90" : text;
  for (const std::string_view name : split(list, ',')) {
    const std::string path = find_candidate_library(std::string(name), own_executable());
    const mxcheck_candidate_table& table = load_table(path);
    const bool on_gpu = table.device == kDLCUDA;
    if (!engine.tables.empty() && on_gpu != engine.on_gpu)
      throw Error(ErrorKind::usage, "--engine " + one_line(text) + ": has libraries for the host and for a GPU");
    engine.on_gpu = on_gpu;
    engine.tables.push_back(&table);
    engine.names += (engine.names.empty() ? "" : ", ") + printable(table.name) + " " + printable(table.version);
    engine.digests += sha256(FileSource(path)).substr(0, 16) + " ";
  }
  if (engine.tables.empty()) throw Error(ErrorKind::usage, "--engine needs a library");
  return engine;
}

// Error{usage} where a library does not offer what the layer asks for.
void require_offers(const parallel::Libraries& libraries, const ParallelOptions& o) {
  std::vector<std::string> variants;
  for (const char* operation : {"moe_forward", "moe_backward"})
    variants.push_back(fmt::format("op={} recipe={} gate_up={}", operation, o.recipe, o.gate_up));
  for (const int weighted : {0, 1}) variants.push_back(fmt::format("op=aggregate weighted={}", weighted));
  if (o.dispatch == "fp8") {
    const char* const codes = "format=e4m3 recipe=rceil block=1x128 layout=compact";
    variants.push_back(fmt::format("op=quantize {} x=bf16", codes));
    variants.push_back(fmt::format("op=dequantize {} x=bf16", codes));
  }
  for (const std::string& text : variants) {
    const Variant variant = parse_variant(text);
    const Operation& operation = operation_named(variant.operation);
    const PolicyInPlace policy(operation.question(variant));
    if (libraries.named(std::string(operation.name())).supports(policy.get(), parallel::kBf16) != MXCHECK_OK)
      throw Error(ErrorKind::usage, "the library does not offer " + text);
  }
}

// ---- The rank ----

struct Delay {
  int rank = -1;
  double seconds = 0;
};

Delay delay_of(const ParallelOptions& o) {
  if (o.delay.empty()) return {};
  const std::size_t colon = o.delay.find(':');
  const auto rank = parse_number<int>(std::string_view(o.delay).substr(0, colon));
  const auto seconds = colon == std::string::npos ? std::optional<double>()
                                                  : parse_number<double>(std::string_view(o.delay).substr(colon + 1));
  if (!rank || !seconds || !(*seconds >= 0 && *seconds <= 3600))
    throw Error(ErrorKind::usage, "--delay " + one_line(o.delay) + ": RANK:SECONDS is needed, as 1:0.5");
  return {*rank, *seconds};
}

class Rank {
 public:
  Rank(const ParallelOptions& o, const parallel::RankPlace& place)
      : o_(o),
        place_(place),
        spec_(layer_spec(o)),
        placement_{place.ranks, o.tokens, parallel::place_experts(o.placement, o.experts, place.ranks)},
        delay_(delay_of(o)) {}

  int run(parallel::Mesh& mesh) {
    mesh_ = &mesh;
    prepare();
    {
      parallel::ExpertParallelLayer layer(spec_, placement_, mesh, *device_, *libraries_);
      compute(layer);
    }
    memory_.clear();
    ParallelResult result = gather();
    mesh.barrier("end");
    device_->disconnect();
    if (place_.rank != 0) return 0;
    if (o_.against == "call") {
      result.expected = whole_layer_digests(o_, placement_, *device_, *libraries_), result.compared = true;
    }
    return report_parallel(o_, result);
  }

 private:
  void prepare();
  void load_nccl();
  void compute(parallel::ExpertParallelLayer& layer);
  void arrive(const std::string& step);
  ParallelResult gather();
  [[nodiscard]] std::string probe() const;

  template <class T>
  Memory& keep(const std::vector<T>& values) {
    memory_.emplace_back(*device_, values.size() * sizeof(T));
    device_->to_device(memory_.back().data(), values.data(), values.size() * sizeof(T));
    return memory_.back();
  }
  std::vector<std::byte> fetch(const Memory& memory) {
    std::vector<std::byte> bytes(memory.bytes());
    if (!bytes.empty()) device_->to_host(bytes.data(), memory.data(), bytes.size());
    return bytes;
  }

  const ParallelOptions& o_;
  parallel::RankPlace place_;
  parallel::LayerSpec spec_;
  parallel::Placement placement_;
  Delay delay_;
  parallel::Mesh* mesh_ = nullptr;
  Engine engine_;
  std::optional<parallel::NcclLibrary> nccl_;
  std::unique_ptr<parallel::Device> device_;
  std::optional<parallel::Libraries> libraries_;
  std::vector<Memory> memory_;
  std::string transport_;
  RankResult mine_;
  LateRank latest_;
};

// Data that ranks share without sending it: some of each tensor, as this rank makes it.
std::string Rank::probe() const {
  std::string text;
  const auto add = [&](const auto& values) {
    text.append(static_cast<const char*>(static_cast<const void*>(values.data())), values.size() * sizeof(values[0]));
  };
  const std::int64_t last = std::min<std::int64_t>(o_.tokens, 1);
  add(parallel_x(o_, 0, last)), add(parallel_d_o(o_, 0, last));
  const auto slots = parallel_slots(o_, 0, std::min<std::int64_t>(o_.tokens, 64));
  add(slots.experts), add(slots.weights);
  ParallelOptions narrow = o_;
  narrow.inner = 1;
  add(parallel_w1(narrow, {0})), add(parallel_w2(narrow, {0}));
  return sha256(std::as_bytes(std::span(text))).substr(0, 16);
}

void Rank::prepare() {
  const std::string no_gpu = o_.engine == "reference" ? "" : choose_gpu({place_.local_rank, o_.one_gpu});
  engine_ = load_engine(o_.engine);
  if (engine_.on_gpu && !no_gpu.empty()) throw Error(ErrorKind::environment, no_gpu);
  libraries_.emplace(engine_.tables);
  require_offers(*libraries_, o_);
  transport_ = o_.transport;
  if (transport_ == "auto" && (!engine_.on_gpu || o_.one_gpu)) transport_ = "sockets";
  if (transport_ == "nccl" && !engine_.on_gpu)
    throw Error(ErrorKind::usage, "--transport nccl moves rows of GPUs: --engine is on the host");
  if (transport_ != "sockets" && o_.one_gpu && place_.ranks > 1)
    throw Error(ErrorKind::usage, "--transport " + transport_ + " needs a GPU for each rank: leave out --one-gpu");
  if (transport_ == "nccl") load_nccl();
  std::string placed;
  for (const int rank : placement_.expert_rank) placed += std::to_string(rank) + ",";
  require_agreement(*mesh_,
                    {{"version", std::string(kVersion) + " " + kCommit},
                     {"shape (--tokens, --width, --inner, --experts, --top-k)",
                      fmt::format("{}, {}, {}, {}, {}", o_.tokens, o_.width, o_.inner, o_.experts, o_.top_k)},
                     {"recipe", o_.recipe + " " + o_.gate_up},
                     {"routes (--load, --capacity, --seed)", fmt::format("{}, {}, {}", o_.load, o_.capacity, o_.seed)},
                     {"--dispatch", o_.dispatch},
                     {"--chunks", std::to_string(o_.chunks)},
                     {"--samples", std::to_string(o_.samples)},
                     {"placement of experts", placed},
                     {"transport", transport_ + (nccl_ ? " " + nccl_->version_text() : "")},
                     {"library", engine_.names},
                     {"digest of the library", engine_.digests},
                     {"data", probe()}});
  if (!engine_.on_gpu) {
    device_ = transport_ == "peer" ? std::make_unique<parallel::HostDevice>(*mesh_, parallel_timeout(o_))
                                   : std::make_unique<parallel::HostDevice>(*mesh_);
    return;
  }
  GpuTransport transport;
  transport.peers = transport_ == "auto" || transport_ == "peer";
  if (transport_ == "auto") {
    transport.nccl = [this]() -> const parallel::NcclLibrary& {
      load_nccl();
      require_agreement(*mesh_, {{"transport", "nccl " + nccl_->version_text()}});
      return *nccl_;
    };
  } else if (transport_ == "nccl") {
    transport.nccl = [this]() -> const parallel::NcclLibrary& { return *nccl_; };
  }
  device_ = gpu_device(*mesh_, transport, parallel_timeout(o_));
  if (transport_ == "auto") transport_ = nccl_ ? "nccl" : "peer";
}

void Rank::load_nccl() {
  const char* const named = std::getenv("MXCHECK_NCCL");
  nccl_.emplace(!o_.nccl.empty() ? o_.nccl : named == nullptr ? "" : named);
}

// Waits for all, and remembers who came last.
void Rank::arrive(const std::string& step) {
  const std::vector<double> late = mesh_->barrier(step);
  const auto last = std::max_element(late.begin(), late.end());
  if (*last > latest_.seconds) latest_ = {static_cast<int>(last - late.begin()), *last, step};
}

void Rank::compute(parallel::ExpertParallelLayer& layer) {
  const std::int64_t first = placement_.token_begin(place_.rank), last = placement_.token_begin(place_.rank + 1);
  const auto experts = placement_.experts_of(place_.rank);
  const std::int64_t d = o_.width, n = o_.inner;
  memory_.reserve(16);
  Memory& x = keep(parallel_x(o_, first, last));
  Memory& d_o = keep(parallel_d_o(o_, first, last));
  Memory& w1 = keep(parallel_w1(o_, experts));
  Memory& w2 = keep(parallel_w2(o_, experts));
  layer.route(parallel_slots(o_, first, last), o_.capacity);
  const auto output = [&](std::int64_t rows, std::int64_t row_bytes) -> Memory& {
    return memory_.emplace_back(*device_, parallel::size_of(rows, row_bytes));
  };
  Memory& o = output(last - first, 2 * d);
  Memory& dx = output(last - first, 2 * d);
  Memory& dw1 = output(std::ssize(experts) * d, 8 * n);
  Memory& dw2 = output(std::ssize(experts) * n, 4 * d);
  Memory& ds = output(layer.home().rows(), 4);
  const auto measure = [&](int pass, Parts parts, int sample) {
    const std::string name = pass == 0 ? "forward" : "backward";
    if (place_.rank == delay_.rank && sample == 0 && pass == 1 && parts == Parts::all)
      std::this_thread::sleep_for(std::chrono::duration<double>(delay_.seconds));
    arrive(fmt::format("{} {}", name, sample));
    const parallel::PassTimes times = pass == 0 ? layer.forward(x.data(), w1.data(), w2.data(), o.data(), parts)
                                                : layer.backward(d_o.data(), w1.data(), w2.data(), dx.data(),
                                                                 dw1.data(), dw2.data(), ds.data(), parts);
    mine_.sent[pass] = times.sent;
    RankTimes& to = mine_.times[pass];
    double& best = parts == Parts::all ? to.together : parts == Parts::compute ? to.compute : to.transfers;
    best = best == 0 ? times.total : std::min(best, times.total);
  };
  // Parts first: the outputs are those of the last passes, which are whole. One pass warms up where times count.
  for (int sample = 0; sample < o_.samples; ++sample) {
    for (const int pass : {0, 1}) measure(pass, Parts::all, sample);
    if (sample == 0 && o_.samples > 1) mine_.times[0] = mine_.times[1] = {};
    if (o_.samples == 1) continue;
    for (const int pass : {0, 1}) measure(pass, Parts::transfers, sample), measure(pass, Parts::compute, sample);
  }
  if (o_.samples > 1) {
    for (const int pass : {0, 1}) measure(pass, Parts::all, static_cast<int>(o_.samples));
  }
  mine_.tokens = last - first, mine_.experts = std::ssize(experts), mine_.rows = layer.rows().rows();
  mine_.dropped = mine_.tokens * o_.top_k - layer.home().rows();
  mine_.digests[0] = digest_rows(fetch(o).data(), 2 * d, number_range(first, last));
  mine_.digests[1] = digest_rows(fetch(dx).data(), 2 * d, number_range(first, last));
  mine_.digests[2] = digest_rows(fetch(dw1).data(), 8 * n, expert_rows(experts, d));
  mine_.digests[3] = digest_rows(fetch(dw2).data(), 4 * d, expert_rows(experts, n));
  std::vector<std::int64_t> slots = layer.home().row_slot;
  for (std::int64_t& slot : slots) slot += first * o_.top_k;
  mine_.digests[4] = digest_rows(fetch(ds).data(), 4, slots);
}

ParallelResult Rank::gather() {
  ParallelResult result;
  result.launcher = place_.launcher, result.latest = latest_;
  result.transport = transport_ + (nccl_ ? " " + nccl_->version_text() : "");
  result.libraries = engine_.names;
  const std::string bytes(static_cast<const char*>(static_cast<const void*>(&mine_)), sizeof(mine_));
  for (const std::string& text : mesh_->all_gather("results", bytes)) {
    RankResult of_rank;
    if (text.size() != sizeof(of_rank)) throw ParallelError(Fault::disagreement, "a rank has another program");
    std::memcpy(static_cast<void*>(&of_rank), text.data(), sizeof(of_rank));
    result.ranks.push_back(of_rank);
  }
  return result;
}

int exit_code_of(Fault fault) {
  constexpr int kCrashed = 6;
  switch (fault) {
    case Fault::configuration:
    case Fault::disagreement: return spec(ErrorKind::usage).exit_code;
    case Fault::environment: return spec(ErrorKind::environment).exit_code;
    case Fault::rank: break;
  }
  return kCrashed;
}

int complain_of_rank(const std::string& text, int code) {
  std::fprintf(stderr, "mxcheck: error: %s\n", one_line(text).c_str());
  return code;
}

}  // namespace

int run_parallel_rank(const ParallelOptions& o, const parallel::RankPlace& place) {
  std::optional<parallel::Mesh> mesh;
  const auto ended = [&](const std::string& why, int code) {
    if (mesh) mesh->fail(why);
    return complain_of_rank(why, code);
  };
  try {
    Rank rank(o, place);
    parallel::MeshOptions options;
    options.timeout = parallel_timeout(o);
    const char* const listener = std::getenv(kListenerVariable);
    if (place.rank == 0 && listener != nullptr) options.listener = parse_number<int>(listener).value_or(-1);
    mesh.emplace(place, options);
    return rank.run(*mesh);
  } catch (const ParallelError& e) {
    return ended(e.what(), exit_code_of(e.fault()));
  } catch (const CudaFailure& e) {
    return ended("CUDA: " + e.what, spec(ErrorKind::environment).exit_code);
  } catch (const Error& e) {
    return ended(e.what(), spec(e.kind()).exit_code);
  } catch (const std::bad_alloc&) {
    return ended("out of memory", spec(ErrorKind::environment).exit_code);
  }
}

}  // namespace mxcheck
