// A candidate that answers with the reference: every operation of the registry, every variant that libraries are
// queried for, a list of contracts. Right by definition, so that whatever the gate finds wrong of it is the gate's.
//
// It is one of the many right libraries that offer less, or behave unlike others, by the environment variable
// REFERENCE: settings NAME=VALUE with semicolons between them.
//
//   REFERENCE='operations=quantize;max_rows=64;refuses=offsets,strides' mxcheck gate --candidate reference.so

#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kernels/candidate_moe.h"
#include "kernels/candidate_nvfp4.h"
#include "numerics/error.h"
#include "properties/core/rng.h"
#include "tests/libraries/right/reference/call.h"
#include "tests/libraries/right/reference/kept_weights.h"

namespace mxcheck::candidates {
namespace {

// The differences between libraries.
struct Settings {
  // The calls that are offered: operations, variants, extents.
  std::string operations;     // of these names; empty: of all
  std::string contracts;      // of GEMMs
  std::string variant;        // the one whose text this is; empty: all
  std::uint64_t one_of = 1;   // every so many variants, by a hash of their text
  std::string with;           // of blocks: those whose text has one of these; empty: all
  std::int64_t max_rows = 0;  // 0: no limit
  std::int64_t max_cols = 0, rows_multiple = 1, cols_multiple = 1;
  bool col_stride = false;     // an x of any strides
  bool nvfp4_options = false;  // quantize_nvfp4 with those of kernels/candidate_nvfp4.h
  bool kept_weights = false;   // layers that keep them: kernels/candidate_kept_weights.h
  std::string refuses;         // of offsets, strides, index, misaligned, widths (of layers, beside multiples of 128)
  // The library's behaviour.
  bool any_nan = false;         // where any NaN is as good as another: each time another
  bool has_timer = false;       // signals of a timer and a thread of its own
  bool prints = false;          // on stdout, every call
  bool other_script = false;    // name and messages are not ASCII
  std::int64_t sleep_us = 0;    // every call
  std::uint64_t workspace = 0;  // bytes
  // Faults, which no right library has: for tests of what is said about wrong ones.
  std::string follows;  // the contract, recipe or router that it follows in place of what it is asked for
  std::string ends;     // crashes, hangs or refuses: at every call
};

// A sum of each kind of operand, and what kernels do on top of one.
constexpr const char* kContracts =
    "sm90_fp8,sm90_fp8+promote128,sm90_bf16+from_c,sm90_bf16+decode,sm90_tf32,sm100_mxf8f6f4,ieee_fp32,exact";

void set(Settings& s, const std::string& name, const std::string& value) {
  const auto number = [&value] { return std::atoll(value.c_str()); };
  if (name == "operations")
    s.operations = value;
  else if (name == "contracts")
    s.contracts = value;
  else if (name == "variant")
    s.variant = value;
  else if (name == "one_of")
    s.one_of = static_cast<std::uint64_t>(number());
  else if (name == "with")
    s.with = value;
  else if (name == "max_rows")
    s.max_rows = number();
  else if (name == "max_cols")
    s.max_cols = number();
  else if (name == "rows_multiple")
    s.rows_multiple = number();
  else if (name == "cols_multiple")
    s.cols_multiple = number();
  else if (name == "col_stride")
    s.col_stride = number() != 0;
  else if (name == "nvfp4_options")
    s.nvfp4_options = number() != 0;
  else if (name == "kept_weights")
    s.kept_weights = number() != 0;
  else if (name == "refuses")
    s.refuses = value;
  else if (name == "any_nan")
    s.any_nan = number() != 0;
  else if (name == "has_timer")
    s.has_timer = number() != 0;
  else if (name == "prints")
    s.prints = number() != 0;
  else if (name == "other_script")
    s.other_script = number() != 0;
  else if (name == "sleep_us")
    s.sleep_us = number();
  else if (name == "workspace")
    s.workspace = static_cast<std::uint64_t>(number());
  else if (name == "follows")
    s.follows = value;
  else if (name == "ends")
    s.ends = value;
  else {
    std::fprintf(stderr, "REFERENCE: no setting '%s'\n", name.c_str());
    std::abort();
  }
}

Settings read_settings() {
  Settings s;
  s.contracts = kContracts;
  const char* text = std::getenv("REFERENCE");
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::size_t end = rest.find(';');
    const std::string_view one = rest.substr(0, end);
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
    const std::size_t equals = one.find('=');
    if (!one.empty()) set(s, std::string(one.substr(0, equals)), std::string(one.substr(equals + 1)));
  }
  return s;
}

// The settings of the process, read once. An unknown one ends it: a test that misspells one must not pass.
const Settings& settings() {
  static const Settings all = read_settings();
  return all;
}

// True if a list with commas has the word; an empty list has none.
bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t end = list.find(',');
    if (list.substr(0, end) == word) return true;
    list = end == std::string_view::npos ? "" : list.substr(end + 1);
  }
  return false;
}

