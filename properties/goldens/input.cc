#include "properties/goldens/input.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "goldens/data/embedded.h"
#include "goldens/io/byte_source.h"
#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "reference/common/checked_size.h"
#include "reference/quantize/quantize.h"

namespace mxcheck {
namespace {

constexpr std::size_t kSkipAtOnce = 1 << 20;

class MemoryRows final : public RowReader {
 public:
  explicit MemoryRows(Tensor tensor) : tensor_(std::move(tensor)), head_{tensor_.format, tensor_.shape} {}
  [[nodiscard]] const TensorHead& head() const override { return head_; }
  void read(std::span<std::byte> to) override {
    if (to.size() > tensor_.data.size() - at_) throw Error(ErrorKind::usage, "more rows asked for than there are");
    std::copy_n(tensor_.data.begin() + static_cast<std::ptrdiff_t>(at_), to.size(), to.begin());
    at_ += to.size();
  }

 private:
  Tensor tensor_;
  TensorHead head_;
  std::size_t at_ = 0;
};

Format dtype_of(Format format) {
  return format == Format::fp32 ? Format::fp32 : format == Format::bf16 ? Format::bf16 : Format::fp16;
}

std::string between(const char* what, const Range& range) {
  return std::string(", ") + what + " " + std::to_string(range.first) + " to " + std::to_string(range.end);
}

Range clip(const std::optional<Range>& range, std::int64_t extent, const char* what) {
  if (!range) return {0, extent};
  if (range->end > extent) {
    throw Error(ErrorKind::usage, std::string("input.") + what + ": ends at " + std::to_string(range->end) +
                                      "; there are " + std::to_string(extent));
  }
  return *range;
}

Tensor cut(const Tensor& whole, const Range& rows, const Range& cols) {
  const std::size_t width = size_of(whole.format);
  Tensor part{whole.name, whole.format, {rows.end - rows.first, cols.end - cols.first}, {}};
  const auto row_bytes = static_cast<std::size_t>(whole.shape[1]) * width;
  for (std::int64_t row = rows.first; row < rows.end; ++row) {
    const auto from = whole.data.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * row_bytes +
                                                                       static_cast<std::size_t>(cols.first) * width);
    part.data.insert(part.data.end(), from,
                     from + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(part.shape[1]) * width));
  }
  return part;
}

void plant(Tensor& tensor, const std::vector<Planted>& plants) {
  const std::size_t width = size_of(tensor.format);
  for (const Planted& p : plants) {
    if (p.row >= tensor.shape[0] || p.col >= tensor.shape[1] || (width == 2 && p.bits >> 16 != 0)) {
      throw Error(ErrorKind::usage, "input.plant: (" + std::to_string(p.row) + ", " + std::to_string(p.col) +
                                        ") or its bits lie outside of " + std::to_string(tensor.shape[0]) + " x " +
                                        std::to_string(tensor.shape[1]) + " elements of " + std::to_string(width * 8) +
                                        " bits");
    }
    std::memcpy(tensor.data.data() + static_cast<std::size_t>(p.row * tensor.shape[1] + p.col) * width, &p.bits, width);
  }
}

Tensor given_bits(const InputSpec& input) {
  Tensor tensor{"x", dtype_of(input.dtype), {input.rows, input.cols}, {}};
  const std::size_t width = size_of(tensor.format);
  const bool patterns = !input.patterns.empty();
  const std::size_t count = patterns ? 65'536 : input.bits.size();
  tensor.data.resize(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = patterns ? static_cast<std::uint32_t>(i) : input.bits[i];
    std::memcpy(tensor.data.data() + i * width, &bits, width);
  }
  return tensor;
}

std::string source_of(const InputSpec& input) {
  if (!input.real.empty()) return "real tensor " + input.real;
  if (!input.patterns.empty()) return "every pattern of " + input.patterns;
  if (input.synthetic == SyntheticLogits::ties) return "made up: logits that tie";
  if (input.synthetic == SyntheticLogits::loads) return "made up: logits that give every expert its load";
  if (input.normal) return "made up: about normal, seed " + std::to_string(*input.normal);
  return input.cycle ? "bits of the spec, over and over" : "bits of the spec";
}

Tensor whole_of(const InputSpec& input) {
  if (!input.real.empty()) return real_tensor(input.real);
  if (input.synthetic == SyntheticLogits::ties) return tied_logits(input);
  if (input.synthetic == SyntheticLogits::loads) return loaded_logits(input);
  if (input.normal) return normal_numbers(input);
  return input.cycle ? repeated_bits(input) : given_bits(input);
}

