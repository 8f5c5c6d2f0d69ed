#include "tools/layer/input.h"

#include <array>
#include <filesystem>
#include <string_view>

#include "goldens/format/described_file.h"
#include "goldens/io/row_reader.h"
#include "goldens/make/embedded.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "numerics/text.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::input, text); }

// "x.npy", "a.safetensors:X", "real:layer0.x": says where, and not only what.
bool is_location(const std::string& name) {
  if (name.starts_with(kRealPrefix) || name.ends_with(".npy") || name.ends_with(".safetensors")) return true;
  constexpr std::array<std::string_view, 3> kFiles{".safetensors:", ".h5:", ".hdf5:"};
  for (const std::string_view file : kFiles) {
    if (name.find(file) != std::string::npos) return true;
  }
  return false;
}

std::string location_in(const std::string& file, const std::string& name) {
  return file + (is_hdf5_path(file) && name[0] != '/' ? ":/" : ":") + name;
}

// What read_tensor says of a file that is sound and lacks the tensor.
bool is_absent(const Error& e) {
  const std::string text = e.what();
  return text.find("has no tensor '") != std::string::npos || text.find("there is no '/") != std::string::npos;
}

bool has(const std::string& location) {
  try {
    return open_rows(location) != nullptr;
  } catch (const Error& e) {
    if (is_absent(e)) return false;
    throw;
  }
}

}  // namespace

GateUp gate_up_of(const LayerFiles& files) {
  return files.gate_up == "interleaved" ? GateUp::interleaved : GateUp::halves;
}

std::string shape_in_brackets(const std::vector<std::int64_t>& shape) {
  return "[" + join(shape, ", ", [](std::int64_t extent) { return std::to_string(extent); }) + "]";
}

std::string location_of(const LayerFiles& files, const std::string& option, const std::string& name) {
  if (is_location(name)) return name;
  if (files.inputs.empty())
    refuse(option + " " + name + ": is a name, and there is no INPUT file to look it up in; give " + option +
           " FILE:TENSOR");
  if (files.inputs.size() == 1) return location_in(files.inputs[0], name);
  std::vector<std::string> found;
  for (const std::string& file : files.inputs) {
    if (has(location_in(file, name))) found.push_back(location_in(file, name));
  }
  if (found.empty())
    refuse("none of " + join(files.inputs) + " has a tensor '" + name + "'; " + option + " names another");
  if (found.size() > 1)
    refuse("a tensor '" + name + "' is in " + join(found) + "; say which: " + option + " " + found[0]);
  return found[0];
}

Bf16Tensor bf16_tensor(const LayerFiles& files, const std::string& option, const std::string& name) {
  const std::string where = location_of(files, option, name);
  Tensor t;
  try {
    t = tensor_at(where);
  } catch (const Error& e) {
    if (!is_absent(e)) throw;
    throw Error(e.kind(), std::string(e.what()) + "; " + option + " names another");
  }
  const bool is_bits = t.dtype == Dtype::u16 && files.dtype == "bf16";
  if (t.dtype != Dtype::bf16 && !is_bits) {
    const char* hint = t.dtype == Dtype::u16 ? "; if these are its bits, say --dtype bf16"
                                             : "; convert it first, so that the rounding is yours";
    refuse(where + ": has dtype " + safetensors_name(t.dtype) + "; BF16 is needed" + hint);
  }
  return {where, t.shape, values_in<std::uint16_t>(t.data)};
}

Bf16Tensor token_tensor(const LayerFiles& files, const std::string& option, const std::string& name) {
  Bf16Tensor t = bf16_tensor(files, option, name);
  while (t.shape.size() > 2 && t.shape[0] == 1) t.shape.erase(t.shape.begin());
  if (t.shape.size() != 2)
    refuse(t.where + ": is " + shape_in_brackets(t.shape) + "; [tokens, d] is needed: reshape it to two dimensions");
  return t;
}

}  // namespace mxcheck