std::string key_of(const Policy& p, DLDataType wide) {
  std::string key(reinterpret_cast<const char*>(p.bytes), p.num_bytes);
  for (std::uint32_t i = 0; i < p.num_texts; ++i) {
    std::memset(key.data() + p.texts[i].offset, 0, sizeof(const char*));
    key += std::string(p.texts[i].text) + '\0';
  }
  return key + std::to_string(wide.code) + ' ' + std::to_string(wide.bits);
}

DLDataType type_of(Format dtype) {
  const auto bits = static_cast<std::uint8_t>(spec(dtype).bits);
  const bool is_float = spec(dtype).is_value || dtype == Format::fp64;
  const int code = !is_float ? kDLUInt : dtype == Format::bf16 ? kDLBfloat : kDLFloat;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0;
  for (const char c : text) hash = mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

// One entry of the table.
class Served {
 public:
  Served(const Operation& operation, std::string contract)
      : operation_(operation), contract_(std::move(contract)), name_(operation.name()) {
    full_name_ = operation.variant_name(contract_);
    for (const Variant& v : operation.askable_under(full_name_, contract_)) {
      const Policy question = operation.question(v);
      if (like_.num_bytes == 0) like_ = question;
      if (question.num_bytes != like_.num_bytes) like_with_options_ = question;
      const std::string text = to_text(v);
      if (!is_offered(text)) continue;
      questions_.insert(key_of(question, type_of(v.dtype)));
    }
  }

  [[nodiscard]] const char* name() const { return name_.c_str(); }
  [[nodiscard]] const char* contract() const { return contract_.c_str(); }
  [[nodiscard]] bool offers_nothing() const { return questions_.empty(); }

  [[nodiscard]] bool supports(const mxcheck_policy* policy, DLDataType wide) const {
    return questions_.contains(key_of(policy_of(policy, like(policy)), wide));
  }

  void run(const mxcheck_call& from) const {
    if (contract_ != MXCHECK_KEPT_WEIGHTS_CONTRACT || !has_kept_weights(from.policy)) return run_plain(from);
    run_with_kept_weights(from, name(), {}, [&](const mxcheck_call& plain) { run_plain(plain); });
  }
  // Bytes of the memory for kept weights, where that is the question.
  [[nodiscard]] std::uint64_t workspace(const mxcheck_call& call) const {
    std::uint64_t bytes = settings().workspace;
    if (contract_ == MXCHECK_KEPT_WEIGHTS_CONTRACT) asks_for_bytes(call.policy, &bytes);
    return bytes;
  }

 private:
  void run_plain(const mxcheck_call& from) const {
    const Call call = call_of(from, full_name_, like(from.policy));
    refuse_options(call);
    const std::unique_ptr<Problem> problem = checked_problem_of(call);
    const Variant& variant = problem->c.variant;
    if (!questions_.contains(key_of(operation_.question(variant), type_of(variant.dtype))))
      throw Refusal(MXCHECK_UNSUPPORTED, "not offered");
    std::vector<ExpectedTensor> answer = settings().follows.empty() ? problem->answer() : otherwise(call);
    for (std::size_t i = 0; i < answer.size(); ++i) {
      std::vector<std::byte>& bytes = answer[i].bytes;
      require(bytes.size() == call.outputs[i].bytes, "an output of another size");
      if (settings().any_nan && answer[i].info.any_nan_is_equal) other_nans(bytes, answer[i].info.format);
      if (!bytes.empty()) std::memcpy(const_cast<std::byte*>(call.outputs[i].data), bytes.data(), bytes.size());
    }
  }

  // A policy of the call's kind, told by its size.
  [[nodiscard]] const Policy& like(const mxcheck_policy* policy) const {
    const bool has_options = like_with_options_.num_bytes != 0 && policy != nullptr && policy->size > like_.num_bytes;
    return has_options ? like_with_options_ : like_;
  }
  [[nodiscard]] static bool is_offered(std::string text) {
    const Settings& s = settings();
    // Kept weights are offered where the variant is without.
    if (const std::size_t at = text.find(" weights=kept"); at != std::string::npos) text.resize(at);
    if (!s.variant.empty() && s.variant != text) return false;
    bool has_one = s.with.empty() || text.find(" block=") == std::string::npos;
    for (std::string_view rest = s.with; !has_one && !rest.empty();) {
      const std::size_t end = rest.find(',');
      has_one = text.find(rest.substr(0, end)) != std::string::npos;
      rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
    }
    if (!has_one) return false;
    return hash_of(text) % s.one_of == 0;
  }

  // Answers as if something else had been asked for.
  [[nodiscard]] std::vector<ExpectedTensor> otherwise(Call call) const {
    if (name_ == "matmul") {
      call.operation = "matmul:" + settings().follows;
    } else {
      edit<mxcheck_policy>(call.policy, [](mxcheck_policy& p) { p.recipe = settings().follows.c_str(); });
    }
    return operation_.problem_of(call)->answer();
  }

  void refuse_options(const Call& call) const {
    const auto refuse = [](const char* what) {
      if (lists(settings().refuses, what)) throw Refusal(MXCHECK_UNSUPPORTED, std::string("no ") + what);
    };
    const bool is_matmul = name_ == "matmul";
    const bool is_layer = name_.starts_with("moe_");
    const bool has_own = is_layer || name_.starts_with("route") || name_ == "aggregate" || name_ == "dispatch" ||
                         name_ == "combine";  // offsets and indices
    if (is_layer) {
      const auto p = read<mxcheck_moe_policy>(call.policy);
      if (p.policy.cols % 128 != 0 || p.inner % 128 != 0) refuse("widths");
    }
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const CallTensor& t = call.inputs[i];
      if (t.is_offsets && !is_matmul && !has_own) refuse("offsets");
      if (t.is_index && !has_own) refuse("index");
      if (t.row_stride != 0) refuse("strides");
      if (!t.strides.empty() && !settings().col_stride) throw Refusal(MXCHECK_INVALID, "columns follow one another");
      // Scales are the only matrices of a layer with widths of 128 whose rows have fewer than 16 elements.
      const bool is_matrix = is_layer && t.shape.size() == 2 && t.shape[1] % 16 == 0;
      if (((is_matmul && i < 2) || is_matrix) && reinterpret_cast<std::uintptr_t>(t.data) % 16 != 0)
        refuse("misaligned");
    }
  }

  static void other_nans(std::vector<std::byte>& bytes, Format format) {
    static std::atomic<std::uint64_t> count{0};
    const FormatSpec& f = spec(format);
    const auto width = static_cast<std::size_t>(f.bits) / 8;
    for (std::size_t at = 0; at < bytes.size(); at += width) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes.data() + at, width);
      const std::uint32_t sign = 1U << (f.bits - 1);
      const std::uint32_t infinity = f.max_code + 1;
      if ((word & (sign - 1)) <= infinity) continue;
      const auto random = static_cast<std::uint32_t>(mix64(++count));
      word = (random & sign) | infinity | (random & (infinity - 1) & ((1U << f.mantissa_bits) - 1)) | 1U;
      std::memcpy(bytes.data() + at, &word, width);
    }
  }

  const Operation& operation_;
  std::string contract_, name_, full_name_;
  Policy like_;
  Policy like_with_options_;  // of a contract under which there are two kinds of policies
  std::unordered_set<std::string> questions_;
};

