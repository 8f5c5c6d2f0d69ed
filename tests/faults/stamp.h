#pragma once
// Stamp: which fault a copy of a family's library has.
//
// A family is one library with all faults of a catalogue built in, each behind a condition (fault.h). stamp_faults.cc
// copies the file once for each fault and writes the fault's number and name over the stamp, so that a copy keeps its
// fault under any file name. A library that nobody stamped aborts when it is loaded: no test runs it for the control.

namespace mxcheck_faults {

struct Stamp {
  char mark[32];
  int number;
  char name[92];
};
inline constexpr Stamp kUnstamped{"mxcheck fault stamp, 128 bytes:", -1, "nobody stamped this file"};

// Not const: the compiler must not take it for unstamped.
extern __attribute__((visibility("hidden"))) Stamp stamp;

}  // namespace mxcheck_faults
