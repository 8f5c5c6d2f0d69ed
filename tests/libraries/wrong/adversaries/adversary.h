#pragma once
// How an adversary differs from the honest library. To add one: a row of the catalogue, which says what it does, a
// function in the source that fits, and a line in the list at its end. All adversaries are in one library and one of
// them is chosen when it is loaded (table.cc), so what one of them remembers belongs inside its functions.

#include <span>

#include "tests/libraries/right/honest.h"

struct Adversary {
  const char* name;  // of its file, without .so
  mxcheck_status (*run)(const mxcheck_call*) = honest::run;
  mxcheck_status (*supports)(const mxcheck_policy*, DLDataType) = honest::supports;
  mxcheck_status (*workspace)(const mxcheck_call*, std::uint64_t*) = nullptr;
  void (*when_loaded)() = nullptr;
  std::uint32_t interface_version = MXCHECK_CANDIDATE_VERSION;
  std::int32_t operations = 1;  // as many as the table says that it has
};

// The adversaries of a source, by what is wrong with them. table.cc has its own.
std::span<const Adversary> answer_adversaries();
std::span<const Adversary> memory_adversaries();
std::span<const Adversary> process_adversaries();
