#pragma once
// In what a library that is right may differ from others: from the environment variable REFERENCE, settings
// NAME=VALUE with semicolons between them.
//
//   REFERENCE='operations=quantize;max_rows=64;refuses=offsets,strides' mxcheck gate --candidate reference.so

#include <cstdint>
#include <string>
#include <string_view>

namespace mxcheck::candidates {

struct Settings {
  // The calls that are offered: operations, variants, extents.
  std::string operations;     // of these names; empty: of all
  std::string contracts;      // of GEMMs
  std::string variant;        // the one whose text this is; empty: all
  std::uint64_t one_of = 1;   // every so many variants, by a hash of their text
  std::string with;           // of blocks: those whose text has one of these; empty: all
  std::int64_t max_rows = 0;  // 0: no limit
  std::int64_t max_cols = 0;
  std::int64_t rows_multiple = 1;
  std::int64_t cols_multiple = 1;
  std::string refuses;  // of offsets, strides, index, misaligned, widths (of layers, beside multiples of 128)
  // How it behaves.
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

// The settings of the process, read once. An unknown one ends it: a test that misspells one must not pass.
const Settings& settings();

// Whether a list with commas has the word; an empty list has none.
bool lists(std::string_view list, std::string_view word);

}  // namespace mxcheck::candidates
