#pragma once
// Tensors from files and back: .npy, .safetensors and HDF5 datasets.
//
//   const Tensor x = read_tensor("x.safetensors:layers.0.w1");       any of the three
//   const auto floats = values_in<float>(x.data);                    numerics/bytes.h; x.format == Format::fp32
//   write_npy("y.npy", {"", Format::fp32, x.shape, to_bytes(floats)});
//
//   FILE.npy                 NumPy format 1.0 to 3.0, little-endian, C order; bfloat16 as ml_dtypes saves it (V2)
//   FILE.safetensors:NAME    one tensor of the file; NAME may be left out when the file holds one; FP8 as U8 or F8_...,
//   FP4
//                            as U8 or F4, which has two codes a byte
//   FILE.h5:/DATASET         contiguous or chunked, no filters but deflate, shuffle and Fletcher-32; the attribute
//                            format = "bfloat16", "float16" (uint16), "float32" (uint32) makes floats of bits
//
// Files are untrusted: every size is checked against the file's length and for overflow before anything is allocated.
// Data is little-endian and row-major, of any shape of at most 32 dimensions, empty and scalar ones included. Whoever
// cannot hold a tensor whole reads it with open_rows (goldens/io/row_reader.h).
//
// Errors: Error{input} with the file, what was wrong and what would be right. Of the writers Error{usage} for a tensor
// whose data does not fit its shape, for names that cannot be written and for a path that cannot; Error{environment}
// for a full disk. A write that fails leaves no file, or the one that was there.
//
// Does not promise: Fortran order, big-endian data, structured or Python-object dtypes; they are refused. Sources: NEP
// 1, the safetensors README, the HDF5 library.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "numerics/tensor.h"

namespace mxcheck {

// "U8", "BF16", "F8_E4M3", ...; Error{internal} for a format that files do not hold as such: its codes are their
// integers.
const char* safetensors_name(Format format);
std::optional<Format> find_safetensors_format(std::string_view name);
// The elements that every kind of file can hold: values, and integers, which codes are held as
// (numerics/format/format.h, bits_of). Safetensors have E4M3, E5M2 and E8M0 codes as F8_E4M3, F8_E5M2 and F8_E8M0 too,
// and E2M1 as F4: two codes a byte in the file, the first in the low nibble, one a byte in memory; shapes count codes.
inline constexpr std::array kFileFormats{Format::uint8, Format::int8, Format::uint16, Format::uint32, Format::int32,
                                         Format::int64, Format::fp16, Format::bf16,   Format::fp32,   Format::fp64};

std::string shape_to_text(std::span<const std::int64_t> shape);  // "3 x 64"

struct SafetensorsFile {
  std::vector<Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// "FILE.npy", "FILE.safetensors[:TENSOR]" or "FILE.h5:/DATASET". HDF5 is read by a child process with limits on memory
// and time: a file that crashes the library is an Error{input}.
Tensor read_tensor(const std::string& location);

// The names of the tensors of a safetensors file, in its order; the data is not read.
std::vector<std::string> tensor_names(const std::string& path);
SafetensorsFile read_safetensors(const std::string& path);  // all tensors, in the order of the file, and the metadata
// Both read from memory; the name stands for the path in messages.
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name_in_errors);
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name_in_errors);

// Appear whole or not at all, and not if before_it_appears throws (goldens/io/atomic_file.h). Same content, same bytes:
// safetensors has its tensors sorted by the width of their elements, then by name. npy has no names, and bfloat16 as
// V2.
void write_safetensors(const std::string& path, const SafetensorsFile& file,
                       const std::function<void()>& before_it_appears = {});
void write_npy(const std::string& path, const Tensor& tensor, const std::function<void()>& before_it_appears = {});

}  // namespace mxcheck
