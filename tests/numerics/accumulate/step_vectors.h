#pragma once
// One step of a tensor core: inputs, and the word that it returns. "k0:38*38" is lane 0 with a = 0x38, b = 0x38; all
// others are 0x00. "0-31:" is lanes 0 to 31. Words are hexadecimal.
//
// V and S (Hopper's column), B and Z were run on an H200 by this project. The Blackwell column follows from published
// probes of a B200; kWords are words that a B200 returned (sf-tensor/tcgen05).

#include <array>
#include <string_view>

namespace mxcheck::test {

struct StepVector {
  std::string_view name;
  std::string_view format;
  std::string_view lanes;
  std::string_view c;
  std::string_view sm90;  // empty: not of this contract
  std::string_view sm100;
};

inline constexpr std::array kStepVectors{
    StepVector{"V01", "e5m2", "0:f0*64 1:b8*3c 2:b4*3c 3:b0*3c", "4b000000", "00000000", "bf400000"},
    StepVector{"V02", "e4m3", "", "3f800400", "3f800400", "3f800400"},
    StepVector{"V03", "e4m3", "", "3f8003ff", "3f800000", "3f8003ff"},
    StepVector{"V04", "e4m3", "", "bf8007ff", "bf800400", "bf8007ff"},
    StepVector{"V05", "e4m3", "0:38*38 1:08*04", "0", "3f800400", "3f800400"},
    StepVector{"V06", "e4m3", "0:38*38 1:08*02", "0", "3f800000", "3f800200"},
    StepVector{"V07", "e4m3", "0:38*38 1:08*02 2:08*02", "0", "3f800000", "3f800400"},
    StepVector{"V08", "e4m3", "0:38*38 1:88*02", "0", "3f800000", "3f7ffc00"},
    StepVector{"V09", "e4m3", "0:38*38 1:8c*04", "0", "3f7ff800", "3f7ff400"},
    StepVector{"V10", "e4m3", "0:3f*3f 1:bf*3f 2:08*04", "0", "39000000", "39000000"},
    StepVector{"V11", "e4m3", "0:01*7e 1:81*7e 2:08*08", "0", "00000000", "39800000"},
    StepVector{"V12", "e4m3", "0:78*78 1:f8*78 20:38*38", "0", "00000000", "3f800000"},
    StepVector{"V13", "e4m3", "0:78*78 1:38*38 2:f8*78", "0", "00000000", "3f800000"},
    StepVector{"V14", "e4m3", "0:78*78 1:f8*78", "3f800000", "00000000", "3f800000"},
    StepVector{"V14b", "e4m3", "0:78*78 1:f8*78", "3a800000", "00000000", "00000000"},
    StepVector{"V15", "e4m3", "0:01*02 1:01*01", "43000000", "43000000", "43000000"},
    StepVector{"V15n", "e4m3", "0:81*02 1:81*01", "c3000000", "c3000000", "c3000000"},
    StepVector{"V16", "e4m3", "0:01*01", "c3000000", "c3000000", "c2ffffff"},
    StepVector{"V17", "e4m3", "0:01*01", "c3800000", "c3800000", "c3800000"},
    StepVector{"V18", "e4m3", "0:38*38", "46800000", "46800000", "46800200"},
    StepVector{"V18b", "e4m3", "0:38*38", "467ffc00", "46800000", "46800000"},
    StepVector{"V19", "e4m3", "0:38*38 1:38*38 2:08*04", "0", "40000000", "40000200"},
    StepVector{"V20", "e4m3", "0-31:00*7e", "30800000", "30800000", "30800000"},
    StepVector{"V21", "e4m3", "0-31:7e*7e", "0", "4ac40000", "4ac40000"},
    StepVector{"V22", "e4m3", "0:7e*7e", "7f7fffff", "7f7ffc00", "7f7fffff"},
    StepVector{"V23", "e4m3", "0:01*01", "0", "36800000", "36800000"},
    StepVector{"V24", "e4m3", "0:3c*38 1:bc*38", "80000000", "00000000", "00000000"},
    StepVector{"P1", "e4m3", "0-31:80*00", "80000000", "00000000", "00000000"},
    StepVector{"P2", "e4m3", "", "80000001", "00000000", "80000001"},
    StepVector{"P9", "e4m3", "0-31:7e*7e", "7f7fffff", "7f7ffc00", "7f7fffff"},
    StepVector{"S1", "e4m3", "5:7f*00", "0", "7fffffff", "7fffffff"},
    StepVector{"S2", "e4m3", "", "ffc12345", "7fffffff", "7fffffff"},
    StepVector{"S3", "e4m3", "0:38*38", "ff800000", "ff800000", "ff800000"},
    StepVector{"S4", "e5m2", "0:7c*00", "0", "7fffffff", "7fffffff"},
    StepVector{"S5", "e5m2", "0:7c*3c 1:fc*3c", "0", "7fffffff", "7fffffff"},
    StepVector{"S6", "e5m2", "0:7c*3c", "ff800000", "7fffffff", "7fffffff"},
    StepVector{"S7", "e5m2", "0:fc*3c", "3f800000", "ff800000", "ff800000"},
    StepVector{"B1", "bf16", "0:3f80*3f80 1:3980*3900 2:bf80*3f80", "0", "33000000", "33000000"},
    StepVector{"B2", "bf16", "0:3f80*3f80 1:3900*3900 2:bf80*3f80", "0", "00000000", "00000000"},
    StepVector{"B3", "bf16", "0:7f00*7f00 1:ff00*7f00", "3f800000", "00000000", "00000000"},
    StepVector{"B4", "bf16", "0:4700*4700 1:c700*4700 12:3f80*3f80", "0", "00000000", "00000000"},
    StepVector{"B5", "bf16", "0:7380*3f80", "7f7fffff", "7f800000", "7f800000"},
    StepVector{"Z1", "bf16", "0:1a7f*1a00 1:1800*1800 2:1800*1800", "0", "00000001", "00000001"},
    StepVector{"Z2", "bf16", "0:1a7f*1a00 1-4:1780*1800", "0", "00000000", "00000000"},
    StepVector{"zero_times_huge", "bf16", "0-15:0000*7f00", "30800000", "30800000", "30800000"},
    StepVector{"minus_zeros", "bf16", "0-15:8000*0000", "80000000", "00000000", "00000000"},
    StepVector{"edge_e4m3", "e4m3", "0:01*38", "0", "3b000000", "3b000000"},
    StepVector{"edge_e4m3_nan", "e4m3", "0:7f*38", "0", "7fffffff", "7fffffff"},
    StepVector{"edge_e5m2", "e5m2", "0:01*3c", "0", "37800000", "37800000"},
    StepVector{"edge_e5m2_inf", "e5m2", "0:7c*3c", "0", "7f800000", "7f800000"},
    StepVector{"edge_bf16", "bf16", "0:0001*3f80", "0", "00010000", "00010000"},
    StepVector{"edge_fp16", "fp16", "0:0001*3c00", "0", "33800000", "33800000"},
    StepVector{"edge_zero", "fp16", "", "80000000", "00000000", "00000000"},
};

// tcgen05 kind::mxf8f6f4 with E4M3 data: one scale of either side for the 32 lanes.
struct ScaledVector {
  std::string_view name;
  std::string_view lanes;
  std::string_view c;
  unsigned scale_a;
  unsigned scale_b;
  std::string_view d;
};

inline constexpr std::array kScaledVectors{
    ScaledVector{"M1", "0:38*38", "0", 0x7f, 0x7f, "3f800000"},
    ScaledVector{"M2", "0:38*38", "0", 0x82, 0x7d, "40000000"},
    ScaledVector{"M3", "0:7e*7e", "0", 0xfe, 0x7f, "7f800000"},
    ScaledVector{"M4", "0:7e*7e 1:fe*7e", "0", 0xfe, 0xfe, "00000000"},
    ScaledVector{"M4b", "0:7e*7e 1:fe*7e", "3f800000", 0xfe, 0xfe, "00000000"},
    ScaledVector{"M5", "0:38*38", "0", 0x00, 0x7f, "00400000"},
    ScaledVector{"M6", "0:38*38", "0", 0x00, 0x69, "00000001"},
    ScaledVector{"M7", "0:38*38", "0", 0x00, 0x68, "00000000"},
    ScaledVector{"M8", "0-31:7e*7e", "0", 0x00, 0x00, "00000000"},
    ScaledVector{"M9", "", "0", 0xff, 0x7f, "7fffffff"},
    ScaledVector{"M10", "0:38*38", "c4800000", 0x77, 0x77, "c4800000"},
    ScaledVector{"M11", "0:38*38", "bf800000", 0x66, 0x7f, "bf7fffff"},
    ScaledVector{"M12", "0:38*38", "bf800000", 0x65, 0x7f, "bf800000"},
    ScaledVector{"M13", "0:38*38", "7f7fffff", 0xe7, 0x7f, "7f800000"},
    ScaledVector{"M14", "0:38*38", "7f7fffff", 0xe6, 0x7f, "7f7fffff"},
    ScaledVector{"M15", "0:38*38 1:38*38", "7f7fffff", 0xe6, 0x7f, "7f800000"},
    ScaledVector{"Z3", "0:3f*20 1:1f*20 2:10*08 3:10*08", "0", 0x00, 0x6b, "00000001"},
    ScaledVector{"Z4", "0:3f*20 1:1f*20 2-5:08*08", "0", 0x00, 0x6b, "00000000"},
};

// Words of a B200. a and b hold 32 codes.
struct Word {
  std::string_view contract;
  std::string_view format;
  std::string_view a;
  std::string_view b;
  std::string_view c;
  unsigned scale_a;  // of mxf8f6f4
  unsigned scale_b;
  std::string_view d;
};

inline constexpr std::array kWords{
    Word{"sm100_f8f6f4", "e4m3",
         "7a 02 6f 19 5d 62 1d 32 2a 00 5b 10 67 68 02 74 15 0d 72 12 0f 09 53 60 2a 2f 52 07 6e 19 4a 20",
         "32 7e 29 79 4f 15 50 26 34 05 3b 39 44 1f 21 7b 17 6e 48 05 0c 04 4c 64 66 0f 69 14 20 47 35 2b", "ec63d12a",
         0, 0, "ec63d12a"},
    Word{"sm100_f8f6f4", "e5m2",
         "4c 2d 2c 7b 00 3e 2c 43 69 72 36 49 4a 15 14 0f 36 2a 2f 49 11 50 1f 6e 0c 72 6f 4c 40 63 41 75",
         "62 06 58 08 25 25 71 51 47 09 7a 41 23 49 2c 02 08 67 66 0b 4f 1a 67 68 30 26 75 63 60 66 68 6f", "08d846e9",
         0, 0, "4d92b09a"},
    Word{"sm100_mxf8f6f4", "e2m1", "e 2 8 9 3 e 4 5 6 6 1 a 3 e a 2 9 2 c 8 d 7 0 a c 7 b 4 9 0 9 a",
         "a 1 2 b 2 9 5 7 0 7 a 2 7 b e 1 8 6 b 2 2 2 c a c 7 f 9 d 3 e 0", "00000000", 0x77, 0x7f, "3f094000"},
    Word{"sm100_mxf8f6f4", "e2m1", "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
         "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "00000000", 0xff, 0x7f, "7fffffff"},
};

}  // namespace mxcheck::test
