// mxcheck quantize: one matrix from a file to codes and scales in another.

#include "numerics/format/format.h"
#include "numerics/names.h"
#include "numerics/scale/recipe.h"
#include "reference/common/matrix.h"
#include "tools/quantize/quantize_stream.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "goldens/format/offsets.h"
#include "goldens/format/quantized_file.h"
#include "goldens/io/row_reader.h"
#include "numerics/error.h"
#include "numerics/scale/recipe_words.h"
#include "numerics/text.h"
#include "reference/quantize/hadamard.h"
#include "reference/quantize/ms_eden.h"
#include "tools/common/hadamard_options.h"
#include "tools/common/output.h"
#include "tools/common/panels.h"
#include "tools/common/progress.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

constexpr const char* kDefaultRecipe = "rceil";
constexpr const char* kMsEden = "ms_eden";
constexpr const char* kStochasticBytes = "stochastic_bytes";

struct Options {
  std::string input, output;
  std::string format;  // e4m3, and e2m1 for recipes of two levels
  std::string block;   // 1x32, and 1x16 for recipes of two levels
  std::string rule, preset;
  std::string tensor_scale;
  std::optional<std::uint64_t> seed;
  std::string words, word_bytes;
  std::optional<std::uint64_t> first_call;
  HadamardOptions hadamard;
  std::string layout = "compact";
  int pad_byte = 0;
  std::string offsets;
  std::string nan, inf, rounding, op, overflow;
  std::optional<float> amax_min;
  std::optional<std::int64_t> index;
  std::string dtype;
  bool json = false;
};

Recipe chosen_recipe(const Options& o) {
  if (o.rule.empty() && o.preset.empty()) return any_recipe_named(kDefaultRecipe);
  if (o.rule.empty() || o.preset.empty()) return any_recipe_named(o.rule.empty() ? o.preset : o.rule);
  const Recipe rule = any_recipe_named(o.rule);
  const Recipe preset = any_recipe_named(o.preset);
  if (rule.name != preset.name)
    refuse_usage("--rule " + o.rule + " and --preset " + o.preset + " contradict; give one of them");
  return rule;
}

// MS-EDEN (reference/quantize/ms_eden.h) as a file's metadata has it: a recipe but for the rounding of its scales.
Recipe ms_eden_recipe(const MsEden& p) {
  Recipe r = any_recipe_named("nvfp4");
  r.name = kMsEden;
  r.checked_against = "";
  r.nan = NanPolicy::refuse;
  r.two_level.limit = p.scale_max;
  r.two_level.block = BlockQuotient::quotient_over_decode;
  r.two_level.element = ElementQuotient::over_product;
  r.two_level.of_zero_scale = 0x38;  // 1
  r.two_level.zero = ZeroTest::none;
  return r;
}

// --rounding ms_eden: a definition of its own, which leaves nothing to choose but the transform, the seed and the
// layout.
void take_ms_eden(const Options& o, QuantizeRequest& request) {
  const std::pair<const char*, bool> others[] = {
      {"--rule or --preset", !o.rule.empty() || !o.preset.empty()},
      {"--tensor-scale", !o.tensor_scale.empty()},
      {"--offsets", !o.offsets.empty()},
      {"--nan, --inf, --amax-min, --overflow or --op",
       !o.nan.empty() || !o.inf.empty() || o.amax_min || !o.overflow.empty() || !o.op.empty()},
      {"--format other than e2m1", !o.format.empty() && o.format != "e2m1"},
      {"--block other than 1x16", !o.block.empty() && o.block != "1x16"}};
  for (const auto& [name, is_given] : others) {
    if (is_given) refuse_usage(std::string("--rounding ms_eden is a recipe of its own: it takes no ") + name);
  }
  if (!o.seed) refuse_usage("--rounding ms_eden needs --seed");
  MsEden& eden = request.ms_eden.emplace();
  if (!o.hadamard.size.empty()) eden.group = parse_number<std::int64_t>(o.hadamard.size).value();
  request.recipe = ms_eden_recipe(eden);
  request.element = Format::e2m1, request.block = {1, 16};
}

