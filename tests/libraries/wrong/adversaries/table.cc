// The one library of all adversaries. Each adversary's file is a hard link to it, so the name of the file from which it
// was loaded says which of them it is. Here too: the honest one, and adversaries whose table is wrong.

#include <dlfcn.h>
#include <unistd.h>

#include <csignal>

#include "tests/libraries/wrong/adversaries/adversary.h"

namespace {

mxcheck_status takes_back_what_it_claims(const mxcheck_call*) { return MXCHECK_UNSUPPORTED; }

mxcheck_status supports_nothing(const mxcheck_policy*, DLDataType) { return MXCHECK_UNSUPPORTED; }

mxcheck_status crashes_in_supports(const mxcheck_policy*, DLDataType) {
  std::raise(SIGSEGV);
  return MXCHECK_OK;
}

mxcheck_status hangs_in_supports(const mxcheck_policy*, DLDataType) {
  for (;;) pause();
}

// The first answers together take longer than the time limit of one, each does not.
mxcheck_status is_slow_in_supports(const mxcheck_policy* policy, DLDataType dtype) {
  static int answers = 0;
  if (++answers <= 300) usleep(2'500);
  return honest::supports(policy, dtype);
}

mxcheck_status writes_into_a_text_in_supports(const mxcheck_policy* policy, DLDataType dtype) {
  const mxcheck_status status = honest::supports(policy, dtype);
  const_cast<char*>(policy->format)[0] = 'E';
  return status;
}

mxcheck_status writes_before_the_policy_in_supports(const mxcheck_policy* policy, DLDataType dtype) {
  volatile unsigned char* const before = reinterpret_cast<unsigned char*>(const_cast<mxcheck_policy*>(policy)) - 16;
  for (int i = 0; i < 8; ++i) before[i] = 0x5A;
  return honest::supports(policy, dtype);
}

void hangs_when_loaded() {
  for (;;) pause();
}

void crashes_when_loaded() { std::raise(SIGABRT); }

constexpr Adversary kOfTheTable[]{
    {.name = "honest"},
    {.name = "takes_back_what_it_claims", .run = takes_back_what_it_claims},
    {.name = "supports_nothing", .supports = supports_nothing},
    {.name = "crashes_in_supports", .supports = crashes_in_supports},
    {.name = "hangs_in_supports", .supports = hangs_in_supports},
    {.name = "is_slow_in_supports", .supports = is_slow_in_supports},
    {.name = "writes_into_a_text_in_supports", .supports = writes_into_a_text_in_supports},
    {.name = "writes_before_the_policy_in_supports", .supports = writes_before_the_policy_in_supports},
    {.name = "hangs_when_loaded", .when_loaded = hangs_when_loaded},
    {.name = "crashes_when_loaded", .when_loaded = crashes_when_loaded},
    {.name = "speaks_another_version", .interface_version = MXCHECK_CANDIDATE_VERSION + 1},
    {.name = "has_no_operations", .operations = 0},
    {.name = "has_too_many_operations", .operations = 1'000'000},
};

std::string_view path_of_this_library() {
  Dl_info self{};
  return dladdr(reinterpret_cast<const void*>(&mxcheck_candidate), &self) == 0 ? "" : self.dli_fname;
}

// Ends the process where no adversary has the name: an honest library by mistake would make tests pass.
const Adversary& choose() {
  const std::string_view path = path_of_this_library();
  std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  if (name.ends_with(".so")) name.remove_suffix(3);
  for (const std::span<const Adversary> group :
       {std::span<const Adversary>(kOfTheTable), memory_adversaries(), process_adversaries(), answer_adversaries()}) {
    for (const Adversary& one : group) {
      if (one.name == name) return one;
    }
  }
  std::fprintf(stderr, "%.*s: no adversary has this name\n", static_cast<int>(path.size()), path.data());
  std::abort();
}

const Adversary& chosen = []() -> const Adversary& {
  const Adversary& one = choose();
  if (one.when_loaded != nullptr) one.when_loaded();
  return one;
}();

}  // namespace

extern "C" __attribute__((visibility("default"))) const mxcheck_candidate_table* mxcheck_candidate(void) {
  static const mxcheck_operation operation{"quantize",      "exact",          0,         0, 1, 1,
                                           chosen.supports, chosen.workspace, chosen.run};
  static const mxcheck_candidate_table table{chosen.interface_version,
                                             sizeof(mxcheck_candidate_table),
                                             "adversary",
                                             "1",
                                             kDLCPU,
                                             chosen.operations,
                                             &operation};
  return &table;
}
