// mxcheck dequantize: a file of mxcheck quantize back to values.

#include "tools/quantize/quantize_stream.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "bindings/simd/simd.h"
#include "goldens/format/described_file.h"
#include "goldens/format/quantized_stream.h"
#include "goldens/io/tensor_writers.h"
#include "numerics/bytes.h"
#include "numerics/error.h"
#include "tools/common/output.h"
#include "tools/common/panels.h"
#include "tools/common/progress.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

struct DequantizeOptions {
  std::string input, output;
  std::string dtype = "f32";
  bool json = false;
};

int dequantize_run(const DequantizeOptions& o) {
  check_output(o.output, OutputKinds::npy_or_safetensors, {o.input});
  check_quantized_path(o.input, "dequantize");
  std::optional<Progress> progress(std::in_place, "reading " + o.input);
  QuantizedReader reader(o.input);
  const QuantizedTensor& q = reader.file().matrix;
  in_place_of_input(o.input, o.output, [&] {  // a code that its format does not have
    dequantize_stream(reader, o.dtype == "f32" ? Format::fp32 : Format::bf16, o.output, *progress, [&] {
      progress.reset();
      const Json json{
          {"input", o.input}, {"output", o.output}, {"dtype", o.dtype}, {"rows", q.rows()}, {"cols", q.cols()}};
      print_at_once(o.json ? to_text(json) + "\n"
                           : fmt::format("{}: {} x {} {}\n", o.output, q.rows(), q.cols(), o.dtype));
    });
  });
  return 0;
}

}  // namespace

void add_dequantize(Command& app) {
  auto o = std::make_shared<DequantizeOptions>();
  Command sub = app.subcommand("dequantize", "Values from the codes and scales that quantize wrote");
  sub.option("IN", o->input, "A safetensors file of mxcheck quantize; its metadata says how to read it").required();
  sub.option("-o,--output", o->output, "OUT.npy, or OUT.safetensors with the tensor values").required();
  sub.option("--dtype", o->dtype, "Type of the values").one_of({"f32", "bf16"}).shows_default();
  sub.flag("--json", o->json, "Print what was done as JSON");
  sub.footer(
      "Each value is code times scale, exact, then rounded once to the type (nearest even). A block whose scale is "
      "NaN\n"
      "is NaN. NumPy has no bfloat16: in OUT.npy it has dtype V2, as ml_dtypes stores it.\n\n"
      "Examples:\n"
      "  mxcheck dequantize q.safetensors -o y.npy\n"
      "  mxcheck dequantize q.safetensors -o y.safetensors --dtype bf16");
  sub.runs([o] { return dequantize_run(*o); });
}

namespace {

// Writes the values to a .npy or a .safetensors file.
class ValuesWriter {
 public:
  ValuesWriter(const std::string& path, const TensorHead& head) {
    if (path.ends_with(".npy"))
      npy_.emplace(path, head);
    else
      safetensors_.emplace(path, std::vector<NamedHead>{{"values", head}}, std::map<std::string, std::string>{});
  }
  void append(std::span<const std::byte> bytes) { npy_ ? npy_->append(bytes) : safetensors_->append(0, bytes); }
  void commit(const std::function<void()>& before_it_appears) {
    npy_ ? npy_->commit(before_it_appears) : safetensors_->commit(before_it_appears);
  }

 private:
  std::optional<NpyWriter> npy_;
  std::optional<SafetensorsWriter> safetensors_;
};

std::vector<std::byte> bytes_of_values(const QuantizedTensor& q, std::span<const std::int64_t> offsets, Format values,
                                       int threads) {
  return values == Format::fp32 ? to_bytes(dequantize(q, offsets, threads))
                                : to_bytes(dequantize_bf16(q, offsets, threads));
}

class DequantizeStream {
 public:
  DequantizeStream(QuantizedReader& reader, Format values, const std::string& output, Progress& progress)
      : reader_(reader),
        file_(reader.file()),
        values_(values),
        progress_(progress),
        width_(values == Format::fp32 ? 4 : 2),
        simd_(has_e8m0_scales() && offers_simd_values(values, file_.matrix.element(), file_.matrix.block())),
        writer_(output, {values, {file_.matrix.rows(), file_.matrix.cols()}}) {}

