#pragma once
// Contents of the file of results of the tensor cores (goldens/records/h200_sums.safetensors): MMAs, data, names.

#include <array>
#include <cstdint>
#include <ostream>
#include <string>

#include "goldens/io/tensor_file.h"
#include "numerics/format/format.h"
#include "properties/core/case.h"

namespace mxcheck::test {

inline constexpr std::int64_t kMmaSide = 64;

struct MmaKind {
  const char* name;
  const char* contract;
  Format a;
  Format b;
  int code_a;  // mxcheck_kernels::sm90::Code
  int code_b;
  Format dtype;
  int terms;
  friend void PrintTo(const MmaKind& kind, std::ostream* out) { *out << kind.name; }
};

inline constexpr std::array kMmaKinds{
    MmaKind{"e4m3_e4m3", "sm90_fp8", Format::e4m3, Format::e4m3, 0, 0, Format::uint8, 32},
    MmaKind{"e4m3_e5m2", "sm90_fp8", Format::e4m3, Format::e5m2, 0, 1, Format::uint8, 32},
    MmaKind{"e5m2_e4m3", "sm90_fp8", Format::e5m2, Format::e4m3, 1, 0, Format::uint8, 32},
    MmaKind{"e5m2_e5m2", "sm90_fp8", Format::e5m2, Format::e5m2, 1, 1, Format::uint8, 32},
    MmaKind{"bf16", "sm90_bf16", Format::bf16, Format::bf16, 2, 2, Format::uint16, 16},
    MmaKind{"fp16", "sm90_fp16", Format::fp16, Format::fp16, 3, 3, Format::uint16, 16},
    MmaKind{"tf32", "sm90_tf32", Format::fp32, Format::fp32, 4, 4, Format::uint32, 8},
};

inline constexpr std::array kMmaData{Data::normal, Data::boundaries, Data::wide, Data::bits, Data::specials};

inline std::string mma_name(const MmaKind& kind, Data data, std::int64_t steps) {
  return std::string(kind.name) + "." + std::string(to_text(data)) + "." + std::to_string(steps);
}

}  // namespace mxcheck::test