InputRows open_in_memory(const InputSpec& input) {
  InputRows rows;
  rows.source = source_of(input);
  const Tensor whole = whole_of(input);
  const Range row_range = clip(input.row_range, whole.shape[0], "rows_of");
  const Range col_range = clip(input.col_range, whole.shape[1], "cols_of");
  if (input.row_range) rows.source += between("rows", row_range);
  if (input.col_range) rows.source += between("columns", col_range);
  if (!input.plants.empty()) rows.source += ", " + std::to_string(input.plants.size()) + " elements planted";
  Tensor part = cut(whole, row_range, col_range);
  plant(part, input.plants);
  rows.dtype = input.real.empty() ? input.dtype : Format::bf16;
  rows.rows = part.shape[0], rows.cols = part.shape[1];
  rows.reader = std::make_unique<MemoryRows>(std::move(part));
  return rows;
}

Format wide_format(const InputSpec& input, Format dtype) {
  if (dtype == Format::fp32) return Format::fp32;
  if (dtype == Format::bf16 || (dtype == Format::uint16 && input.file_dtype == "bf16")) return Format::bf16;
  if (dtype == Format::fp16 || (dtype == Format::uint16 && input.file_dtype == "fp16")) return Format::fp16;
  throw Error(ErrorKind::input, input.file + ": has dtype " + safetensors_name(dtype) + "; F32, BF16 or F16 is needed" +
                                    (dtype == Format::uint16 ? ", or \"dtype\": \"bf16\" for bits in U16" : ""));
}

void skip(RowReader& reader, std::uint64_t bytes) {
  std::vector<std::byte> waste(std::min<std::uint64_t>(bytes, kSkipAtOnce));
  while (bytes > 0) {
    const auto now = std::min<std::uint64_t>(bytes, waste.size());
    reader.read(std::span(waste).first(now));
    bytes -= now;
  }
}

InputRows open_file(const InputSpec& input, const std::string& directory) {
  InputRows rows;
  const bool absolute = std::filesystem::path(input.file).is_absolute();
  rows.reader = open_rows(absolute ? input.file : (std::filesystem::path(directory) / input.file).string());
  const TensorHead& head = rows.reader->head();
  rows.dtype = wide_format(input, head.dtype);
  const std::size_t rank = head.shape.size();
  if (rank != (input.index ? 3U : 2U)) {
    throw Error(ErrorKind::input,
                input.file + ": has " + std::to_string(rank) + " dimensions; two are needed, or three and \"index\"");
  }
  rows.rows = head.shape[rank - 2], rows.cols = head.shape[rank - 1];
  rows.source = std::filesystem::path(input.file).filename().string();
  if (input.index) {
    if (*input.index >= head.shape[0]) {
      throw Error(ErrorKind::usage, input.file + ": holds matrices 0 to " + std::to_string(head.shape[0] - 1) +
                                        ", not " + std::to_string(*input.index));
    }
    rows.source += ", matrix " + std::to_string(*input.index);
    const std::array<std::int64_t, 3> before{*input.index, rows.rows, rows.cols};
    skip(*rows.reader, checked_bytes(before, size_of(head.dtype), input.file));
  }
  return rows;
}

}  // namespace

InputRows open_input(const InputSpec& input, const std::string& directory) {
  return input.file.empty() ? open_in_memory(input) : open_file(input, directory);
}

InputWords read_bf16(const InputSpec& input, const std::string& directory, const std::string& key) {
  const InputRows rows = open_input(input, directory);
  if (rows.dtype != Format::bf16)
    throw Error(ErrorKind::usage,
                key + ": is " + std::string(spec(rows.dtype).name) + " (" + rows.source + "); bf16 is needed");
  InputWords in{{}, rows.rows, rows.cols, rows.source};
  resize_or_throw(in.words, checked_product(rows.rows, rows.cols, key), key);
  rows.reader->read(std::as_writable_bytes(std::span(in.words)));
  return in;
}

InputFloats read_floats(const InputSpec& input, const std::string& directory, const std::string& key) {
  const InputRows rows = open_input(input, directory);
  InputFloats in{{}, rows.rows, rows.cols, rows.source};
  resize_or_throw(in.values, checked_product(rows.rows, rows.cols, key), key);
  if (rows.dtype == Format::fp32) {
    rows.reader->read(std::as_writable_bytes(std::span(in.values)));
    return in;
  }
  if (rows.dtype != Format::bf16)
    throw Error(ErrorKind::usage,
                key + ": is " + std::string(spec(rows.dtype).name) + " (" + rows.source + "); bf16 or fp32 is needed");
  std::vector<std::uint16_t> words(in.values.size());
  rows.reader->read(std::as_writable_bytes(std::span(words)));
  for (std::size_t i = 0; i < words.size(); ++i) in.values[i] = std::bit_cast<float>(std::uint32_t{words[i]} << 16);
  return in;
}

