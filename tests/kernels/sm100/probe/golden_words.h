#pragma once
// One output element of one MMA, and its word.
//
// Names are those of the tables that they come from. V, S, M, B and Z are derived from the published models of the
// tensor core (Xie et al., MMA-Sim, arXiv 2511.10909; Khattak and Mikaitis, arXiv 2512.07004), each against a wrong
// model that would answer something else. "b200" are words that a B200 gave (sf-tensor/tcgen05, MIT). P are those of
// the models' open questions: what this project assumes. The test compares all with numerics/accumulate/fused_sum.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mxcheck::sm100::probe {

enum class GoldenType : std::uint8_t { e4m3, e5m2, scaled_e4m3, bf16, fp16 };

struct Golden {
  const char* name;
  GoldenType type;
  const char* lanes;  // "0:38*38 1-4:08*04", other lanes zero; or all 32 of A, "*" and all 32 of B, two digits each
  std::uint32_t c, d;
  std::uint8_t scale_a = 0x7F, scale_b = 0x7F;
};

struct GoldenCodes {
  std::vector<std::uint16_t> a, b;  // 32, or 16 of 16 bits
};

inline GoldenCodes codes_of(const Golden& golden) {
  const bool halves = golden.type == GoldenType::bf16 || golden.type == GoldenType::fp16;
  const std::size_t count = halves ? 16 : 32;
  GoldenCodes codes{std::vector<std::uint16_t>(count), std::vector<std::uint16_t>(count)};
  const std::string text = golden.lanes;
  const auto code = [](const std::string& t) {
    return static_cast<std::uint16_t>(std::strtoul(t.c_str(), nullptr, 16));
  };
  if (text.size() == 129) {
    for (std::size_t k = 0; k < 32; ++k) {
      codes.a[k] = code(text.substr(2 * k, 2)), codes.b[k] = code(text.substr(65 + 2 * k, 2));
    }
    return codes;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string item = text.substr(at, end - at);
    const std::size_t colon = item.find(':'), star = item.find('*'), dash = item.find('-');
    const std::size_t first = std::strtoul(item.c_str(), nullptr, 10);
    const std::size_t last = dash < colon ? std::strtoul(item.c_str() + dash + 1, nullptr, 10) : first;
    for (std::size_t k = first; k <= last; ++k) {
      codes.a.at(k) = code(item.substr(colon + 1, star - colon - 1));
      codes.b.at(k) = code(item.substr(star + 1));
    }
    at = end + 1;
  }
  return codes;
}

