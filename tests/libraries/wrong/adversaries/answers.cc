// Adversaries whose outputs are wrong: in the same way in every call, or because they remember. What they answer then
// depends on earlier calls, or they leave their process changed.

#include <pthread.h>

#include <algorithm>
#include <cfenv>
#include <csetjmp>
#include <csignal>
#include <map>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#if defined(__SSE__)
  #include <immintrin.h>
#endif

#include "tests/libraries/wrong/adversaries/adversary.h"

namespace {

mxcheck_status writes_nothing(const mxcheck_call* call) { return honest::check(call); }

mxcheck_status does_nothing_when_large(const mxcheck_call* call) {
  const mxcheck_status status = honest::check(call);
  if (status == MXCHECK_OK && honest::elements(call) <= 16384) honest::quantize(call);
  return status;
}

mxcheck_status codes_off_by_one(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) return status;
  for (std::int64_t i = 0; i < honest::elements(call); ++i) honest::codes(call)[i] ^= 1;
  return status;
}

mxcheck_status nan_everywhere(const mxcheck_call* call) {
  const mxcheck_status status = honest::check(call);
  if (status != MXCHECK_OK) return status;
  std::memset(honest::codes(call), 0x7F, static_cast<std::size_t>(honest::elements(call)));
  std::memset(honest::scales(call), 0xFF, static_cast<std::size_t>(honest::rows(call) * honest::blocks(call)));
  return status;
}

mxcheck_status right_for_multiples_of_32(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) return status;
  for (std::int64_t i = 0; i < honest::rows(call); ++i) {
    for (std::int64_t j = honest::cols(call) / 32 * 32; j < honest::cols(call); ++j) {
      honest::codes(call)[i * honest::cols(call) + j] = 0;
    }
  }
  return status;
}

// A launch that fails silently leaves the outputs of the call before: this one keeps them and hands them out again.
mxcheck_status returns_the_call_before(const mxcheck_call* call) {
  static std::vector<std::uint8_t> kept;
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) return status;
  const auto size = static_cast<std::size_t>(honest::elements(call));
  std::vector<std::uint8_t> mine(honest::codes(call), honest::codes(call) + size);
  if (!kept.empty()) std::copy_n(kept.begin(), std::min(kept.size(), size), honest::codes(call));
  kept = std::move(mine);
  return status;
}

mxcheck_status caches_by_pointer(const mxcheck_call* call) {
  using Key = std::tuple<const void*, std::int64_t, std::int64_t>;
  static std::map<Key, std::vector<std::uint8_t>> answers;
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) return status;
  const auto size = static_cast<std::size_t>(honest::elements(call));
  const auto [at, is_new] = answers.try_emplace(Key{honest::x(call), honest::rows(call), honest::stride(call)});
  if (is_new) at->second.assign(honest::codes(call), honest::codes(call) + size);
  if (at->second.size() == size) std::copy(at->second.begin(), at->second.end(), honest::codes(call));
  return status;
}

mxcheck_status right_for_inputs_it_knows(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK || honest::elements(call) == 0) return status;
  std::uint64_t hash = 0;
  for (std::int64_t i = 0; i < honest::rows(call); ++i) {
    for (std::int64_t j = 0; j < honest::cols(call); ++j) {
      hash = (hash ^ honest::x(call)[i * honest::stride(call) + j]) * 0x9E3779B97F4A7C15U;
    }
  }
  if (hash >> 58 == 7) honest::codes(call)[honest::elements(call) - 1] ^= 1;
  return status;
}

mxcheck_status every_hundredth_call_is_wrong(const mxcheck_call* call) {
  static int calls = 0;
  const mxcheck_status status = honest::run(call);
  if (++calls % 100 == 0 && status == MXCHECK_OK && honest::elements(call) != 0) honest::codes(call)[0] ^= 1;
  return status;
}

mxcheck_status right_in_its_first_thread(const mxcheck_call* call) {
  static const std::thread::id first = std::this_thread::get_id();
  const mxcheck_status status = honest::run(call);
  if (status == MXCHECK_OK && honest::elements(call) != 0 && std::this_thread::get_id() != first)
    honest::codes(call)[0] ^= 1;
  return status;
}

mxcheck_status wrong_after_a_refusal(const mxcheck_call* call) {
  static bool refused = false;
  const mxcheck_status status = honest::run(call);
  const bool spoils = std::exchange(refused, status == MXCHECK_INVALID);
  if (status == MXCHECK_OK && spoils && honest::elements(call) != 0) honest::codes(call)[0] ^= 1;
  return status;
}

