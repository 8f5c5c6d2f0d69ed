#include "emulation/sm100/tensor_core/instruction.h"

#include <string_view>

#include "numerics/accumulate/contract.h"
#include "numerics/error.h"

namespace mxcheck::emulation::sm100 {
namespace {

// Bits [low, high] of a descriptor, named as the PTX ISA names them: "bits 22:17".
struct Field {
  int high;
  int low;
};

constexpr std::uint32_t value_of(std::uint32_t bits, Field f) {
  return (bits >> f.low) & ((std::uint32_t{1} << (f.high - f.low + 1)) - 1);
}

std::string name_of(Field f) {
  if (f.high == f.low) return "bit " + std::to_string(f.high);
  return "bits " + std::to_string(f.high) + ":" + std::to_string(f.low);
}

constexpr Field kSelector{1, 0};
constexpr Field kSparse{2, 2};
constexpr Field kSaturate{3, 3};
constexpr Field kOutput{5, 4};  // of the unscaled kinds
constexpr Field kScaleB{5, 4};  // of mxf8f6f4
constexpr Field kFormatA{9, 7};
constexpr Field kFormatB{12, 10};
constexpr Field kNegateA{13, 13};
constexpr Field kNegateB{14, 14};
constexpr Field kMajorA{15, 15};
constexpr Field kMajorB{16, 16};
constexpr Field kN{22, 17};
constexpr Field kScaleFormat{23, 23};
constexpr Field kM{28, 24};        // M / 16, of the unscaled kinds
constexpr Field kScaledM{28, 27};  // M / 128
constexpr Field kScaleA{30, 29};
constexpr Field kMaximumShift{31, 30};

class Decoder {
 public:
  Decoder(MmaKind kind, int cta_group, std::uint32_t bits) : bits_(bits) {
    at_.kind = kind;
    at_.cta_group = cta_group;
    at_.k = 32 / element_bytes(kind);
  }

  Decoded decode() {
    at_.a = format(kFormatA, "A");
    at_.b = format(kFormatB, "B");
    at_.negate_a = get(kNegateA) != 0;
    at_.negate_b = get(kNegateB) != 0;
    at_.a_mn_major = get(kMajorA) != 0;
    at_.b_mn_major = get(kMajorB) != 0;
    if (get(kSparse) != 0) problem(kSparse, "makes A sparse, which is not modelled: 0 is right");
    is_scaled(at_.kind) ? scaled() : unscaled();
    check_m();
    check_n();
    return {at_, problems_};
  }

 private:
  [[nodiscard]] std::uint32_t get(Field f) const { return value_of(bits_, f); }

  void problem(Field f, const std::string& text) {
    problems_.push_back("instruction descriptor of " + std::string(to_text(at_.kind)) + ": " + name_of(f) + " = " +
                        std::to_string(get(f)) + " " + text);
  }

  void zero(Field f, const std::string& why = "reserved") {
    if (get(f) != 0) problem(f, "where 0 is right: " + why);
  }

  Format format(Field f, const std::string& operand) {
    const std::uint32_t code = get(f);
    if (at_.kind == MmaKind::f16) {
      if (code > 1) problem(f, "is no format of " + operand + ": FP16 is 0, BF16 1");
      return code == 0 ? Format::fp16 : Format::bf16;
    }
    constexpr std::string_view kRight = "E4M3 is 0, E5M2 1";
    if (code == 3 || code == 4 || code == 5) {
      constexpr Format kNarrow[] = {Format::e2m3, Format::e3m2, Format::e2m1};
      problem(f, "makes " + operand + " " + std::string(spec(kNarrow[code - 3]).name) +
                     ", unpacked in shared memory, which is not modelled: " + std::string(kRight));
      return kNarrow[code - 3];
    }
    if (code > 1) problem(f, "is no format of " + operand + ": " + std::string(kRight));
    return code == 0 ? Format::e4m3 : Format::e5m2;
  }

