#pragma once
// A kind of golden: an operation's problem saved with its answer. Its keys in a suite, how a file of it is made, and
// the table of definitions that explains a candidate's difference from one; all of them in the operation's folder
// (properties/operations/*/golden.h) but `case` (properties/goldens/case.h), and listed in
// properties/goldens/registry.cc.

#include <any>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "goldens/format/golden.h"
#include "goldens/format/writer.h"
#include "goldens/json/json.h"
#include "numerics/bytes.h"
#include "numerics/tensor.h"
#include "properties/core/compare.h"
#include "properties/core/definitions.h"

namespace mxcheck {

class GoldenKind;

// One golden of a suite.
struct GoldenSpec {
  std::string name, description;
  const GoldenKind* kind = nullptr;
  std::any own;  // the kind's own fields

  template <class T>
  [[nodiscard]] const T& get() const {
    return *std::any_cast<T>(&own);
  }
};

struct MakeOptions {
  std::string input_directory = ".";                                   // where relative files of a spec are
  int compression = 0;                                                 // deflate, 0 to 9
  std::string generator = "mxcheck";                                   // for the manifest
  int threads = 0;                                                     // 0: the machine's
  std::function<void(std::int64_t done, std::int64_t rows)> progress;  // may be empty; may throw to stop
  std::function<void()> before_they_appear;  // when all of a suite is on the disk; may throw, and then none appears
};

// A golden in memory.
struct MadeGolden {
  GoldenInfo info;
  std::vector<std::vector<std::byte>> data;  // of each dataset
};

struct GoldenTensors {
  GoldenInfo info;
  std::map<std::string, Tensor> tensors;  // whole, by name
};

// The dataset of this name. Error{golden} where the golden lacks it, and where its elements have not `format`'s width
// or its extents are others; kAnyExtent is any.
inline constexpr std::int64_t kAnyExtent = -1;
const Tensor& golden_tensor(const GoldenTensors& golden, const std::string& name);
const Tensor& golden_tensor(const GoldenTensors& golden, const std::string& name, Format format,
                            const std::vector<std::int64_t>& shape);

// The candidate's tensor of this name; nothing when it has none; Error when it cannot be read.
using CandidateTensor = std::function<std::optional<Tensor>(const std::string& name)>;

class GoldenKind {
 public:
  using Parse = std::any (*)(JsonObject&);
  using Make = std::function<MadeGolden(const GoldenSpec&, const MakeOptions&)>;
  using Rows = std::function<Table(const GoldenTensors&, const DatasetInfo&, const CandidateTensor&)>;
  using Write = std::unique_ptr<GoldenWriter> (*)(const GoldenSpec&, const std::string& path, const MakeOptions&);
  using Explain = std::vector<std::string> (*)(const GoldenTensors&, const DatasetInfo&, const Difference&);

  GoldenKind(std::string_view name, Parse parse, Make make, Rows rows = {}, Write write = nullptr,
             Explain explain = nullptr)
      : name_(name), parse_(parse), make_(std::move(make)), rows_(std::move(rows)), write_(write), explain_(explain) {}

  [[nodiscard]] std::string_view name() const { return name_; }
  // The keys that are this kind's own. Error{usage} with the place and what would be right.
  [[nodiscard]] std::any parse(JsonObject& o) const { return parse_(o); }
  // Definitions and slips that may explain a candidate's dataset, as output 0; they refer to golden and candidate,
  // which must outlive them. Error{golden} for attributes or datasets that no golden of this kind has.
  [[nodiscard]] Table rows(const GoldenTensors& golden, const DatasetInfo& dataset,
                           const CandidateTensor& candidate) const {
    return rows_ ? rows_(golden, dataset, candidate) : Table();
  }
  // Lines about the first differing element and what it follows from; none where the kind has none. Errors as rows().
  [[nodiscard]] std::vector<std::string> explain(const GoldenTensors& golden, const DatasetInfo& dataset,
                                                 const Difference& difference) const {
    return explain_ == nullptr ? std::vector<std::string>() : explain_(golden, dataset, difference);
  }
  // Error{internal} for a kind that is written panel by panel alone.
  [[nodiscard]] MadeGolden make(const GoldenSpec& golden, const MakeOptions& options) const;
  // The file, complete and not yet at its path; make() in one piece, where the kind has no way with panels.
  [[nodiscard]] std::unique_ptr<GoldenWriter> write(const GoldenSpec& golden, const std::string& path,
                                                    const MakeOptions& options) const;