// The recipe with the policies that flags replace. A replaced policy writes the bytes that the flag's help states.
Recipe recipe_of(const Options& o) {
  Recipe r = chosen_recipe(o);
  const bool fp32 = r.rule == ScaleRule::fp32;
  if (r.has_two_levels() && (!o.inf.empty() || o.amax_min || !o.op.empty())) {
    refuse_usage("--inf, --amax-min and --op are of one level of scales; " + r.name + " has two: take another preset");
  }
  if (!o.nan.empty()) {
    r.nan = value_in(kNanPolicies, o.nan).value();
    r.nan_byte = 255;
    r.nan_factor = kPoison;
  }
  if (!o.inf.empty()) {
    if (fp32) refuse_usage("--inf: " + r.name + " has FP32 scales, and an infinity makes its block NaN");
    r.inf_byte = o.inf == "nan" ? 255 : 254;
    r.inf_factor = kPoison;
  }
  if (o.amax_min) {
    if (!std::isfinite(*o.amax_min) || *o.amax_min < 0) refuse_usage("--amax-min must be finite and at least 0");
    r.amax_min = *o.amax_min;
  }
  if (o.rounding == kStochasticBytes) {
    r.rounding = Rounding::stochastic;
  } else if (!o.rounding.empty()) {
    r.rounding = value_in(kRoundings, o.rounding).value();
  }
  if ((r.rounding == Rounding::stochastic) != o.seed.has_value()) {
    refuse_usage(o.seed ? "--seed is of --rounding stochastic, stochastic_bytes and ms_eden"
                        : "--rounding " + o.rounding + " needs --seed");
  }
  if (!o.overflow.empty()) r.overflow = value_in(kOverflows, o.overflow).value();
  if (!o.op.empty()) {
    if (!fp32) refuse_usage("--op is for FP32 scales; with a power of two, dividing and multiplying are the same");
    r.scaling = o.op == "divide"     ? ElementScaling::exact
                : o.op == "multiply" ? ElementScaling::times_reciprocal
                                     : ElementScaling::times_quotient;
  }
  return r;
}

// --tensor-scale: row, or a number.
void take_tensor_scale(const Options& o, QuantizeRequest& request) {
  if (o.tensor_scale.empty()) return;
  if (!request.recipe.has_two_levels()) {
    refuse_usage("--tensor-scale is of recipes with two levels of scales; " + request.recipe.name + " has one");
  }
  request.outer_of_rows = o.tensor_scale == "row";
  if (request.outer_of_rows) return;
  char* end = nullptr;
  const float value = std::strtof(o.tensor_scale.c_str(), &end);
  if (end == o.tensor_scale.c_str() || *end != '\0') {
    refuse_usage("--tensor-scale '" + o.tensor_scale + "': must be row, or the number that is stored");
  }
  request.outer = {value};
}

// --words ORDER or ORDER:OUTPUT, --first-call, --word-bytes.
void take_words(const Options& o, QuantizeRequest& request) {
  if (o.words.empty()) {
    if (o.first_call || !o.word_bytes.empty()) refuse_usage("--first-call and --word-bytes are of --words");
    return;
  }
  if (o.rounding != kStochasticBytes) refuse_usage("--words is of --rounding stochastic_bytes");
  OrderedWords& words = request.words.emplace();
  in_place("--words", [&] { words.named = parse_words(o.words); });
  words.first = o.first_call.value_or(0);
  if (!o.word_bytes.empty()) words.bytes = value_in(kWordBytes, o.word_bytes).value();
}

