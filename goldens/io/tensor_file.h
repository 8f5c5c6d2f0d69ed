#pragma once
// Tensors from files and back: .npy, .safetensors and HDF5 datasets.
//
//   FILE.npy                 NumPy format 1.0 to 3.0, little-endian, C order; bfloat16 as ml_dtypes saves it (V2)
//   FILE.safetensors:NAME    one tensor of the file; NAME may be left out when the file holds one
//   FILE.h5:/DATASET         contiguous or chunked, no filters but deflate, shuffle and Fletcher-32; the attribute
//                            format = "bfloat16", "float16" (uint16), "float32" (uint32) makes floats of bits
//
// Files are untrusted: every size is checked against the file's length and for overflow before anything is allocated.
// Errors: Error{input} with the file, what was wrong and what would be right; a write that fails leaves no file.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace mxcheck {

enum class Dtype : std::uint8_t { u8, i8, u16, u32, i32, i64, f16, bf16, f32, f64 };

std::size_t size_of(Dtype dtype);
const char* safetensors_name(Dtype dtype);  // "U8", "BF16", ...

std::string shape_to_text(std::span<const std::int64_t> shape);  // "3 x 64"

struct Tensor {
  std::string name;
  Dtype dtype = Dtype::u8;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;  // little-endian, row-major
};

struct SafetensorsFile {
  std::vector<Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// "FILE.npy", "FILE.safetensors[:TENSOR]" or "FILE.h5:/DATASET".
Tensor read_tensor(const std::string& location);

SafetensorsFile read_safetensors(const std::string& path);
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name_in_errors);
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name_in_errors);

// Written to a temporary name in the same directory, fsynced, renamed. Same content, same bytes.
void write_safetensors(const std::string& path, const SafetensorsFile& file);
void write_npy(const std::string& path, const Tensor& tensor);

}  // namespace mxcheck
