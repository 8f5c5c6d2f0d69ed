#pragma once
// The contents of a golden file: attributes that explain it, and named datasets in the root group. docs/goldens.md
// draws the tree; goldens/format/writer.h and goldens/format/reader.h are the two ways.
//
// Numbers are stored as their bits in unsigned integers and named by `format`, in the names of PyTorch and ml_dtypes,
// so that no float conversion can change them. In numpy, bits of float32 become values by .view(np.float32).

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "goldens/io/tensor_file.h"
#include "numerics/format/format.h"

namespace mxcheck {

// Key and value in the order of the file. Values are text, readable with h5dump.
using Attributes = std::vector<std::pair<std::string, std::string>>;

// The value, or an empty string.
const std::string& attribute(const Attributes& attributes, std::string_view key);

enum class Role : std::uint8_t {
  input,   // the input of an implementation
  output,  // the expected output, bit for bit
};

constexpr const char* to_text(Role role) { return role == Role::input ? "input" : "output"; }

struct DatasetInfo {
  std::string name;  // letters, digits and '_', not starting with a digit
  Role role = Role::output;
  std::string format;               // "float8_e4m3fn", "float8_e8m0fnu", "bfloat16", "float32", "int32", "uint32", ...
  Format dtype = Format::uint8;     // u8, u16, u32 for bits; i32 for indices; i64 for offsets
  std::vector<std::int64_t> shape;  // rank 1 or 2
  Attributes attributes;            // further ones; `role` and `format` are the two above
};

struct GoldenInfo {
  Attributes attributes;  // of the root group; mxcheck_file and schema_version are written first, by the writer
  std::vector<DatasetInfo> datasets;
  [[nodiscard]] const DatasetInfo* find(std::string_view name) const;
};

inline constexpr const char* kGoldenSchema = "1";

// The attribute `format` of elements of this format is spec(format).dtype_name. Reads it; Error{golden} for a name that
// is none, "int32" and "int64" included.
Format format_of_attribute(const std::string& name);

}  // namespace mxcheck