// A list, or the name of a file.
std::vector<std::int64_t> offsets_of(const std::string& text) {
  if (text.empty()) return {};
  const bool is_list = text.find_first_not_of("0123456789, ") == std::string::npos;
  return is_list ? parse_offsets(text, "--offsets") : read_offsets(text);
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

// A line about the second level of scales, if there is one.
std::string outer_text(const QuantizedTensor& q) {
  if (q.levels.size() < 2 || q.levels[1].scales.empty()) return "";
  const ScaleLevel& level = q.levels[1];
  const std::string stored(to_text(level.stored));
  if (level.block.rows == 1) return fmt::format("tensor_scale ({}): one of each row\n", stored);
  return fmt::format("tensor_scale ({}): {} = {:g}\n", stored, hexfloat(level.scale(0)), level.scale(0));
}

std::string report(const Options& o, const QuantizedFile& file, const Recipe& recipe, Format source,
                   const std::optional<Hadamard>& hadamard) {
  const QuantizedTensor& q = file.matrix;
  if (!o.json) {
    return fmt::format("{}: {} x {} {} as {}, block {}, {} scales {} x {} by {}, layout {}\n", o.output, q.rows(),
                       q.cols(), spec(source).name, spec(q.element()).name, to_text(q.block()),
                       upper(spec(recipe.scale_format()).name), q.scale_rows(), q.scale_cols(), recipe.name, o.layout) +
           outer_text(q) + (hadamard ? to_text(*hadamard) + "\n" : "");
  }
  Json json{{"input", o.input},
            {"output", o.output},
            {"source_dtype", spec(source).dtype_name},
            {"format", spec(q.element()).name},
            {"block", to_text(q.block())},
            {"layout", o.layout},
            {"pad_byte", file.pad_byte},
            {"rows", q.rows()},
            {"cols", q.cols()},
            {"scale_rows", q.scale_rows()},
            {"scale_cols", q.scale_cols()},
            {"offsets", file.offsets}};
  for (const auto& [key, value] : describe(recipe)) json["policy"][key] = value;
  for (const auto& [key, value] : file.made_with) json["policy"][key] = value;
  return to_text(json) + "\n";
}

// The matrix to quantize, and the recipe; the transform waits for the matrix's type.
QuantizeRequest request_of(const Options& o) {
  QuantizeRequest request;
  request.seed = o.seed, request.has_bytes = o.rounding == kStochasticBytes;
  take_words(o, request);
  if (o.rounding == kMsEden) {
    take_ms_eden(o, request);
    return request;
  }
  request.recipe = recipe_of(o);
  const bool nested = request.recipe.has_two_levels();
  request.element = element_format_named(!o.format.empty() ? o.format : nested ? "e2m1" : "e4m3");
  request.block = block_shape_named(!o.block.empty() ? o.block : nested ? "1x16" : "1x32");
  take_tensor_scale(o, request);
  return request;
}

int run(const Options& o) {
  QuantizeRequest request = request_of(o);
  request.layout = find_scale_layout(o.layout).value();
  request.pad_byte = static_cast<std::uint8_t>(o.pad_byte);
  check_layout(request.layout, request.element, request.block, request.recipe.rule);
  check_output(o.output, OutputKinds::safetensors_or_hdf5, {o.input});
  request.offsets = offsets_of(o.offsets);
  static_cast<void>(hadamard_of(o.hadamard, Format::fp32));  // refused before anything is read

  std::optional<Progress> progress(std::in_place, "reading " + o.input);
  MatrixPanels matrix({o.input, o.index, o.dtype});
  request.hadamard = hadamard_of(o.hadamard, matrix.head().dtype);
  in_place("--offsets", [&] { check_offsets(request.offsets, matrix.head().rows); });
  in_place_of_input(o.input, o.output, [&] {
    quantize_stream(matrix, request, o.output, *progress, [&](const QuantizedFile& file) {
      progress.reset();
      print_at_once(report(o, file, request.recipe, matrix.head().dtype, request.hadamard));
    });
  });
  return 0;
}

void add_policy_options(Command& sub, const std::shared_ptr<Options>& o) {
  const std::string group = "Policies (each replaces that of the rule or preset)";
  const auto add = [&](const char* flag, std::string& to, const std::vector<std::string>& words, const char* text) {
    sub.option(flag, to, text).one_of(words).in_group(group);
  };
  add("--nan", o->nan, names_in(kNanPolicies),
      "A NaN makes its block NaN (byte 255), does not count in amax, or is refused");
  add("--inf", o->inf, {"nan", "saturate"},
      "An infinity makes its block NaN (byte 255), or gives byte 254 and saturates");
  sub.option("--amax-min", o->amax_min, "Raise every block's amax to at least this (1e-4)").in_group(group);
  std::vector<std::string> roundings = names_in(kRoundings);
  roundings.emplace_back(kStochasticBytes);
  roundings.emplace_back(kMsEden);
  add("--rounding", o->rounding, roundings,
      "Rounding of the elements; stochastic takes words from --seed, stochastic_bytes a byte of a word for four "
      "elements. ms_eden: a recipe, whose scales are rounded so");
  sub.option(
         "--seed", o->seed,
         "Key of Philox4x32-10: a word for each element, a byte by stochastic_bytes, a word for each block by ms_eden")
      .in_group(group);
  sub.option("--words", o->words,
             "stochastic_bytes: the words of a published kernel, ORDER or ORDER:OUTPUT (docs/nvfp4.md); orders: " +
                 join(word_orders(), ", ", [](const WordOrder& order) { return order.name; }) +
                 "; outputs: " + join(names_in(kWordOutputs)))
      .in_group(group);
  sub.option("--first-call", o->first_call, "--words: the first call of each thread, rng_state[1] (0 if not given)")
      .in_group(group);
  add("--word-bytes", o->word_bytes, names_in(kWordBytes),
      "--words: the bytes of a word that elements 0 to 3 have; 0213 if not given, as Blackwell's instruction");
  add("--overflow", o->overflow, names_in(kOverflows), "How to store elements above the largest value");
  add("--op", o->op, {"divide", "multiply", "quotient"}, "FP32 scales: x / s, x * (1 / s), or x * (vmax / amax)");
}

}  // namespace