  void run(const std::function<void()>& before_it_appears) {
    const QuantizedTensor& all = file_.matrix;
    if (all.rows() == 0 || all.cols() == 0) return writer_.commit(before_it_appears);
    const std::vector<std::int64_t> starts = block_row_starts(all.rows(), all.block().rows, file_.offsets);
    std::size_t number = 0;
    for (const PanelRange& range : panels(starts, all.cols() * width_)) {
      std::vector<std::byte>& to = values_of_[number++ % 2];  // the other one is being written
      dequantize_panel(starts, range, to);
      if (written_.valid()) written_.get();
      written_ = std::async(std::launch::async, [this, &to] { writer_.append(to); });
      progress_.now(fmt::format("dequantizing {} x {}", all.rows(), all.cols()),
                    static_cast<double>(starts[range.end]) / static_cast<double>(all.rows()));
    }
    if (written_.valid()) written_.get();
    progress_.now("writing to disk");
    writer_.commit(before_it_appears);
  }

 private:
  [[nodiscard]] bool has_e8m0_scales() const { return file_.matrix.scales().format == Format::e8m0; }

  static Tensor rows_of(const Tensor& from, std::int64_t first, std::int64_t rows) {
    const auto row_bytes = from.cols() * static_cast<std::int64_t>(size_of(from.format));
    const auto begin = from.data.begin() + first * row_bytes;
    return {"", from.format, {rows, from.cols()}, {begin, begin + rows * row_bytes}};
  }

  // Rows of blocks [at, end) of `from`, whose first row of blocks is row 0 of its codes, as a matrix of their own.
  static QuantizedTensor part_of(const QuantizedTensor& from, std::int64_t first_row, std::int64_t rows, std::size_t at,
                                 std::size_t end) {
    const ScaleLevel& level = from.levels.front();
    QuantizedTensor part{rows_of(from.codes, first_row, rows),
                         {{level.block, level.rule,
                           rows_of(level.scales, static_cast<std::int64_t>(at), static_cast<std::int64_t>(end - at))}}};
    for (std::size_t i = 1; i < from.levels.size(); ++i) {
      part.levels.push_back(from.levels[i]);
    }
    return part;
  }

  void dequantize_panel(const std::vector<std::int64_t>& starts, const PanelRange& range, std::vector<std::byte>& to) {
    const QuantizedTensor& all = file_.matrix;
    const std::int64_t first = starts[range.at];
    const std::int64_t rows = starts[range.end] - first;
    QuantizedTensor q = part_of(all, 0, 0, range.at, range.end);  // its scales
    for (std::size_t i = 1; i < q.levels.size(); ++i) {
      Tensor& scales = q.levels[i].scales;
      if (q.levels[i].block.rows == 1) scales = rows_of(scales, first, rows);
    }
    q.codes = make_tensor(all.element(), {rows, all.cols()}, "codes");
    reader_.read_codes(q.codes.data);
    const std::vector<std::int64_t> offsets = offsets_within(file_.offsets, first, rows);
    if (!simd_) {
      to = bytes_of_values(q, offsets, values_, 0);
      return;
    }
    to.resize(q.codes.size() * static_cast<std::size_t>(width_));
    simd_dequantize(q, offsets, values_, to);
    for (std::size_t i = range.at; i < range.end; ++i) {
      if (!is_checked(i)) continue;
      const std::int64_t row = starts[i] - first;
      const QuantizedTensor band = part_of(q, row, starts[i + 1] - starts[i], i - range.at, i + 1 - range.at);
      const std::vector<std::byte> want = bytes_of_values(band, {}, values_, 1);
      if (std::memcmp(want.data(), to.data() + row * q.cols() * width_, want.size()) != 0)
        refuse_difference(starts[i], starts[i + 1]);
    }
  }

  QuantizedReader& reader_;
  const QuantizedFile& file_;
  Format values_;
  Progress& progress_;
  std::int64_t width_;
  bool simd_;
  ValuesWriter writer_;
  std::vector<std::byte> values_of_[2];
  std::future<void> written_;  // last: it uses all the others
};

}  // namespace

void dequantize_stream(QuantizedReader& reader, Format values, const std::string& output, Progress& progress,
                       const std::function<void()>& before_it_appears) {
  DequantizeStream(reader, values, output, progress).run(before_it_appears);
}

}  // namespace mxcheck