std::vector<Served> all_served() {
  const Settings& s = settings();
  std::vector<Served> all;
  const auto add = [&](const Operation& operation, const std::string& contract) {
    Served served(operation, contract);
    if (!served.offers_nothing()) all.push_back(std::move(served));
  };
  for (const Operation* operation : all_operations()) {
    if (!s.operations.empty() && !lists(s.operations, operation->name())) continue;
    if (operation->variant_name("exact") == operation->name()) {  // the contract is no part of its variants
      const bool any_strides = s.col_stride && operation->may_have_col_stride();
      const bool has_options = s.nvfp4_options && operation->name() == "quantize_nvfp4";
      const bool keeps = s.kept_weights && operation->name().starts_with("moe_");
      add(*operation, keeps         ? std::string(MXCHECK_KEPT_WEIGHTS_CONTRACT)
                      : has_options ? std::string(MXCHECK_NVFP4_OPTIONS_CONTRACT)
                      : any_strides ? std::string(kExactOfAnyStrides)
                                    : "exact");
      continue;
    }
    std::string_view rest = s.contracts;
    while (!rest.empty()) {
      const std::size_t end = rest.find(',');
      add(*operation, std::string(rest.substr(0, end)));
      rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
    }
  }
  return all;
}

const std::vector<Served>& served() {
  static const std::vector<Served> all = all_served();
  return all;
}