void add_quantize(Command& app) {
  auto o = std::make_shared<Options>();
  Command sub = app.subcommand("quantize", "Quantize a matrix in blocks that share a scale");
  sub.option("IN", o->input,
             "FILE.npy, FILE.safetensors:TENSOR, FILE.h5:/DATASET or real:NAME; F32, BF16 or F16, two dimensions")
      .required();
  sub.option("-o,--output", o->output, "OUT.safetensors or OUT.h5, with the tensors codes and scales").required();
  sub.option("--format", o->format, "Format of the elements (default: e4m3); of recipes of two levels e2m1")
      .completes(names_of(kQuantizedFormats));
  sub.option("--block", o->block,
             "1x32, 32x1, 32x32, 1x128, 128x1, 128x128, row, 1x16, 16x1 or 16x16 (default: 1x32); of recipes of two "
             "levels 1x16")
      .completes(names_in(kBlockShapes));
  sub.option("--tensor-scale", o->tensor_scale,
             "Recipes of two levels: row for one FP32 scale a row, or the tensor's scale as it is stored, in place of "
             "what the matrix's amax gives");
  sub.option("--rule,--recipe", o->rule,
             std::string("Scale rule or preset (default: ") + kDefaultRecipe + "); mxcheck scale --list")
      .completes(recipe_names());
  sub.option("--preset", o->preset, "The same: whose bytes to reproduce (te, torchao, deepgemm, ...)")
      .completes(recipe_names());
  sub.option("--layout", o->layout, "Layout of the scales").one_of(names_in(kScaleLayouts)).shows_default();
  sub.option("--pad-byte", o->pad_byte, "What padding of tcgen05 and deepgemm holds").between(0, 255).shows_default();
  sub.option("--offsets", o->offsets, "First row of each expert, then the number of rows: 0,96,192, or a FILE of them");
  sub.option("--index", o->index, "Which matrix of a tensor with three dimensions");
  sub.option("--dtype", o->dtype, "Take unsigned 16-bit integers as the bits of this").one_of({"bf16", "fp16"});
  sub.flag("--json", o->json, "Print what was done as JSON");
  add_policy_options(sub, o);
  add_hadamard_options(sub, o->hadamard, "Hadamard transform, before quantization (docs/nvfp4.md)", "exact");
  sub.footer(
      "codes are U8 of the input's shape (U16 for e5m6). scales are U8, or F32 for rules with FP32 scales, of shape\n"
      "[ceil(rows / block rows), ceil(cols / block cols)]; with layout tcgen05 flat U8 (column blocks: of the\n"
      "transpose), with deepgemm flat U32. The file's metadata records every policy; dequantize needs no flags.\n"
      "Recipes of two levels (nvfp4, nvfp4_te, ...) add tensor_scale, F32: docs/nvfp4.md. --rounding ms_eden rounds\n"
      "E2M1 codes to nearest and their E4M3 scales stochastically, so that products are unbiased; its groups are "
      "those\n"
      "of --hadamard, else 128. Values of a transformed matrix stay transformed when they are dequantized.\n\n"
      "Examples:\n"
      "  mxcheck quantize x.npy -o q.safetensors\n"
      "  mxcheck quantize model.safetensors:layers.0.w1 -o q.safetensors --index 3 --block 32x1 --layout tcgen05\n"
      "  mxcheck quantize x.h5:/x -o q.safetensors --format e5m2 --preset te --nan refuse\n"
      "  mxcheck quantize tokens.npy -o q.safetensors --block 128x1 --rule fp32 --op multiply --offsets 0,300,512\n"
      "  mxcheck quantize w.npy -o q.safetensors --preset nvfp4_te --block 16x16\n"
      "  mxcheck quantize g.npy -o q.safetensors --preset nvfp4_te --hadamard 16 --signs 0x2d4b\n"
      "  mxcheck quantize g.npy -o q.safetensors --rounding ms_eden --hadamard 128 --signs 7 --seed 1");
  sub.runs([o] { return run(*o); });
}

