// A candidate small enough to be checked in a second (quantize and, in one mode, dequantize for one variant), right by
// construction, and wrong or rude in one way at a time: the environment variable TOY says which (several with
// commas).

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>

#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/candidate.h"
#include "properties/core/rng.h"
#include "reference/quantize/quantize.h"
#include "tests/libraries/right/right_call.h"

namespace {

bool mode(const char* name) {
  const char* wanted = std::getenv("TOY");
  return wanted != nullptr &&
         ("," + std::string(wanted) + ",").find("," + std::string(name) + ",") != std::string::npos;
}

bool has_refused = false;

mxcheck_status refuse(const mxcheck_call* call, mxcheck_status status, const char* why) {
  has_refused = true;
  if (!mode("no_message")) std::snprintf(call->message, call->message_bytes, "%s", why);
  if (mode("foreign_text")) std::snprintf(call->message, call->message_bytes, "\xff\x01 <caf\xe9> & \"more\"\n");
  if (mode("writes_when_refusing") && call->num_outputs > 0 && call->outputs[0].data != nullptr) {
    static_cast<char*>(call->outputs[0].data)[call->outputs[0].byte_offset] = 1;
  }
  return status;
}

mxcheck_status supports(const mxcheck_policy* p, DLDataType wide) {
  if (mode("supports_nothing")) return MXCHECK_UNSUPPORTED;
  if (mode("supports_crashes")) std::raise(SIGSEGV);
  const bool plain = std::strcmp(p->format, "e4m3") == 0 && std::strcmp(p->recipe, "rceil") == 0 && p->layout == 0 &&
                     p->block_rows == 1 && p->block_cols == 32;
  return plain && wide.code == kDLBfloat && wide.bits == 16 ? MXCHECK_OK : MXCHECK_UNSUPPORTED;
}

char* data_of(const DLTensor& t) {
  return static_cast<char*>(t.data) + (mode("ignores_byte_offset") ? 0 : t.byte_offset);
}

bool is_matrix(const DLTensor& t, std::int64_t rows, std::int64_t cols, std::uint8_t code) {
  return t.ndim == 2 && t.shape[0] == rows && t.shape[1] == cols && t.dtype.code == code &&
         t.dtype.bits == (code == kDLBfloat ? 16 : 8);
}

// Empty where the arguments make sense.
std::string wrong(const mxcheck_call* c) {
  if (const char* problem = right::problem_of(*c, sizeof(mxcheck_policy), true)) return problem;
  const mxcheck_policy& p = *c->policy;
  if (c->num_inputs < 1 || c->num_inputs > 2 || c->num_outputs != 2)
    return "quantize takes x and gives codes and scales";
  if (supports(c->policy, c->inputs[0].dtype) != MXCHECK_OK) return "this policy is not offered";
  if (!is_matrix(c->inputs[0], p.rows, p.cols, kDLBfloat)) return "x is not rows x cols";
  if (!is_matrix(c->outputs[0], p.rows, p.cols, kDLUInt)) return "codes are not rows x cols";
  if (!is_matrix(c->outputs[1], p.rows, (p.cols + 31) / 32, kDLUInt)) return "scales are not rows x ceil(cols / 32)";
  if (c->num_inputs == 2) {
    const DLTensor& t = c->inputs[1];
    if (t.ndim != 1 || t.dtype.code != kDLInt || t.shape[0] < 2) return "offsets are no offsets";
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(t.shape[0]));
    std::memcpy(offsets.data(), data_of(t), offsets.size() * sizeof(std::int64_t));
    std::int64_t before = 0;
    for (std::int64_t o : offsets) {
      if (o < before) return "offsets are not sorted";
      before = o;
    }
    if (offsets.front() != 0 || offsets.back() != p.rows) return "offsets do not run from 0 to rows";
  }
  return {};
}

// For good; a file can signal that it has started.
void hang() {
  if (const char* file = std::getenv("TOY_HANGS"); file != nullptr) close(creat(file, 0600));
  for (;;) pause();
}

// Ways to go wrong before anything is written.
void misbehave(const mxcheck_call* call) {
  static int calls = 0;
  ++calls;
  if (mode("crashes")) std::raise(SIGSEGV);
  if (mode("exits")) std::_Exit(3);
  if (mode("hangs")) hang();
  if (mode("closes_everything_and_hangs")) {
    for (int fd = 3; fd < 64; ++fd) close(fd);
    pause();
  }
  if (mode("crashes_once") && calls == 5) std::raise(SIGABRT);
  if (mode("prints")) std::puts("noise on standard output"), std::fflush(stdout);
  if (mode("leaves_children") && calls == 1 && fork() == 0) {
    for (;;) pause();
  }
  if (mode("slow")) usleep(3000);
  (void)call;
}

// One number in `of`, without a period.
bool is_chosen(unsigned number, unsigned of) { return mxcheck::mix64(number) % of == 0; }

