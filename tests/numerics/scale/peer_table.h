#pragma once
// Scale bytes that implementations of the field store for an amax: data of the tests, taken from them, not from us.
//
// Sources: torchao 0.18.0 itself; each other implementation's rule ported from its own code and run on the CPU, at
// these revisions: torchao 36027d8, TransformerEngine d0067d0, DeepGEMM 54e2261, DeepSeek-V3 9b4e978, microxcaling
// 7bc4195, gfloat b142762, CUTLASS 7107b05, CUDA 13.0's cuda_fp8.h. E4M3 elements.

#include "tests/testing.h"

namespace mxcheck::peers {

constexpr int kNone = -1;  // the implementation never has this amax

// A block that an implementation turns to NaN without storing a byte counts as 255.

// The recipes that repeat them, in the order of the table's columns.
inline constexpr std::string_view kColumns[21] = {"rceil",
                                                  "torchao",
                                                  "torchao_old",
                                                  "te",
                                                  "te_ftz",
                                                  "deepgemm_host",
                                                  "deepgemm_device",
                                                  "dsv3",
                                                  "thunderkittens",
                                                  "triton",
                                                  "ocp",
                                                  "torchao_floor",
                                                  "microxcaling_python",
                                                  "microxcaling_cuda",
                                                  "gfloat",
                                                  "torchao_ceil",
                                                  "torchao_even",
                                                  "torchao_0_18",
                                                  "torchao_0_18_floor",
                                                  "torchao_0_18_ceil",
                                                  "torchao_0_18_even"};

struct Row {
  std::uint32_t amax;  // FP32 bits
  int bytes[21];
};

// clang-format off
inline constexpr Row kTable[] = {
    {0x00000000, {  0,   0,   0,   0,   0, 105,   0, 105,  88,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0}},  // 0
    {0x00000001, {  0,   0,   0,   0,   0, 105,   0, 105,  88,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0}},  // 1.4013e-45
    {0x00010000, {  0,   0,   0,   0,   0, 105,   1, 105,  88,   1,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0}},  // 9.18355e-41
    {0x00800000, {  0,   0,   0,   0,   0, 105,   1, 105,  88,   1,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0}},  // 1.17549e-38
    {0x04600000, {  0,   0,   0,   0,   0, 105,   1, 105,  88,   1,   0,   0,   0,   0,   0,   1,   0,   0,   0,   1,   0}},  // 2.63311e-36
    {0x04600001, {  1,   0,   0,   0,   0, 105,   1, 105,  88,   1,   0,   0,   0,   0,   0,   1,   0,   0,   0,   1,   0}},  // 2.63311e-36
    {0x04600002, {  1,   1,   0,   1,   0, 105,   1, 105,  88,   1,   0,   0,   0,   0,   0,   1,   0,   0,   0,   1,   0}},  // 2.63311e-36
    {0x04733333, {  1,   1,   1,   1,   0, 105,   1, 105,  88,   1,   0,   0,   0,   0,   0,   1,   0,   1,   0,   1,   0}},  // 2.8588e-36
    {0x04E00001, {  2,   2,   1,   2,   2, 105,   2, 105,  88,   2,   1,   1,   1,   1,   1,   2,   1,   1,   1,   2,   1}},  // 5.26622e-36
    {0x2EDBE6FF, { 85,  85,  85,  85,  85, 105,  85, 105,  88,  85,  85,  85,  85,  85,  85,  86,  85,  85,  85,  86,  85}},  // 1e-10
    {0x3727C5AC, {102, 102, 102, 102, 102, 105, 102, 105, 102, 102, 102, 102, 102, 102, 102, 103, 102, 102, 102, 103, 102}},  // 1e-05
    {0x3F800000, {119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119, 119}},  // 1
    {0x43E00000, {127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 128, 127, 127, 127, 128, 127}},  // 448
    {0x43E00001, {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 127, 127, 127, 127, 127, 128, 127, 128, 127, 128, 127}},  // 448
    {0x43E80000, {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 127, 127, 127, 127, 127, 128, 127, 128, 127, 128, 127}},  // 464
    {0x43F00000, {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 127, 127, 127, 127, 127, 128, 127, 128, 127, 128, 127}},  // 480
    {0x43F80000, {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 127, 127, 127, 127, 127, 128, 128, 128, 127, 128, 128}},  // 496
    {0x43FFFFFF, {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 127, 127, 128, 127, 128, 128, 128, 128, 127, 128, 128}},  // 512
    {0x47E00001, {136, 136, 135, 136, 136, 136, 136, 135, 136, 136, 135, 135, 135, 135, 135, 136, 135, 135, 135, 136, 135}},  // 114688
    {0x63E00001, {192, 192, 191, 192, 192, 192, 192, 191, 192, 192, 191, 191, 191, 191, 191, 192, 191, 191, 191, 192, 191}},  // 8.26414e+21
    {0x23E00001, { 64,  64,  63,  64,  64, 105,  64, 105,  88,  64,  63,  63,  63,  63,  63,  64,  63,  63,  63,  64,  63}},  // 2.42861e-17
    {0x717FFFFF, {219, 219, 219, 219, 219, 219, 219, 219, 219, 219, 218, 218, 219, 218, 219, 219, 219, 219, 218, 219, 219}},  // 1.26765e+30
    {0x7F7FFFFF, {247, 247, 247, 247, 247, 247, 247, 247, 247, 247, 246, 246, 247, 246, 247, 247, 255, 247, 246, 247, 247}},  // 3.40282e+38
    {0x7F800000, {255, 255, 254, 254, 254, 254, 255, 255, 254, 255, 255, 255, 255, 255, 254, 255, 255, 254, 247, 247, 247}},  // inf
    {0x7FC00000, {255, 255, 255, kNone, kNone, 254,   0, 105,  88,   0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}},  // nan
};
// clang-format on

// Amax that tell apart every two rules that differ anywhere.
inline constexpr std::uint32_t kTellingAmax[] = {
    0x00000000, 0x80000000, 0x00000001, 0x000000E0, 0x00010000, 0x00400000, 0x00400001, 0x04600000,
    0x04600001, 0x04600002, 0x04733333, 0x047FFFFF, 0x04E00001, 0x2EDBE6FF, 0x43E00000, 0x43E00001,
    0x43F00000, 0x43F80000, 0x43FFFFFF, 0x47E00001, 0x63E00001, 0x7F7FFFFF, 0x7F800000, 0x7FC00000};

// The recipes that store the same byte for every amax, NaN and Inf included. They differ in elements, or in name only.
inline const std::vector<std::vector<std::string_view>> kEqualBytes = {
    {"floor", "ocp", "torchao_floor", "microxcaling_cuda"},
    {"ceil", "torchao_ceil"},
    {"even", "torchao_even"},
    {"torchao", "cutlass_host"},
    {"te", "cutlass_device"},
    {"torchao_floor_cuda", "triton_down"},
    {"torchao_old", "torchao_0_18"},
};

}  // namespace mxcheck::peers