 private:
  std::string_view name_;
  Parse parse_;
  Make make_;
  Rows rows_;
  Write write_;
  Explain explain_;
};

// All kinds, in the order of the documentation; null for a name that is none's.
const std::vector<const GoldenKind*>& all_golden_kinds();
const GoldenKind* find_golden_kind(std::string_view name);

// The number that an attribute is, and the format that attribute `format` names. Error{golden}.
std::int64_t number_of(const GoldenInfo& info, const char* key);
Format format_of_golden(const GoldenInfo& info);
// The format that a dataset names. Error{golden} where the golden lacks it.
Format format_of_dataset(const GoldenTensors& golden, const std::string& name);
// The dataset, its elements taken for this format's. Error{golden} as golden_tensor.
Tensor in_format(const GoldenTensors& golden, const std::string& name, Format format,
                 const std::vector<std::int64_t>& shape);

// Rows about output `output` of a problem as rows about output 0, a dataset; map: the problem's bytes as the dataset's.
Table rows_of_dataset(Table rows, std::size_t output, const std::function<Bytes(const Bytes&)>& map);

// Attributes that goldens of every kind begin with: kind, name, description.
Attributes common_attributes(const GoldenSpec& golden);

// Puts a golden together, dataset by dataset.
class GoldenBuilder {
 public:
  explicit GoldenBuilder(const GoldenSpec& golden) { made_.info.attributes = common_attributes(golden); }

  void attribute(const std::string& key, std::string value) {
    made_.info.attributes.emplace_back(key, std::move(value));
  }
  void bytes(Role role, const std::string& name, std::string_view format, Format dtype, std::vector<std::int64_t> shape,
             std::span<const std::byte> bytes, Attributes attributes = {}) {
    made_.info.datasets.push_back({name, role, std::string(format), dtype, std::move(shape), std::move(attributes)});
    made_.data.emplace_back(bytes.begin(), bytes.end());
  }
  // Elements of a number format: bytes, words of 16 or 32 bits, or floats.
  template <class Values>
  void add(Role role, const std::string& name, Format element, const std::vector<std::int64_t>& shape,
           const Values& values, const Attributes& attributes = {}) {
    bytes(role, name, spec(element).dtype_name, bits_of(element), shape, std::as_bytes(std::span(values)), attributes);
  }
  // Numbers that are no format's: int32, int64, uint32.
  template <class Values>
  void integers(Role role, const std::string& name, const std::vector<std::int64_t>& shape, const Values& values,
                const Attributes& attributes = {}) {
    using T = typename decltype(std::span(values))::value_type;
    constexpr Format kFormat = sizeof(T) == 8 ? Format::int64 : std::is_signed_v<T> ? Format::int32 : Format::uint32;
    constexpr const char* kName = sizeof(T) == 8 ? "int64" : std::is_signed_v<T> ? "int32" : "uint32";
    bytes(role, name, kName, kFormat, shape, std::as_bytes(std::span(values)), attributes);
  }
  [[nodiscard]] GoldenInfo& info() { return made_.info; }
  MadeGolden take() { return std::move(made_); }

 private:
  MadeGolden made_;
};

inline std::vector<std::int64_t> vector_of(std::size_t count) { return {static_cast<std::int64_t>(count)}; }

// The dtype and shape of a candidate's tensor, held against those that a golden asks for, and what to say of them.

struct Form {
  bool dtype = true;
  bool shape = true;
  bool comparable = true;  // as many elements of as many bytes: bits are compared although something else is wrong
  std::vector<std::string> notes;
};

Form form_of(const DatasetInfo& expected, const Tensor& observed);

}  // namespace mxcheck