namespace {

struct Panel {
  std::vector<std::byte> x;
  QuantizedTensor q;
};

class Stream {
 public:
  Stream(MatrixPanels& matrix, const QuantizeRequest& request, const std::string& output, Progress& progress)
      : matrix_(matrix),
        head_(matrix.head()),
        request_(request),
        progress_(progress),
        starts_(block_row_starts(head_.rows, request.block.rows, request.offsets)),
        quantizer_(head_.dtype, request.element, request.block, request.recipe),
        file_{{}, request.offsets, request.layout, request.pad_byte},
        writer_(output, with_shape(), request.recipe, head_.dtype) {}

  void run(const std::function<void(const QuantizedFile&)>& before_it_appears) {
    std::size_t number = 0;
    for (const PanelRange& range : panels(starts_, head_.cols * (head_.dtype == Format::fp32 ? 4 : 2))) {
      Panel& panel = panels_[number++ % 2];  // the other one is being written
      quantize_panel(panel, range.at, range.end);
      if (written_.valid()) written_.get();
      written_ = std::async(std::launch::async, [this, &panel] { append(panel); });
      progress_.now(fmt::format("quantizing {} x {}", head_.rows, head_.cols),
                    static_cast<double>(starts_[range.end]) / static_cast<double>(head_.rows));
    }
    if (written_.valid()) written_.get();
    writer_.append_scales(std::move(scales_));
    progress_.now("writing to disk");
    writer_.commit([&] {
      if (before_it_appears) before_it_appears(file_);
    });
  }

 private:
  // The file with its matrix's shape, which is what its header is made of.
  const QuantizedFile& with_shape() {
    QuantizedTensor& q = file_.matrix;
    const std::int64_t wide = request_.block.width(head_.cols);
    const std::int64_t scale_cols = head_.cols / wide + (head_.cols % wide != 0);
    q.codes = {"", request_.element, {head_.rows, head_.cols}, {}};
    q.levels = {{request_.block,
                 request_.recipe.rule,
                 {"", request_.recipe.scale_format(), {std::ssize(starts_) - 1, scale_cols}, {}}}};
    return file_;
  }

  // Rows of blocks [at, end), each a band of matrix rows.
  void quantize_panel(Panel& panel, std::size_t at, std::size_t end) {
    const std::int64_t first = starts_[at];
    const std::int64_t rows = starts_[end] - first;
    const MatrixView view = matrix_.next(rows, panel.x);
    quantizer_.quantize(view, std::span(starts_).subspan(at, end - at + 1), at,
                        offsets_within(request_.offsets, first, rows), 0, panel.q);
    scales_.insert(scales_.end(), panel.q.scales().data.begin(), panel.q.scales().data.end());
  }

