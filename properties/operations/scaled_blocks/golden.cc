#include "properties/operations/scaled_blocks/golden.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "goldens/format/offsets.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
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
      : spec_(golden),
        golden_(golden.get<QuantizeGolden>()),
        options_(options),
        recipe_(recipe_named(golden_.recipe)),
        input_(open_input(golden_.input, options.input_directory)) {
    check_offsets(golden_.offsets, input_.rows);
    starts_ = block_row_starts(input_.rows, golden_.block.rows, golden_.offsets);
    scale_cols_ = golden_.block.cols == 0 ? std::min<std::int64_t>(input_.cols, 1)
                                          : (input_.cols + golden_.block.cols - 1) / golden_.block.cols;
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
    a = common_attributes(spec_);
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

  const GoldenSpec& spec_;
  const QuantizeGolden& golden_;
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

std::any parse_quantize(JsonObject& o) {
  QuantizeGolden golden;
  golden.input = parse_input(o.required("input"), o.place() + ".input");
  golden.format = format_named(o, "format", o.text("format"), kQuantizedFormats);
  golden.block = at_place(o, "block", [&] { return block_shape_named(o.text("block")); });
  golden.recipe = at_place(o, "recipe", [&] { return recipe_named(o.text("recipe")).name; });
  golden.values = o.flag("values");
  golden.offsets = parse_offsets(o);
  golden.pad_byte = parse_pad_byte(o);
  if (!o.has("layouts")) return golden;
  for (const Json& layout : o.list("layouts", 2)) {
    const std::string name = text_in(layout);
    if (name != "tcgen05" && name != "deepgemm") o.refuse("layouts", "are \"tcgen05\" and \"deepgemm\"");
    (name == "tcgen05" ? golden.tcgen05 : golden.deepgemm) = true;
  }
  const bool fp32 = !recipe_named(golden.recipe).has_e8m0_scales();
  if (fp32 || !spec(golden.format).is_element || (golden.block.rows != 1 && golden.block.cols != 1)) {
    o.refuse("layouts", "are for E8M0 scales of blocks with one row or one column, and not for e5m6");
  }
  return golden;
}

}  // namespace

std::uint8_t parse_pad_byte(JsonObject& o) {
  return o.has("pad_byte") ? static_cast<std::uint8_t>(o.integer("pad_byte", 0, 255)) : std::uint8_t{0};
}

const GoldenKind& quantize_golden_kind() {
  static const GoldenKind kKind("quantize", parse_quantize, {}, {},
                                [](const GoldenSpec& g, const std::string& path, const MakeOptions& options) {
                                  return QuantizeMaker(g, path, options).run();
                                });
  return kKind;
}

}  // namespace mxcheck