// A library with a clock and a thread of its own: system calls of its process are interrupted a thousand times a
// second. The handler lets errno be.
void start_timer() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGALRM, &action, nullptr);
  const itimerval every{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &every, nullptr);
  std::thread([] {
    for (;;) usleep(500);
  }).detach();
}

void misbehave() {
  static const bool started = settings().has_timer && (start_timer(), true);
  (void)started;
  if (settings().sleep_us != 0) usleep(static_cast<useconds_t>(settings().sleep_us));
  if (settings().ends == "crashes") std::raise(SIGSEGV);
  if (settings().ends == "hangs") {
    for (;;) pause();
  }
  if (settings().ends == "refuses") throw Refusal(MXCHECK_INVALID, "not today");
  if (settings().prints) {
    std::printf("{\"exit_code\": 1} autotuning\n");
    std::fflush(stdout);
  }
}

mxcheck_status refuse(const mxcheck_call* call, mxcheck_status status, const char* why) {
  if (call->message != nullptr && call->message_bytes != 0) {
    const char* prefix = settings().other_script ? "\xD0\xBD\xD0\xB5\xD1\x82 \xFF\xE9: " : "";
    std::snprintf(call->message, call->message_bytes, "%s%s", prefix, why);
  }
  return status;
}

template <class Run>
mxcheck_status guarded(const mxcheck_call* call, const Run& run) noexcept {
  if (call == nullptr || call->size < sizeof(mxcheck_call)) return MXCHECK_INVALID;
  try {
    run();
    return MXCHECK_OK;
  } catch (const Refusal& refusal) {
    return refuse(call, refusal.status(), refusal.what());
  } catch (const Error& error) {
    return refuse(call, MXCHECK_INVALID, error.what());
  } catch (const std::bad_alloc&) {
    return refuse(call, MXCHECK_INVALID, "more elements than there is memory for");
  } catch (const std::exception& error) {
    return refuse(call, MXCHECK_FAILED, error.what());
  }
}

// The interface has no pointer for a library's own: a function for each entry.
template <std::size_t kEntry>
mxcheck_operation entry() {
  mxcheck_operation o{};
  o.supports = [](const mxcheck_policy* policy, DLDataType wide) -> mxcheck_status {
    try {
      return served()[kEntry].supports(policy, wide) ? MXCHECK_OK : MXCHECK_UNSUPPORTED;
    } catch (...) {
      return MXCHECK_UNSUPPORTED;
    }
  };
  o.workspace = [](const mxcheck_call* call, std::uint64_t* bytes) {
    return guarded(call, [&] { *bytes = served()[kEntry].workspace(*call); });
  };
  o.run = [](const mxcheck_call* call) {
    return guarded(call, [&] {
      misbehave();
      if (call->workspace_bytes < settings().workspace) throw Refusal(MXCHECK_INVALID, "the workspace is too small");
      if (settings().workspace != 0) std::memset(call->workspace, 0x11, settings().workspace);
      served()[kEntry].run(*call);
    });
  };
  return o;
}

constexpr std::size_t kMostEntries = 32;  // what the gate takes

std::vector<mxcheck_operation> entries() {
  std::vector<mxcheck_operation> all = []<std::size_t... kEntries>(std::index_sequence<kEntries...>) {
    return std::vector<mxcheck_operation>{entry<kEntries>()...};
  }
  (std::make_index_sequence<kMostEntries>{});
  all.resize(std::min(all.size(), served().size()));
  const Settings& s = settings();
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].name = served()[i].name(), all[i].contract = served()[i].contract();
    all[i].max_rows = s.max_rows, all[i].max_cols = s.max_cols;
    all[i].rows_multiple = s.rows_multiple, all[i].cols_multiple = s.cols_multiple;
  }
  return all;
}

}  // namespace
}  // namespace mxcheck::candidates

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  using namespace mxcheck::candidates;
  static const std::vector<mxcheck_operation> operations = entries();
  static const mxcheck_candidate_table table{MXCHECK_CANDIDATE_VERSION,
                                             sizeof(mxcheck_candidate_table),
                                             settings().other_script ? "r\xE9\xC3\xA9 \"<&" : "reference",
                                             "1",
                                             kDLCPU,
                                             static_cast<std::int32_t>(operations.size()),
                                             operations.data()};
  return &table;
}