  void append(const Panel& panel) { writer_.append_codes(panel.q.codes.data); }

  MatrixPanels& matrix_;
  const MatrixHead& head_;
  const QuantizeRequest& request_;
  Progress& progress_;
  std::vector<std::int64_t> starts_;
  PanelQuantizer quantizer_;
  QuantizedFile file_;
  QuantizedWriter writer_;
  std::vector<std::byte> scales_;
  Panel panels_[2];
  std::future<void> written_;  // last: it uses all the others
};

// Word i of a seed, for each element, or for each block of MS-EDEN; or an element's byte on top of zeros, by its number
// or as a kernel has it.
std::vector<std::uint32_t> random_words(const QuantizeRequest& request, const MatrixView& view) {
  if (!request.seed) return {};
  if (request.words) {
    const OrderedWords& w = *request.words;
    const WordMatrix x = word_matrix(w.named.output, view.rows, view.cols);
    return ordered_words(*w.named.order, x, {*request.seed, w.first, w.bytes});
  }
  const std::int64_t each = request.ms_eden ? request.block.cols : 1;
  std::vector<std::uint32_t> words(static_cast<std::size_t>(view.rows * view.cols / each));
  const auto word = request.has_bytes ? element_byte_word : element_word;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = word(*request.seed, i, {0, 0});
  return words;
}

// The entries of the file's metadata beside the recipe.
std::vector<std::pair<std::string, std::string>> made_with(const QuantizeRequest& request) {
  std::vector<std::pair<std::string, std::string>> found;
  if (request.hadamard) found = described(*request.hadamard);
  if (request.seed) found.emplace_back("seed", std::to_string(*request.seed));
  if (request.has_bytes) found.emplace_back("random_bits", "8");
  if (request.words) {
    found.emplace_back("words", to_text(request.words->named));
    found.emplace_back("first_call", std::to_string(request.words->first));
    found.emplace_back("word_bytes", std::string(name_in(kWordBytes, request.words->bytes)));
  }
  if (request.ms_eden) {
    found.emplace_back("scale_rounding", "stochastic");
    found.emplace_back("code_max", hexfloat(request.ms_eden->code_max));
    found.emplace_back("group", std::to_string(request.ms_eden->group));
  }
  return found;
}

// By the reference, of a matrix that is held whole, or that has nothing to read.
void quantize_whole(const MatrixView& given, const QuantizeRequest& request, const std::string& output,
                    const std::function<void(const QuantizedFile&)>& before_it_appears) {
  MatrixView view = given;
  Tensor transformed;
  if (request.hadamard) {
    transformed = hadamard(given, *request.hadamard, Along::rows);
    view = {transformed.format, transformed.data.data(), given.rows, given.cols, given.cols};
  }
  const std::vector<std::uint32_t> words = random_words(request, view);
  const QuantizeExtras extras{request.outer_of_rows, request.outer, words};
  const QuantizedFile file{
      request.ms_eden ? ms_eden(view, *request.ms_eden, words)
                      : quantize(view, request.element, request.block, request.recipe, extras, request.offsets),
      request.offsets, request.layout, request.pad_byte, made_with(request)};
  write_quantized(output, to_safetensors(file, request.recipe, given.dtype), [&] {
    if (before_it_appears) before_it_appears(file);
  });
}

}  // namespace

void quantize_stream(MatrixPanels& matrix, const QuantizeRequest& request, const std::string& output,
                     Progress& progress, const std::function<void(const QuantizedFile&)>& before_it_appears) {
  const MatrixHead& head = matrix.head();
  if (head.rows == 0 || head.cols == 0) {
    return quantize_whole({head.dtype, nullptr, head.rows, head.cols, head.cols}, request, output, before_it_appears);
  }
  if (request.recipe.has_two_levels() || request.seed || request.hadamard) {
    std::vector<std::byte> x;
    const MatrixView view = matrix.next(head.rows, x);
    progress.now(fmt::format("quantizing {} x {}", head.rows, head.cols));
    return quantize_whole(view, request, output, before_it_appears);
  }
  Stream(matrix, request, output, progress).run(before_it_appears);
}

}  // namespace mxcheck
