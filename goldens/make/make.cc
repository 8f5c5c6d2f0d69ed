#include "goldens/make/make.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <future>
#include <limits>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "goldens/format/offsets.h"
#include "goldens/format/writer.h"
#include "goldens/io/atomic_file.h"
#include "goldens/io/temporary_names.h"
#include "goldens/make/boundaries.h"
#include "goldens/make/input.h"
#include "goldens/make/layer.h"
#include "goldens/make/made_up.h"
#include "goldens/make/routes.h"
#include "goldens/make/tables.h"
#include "numerics/bytes.h"
#include "numerics/elementary/elementary.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/scale/recipe.h"
#include "numerics/scale/recipe_words.h"
#include "reference/quantize/quantize.h"
#include "reference/quantize/scale_layout.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kPanelBytes = 32 << 20;

// One quantize golden on its way into the file.
class QuantizeMaker {
 public:
  QuantizeMaker(const GoldenSpec& golden, const std::string& path, const MakeOptions& options)
      : golden_(golden),
        options_(options),
        recipe_(recipe_named(golden.recipe)),
        input_(open_input(golden.input, options.input_directory)) {
    check_offsets(golden.offsets, input_.rows);
    starts_ = block_row_starts(input_.rows, golden.block.rows, golden.offsets);
    scale_cols_ = golden.block.cols == 0 ? std::min<std::int64_t>(input_.cols, 1)
                                         : (input_.cols + golden.block.cols - 1) / golden.block.cols;
    declare();
    const auto blocks = static_cast<std::size_t>((static_cast<std::int64_t>(starts_.size()) - 1) * scale_cols_);
    scales_.reserve(blocks * size_of(recipe_.scale_format()));  // the one thing that is held whole
    writer_ = std::make_unique<GoldenWriter>(path, info_, GoldenWriter::Options{options.compression, "golden"});
  }

  std::unique_ptr<GoldenWriter> run() {
    if (!golden_.offsets.empty()) writer_->append(offsets_at_, std::as_bytes(std::span(golden_.offsets)));
    const std::int64_t row_bytes = input_.cols * (input_.dtype == Format::fp32 ? 4 : 2);
    const std::int64_t target = std::max<std::int64_t>(1, kPanelBytes / std::max<std::int64_t>(1, row_bytes));
    for (std::size_t at = 0; at + 1 < starts_.size();) {
      std::size_t end = at + 1;
      while (end + 1 < starts_.size() && starts_[end + 1] - starts_[at] <= target) ++end;
      Panel panel = quantized(starts_[at], starts_[end], row_bytes);
      if (written_.valid()) written_.get();
      written_ = std::async(std::launch::async, [this, p = std::move(panel)] { append(p); });
      at = end;
      if (options_.progress) options_.progress(starts_[end], input_.rows);
    }
    if (written_.valid()) written_.get();
    append_scales();
    writer_->complete();
    return std::move(writer_);
  }

 private:
  std::size_t declare(Role role, const std::string& name, std::string_view format, Format dtype,
                      std::vector<std::int64_t> shape, Attributes attributes) {
    info_.datasets.push_back({name, role, std::string(format), dtype, std::move(shape), std::move(attributes)});
    return info_.datasets.size() - 1;
  }

