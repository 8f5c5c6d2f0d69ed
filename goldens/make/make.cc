#include "goldens/make/make.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <future>
#include <system_error>
#include <utility>

#include "goldens/format/offsets.h"
#include "goldens/format/writer.h"
#include "goldens/io/atomic_file.h"
#include "goldens/io/temporary_names.h"
#include "goldens/make/input.h"
#include "goldens/make/layer.h"
#include "goldens/make/routes.h"
#include "goldens/make/tables.h"
#include "numerics/error.h"
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
    fp32_ = recipe_.rule == ScaleRule::fp32;
    wide_ = golden.format == Format::e5m6;
    starts_ = block_row_starts(input_.rows, golden.block.rows, golden.offsets);
    scale_cols_ = golden.block.cols == 0 ? std::min<std::int64_t>(input_.cols, 1)
                                         : (input_.cols + golden.block.cols - 1) / golden.block.cols;
    declare();
    const auto blocks = static_cast<std::size_t>((static_cast<std::int64_t>(starts_.size()) - 1) * scale_cols_);
    fp32_ ? scales_fp32_.reserve(blocks) : scales_.reserve(blocks);  // the one thing that is held whole
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
  std::size_t declare(Role role, const std::string& name, std::string_view format, Dtype dtype,
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
    x_at_ = declare(Role::input, "x", wide_name, input_.dtype == Format::fp32 ? Dtype::u32 : Dtype::u16,
                    {input_.rows, input_.cols}, {{"meaning", "bits of the matrix to quantize"}});
    if (!golden_.offsets.empty()) {
      offsets_at_ =
          declare(Role::input, "offsets", "int64", Dtype::i64, {static_cast<std::int64_t>(golden_.offsets.size())},
                  {{"meaning", "first row of each expert, then the number of rows; blocks restart there"}});
    }
    codes_at_ = declare(Role::output, "codes", spec(golden_.format).dtype_name, wide_ ? Dtype::u16 : Dtype::u8,
                        {input_.rows, input_.cols}, {{"meaning", "one code an element, in the order of x"}});
    scales_at_ = declare(Role::output, "scales", spec(fp32_ ? Format::fp32 : Format::e8m0).dtype_name,
                         fp32_ ? Dtype::u32 : Dtype::u8, {scale_rows, scale_cols_},
                         {{"layout", "compact row-major, one a block"}});
    const bool row_blocks = golden_.block.rows == 1;
    const std::string transposed = row_blocks ? "" : ", of the transpose";
    if (golden_.tcgen05) {
      tcgen05_at_ = declare(Role::output, "scales_tcgen05", spec(Format::e8m0).dtype_name, Dtype::u8,
                            {layout_bytes(ScaleLayout::tcgen05, scale_shape())},
                            {{"layout", "tcgen05: tiles of 128 rows by 4 scale columns, 512 bytes each" + transposed}});
    }
    if (golden_.deepgemm) {
      deepgemm_at_ = declare(Role::output, "scales_deepgemm", spec(Format::e8m0).dtype_name, Dtype::u32,
                             {layout_bytes(ScaleLayout::deepgemm, scale_shape()) / 4},
                             {{"layout", "DeepGEMM: words of four scales along K, MN-major" + transposed}});
    }
    if (golden_.values) {
      values_at_ = declare(Role::output, "values", spec(Format::fp32).dtype_name, Dtype::u32,
                           {input_.rows, input_.cols}, {{"meaning", "bits of code times scale, rounded once"}});
    }
  }

  // Rows of blocks, quantized while those before are being written.
  struct Panel {
    std::vector<std::byte> x;
    Quantized q;
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
    scales_.insert(scales_.end(), panel.q.scales.begin(), panel.q.scales.end());
    for (const float scale : panel.q.scales_fp32) scales_fp32_.push_back(std::bit_cast<std::uint32_t>(scale));
    if (golden_.values) panel.values = dequantize(panel.q, offsets, options_.threads);
    return panel;
  }

  void append(const Panel& panel) {
    writer_->append(x_at_, panel.x);
    writer_->append(codes_at_,
                    wide_ ? std::as_bytes(std::span(panel.q.codes16)) : std::as_bytes(std::span(panel.q.codes)));
    if (golden_.values) writer_->append(values_at_, std::as_bytes(std::span(panel.values)));
  }

  void append_scales() {
    writer_->append(scales_at_, fp32_ ? std::as_bytes(std::span(scales_fp32_)) : std::as_bytes(std::span(scales_)));
    const auto append_in = [&](ScaleLayout layout, std::size_t at) {
      const auto bytes = to_layout(layout, scale_shape(), scales_, golden_.pad_byte);
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
  bool fp32_ = false, wide_ = false;
  std::vector<std::int64_t> starts_, by_expert_;
  std::int64_t scale_cols_ = 0;
  GoldenInfo info_;
  std::unique_ptr<GoldenWriter> writer_;
  std::size_t x_at_ = 0, offsets_at_ = 0, codes_at_ = 0, scales_at_ = 0, tcgen05_at_ = 0, deepgemm_at_ = 0,
              values_at_ = 0;
  std::vector<std::uint8_t> scales_;
  std::vector<std::uint32_t> scales_fp32_;
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
    const Undisturbed now;
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
  const Undisturbed until_all_are_there;  // a signal finds none of them at its path, or all
  for (const auto& golden : goldens) golden->commit();
  file.commit();
  made_directory.keep();
  return manifest;
}

}  // namespace mxcheck