// Wrong for what was called before, or by chance.
void spoil_by_state(const mxcheck_policy& p, char* codes, std::size_t bytes) {
  static unsigned calls = 0;
  static bool was_wide = false;
  ++calls;
  const bool wrong = (mode("wrong_after_a_refusal") && has_refused) || (mode("wrong_from_call_5") && calls >= 5) ||
                     (mode("wrong_after_256_columns") && was_wide && p.cols <= 256) ||
                     (mode("one_call_in_500_is_wrong") && is_chosen(calls, 500)) ||
                     (mode("one_call_in_20000_is_wrong") && is_chosen(calls, 20'000)) ||
                     (mode("wrong_from_call_3000") && calls >= 3000);
  was_wide = was_wide || p.cols > 256;
  if (wrong && bytes != 0) codes[0] = static_cast<char>(codes[0] ^ 1);
}

mxcheck_status workspace(const mxcheck_call*, std::uint64_t* bytes) {
  *bytes = mode("wants_everything") ? ~std::uint64_t{0} : mode("past_its_workspace") ? 100 : 0;
  return MXCHECK_OK;
}

mxcheck_status run(const mxcheck_call* call) {
  if (!right::has_fields(call)) return MXCHECK_INVALID;
  const std::string problem = wrong(call);
  if (!problem.empty()) return refuse(call, MXCHECK_INVALID, problem.c_str());
  const mxcheck_policy& p = *call->policy;
  if (mode("no_experts") && call->num_inputs == 2) return refuse(call, MXCHECK_UNSUPPORTED, "no expert offsets");
  if (mode("multiples") && (p.rows % 48 != 0 || p.cols % 80 != 0))
    return refuse(call, MXCHECK_INVALID, "not a multiple");
  if (mode("limits") && (p.rows > 40 || p.cols > 100)) return refuse(call, MXCHECK_INVALID, "too large");
  if (mode("foreign_text") && p.rows == 33) return refuse(call, MXCHECK_FAILED, "");
  misbehave(call);
  const DLTensor& x = call->inputs[0];
  const std::int64_t stride = x.strides == nullptr ? p.cols : x.strides[0];
  const mxcheck::MatrixView view{mxcheck::Format::bf16, reinterpret_cast<std::byte*>(data_of(x)), p.rows, p.cols,
                                 stride};
  const mxcheck::QuantizedTensor q = mxcheck::quantize(view, mxcheck::Format::e4m3, {1, 32},
                                                       mxcheck::recipe_named(mode("floor") ? "floor" : "rceil"), {}, 1);
  char* codes = data_of(call->outputs[0]);
  char* scales = data_of(call->outputs[1]);
  if (!q.codes.empty()) std::memcpy(codes, q.codes.data.data(), q.codes.size());
  if (!q.scales().empty()) std::memcpy(scales, q.scales().data.data(), q.scales().size());
  if (mode("column_33_is_wrong") && p.cols > 33 && p.rows > 0) codes[33] = static_cast<char>(codes[33] ^ 1);
  if (mode("nan_with_a_sign")) std::replace(codes, codes + q.codes.size(), char{0x7F}, static_cast<char>(0xFF));
  for (std::size_t i = 0; mode("codes_one_too_far") && i < q.codes.size(); ++i)
    codes[i] = static_cast<char>(codes[i] + ((codes[i] & 0x7F) == 0x7F ? 0 : 1));
  if (mode("row_40_is_wrong") && p.rows > 40) codes[40 * p.cols] = static_cast<char>(codes[40 * p.cols] ^ 1);
  if (mode("writes_past") && !q.codes.empty()) codes[q.codes.size()] = 0;
  if (mode("writes_its_input") && !q.codes.empty()) data_of(x)[0] = static_cast<char>(data_of(x)[0] ^ 1);
  if (mode("past_its_workspace")) static_cast<char*>(call->workspace)[100] = 0;
  if (mode("never_writes_scales")) std::memset(scales, 0xA5, q.scales().size());
  spoil_by_state(p, codes, q.codes.size());
  static unsigned runs = 0;
  if (mode("forgetful") && ++runs % 7 == 0 && !q.codes.empty()) codes[0] = static_cast<char>(codes[0] ^ 1);
  return MXCHECK_OK;
}

}  // namespace

extern "C" const char* mxcheck_candidate_refusal() { return mode("elsewhere") ? "the moon is not full" : nullptr; }

extern "C" const mxcheck_candidate_table* mxcheck_candidate() {
  if (mode("crashes_on_load")) std::raise(SIGSEGV);
  if (mode("elsewhere") || mode("no_table")) return nullptr;
  static std::array<mxcheck_operation, 2> operations{};
  mxcheck_operation& o = operations[0];
  o = {mode("misspelt") ? "quantise" : "quantize", "exact", 0, 0, 1, 1, supports, workspace, run};
  if (mode("multiples")) o.rows_multiple = 48, o.cols_multiple = 80;
  if (mode("huge_multiples")) o.rows_multiple = 512, o.cols_multiple = 4096;
  if (mode("limits")) o.max_rows = 40, o.max_cols = 100;
  operations[1] = o;
  static mxcheck_candidate_table table{};
  table = {MXCHECK_CANDIDATE_VERSION, sizeof(table),    "toy", "1 <beta> & \xe9", kDLCPU,
           mode("twice") ? 2 : 1,     operations.data()};
  if (mode("other_version")) table.interface_version = 99;
  if (mode("wants_cuda")) table.device = kDLCUDA;
  return &table;
}