  void declare() {
    const std::int64_t scale_rows = static_cast<std::int64_t>(starts_.size()) - 1;
    by_expert_ = count_scale_rows_by_expert(input_.rows, golden_.block.rows, golden_.offsets);
    Attributes& a = info_.attributes;
    a = common_attributes(golden_);
    a.emplace_back("source", input_.source);
    a.emplace_back("source_dtype", spec(input_.dtype).dtype_name);
    a.emplace_back("format", spec(golden_.format).name);
    a.emplace_back("block", to_text(golden_.block));
    a.emplace_back("rows", std::to_string(input_.rows));
    a.emplace_back("cols", std::to_string(input_.cols));
    a.emplace_back("scale_rows", std::to_string(scale_rows));
    a.emplace_back("scale_cols", std::to_string(scale_cols_));
    a.emplace_back("offsets", offsets_to_text(golden_.offsets));
    a.emplace_back("pad_byte", std::to_string(golden_.pad_byte));
    for (auto& pair : describe(recipe_)) a.push_back(std::move(pair));

    const std::string wide_name(spec(input_.dtype).dtype_name);
    x_at_ = declare(Role::input, "x", wide_name, bits_of(input_.dtype), {input_.rows, input_.cols},
                    {{"meaning", "bits of the matrix to quantize"}});
    if (!golden_.offsets.empty()) {
      offsets_at_ =
          declare(Role::input, "offsets", "int64", Format::int64, {static_cast<std::int64_t>(golden_.offsets.size())},
                  {{"meaning", "first row of each expert, then the number of rows; blocks restart there"}});
    }
    codes_at_ = declare(Role::output, "codes", spec(golden_.format).dtype_name, bits_of(golden_.format),
                        {input_.rows, input_.cols}, {{"meaning", "one code an element, in the order of x"}});
    const Format scale = recipe_.scale_format();
    scales_at_ = declare(Role::output, "scales", spec(scale).dtype_name, bits_of(scale), {scale_rows, scale_cols_},
                         {{"layout", "compact row-major, one a block"}});
    const bool row_blocks = golden_.block.rows == 1;
    const std::string transposed = row_blocks ? "" : ", of the transpose";
    if (golden_.tcgen05) {
      tcgen05_at_ = declare(Role::output, "scales_tcgen05", spec(Format::e8m0).dtype_name, Format::uint8,
                            {layout_bytes(ScaleLayout::tcgen05, scale_shape())},
                            {{"layout", "tcgen05: tiles of 128 rows by 4 scale columns, 512 bytes each" + transposed}});
    }
    if (golden_.deepgemm) {
      deepgemm_at_ = declare(Role::output, "scales_deepgemm", spec(Format::e8m0).dtype_name, Format::uint32,
                             {layout_bytes(ScaleLayout::deepgemm, scale_shape()) / 4},
                             {{"layout", "DeepGEMM: words of four scales along K, MN-major" + transposed}});
    }
    if (golden_.values) {
      values_at_ = declare(Role::output, "values", spec(Format::fp32).dtype_name, Format::uint32,
                           {input_.rows, input_.cols}, {{"meaning", "bits of code times scale, rounded once"}});
    }
  }

  // Rows of blocks, quantized while those before are being written.
  struct Panel {
    std::vector<std::byte> x;
    QuantizedTensor q;
    std::vector<float> values;
  };

  Panel quantized(std::int64_t first, std::int64_t end, std::int64_t row_bytes) {
    Panel panel;
    panel.x.resize(static_cast<std::size_t>((end - first) * row_bytes));
    input_.reader->read(panel.x);
    std::vector<std::int64_t> offsets;
    if (!golden_.offsets.empty()) {
      offsets.push_back(0);
      for (const std::int64_t offset : golden_.offsets) {
        if (offset > first && offset < end) offsets.push_back(offset - first);
      }
      offsets.push_back(end - first);
    }
    const MatrixView view{input_.dtype, panel.x.data(), end - first, input_.cols, input_.cols};
    panel.q = quantize(view, golden_.format, golden_.block, recipe_, offsets, options_.threads);
    scales_.insert(scales_.end(), panel.q.scales().data.begin(), panel.q.scales().data.end());
    if (golden_.values) panel.values = dequantize(panel.q, offsets, options_.threads);
    return panel;
  }

  void append(const Panel& panel) {
    writer_->append(x_at_, panel.x);
    writer_->append(codes_at_, panel.q.codes.data);
    if (golden_.values) writer_->append(values_at_, std::as_bytes(std::span(panel.values)));
  }

