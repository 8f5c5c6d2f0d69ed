#pragma once
// Arguments of the instructions of both emulations: plain types, for a C++ compiler and for nvcc.

#include <cstdint>

namespace mxcheck::emulation::sm100 {

// The scope of an mbarrier's arrivals and waits: the threads that they order, of the CTA or of the cluster.
enum class Scope : std::uint8_t { cta, cluster };

// The shape of tcgen05.ld and tcgen05.st: lanes x bits of one access.
enum class TmemShape : std::uint8_t { lanes32x32b, lanes16x64b, lanes16x128b, lanes16x256b, lanes16x32bx2 };

enum class MmaKind : std::uint8_t { f16, f8f6f4, mxf8f6f4 };
struct Mma {
  MmaKind kind;
  int cta_group;
  std::uint32_t d;
  std::uint64_t a;  // shared-memory descriptor
  std::uint64_t b;
  std::uint32_t instruction;   // descriptor
  std::uint32_t scales_a = 0;  // TMEM addresses, of mxf8f6f4
  std::uint32_t scales_b = 0;
  bool accumulate = true;  // enable-input-d
};

// The shape of tcgen05.cp: rows x bits.
enum class CpShape : std::uint8_t {
  rows32x128b_warpx4,
  rows128x128b,
  rows128x256b,
  rows4x256b,
  rows64x128b_02_13,
  rows64x128b_01_23
};

// 16 bytes that cluster launch control answers with.
struct ClcResponse {
  std::uint64_t low;
  std::uint64_t high;
};

}  // namespace mxcheck::emulation::sm100