namespace {

// Seeds of philox_word, one a purpose: synthetic logits are the same everywhere.
constexpr std::uint64_t kTies = 1, kOthers = 2, kChosen = 3, kGradient = 4;

std::uint32_t word(std::uint64_t seed, std::int64_t i) {
  return philox_word(seed, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0);
}

constexpr std::array<std::uint32_t, 16> kTied32{0x3F800000, 0x3F800001, 0x3F7FFFFF, 0x3F800010, 0x00000000, 0x80000000,
                                                0x00000001, 0x80000001, 0x3F000000, 0xBF000000, 0xBF000001, 0x40000000,
                                                0x3F800003, 0xBF800000, 0x3FC00000, 0x3F810000};
constexpr std::array<std::uint32_t, 16> kTied16{0x3F80, 0x3F81, 0x3F7F, 0x3F90, 0x0000, 0x8000, 0x0001, 0x8001,
                                                0x3F00, 0xBF00, 0xBF01, 0x4000, 0x3F83, 0xBF80, 0x3FC0, 0xBF81};

class Logits {
 public:
  explicit Logits(const InputSpec& input)
      : fp32_(input.dtype == Format::fp32),
        tensor_{"x", fp32_ ? Format::fp32 : Format::bf16, {input.rows, input.cols}, {}} {
    tensor_.data.resize(static_cast<std::size_t>(input.rows * input.cols) * size_of(tensor_.format));
  }
  void set_bits(std::int64_t i, std::uint32_t bits) {
    const std::size_t width = size_of(tensor_.format);
    std::memcpy(tensor_.data.data() + static_cast<std::size_t>(i) * width, &bits, width);
  }
  void set(std::int64_t i, float value) {  // one that BF16 holds
    const auto bits = std::bit_cast<std::uint32_t>(value);
    set_bits(i, fp32_ ? bits : bits >> 16);
  }
  [[nodiscard]] bool fp32() const { return fp32_; }
  Tensor take() { return std::move(tensor_); }

 private:
  bool fp32_;
  Tensor tensor_;
};

// Rounds of dealing: every expert that still lacks a token gets one.
std::vector<std::int64_t> dealt(std::vector<std::int64_t> loads) {
  std::vector<std::int64_t> expert_of_token;
  for (bool any = true; any;) {
    any = false;
    for (std::size_t e = 0; e < loads.size(); ++e) {
      if (loads[e] == 0) continue;
      --loads[e], any = true;
      expert_of_token.push_back(static_cast<std::int64_t>(e));
    }
  }
  return expert_of_token;
}

}  // namespace

Tensor tied_logits(const InputSpec& input) {
  Logits logits(input);
  for (std::int64_t i = 0; i < input.rows * input.cols; ++i) {
    const std::uint32_t pick = word(kTies, i) >> 28;
    logits.set_bits(i, logits.fp32() ? kTied32[pick] : kTied16[pick]);
  }
  return logits.take();
}

Tensor loaded_logits(const InputSpec& input) {
  constexpr std::int64_t kKindsOfRow = 4;
  Logits logits(input);
  const std::vector<std::int64_t> expert_of_token = dealt(input.loads);
  for (std::int64_t t = 0; t < input.rows; ++t) {
    const std::int64_t kind = t % kKindsOfRow;
    for (std::int64_t e = 0; e < input.cols; ++e) {  // from -1.875 to 0
      logits.set(t * input.cols + e, -0.125F * static_cast<float>(word(kOthers, kind * input.cols + e) >> 28));
    }
    const std::int64_t chosen = expert_of_token[static_cast<std::size_t>(t)];
    logits.set(t * input.cols + chosen, 2 + 0.25F * static_cast<float>(word(kChosen, kind) >> 30));
  }
  return logits.take();
}

std::vector<float> synthetic_gradient(std::int64_t count) {
  std::vector<float> gradient;
  for (std::int64_t i = 0; i < count; ++i) {
    gradient.push_back(static_cast<float>(static_cast<std::int32_t>(word(kGradient, i)) >> 8) * 0x1p-23F);
  }
  return gradient;
}

// Numbers from a few of the spec's: the same on every machine, integers added up and one rounding.