  void append_scales() {
    writer_->append(scales_at_, scales_);
    const auto append_in = [&](ScaleLayout layout, std::size_t at) {
      const auto bytes = to_layout(layout, scale_shape(), values_in<std::uint8_t>(scales_), golden_.pad_byte);
      writer_->append(at, std::as_bytes(std::span(bytes)));
    };
    if (golden_.tcgen05) append_in(ScaleLayout::tcgen05, tcgen05_at_);
    if (golden_.deepgemm) append_in(ScaleLayout::deepgemm, deepgemm_at_);
  }

  [[nodiscard]] ScaleShape scale_shape() const { return {by_expert_, scale_cols_, golden_.block}; }

  const GoldenSpec& golden_;
  const MakeOptions& options_;
  Recipe recipe_;
  InputRows input_;
  std::vector<std::int64_t> starts_, by_expert_;
  std::int64_t scale_cols_ = 0;
  GoldenInfo info_;
  std::unique_ptr<GoldenWriter> writer_;
  std::size_t x_at_ = 0, offsets_at_ = 0, codes_at_ = 0, scales_at_ = 0, tcgen05_at_ = 0, deepgemm_at_ = 0,
              values_at_ = 0;
  std::vector<std::byte> scales_;
  std::future<void> written_;  // last: it uses all the others
};

Table in_memory(const GoldenSpec& golden, const MakeOptions& options) {
  const std::string& directory = options.input_directory;
  if (golden.kind == GoldenKind::swiglu) return make_swiglu(golden, directory, options.threads);
  if (golden.kind == GoldenKind::layer) return make_layer(golden, directory, options.threads);
  return is_about_routers(golden.kind) ? make_routes(golden, directory, options.threads) : make_table(golden);
}

// Complete, and not yet at its path.
std::unique_ptr<GoldenWriter> written(const GoldenSpec& golden, const std::string& path, const MakeOptions& options) {
  if (golden.kind == GoldenKind::quantize) return QuantizeMaker(golden, path, options).run();
  const Table table = in_memory(golden, options);
  auto writer = std::make_unique<GoldenWriter>(path, table.info, GoldenWriter::Options{options.compression, "golden"});
  for (std::size_t i = 0; i < table.data.size(); ++i) writer->append(i, table.data[i]);
  writer->complete();
  return writer;
}

std::unique_ptr<GoldenWriter> written_in(const std::string& directory, const GoldenSpec& golden,
                                         const MakeOptions& options) {
  try {
    return written(golden, (std::filesystem::path(directory) / (golden.name + ".h5")).string(), options);
  } catch (const Error& e) {
    throw Error(e.kind(), "golden " + golden.name + ": " + e.what());
  }
}

// A directory and those above it, made if they are not there, and removed again unless they are kept.
class MadeDirectory {
 public:
  explicit MadeDirectory(const std::string& path) {
    std::error_code failed;
    for (std::filesystem::path at = std::filesystem::absolute(path, failed).lexically_normal();
         !failed && !at.empty() && !std::filesystem::exists(at, failed); at = at.parent_path()) {
      made_.push_back(at);
    }
    const SignalBlocker now;
    std::filesystem::create_directories(path, failed);
    for (const std::filesystem::path& at : made_) remember_temporary(at.string());
    if (failed) throw Error(ErrorKind::usage, path + ": cannot be made a directory (" + failed.message() + ")");
  }
  MadeDirectory(const MadeDirectory&) = delete;
  MadeDirectory& operator=(const MadeDirectory&) = delete;
  ~MadeDirectory() {
    std::error_code not_empty;  // somebody else's files have come meanwhile
    for (const std::filesystem::path& at : made_) std::filesystem::remove(at, not_empty);
    keep();
  }
  void keep() {
    for (const std::filesystem::path& at : made_) forget_temporary(at.string());
    made_.clear();
  }

 private:
  std::vector<std::filesystem::path> made_;  // the innermost first
};

}  // namespace

ManifestEntry make_golden(const GoldenSpec& golden, const std::string& directory, const MakeOptions& options) {
  return written_in(directory, golden, options)->commit();
}