// A policy is larger where the caller's interface is of a later version.
mxcheck_status refuses_a_larger_policy(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK || call->policy->size == sizeof(mxcheck_policy)) return status;
  std::snprintf(call->message, call->message_bytes, "the policy is of another size");
  return MXCHECK_INVALID;
}

mxcheck_status reads_past_its_policy(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  const bool has_more = status == MXCHECK_OK && call->policy->size > sizeof(mxcheck_policy);
  if (has_more && honest::elements(call) != 0)
    honest::codes(call)[0] ^= reinterpret_cast<const std::uint8_t*>(call->policy + 1)[0];
  return status;
}

// State that workspace() leaves for run(): right where nothing comes in between.
std::int64_t planned_rows = 0;
bool plan_is_spoilt = false;

mxcheck_status plans_rows(const mxcheck_call* call, std::uint64_t* bytes) {
  *bytes = 0;
  if (honest::check(call) == MXCHECK_OK) planned_rows = honest::rows(call);
  plan_is_spoilt = false;
  return MXCHECK_OK;
}

mxcheck_status plans_in_workspace(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK) return status;
  for (std::int64_t i = planned_rows * honest::cols(call); i < honest::elements(call); ++i) honest::codes(call)[i] = 0;
  return status;
}

mxcheck_status spoils_the_plan(const mxcheck_policy* policy, DLDataType wide) {
  plan_is_spoilt = true;
  return honest::supports(policy, wide);
}

mxcheck_status shares_a_plan_with_supports(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status == MXCHECK_OK && plan_is_spoilt && honest::elements(call) != 0) honest::codes(call)[0] ^= 1;
  return status;
}

mxcheck_status leaves_rounding_upward(const mxcheck_call* call) {
  std::fesetround(FE_TONEAREST);
  const mxcheck_status status = honest::run(call);
  std::fesetround(FE_UPWARD);
  return status;
}

void flushes_to_zero_once_loaded() {
#if defined(__SSE__)
  _mm_setcsr(_mm_getcsr() | 0x8040U);
#endif
}

mxcheck_status handles_arithmetic_faults(const mxcheck_call* call) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGFPE, &action, nullptr);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTRAP);
  pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  return honest::run(call);
}

// Reads past the end of its input, behind a handler that it installs when it is loaded and that steps over the fault.
sigjmp_buf past_the_fault;

void handle_faults() {
  struct sigaction action {};
  action.sa_handler = [](int) { siglongjmp(past_the_fault, 1); };
  sigaction(SIGSEGV, &action, nullptr);
}

mxcheck_status handles_its_own_faults(const mxcheck_call* call) {
  const mxcheck_status status = honest::run(call);
  if (status != MXCHECK_OK || honest::elements(call) == 0) return status;
  const volatile std::uint16_t* end = honest::x(call) + (honest::rows(call) - 1) * honest::stride(call);
  if (sigsetjmp(past_the_fault, 1) == 0) (void)end[honest::cols(call)];
  return status;
}

}  // namespace

std::span<const Adversary> answer_adversaries() {
  static constexpr Adversary kAll[]{
      {"writes_nothing", writes_nothing},
      {"does_nothing_when_large", does_nothing_when_large},
      {"codes_off_by_one", codes_off_by_one},
      {"nan_everywhere", nan_everywhere},
      {"right_for_multiples_of_32", right_for_multiples_of_32},
      {"returns_the_call_before", returns_the_call_before},
      {"caches_by_pointer", caches_by_pointer},
      {"right_for_inputs_it_knows", right_for_inputs_it_knows},
      {"every_hundredth_call_is_wrong", every_hundredth_call_is_wrong},
      {"right_in_its_first_thread", right_in_its_first_thread},
      {"wrong_after_a_refusal", wrong_after_a_refusal},
      {"refuses_a_larger_policy", refuses_a_larger_policy},
      {"reads_past_its_policy", reads_past_its_policy},
      {.name = "plans_in_workspace", .run = plans_in_workspace, .workspace = plans_rows},
      {.name = "shares_a_plan_with_supports",
       .run = shares_a_plan_with_supports,
       .supports = spoils_the_plan,
       .workspace = plans_rows},
      {"leaves_rounding_upward", leaves_rounding_upward},
      {.name = "flushes_to_zero_once_loaded", .when_loaded = flushes_to_zero_once_loaded},
      {"handles_arithmetic_faults", handles_arithmetic_faults},
      {.name = "handles_its_own_faults", .run = handles_its_own_faults, .when_loaded = handle_faults},
  };
  return kAll;
}