namespace {

constexpr std::uint32_t kNormal = 0x6E6F726D;  // apart from the other uses of philox_word

Tensor empty_of(const InputSpec& input) {
  const Format dtype = input.dtype == Format::fp32   ? Format::fp32
                       : input.dtype == Format::bf16 ? Format::bf16
                                                     : Format::fp16;
  Tensor tensor{"x", dtype, {input.rows, input.cols}, {}};
  tensor.data.resize(static_cast<std::size_t>(input.rows * input.cols) * size_of(dtype));
  return tensor;
}

template <class Bits>
Tensor filled(const InputSpec& input, Bits bits_of) {
  Tensor tensor = empty_of(input);
  const std::size_t width = size_of(tensor.format);
  for (std::size_t i = 0; i * width < tensor.data.size(); ++i) {
    const std::uint32_t bits = bits_of(i);
    std::memcpy(tensor.data.data() + i * width, &bits, width);
  }
  return tensor;
}

}  // namespace

Tensor repeated_bits(const InputSpec& input) {
  return filled(input, [&](std::size_t i) { return input.bits[i % input.bits.size()]; });
}

Tensor normal_numbers(const InputSpec& input) {
  constexpr std::uint32_t kSummands = 12;  // whose variances of 1/12 add up to 1
  return filled(input, [&](std::size_t i) {
    std::int64_t sum = -static_cast<std::int64_t>(kSummands) << 30;
    for (std::uint32_t k = 0; k < kSummands; ++k)
      sum += philox_word(*input.normal, static_cast<std::uint32_t>(i), k, kNormal, 0) >> 1;
    const double value = std::ldexp(static_cast<double>(sum), input.exponent - 31);
    return encode(input.dtype, value, Rounding::nearest_even, Overflow::non_saturate);
  });
}

// The text of a spec.

namespace {

constexpr std::int64_t kMostElements = 1 << 20;  // of synthetic inputs

std::optional<Range> parse_range(JsonObject& o, const char* key) {
  if (!o.has(key)) return std::nullopt;
  const Json::Array& list = o.list(key, 2);
  if (list.size() == 2) {
    const auto first = integer_in(list[0], 0, kMostExtent);
    const auto end = integer_in(list[1], 0, kMostExtent);
    if (first && end && *first <= *end) return Range{*first, *end};
  }
  o.refuse(key, "must be [FIRST, END], END not included and not before FIRST");
}

void parse_plants(JsonObject& o, Format dtype, std::vector<Planted>& plants) {
  if (!o.has("plant")) return;
  for (const Json& plant : o.list("plant", kMostNumbers)) {
    const auto* parts = plant.get_if<Json::Array>();
    if (parts == nullptr || parts->size() != 3) o.refuse("plant", "each is [row, column, \"BITS\"]");
    const auto row = integer_in((*parts)[0], 0, kMostExtent);
    const auto col = integer_in((*parts)[1], 0, kMostExtent);
    if (!row || !col) o.refuse("plant", "rows and columns are integers from 0");
    plants.push_back({*row, *col, parse_bits(o, "plant", (*parts)[2], dtype)});
  }
}

constexpr std::array kWide{Format::bf16, Format::fp16, Format::fp32};
constexpr std::array kLogits{Format::bf16, Format::fp32};

void parse_synthetic(JsonObject& o, InputSpec& input) {
  if (o.has("ties")) {
    input.synthetic = SyntheticLogits::ties;
    input.dtype = format_named(o, "ties", o.text("ties"), kLogits);
    input.rows = o.integer("rows", 0, kMostElements);
    input.cols = o.integer("cols", 1, kMostElements);
  } else {
    input.synthetic = SyntheticLogits::loads;
    input.dtype = format_named(o, "dtype", o.text("dtype"), kLogits);
    input.loads = parse_integers(o, "loads", 0, kMostElements);
    if (input.loads.empty()) o.refuse("loads", "are at least one");
    for (const std::int64_t load : input.loads) input.rows += load;
    input.cols = static_cast<std::int64_t>(input.loads.size());
  }
  if (input.rows > kMostElements / input.cols) {
    o.refuse(input.synthetic == SyntheticLogits::ties ? "rows" : "loads",
             "call for over " + std::to_string(kMostElements) + " elements");
  }
}

constexpr std::array kHalf{Format::bf16, Format::fp16};

void parse_size(JsonObject& o, InputSpec& input) {
  input.rows = o.integer("rows", 1, kMostElements);
  input.cols = o.integer("cols", 1, kMostElements);
  if (input.rows > kMostElements / input.cols)
    o.refuse("rows", "call for over " + std::to_string(kMostElements) + " elements");
}

void parse_made_up(JsonObject& o, InputSpec& input) {
  constexpr std::int64_t kMostExponent = 100;
  input.dtype = format_named(o, "dtype", o.text("dtype"), kWide);
  parse_size(o, input);
  if (o.has("normal")) {
    input.normal = static_cast<std::uint32_t>(o.integer("normal", 0, std::numeric_limits<std::uint32_t>::max()));
    if (o.has("exponent")) input.exponent = static_cast<int>(o.integer("exponent", -kMostExponent, kMostExponent));
    return;
  }
  input.cycle = true;
  for (const Json& bits : o.list("cycle", kMostNumbers))
    input.bits.push_back(parse_bits(o, "cycle", bits, input.dtype));
  if (input.bits.empty()) o.refuse("cycle", "has one number at least");
}

void parse_bits_in_full(JsonObject& o, InputSpec& input) {
  input.dtype = format_named(o, "dtype", o.text("dtype"), kWide);
  input.rows = o.integer("rows", 0, kMostNumbers);
  input.cols = o.integer("cols", 0, kMostNumbers);
  for (const Json& bits : o.list("bits", kMostNumbers)) input.bits.push_back(parse_bits(o, "bits", bits, input.dtype));
  if (input.rows * input.cols != static_cast<std::int64_t>(input.bits.size())) {
    o.refuse("bits", "holds " + std::to_string(input.bits.size()) + " elements; rows times cols are " +
                         std::to_string(input.rows * input.cols));
  }
}

}  // namespace