Manifest make_suite(const GoldenSuite& suite, const std::string& directory, const MakeOptions& options,
                    const std::function<void(const ManifestEntry&)>& made) {
  MadeDirectory made_directory(directory);
  const std::string path = (std::filesystem::path(directory) / kManifestName).string();
  Manifest manifest;
  std::error_code failed;
  if (std::filesystem::exists(path, failed)) manifest = read_manifest(path);
  manifest.generator = options.generator;
  std::vector<std::unique_ptr<GoldenWriter>>
      goldens;  // none appears before all of them and the manifest are on the disk
  for (const GoldenSpec& golden : suite.goldens) {
    goldens.push_back(written_in(directory, golden, options));
    const ManifestEntry entry = goldens.back()->complete();
    std::erase_if(manifest.entries, [&](const ManifestEntry& old) { return old.name == entry.name; });
    manifest.entries.push_back(entry);
    if (made) made(entry);
  }
  std::sort(manifest.entries.begin(), manifest.entries.end(),
            [](const ManifestEntry& a, const ManifestEntry& b) { return a.name < b.name; });
  AtomicFile file(path);
  file.write(to_text(manifest));
  file.complete();
  if (options.before_they_appear) options.before_they_appear();
  const SignalBlocker until_all_are_there;  // a signal finds none of them at its path, or all
  for (const auto& golden : goldens) golden->commit();
  file.commit();
  made_directory.keep();
  return manifest;
}