// clang-format off
inline constexpr GoldenType kE4m3 = GoldenType::e4m3, kE5m2 = GoldenType::e5m2, kScaled = GoldenType::scaled_e4m3;
inline constexpr GoldenType kBf16 = GoldenType::bf16, kFp16 = GoldenType::fp16;
inline constexpr Golden kGoldens[] = {
    {"V02", kE4m3, "", 0x3f800400, 0x3f800400}, {"V03", kE4m3, "", 0x3f8003ff, 0x3f8003ff},
    {"V04", kE4m3, "", 0xbf8007ff, 0xbf8007ff}, {"V05", kE4m3, "0:38*38 1:08*04", 0, 0x3f800400},
    {"V06", kE4m3, "0:38*38 1:08*02", 0, 0x3f800200}, {"V07", kE4m3, "0:38*38 1-2:08*02", 0, 0x3f800400},
    {"V08", kE4m3, "0:38*38 1:88*02", 0, 0x3f7ffc00}, {"V09", kE4m3, "0:38*38 1:8c*04", 0, 0x3f7ff400},
    {"V10", kE4m3, "0:3f*3f 1:bf*3f 2:08*04", 0, 0x39000000}, {"V11", kE4m3, "0:01*7e 1:81*7e 2:08*08", 0, 0x39800000},
    {"V12", kE4m3, "0:78*78 1:f8*78 20:38*38", 0, 0x3f800000}, {"V13", kE4m3, "0:78*78 1:38*38 2:f8*78", 0, 0x3f800000},
    {"V14", kE4m3, "0:78*78 1:f8*78", 0x3f800000, 0x3f800000},
    {"V14b", kE4m3, "0:78*78 1:f8*78", 0x3a800000, 0x00000000},
    {"V15", kE4m3, "0:01*02 1:01*01", 0x43000000, 0x43000000},
    {"V15n", kE4m3, "0:81*02 1:81*01", 0xc3000000, 0xc3000000}, {"V16", kE4m3, "0:01*01", 0xc3000000, 0xc2ffffff},
    {"V17", kE4m3, "0:01*01", 0xc3800000, 0xc3800000}, {"V18", kE4m3, "0:38*38", 0x46800000, 0x46800200},
    {"V18b", kE4m3, "0:38*38", 0x467ffc00, 0x46800000}, {"V19", kE4m3, "0-1:38*38 2:08*04", 0, 0x40000200},
    {"V20", kE4m3, "0-31:00*7e", 0x30800000, 0x30800000}, {"V21", kE4m3, "0-31:7e*7e", 0, 0x4ac40000},
    {"V22", kE4m3, "0:7e*7e", 0x7f7fffff, 0x7f7fffff}, {"V23", kE4m3, "0:01*01", 0, 0x36800000},
    {"V24", kE4m3, "0:3c*38 1:bc*38", 0x80000000, 0x00000000}, {"S1", kE4m3, "5:7f*00", 0, 0x7fffffff},
    {"S2", kE4m3, "", 0xffc12345, 0x7fffffff}, {"S3", kE4m3, "0:38*38", 0xff800000, 0xff800000},
    {"P1", kE4m3, "0-31:80*00", 0x80000000, 0x00000000},
    {"b200 random", kE4m3, "7a026f195d621d322a005b1067680274150d72120f0953602a2f52076e194a20*"
     "327e29794f15502634053b39441f217b176e48050c044c64660f69142047352b", 0xec63d12a, 0xec63d12a},
    {"b200 least subnormal", kE4m3, "0:01*38", 0, 0x3b000000}, {"b200 NaN", kE4m3, "0:7f*38", 0, 0x7fffffff},
    {"b200 zeros", kE4m3, "", 0x80000000, 0x00000000},
    {"V01", kE5m2, "0:f0*64 1:b8*3c 2:b4*3c 3:b0*3c", 0x4b000000, 0xbf400000}, {"S4", kE5m2, "0:7c*00", 0, 0x7fffffff},
    {"S5", kE5m2, "0:7c*3c 1:fc*3c", 0, 0x7fffffff}, {"S6", kE5m2, "0:7c*3c", 0xff800000, 0x7fffffff},
    {"S7", kE5m2, "0:fc*3c", 0x3f800000, 0xff800000},
    {"b200 random", kE5m2, "4c2d2c7b003e2c43697236494a15140f362a2f4911501f6e0c726f4c40634175*"
     "620658082525715147097a4123492c020867660b4f1a6768302675636066686f", 0x08d846e9, 0x4d92b09a},
    {"b200 least subnormal", kE5m2, "0:01*3c", 0, 0x37800000}, {"b200 infinity", kE5m2, "0:7c*3c", 0, 0x7f800000},
    {"b200 zeros", kE5m2, "", 0x80000000, 0x00000000},
    {"M1", kScaled, "0:38*38", 0, 0x3f800000}, {"M2", kScaled, "0:38*38", 0, 0x40000000, 0x82, 0x7d},
    {"M3", kScaled, "0:7e*7e", 0, 0x7f800000, 0xfe, 0x7f},
    {"M4", kScaled, "0:7e*7e 1:fe*7e", 0, 0x00000000, 0xfe, 0xfe},
    {"M4b", kScaled, "0:7e*7e 1:fe*7e", 0x3f800000, 0x00000000, 0xfe, 0xfe},
    {"M5", kScaled, "0:38*38", 0, 0x00400000, 0x00, 0x7f}, {"M6", kScaled, "0:38*38", 0, 0x00000001, 0x00, 0x69},
    {"M7", kScaled, "0:38*38", 0, 0x00000000, 0x00, 0x68}, {"M8", kScaled, "0-31:7e*7e", 0, 0x00000000, 0x00, 0x00},
    {"M9", kScaled, "", 0, 0x7fffffff, 0xff, 0x7f}, {"M10", kScaled, "0:38*38", 0xc4800000, 0xc4800000, 0x77, 0x77},
    {"M11", kScaled, "0:38*38", 0xbf800000, 0xbf7fffff, 0x66, 0x7f},
    {"M12", kScaled, "0:38*38", 0xbf800000, 0xbf800000, 0x65, 0x7f},
    {"M13", kScaled, "0:38*38", 0x7f7fffff, 0x7f800000, 0xe7, 0x7f},
    {"M14", kScaled, "0:38*38", 0x7f7fffff, 0x7f7fffff, 0xe6, 0x7f},
    {"M15", kScaled, "0-1:38*38", 0x7f7fffff, 0x7f800000, 0xe6, 0x7f},
    {"Z3", kScaled, "0:3f*20 1:1f*20 2-3:10*08", 0, 0x00000001, 0x00, 0x6b},
    {"Z4", kScaled, "0:3f*20 1:1f*20 2-5:08*08", 0, 0x00000000, 0x00, 0x6b},
    {"P3", kScaled, "0:b8*38", 0, 0x00000000, 0x00, 0x68},
    {"B1", kBf16, "0:3f80*3f80 1:3980*3900 2:bf80*3f80", 0, 0x33000000},
    {"B2", kBf16, "0:3f80*3f80 1:3900*3900 2:bf80*3f80", 0, 0x00000000},
    {"B3", kBf16, "0:7f00*7f00 1:ff00*7f00", 0x3f800000, 0x00000000},
    {"B4", kBf16, "0:4700*4700 1:c700*4700 12:3f80*3f80", 0, 0x00000000},
    {"B5", kBf16, "0:7380*3f80", 0x7f7fffff, 0x7f800000}, {"Z1", kBf16, "0:1a7f*1a00 1-2:1800*1800", 0, 0x00000001},
    {"Z2", kBf16, "0:1a7f*1a00 1-4:1780*1800", 0, 0x00000000},
    {"b200 least subnormal", kBf16, "0:0001*3f80", 0, 0x00010000}, {"b200 zeros", kBf16, "", 0x80000000, 0x00000000},
    {"b200 least subnormal", kFp16, "0:0001*3c00", 0, 0x33800000}, {"b200 zeros", kFp16, "", 0x80000000, 0x00000000},
};
// clang-format on

}  // namespace mxcheck::sm100::probe