  void unscaled() {
    zero(kSelector, "the sparsity selector of a dense MMA");
    zero(kSaturate, "saturation is of kind::i8");
    zero({6, 6});
    zero({23, 23});
    zero({29, 29});
    zero(kMaximumShift, "the shift of .ws, which is not modelled");
    if (get(kOutput) > 1) problem(kOutput, "is no format of D: FP16 is 0, FP32 1");
    at_.d_fp16 = get(kOutput) == 0;
    if (at_.kind == MmaKind::f16) {
      if (at_.a != at_.b) problem(kFormatB, "gives B another format than A: both are FP16, or both BF16");
      if (at_.d_fp16 && (at_.a == Format::bf16 || at_.b == Format::bf16)) {
        problem(kOutput, "makes D FP16 of BF16 operands: 1, for FP32, is right");
      }
    }
    at_.m = static_cast<int>(get(kM)) * 16;
  }

  void scaled() {
    zero(kSelector);
    zero({3, 3});
    zero({6, 6});
    zero({26, 24});
    zero({31, 31});
    if (get(kScaleFormat) != 1) problem(kScaleFormat, "makes the scales UE4M3: 1, for UE8M0, is right");
    at_.scale_a_id = static_cast<int>(get(kScaleA));
    at_.scale_b_id = static_cast<int>(get(kScaleB));
    at_.m = static_cast<int>(get(kScaledM)) * 128;
  }

  void check_m() {
    const int low = is_scaled(at_.kind) && at_.cta_group == 1 ? 128 : 64 * at_.cta_group;
    const int high = 128 * at_.cta_group;
    if (at_.m == low || at_.m == high) return;
    const std::string right = (low == high ? "" : std::to_string(low) + " or ") + std::to_string(high);
    problem(is_scaled(at_.kind) ? kScaledM : kM, "makes M " + std::to_string(at_.m) + ": with cta_group::" +
                                                     std::to_string(at_.cta_group) + " it is " + right);
  }

  // CUTLASS asserts these steps where the shape table of the PTX ISA can be read as multiples of 8 (one CTA) and 16.
  void check_n() {
    at_.n = static_cast<int>(get(kN)) * 8;
    const bool pair = at_.cta_group == 2;
    int step = 8;
    if (is_scaled(at_.kind)) {
      step = pair ? 16 : 8;
    } else if (pair) {
      step = 32;
    } else {
      step = at_.m == 64 ? 8 : 16;
    }
    const bool transposed = at_.b_mn_major && element_bytes(at_.kind) == 1;
    if (transposed && step < 16 * at_.cta_group) step = 16 * at_.cta_group;
    if (at_.n >= step && at_.n <= 256 && at_.n % step == 0) return;
    problem(kN, "makes N " + std::to_string(at_.n) + ": with M " + std::to_string(at_.m) +
                    ", cta_group::" + std::to_string(at_.cta_group) + (transposed ? " and B of 8 bits N-major" : "") +
                    " it is a multiple of " + std::to_string(step) + " up to 256");
  }

  std::uint32_t bits_;
  Instruction at_;
  std::vector<std::string> problems_;
};

}  // namespace

Decoded decode_instruction(MmaKind kind, int cta_group, std::uint32_t bits) {
  if (cta_group != 1 && cta_group != 2) {
    throw Error(ErrorKind::usage, "cta_group::" + std::to_string(cta_group) + " of an MMA: it is 1 or 2");
  }
  return Decoder(kind, cta_group, bits).decode();
}

const char* to_text(MmaKind kind) {
  switch (kind) {
    case MmaKind::f16: return "kind::f16";
    case MmaKind::f8f6f4: return "kind::f8f6f4";
    case MmaKind::mxf8f6f4: return "kind::mxf8f6f4";
  }
  return "kind::?";
}

int element_bytes(MmaKind kind) { return kind == MmaKind::f16 ? 2 : 1; }

bool is_scaled(MmaKind kind) { return kind == MmaKind::mxf8f6f4; }

FusedSum fused_sum_of(const Instruction& instruction) {
  FusedSum step;
  switch (instruction.kind) {
    case MmaKind::f16: step = contract_named("sm100_f16").step; break;
    case MmaKind::f8f6f4: step = contract_named("sm100_f8f6f4").step; break;
    case MmaKind::mxf8f6f4: step = contract_named("sm100_mxf8f6f4").step; break;
  }
  // No contract of its own: as those of Hopper, whose FP16 output is the same sum, rounded to nearest even.
  if (instruction.d_fp16) step.output = kFp16Output;
  return step;
}

}  // namespace mxcheck::emulation::sm100