namespace {

constexpr std::uint32_t kNormal = 0x6E6F726D;  // apart from the other uses of philox_word

Tensor tensor_of(const InputSpec& input) {
  const Format dtype = input.dtype == Format::fp32   ? Format::fp32
                       : input.dtype == Format::bf16 ? Format::bf16
                                                     : Format::fp16;
  Tensor tensor{"x", dtype, {input.rows, input.cols}, {}};
  tensor.data.resize(static_cast<std::size_t>(input.rows * input.cols) * size_of(dtype));
  return tensor;
}

template <class Bits>
Tensor filled(const InputSpec& input, Bits bits_of) {
  Tensor tensor = tensor_of(input);
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

namespace {

constexpr std::int64_t kScaleBytes = 256;
constexpr std::int64_t kBlock = 32;

class Builder {
 public:
  explicit Builder(const GoldenSpec& golden) { table_.info.attributes = common_attributes(golden); }

  template <class T>
  void add(Role role, const std::string& name, Format format, std::vector<std::int64_t> shape,
           const std::vector<T>& values, Attributes attributes = {}) {
    constexpr Format kDtype = sizeof(T) == 1 ? Format::uint8 : sizeof(T) == 2 ? Format::uint16 : Format::uint32;
    table_.info.datasets.push_back(
        {name, role, std::string(spec(format).dtype_name), kDtype, std::move(shape), std::move(attributes)});
    table_.data.push_back(to_bytes(values));
  }
  // Codes in the smallest unsigned integer that holds them.
  void add_codes(Role role, const std::string& name, Format format, std::vector<std::int64_t> shape,
                 const std::vector<std::uint32_t>& codes, Attributes attributes = {}) {
    if (spec(format).bits <= 8) {
      add(role, name, format, std::move(shape), std::vector<std::uint8_t>(codes.begin(), codes.end()),
          std::move(attributes));
    } else {
      add(role, name, format, std::move(shape), std::vector<std::uint16_t>(codes.begin(), codes.end()),
          std::move(attributes));
    }
  }
  void words(Role role, const std::string& name, std::vector<std::int64_t> shape,
             const std::vector<std::uint32_t>& values, Attributes attributes) {
    add(role, name, Format::fp32, std::move(shape), values, std::move(attributes));
    table_.info.datasets.back().format = "uint32";
  }
  void attribute(const std::string& key, const std::string& value) { table_.info.attributes.emplace_back(key, value); }
  Table take() { return std::move(table_); }

 private:
  Table table_;
};

std::vector<std::int64_t> vector_of(std::size_t count) { return {static_cast<std::int64_t>(count)}; }

Table make_formats(const GoldenSpec& golden) {
  Builder table(golden);
  for (const Format format : golden.formats) {
    std::vector<std::uint32_t> values;
    for (std::uint32_t code = 0; code < std::uint32_t{1} << spec(format).bits; ++code) {
      const auto value = static_cast<float>(decode(format, code));  // every format's values are floats
      values.push_back(std::isnan(value) ? 0x7FC00000 : std::bit_cast<std::uint32_t>(value));
    }
    table.add(Role::output, std::string(spec(format).name), Format::fp32, vector_of(values.size()), values,
              {{"meaning", "value of every code of " + std::string(spec(format).dtype_name) + "; index = code"}});
  }
  return table.take();
}

// Words whose carries lie on the edges, then a fixed scramble of the index.
std::uint32_t stochastic_word(std::size_t index) {
  constexpr std::uint32_t kEdges[] = {0, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF};
  if (index % 2 == 0) return kEdges[index / 2 % 4];
  return static_cast<std::uint32_t>(index) * 2654435761U;
}

Table make_casts(const GoldenSpec& golden) {
  Builder table(golden);
  table.attribute("format", std::string(spec(golden.format).name));
  const std::vector<std::uint32_t> x = cast_boundaries(golden.format);
  table.add(Role::input, "x", Format::fp32, vector_of(x.size()), x, {{"meaning", "bits of the floats to cast"}});
  std::vector<std::uint32_t> words;
  for (std::size_t i = 0; i < x.size(); ++i) words.push_back(stochastic_word(i));
  table.words(Role::input, "random_words", vector_of(x.size()), words,
              {{"meaning", "for stochastic_saturate: added to the first 32 bits of the discarded fraction"}});
  std::vector<Rounding> roundings;
  for (const auto& entry : kElementRoundings) roundings.push_back(entry.value);
  if (golden.format == Format::e8m0) roundings.push_back(Rounding::upward);
  const auto add = [&](Rounding how, Overflow beyond) {
    const std::string rounding(to_text(how)), overflow(to_text(beyond));
    std::vector<std::uint32_t> codes;
    for (std::size_t i = 0; i < x.size(); ++i) {
      codes.push_back(encode(golden.format, std::bit_cast<float>(x[i]), how, beyond, words[i]));
    }
    table.add_codes(Role::output, rounding + "_" + overflow, golden.format, vector_of(codes.size()), codes,
                    {{"rounding", rounding}, {"overflow", overflow}});
  };
  for (const Rounding how : roundings) {
    for (const auto& entry : kOverflows) add(how, entry.value);
  }
  add(Rounding::stochastic, Overflow::saturate);
  return table.take();
}

Table make_scales(const GoldenSpec& golden) {
  Builder table(golden);
  table.attribute("format", std::string(spec(golden.format).name));
  const std::vector<std::uint32_t> amax = amax_boundaries(golden.format);
  table.add(Role::input, "amax", Format::fp32, vector_of(amax.size()), amax,
            {{"meaning", "bits of a block's largest magnitude, as a number"}});
  for (const Recipe& recipe : all_recipes()) {
    Attributes attributes = describe(recipe);
    if (recipe.rule == ScaleRule::fp32) {
      std::vector<std::uint32_t> scales;
      for (const std::uint32_t bits : amax) {
        const auto value = std::bit_cast<float>(bits);
        const float scale =
            block_scale(recipe, golden.format, {std::isnan(value) ? 0 : std::fabs(value), std::isnan(value)}).scale;
        scales.push_back(std::isnan(scale) ? 0x7FC00000 : std::bit_cast<std::uint32_t>(scale));
      }
      table.add(Role::output, recipe.name, Format::fp32, vector_of(amax.size()), scales, std::move(attributes));
      continue;
    }
    std::vector<std::uint8_t> scales;
    for (const std::uint32_t bits : amax) {
      scales.push_back(scale_byte_for_amax(recipe, golden.format, std::bit_cast<float>(bits)));
    }
    table.add(Role::output, recipe.name, Format::e8m0, vector_of(amax.size()), scales, std::move(attributes));
  }
  return table.take();
}

Table make_layout(const GoldenSpec& golden) {
  Builder table(golden);
  table.attribute("rows", std::to_string(golden.rows));
  table.attribute("cols", std::to_string(golden.cols));
  table.attribute("pad_byte", std::to_string(golden.pad_byte));
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(golden.rows * golden.cols));
  for (std::size_t i = 0; i < scales.size(); ++i) {  // never the pad byte, and scrambled: a slot shows where it is from
    const auto byte = static_cast<std::uint8_t>((static_cast<std::uint32_t>(i) * 2654435761U) >> 24);
    scales[i] = byte == golden.pad_byte ? static_cast<std::uint8_t>(byte ^ 1) : byte;
  }
  table.add(Role::input, "scales", Format::e8m0, {golden.rows, golden.cols}, scales, {{"layout", "compact row-major"}});
  const ScaleShape shape{{golden.rows}, golden.cols};
  const std::vector<std::uint8_t> tiles = to_layout(ScaleLayout::tcgen05, shape, scales, golden.pad_byte);
  table.add(Role::output, "tcgen05", Format::e8m0, vector_of(tiles.size()), tiles,
            {{"layout", "tcgen05: tiles of 128 rows by 4 columns, 512 bytes each"}});
  const std::vector<std::uint8_t> bytes = to_layout(ScaleLayout::deepgemm, shape, scales, golden.pad_byte);
  const auto packed = values_in<std::uint32_t>(std::as_bytes(std::span(bytes)));
  table.add(Role::output, "deepgemm", Format::e8m0, vector_of(packed.size()), packed,
            {{"layout", "DeepGEMM: words of four columns' bytes, little-endian, MN-major, rows padded to 4"}});
  return table.take();
}

Table make_dequantize(const GoldenSpec& golden) {
  Builder table(golden);
  const std::size_t codes = std::size_t{1} << spec(golden.format).bits;
  const std::size_t cols = std::max<std::size_t>(kBlock, codes);
  const std::size_t scale_cols = cols / kBlock;
  QuantizedTensor q = make_quantized(golden.format, kScaleBytes, static_cast<std::int64_t>(cols), {1, kBlock},
                                     Format::e8m0, kScaleBytes, static_cast<std::int64_t>(scale_cols));
  for (std::size_t i = 0; i < q.codes.size(); ++i) q.codes.set_code(i, static_cast<std::uint32_t>(i % cols % codes));
  for (std::size_t i = 0; i < q.scales().size(); ++i) {
    q.scales().set_code(i, static_cast<std::uint32_t>(i / scale_cols));
  }
  table.attribute("format", std::string(spec(golden.format).name));
  table.attribute("block", "1x32");
  table.attribute("rows", std::to_string(q.rows()));
  table.attribute("cols", std::to_string(q.cols()));
  table.add(Role::input, "codes", golden.format, q.codes.shape, q.codes.data);
  table.add(Role::input, "scales", Format::e8m0, q.scales().shape, q.scales().data);
  std::vector<std::uint32_t> values;
  for (const float value : dequantize(q)) values.push_back(std::bit_cast<std::uint32_t>(value));
  table.add(Role::output, "values", Format::fp32, {q.rows(), q.cols()}, values,
            {{"meaning", "code times scale, rounded once to nearest even; NaN is 0x7fc00000"}});
  table.add(Role::output, "values_bf16", Format::bf16, {q.rows(), q.cols()}, dequantize_bf16(q),
            {{"meaning", "code times scale, rounded once to nearest even; NaN is 0x7fc0"}});
  return table.take();
}

}  // namespace

Attributes common_attributes(const GoldenSpec& golden) {
  return {{"kind", std::string(to_text(golden.kind))}, {"name", golden.name}, {"description", golden.description}};
}

Table make_table(const GoldenSpec& golden) {
  switch (golden.kind) {
    case GoldenKind::formats: return make_formats(golden);
    case GoldenKind::casts: return make_casts(golden);
    case GoldenKind::scales: return make_scales(golden);
    case GoldenKind::layout: return make_layout(golden);
    case GoldenKind::dequantize: return make_dequantize(golden);
    default: break;
  }
  throw Error(ErrorKind::internal, "a golden that is no table");
}

namespace {

constexpr std::uint32_t kSign = 0x80000000;
constexpr std::uint32_t kInfinity = 0x7F800000;
constexpr std::uint32_t kSpecials[] = {0x00000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x00800001, 0x7F7FFFFF,
                                       0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FC00001, 0x7FFFFFFF};

// Tells apart every pair of scale rules in use that differ anywhere: zeros and subnormals around 2^-133 and 2^-127, the
// single exceptions of the FP32 shortcuts (0x04600001, 0x07e00001, 0x01400001, 0x047fffff), approximate logarithms
// (0x01000000, 0x01000001), amax clamps (1e-10, 1e-4), 448 times 1.125, 1.25 and 1.375, and E4M3's rounding of 464,
// 480.
constexpr std::uint32_t kRules[] = {0x00000000, 0x80000000, 0x00000001, 0x000000E0, 0x00010000, 0x00400000, 0x00400001,
                                    0x01000000, 0x01000001, 0x01400000, 0x01400001, 0x01400002, 0x04600000, 0x04600001,
                                    0x04600002, 0x04733333, 0x047FFFFF, 0x04E00001, 0x07E00000, 0x07E00001, 0x07E00002,
                                    0x2EDBE6FF, 0x38D1B717, 0x43CC0000, 0x43E00000, 0x43E00001, 0x43E80000, 0x43F00000,
                                    0x43F80000, 0x43FC0000, 0x440C0000, 0x441A0000, 0x43FFFFFF, 0x47E00001, 0x63E00001,
                                    0x7F7FFFFF, 0x7F800000, 0x7FC00000};

// By magnitude, the positive one of two first.
std::vector<std::uint32_t> sorted(const std::set<std::uint32_t>& patterns) {
  std::vector<std::uint32_t> all(patterns.begin(), patterns.end());
  std::sort(all.begin(), all.end(), [](std::uint32_t a, std::uint32_t b) {
    return std::pair(a & ~kSign, a & kSign) < std::pair(b & ~kSign, b & kSign);
  });
  return all;
}

void add_around(std::set<std::uint32_t>& patterns, double magnitude) {
  const auto value = static_cast<float>(magnitude);
  if (!std::isfinite(value) || static_cast<double>(value) != magnitude) return;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (const std::uint32_t near : {bits - 1, bits, bits + 1}) {
    if (near < kInfinity) patterns.insert(near);  // bits - 1 of zero is none
  }
}

}  // namespace

std::vector<std::uint32_t> cast_boundaries(Format format) {
  std::set<double> values;
  for (std::uint32_t code = 0; code < std::uint32_t{1} << spec(format).bits; ++code) {
    const double value = std::fabs(decode(format, code));
    if (std::isfinite(value)) values.insert(value);
  }
  const double largest = *values.rbegin();
  values.insert(largest + (largest - *std::next(values.rbegin())));
  std::set<std::uint32_t> patterns(std::begin(kSpecials), std::end(kSpecials));
  double below = 0;
  for (const double value : values) {
    add_around(patterns, value);
    add_around(patterns, (below + value) / 2);
    below = value;
  }
  std::set<std::uint32_t> both = patterns;
  for (const std::uint32_t bits : patterns) both.insert(bits | kSign);
  return sorted(both);
}

std::vector<std::uint32_t> amax_boundaries(Format element) {
  std::set<std::uint32_t> patterns(std::begin(kRules), std::end(kRules));
  const double largest = decode(element, spec(element).max_code);
  constexpr int kFirst = -149;
  constexpr int kLast = 127;
  for (int k = kFirst; k <= kLast; ++k) {
    add_around(patterns, std::ldexp(1.0, k));
    add_around(patterns, std::ldexp(1.5, k));
    add_around(patterns, largest * std::ldexp(1.0, k - std::ilogb(largest)));
  }
  return sorted(patterns);
}

}  // namespace mxcheck