Format format_named(const JsonObject& o, const std::string& key, const std::string& name, std::span<const Format> of) {
  const std::optional<Format> format = find_format(name);
  if (format && std::find(of.begin(), of.end(), *format) != of.end()) return *format;
  o.refuse(key, "'" + name + "' is none of " + join(of, ", ", [](Format f) { return spec(f).name; }));
}

std::uint32_t parse_bits(const JsonObject& o, const std::string& key, const Json& value, Format dtype) {
  const auto* text = value.get_if<std::string>();
  const auto bits = text != nullptr && text->size() <= 8 ? parse_number<std::uint32_t>(*text, 16) : std::nullopt;
  if (bits && (spec(dtype).bits == 32 || *bits >> spec(dtype).bits == 0)) return *bits;
  o.refuse(key, "bits are strings of at most " + std::to_string(spec(dtype).bits / 4) + " hexadecimal digits");
}

std::vector<std::int64_t> parse_integers(JsonObject& o, const char* key, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> numbers;
  for (const Json& value : o.list(key, kMostNumbers)) {
    const auto number = integer_in(value, low, high);
    if (!number) o.refuse(key, "are integers from " + std::to_string(low) + " to " + std::to_string(high));
    numbers.push_back(*number);
  }
  return numbers;
}

InputSpec parse_input(const Json& value, const std::string& place) {
  JsonObject o(value, place);
  InputSpec input;
  int sources = 0;
  for (const char* source : {"real", "file", "bits", "patterns", "ties", "loads", "cycle", "normal"})
    sources += o.has(source) ? 1 : 0;
  if (sources != 1) {
    throw Error(ErrorKind::usage,
                place + ": takes exactly one of real, file, bits, patterns, ties, loads, cycle, normal");
  }
  if (o.has("real")) {
    input.real = o.text("real");
  } else if (o.has("file")) {
    input.file = o.text("file");
    if (o.has("index")) input.index = o.integer("index", 0, kMostExtent);
    if (o.has("dtype")) input.file_dtype = spec(format_named(o, "dtype", o.text("dtype"), kHalf)).name;
  } else if (o.has("patterns")) {
    input.dtype = format_named(o, "patterns", o.text("patterns"), kHalf);
    input.patterns = spec(input.dtype).name;
    input.rows = input.cols = 256;
  } else if (o.has("ties") || o.has("loads")) {
    parse_synthetic(o, input);
  } else if (o.has("cycle") || o.has("normal")) {
    parse_made_up(o, input);
  } else {
    parse_bits_in_full(o, input);
  }
  if (input.file.empty()) {
    input.row_range = parse_range(o, "rows_of");
    input.col_range = parse_range(o, "cols_of");
    parse_plants(o, input.dtype, input.plants);
  }
  o.finish();
  return input;
}

std::vector<std::int64_t> parse_offsets(JsonObject& o) {
  std::vector<std::int64_t> offsets;
  if (!o.has("offsets")) return offsets;
  for (const Json& offset : o.list("offsets", kMostNumbers)) {
    const auto row = integer_in(offset, 0, kMostExtent);
    if (!row) o.refuse("offsets", "are integers from 0");
    offsets.push_back(*row);
  }
  if (offsets.empty()) o.refuse("offsets", "are at least two, or left out");
  at_place(o, "offsets", [&] { check_offsets(offsets, offsets.back()); });
  return offsets;
}

}  // namespace mxcheck
