// mxcheck identify --box: the black box is the process at the other end of standard input and output.
//
// A call is a frame on standard output: a line of JSON, then the bytes of its tensors, row-major, one after another:
//
//   {"tensors":[{"name":"a","dtype":"bf16","shape":[8,512],"bytes":8192},{"name":"b", ...}]}
//
// Codes have a byte, wider ones two or four. The box answers each with a frame of the same form on standard input
// (names are not read); the last frame is {"answer": ...}, with the members of --json.

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "goldens/json/json.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/names.h"
#include "numerics/scale/recipe_words.h"
#include "numerics/text.h"
#include "properties/identify/blocks.h"
#include "properties/identify/product.h"
#include "properties/identify/reveal.h"
#include "properties/identify/router.h"
#include "reference/common/checked_size.h"
#include "tools/identify/identify.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostOfALine = 1 << 16;
constexpr std::int64_t kMostWords = std::int64_t{1} << 24;  // of a tensor of a call

using Words = std::vector<std::uint32_t>;

struct Sent {
  const char* name;
  Format format;
  std::int64_t rows;
  std::int64_t cols;
  const Words& words;
};

struct Wanted {
  const char* name;
  std::int64_t rows;
  std::int64_t cols;
  std::vector<std::size_t> widths;    // of an element; any of them
  std::optional<Format> format = {};  // where it must be this one, and of this shape
};

struct Received {
  std::size_t width = 0;
  std::vector<std::uint64_t> words;
};

void send(const std::vector<Sent>& tensors) {
  Json described = Json::array();
  std::string data;
  for (const Sent& t : tensors) {
    const std::size_t width = size_of(t.format);
    described.push_back({{"name", t.name},
                         {"dtype", spec(t.format).name},
                         {"shape", std::vector<std::int64_t>{t.rows, t.cols}},
                         {"bytes", t.words.size() * width}});
    for (std::uint32_t word : t.words) data.append(reinterpret_cast<const char*>(&word), width);
  }
  print_at_once(to_text(Json{{"tensors", std::move(described)}}, {-1}) + "\n" + data);
}

std::string read_line() {
  std::string line;
  for (int c = std::getc(stdin); c != '\n'; c = std::getc(stdin)) {
    if (c == EOF) refuse_input("the box ended without an answer");
    if (line.size() == kMostOfALine) refuse_input("the box's answer begins with no line of at most 65536 bytes");
    line += static_cast<char>(c);
  }
  return line;
}

std::string shape_text(const Json::Array& shape) {
  std::string text;
  for (const Json& extent : shape) text += (text.empty() ? "" : ", ") + to_text(extent, {-1});
  return "(" + text + ")";
}

// The bytes are read after their number is known to be one of those that fit.
Received receive_tensor(const Json& described, const Wanted& wanted) {
  JsonObject object(described, std::string("the box's answer: ") + wanted.name);
  const std::string dtype = object.text("dtype");
  const std::string shape = shape_text(object.list("shape", 8));
  const auto bytes = static_cast<std::size_t>(object.integer("bytes", 0, std::int64_t{1} << 40));
  const std::string needed = fmt::format("({}, {})", wanted.rows, wanted.cols);
  const auto count = static_cast<std::size_t>(wanted.rows * wanted.cols);
  const bool is_right = !wanted.format || (shape == needed && find_format(dtype) == wanted.format);
  for (const std::size_t width : wanted.widths) {
    if (!is_right || bytes != count * width) continue;
    std::vector<char> data(bytes);
    if (std::fread(data.data(), 1, bytes, stdin) != bytes) {
      refuse_input(fmt::format("the box ended within the {} bytes of {}", bytes, wanted.name));
    }
    Received received{width, std::vector<std::uint64_t>(count)};
    for (std::size_t i = 0; i < count; ++i) std::memcpy(&received.words[i], data.data() + i * width, width);
    return received;
  }
  refuse_usage(fmt::format("the box's answer: {} is {} of {}, {} bytes: {} of {}, {} bytes, is needed", wanted.name,
                           shape, dtype, bytes, needed, wanted.format ? spec(*wanted.format).name : "codes or numbers",
                           count * wanted.widths[0]));
}

// One call of the box.
std::vector<Received> ask(const std::vector<Sent>& call, const std::vector<Wanted>& wanted) {
  send(call);
  const Json frame = parse_json(read_line(), "the box's answer", 8, ErrorKind::input);
  JsonObject object(frame, "the box's answer");
  const Json::Array& tensors = object.list("tensors", 64);
  if (tensors.size() != wanted.size()) {
    const std::string names = join(wanted, ", ", [](const Wanted& one) { return std::string_view(one.name); });
    refuse_usage(
        fmt::format("the box's answer has {} tensors: {} are needed, {}", tensors.size(), wanted.size(), names));
  }
  std::vector<Received> received;
  for (std::size_t i = 0; i < wanted.size(); ++i) received.push_back(receive_tensor(tensors[i], wanted[i]));
  return received;
}

Words words_in(const Received& received) { return {received.words.begin(), received.words.end()}; }

int finish(const Json& answer, bool explained) {
  print_at_once(to_text(Json{{"answer", answer}}, {-1}) + "\n");
  return explained ? 0 : 1;
}

Format format_of(const std::string& name, Format otherwise) {
  if (name.empty()) return otherwise;
  const std::optional<Format> found = find_format(name);
  if (!found) refuse_usage("unknown format '" + name + "'" + known_names(name, names_of(kAllFormats)));
  return *found;
}

Format value_format(const std::string& name, const char* flag) {
  const Format format = format_of(name, Format::fp32);
  if (!spec(format).is_value) refuse_usage(fmt::format("{} is {}: fp32, bf16 or fp16 is needed", flag, name));
  return format;
}

// Products.

Words product_by_box(const ProductCall& call) {
  std::vector<Sent> sent{{"a", call.a_format, call.m, call.k, call.a}, {"b", call.b_format, call.n, call.k, call.b}};
  if (call.scale_k != 0) {
    const std::int64_t blocks = ceil_div(call.k, call.scale_k);
    sent.push_back({"scale_a", call.scale_format, ceil_div(call.m, call.a_scale_rows), blocks, call.a_scales});
    sent.push_back({"scale_b", call.scale_format, ceil_div(call.n, call.b_scale_rows), blocks, call.b_scales});
  }
  return words_in(ask(sent, {{"D", call.m, call.n, {size_of(call.output)}, call.output}}).front());
}

ProductSpace space_asked(const IdentifyOptions& o) {
  ProductSpace space;
  space.a = format_of(o.format_a, Format::bf16), space.b = format_of(o.format_b, space.a);
  space.output = value_format(o.box.output, "--output");
  space.m = o.box.m, space.n = o.box.n, space.k = o.box.k, space.one_shape = true;
  if (std::max(space.m, space.n) > kMostWords / space.k) refuse_usage("operands of over 2^24 elements are not sent");
  if (space.m > kMostWords / space.n) refuse_usage("D is limited to 2^24 elements");
  if (o.box.scale_type.empty()) return space;
  space.scale_format = format_of(o.box.scale_type, Format::e8m0);
  if (space.scale_format != Format::e8m0 && space.scale_format != Format::fp32) {
    refuse_usage("--scale-type is " + o.box.scale_type + ": e8m0 or fp32 is needed");
  }
  const BlockShape a = block_shape_named(o.box.block_a);
  const BlockShape b = block_shape_named(o.box.block_b);
  if (a.cols != b.cols || a.cols == 0) {
    refuse_usage(fmt::format("blocks of {} and {} do not share as many elements of k", o.box.block_a, o.box.block_b));
  }
  space.scale_k = a.cols, space.a_scale_rows = a.rows, space.b_scale_rows = b.rows;
  return space;
}

// Definitions that are named, in place of all.
Match match_named(const std::vector<std::string>& definitions, const ProductSpace& space) {
  std::vector<std::string> names;
  std::vector<ProductCall> calls;
  std::vector<std::vector<std::uint32_t>> answers;
  for (auto& [name, call] : product_probes(space)) {
    answers.push_back(product_by_box(call));
    names.push_back(name), calls.push_back(std::move(call));
  }
  return match_named_products(definitions, names, calls, answers);
}

int identify_product_box(const IdentifyOptions& o) {
  const ProductSpace space = space_asked(o);
  ProductReport report;
  if (o.box.names.empty()) {
    report = identify_product(space, product_by_box, {"", TreeWanted::never});
  } else {
    report.match = match_named(o.box.names, space);
  }
  if (o.box.tree == "always" || (o.box.tree != "never" && !report.match.explained())) {
    report.order = reveal_order(space, product_by_box, o.box.checked);
  }
  // A suffix that changes nothing makes no other name.
  std::vector<std::string>& names = report.match.explaining;
  const std::vector<std::string> all = names;
  if (o.box.names.empty()) {
    std::erase_if(names, [&](const std::string& name) {
      return std::ranges::any_of(all, [&](const std::string& other) { return name.starts_with(other + "+"); });
    });
  }
  return finish(to_json(report.match, report.order), report.match.explained());
}

int identify_tree_box(const IdentifyOptions& o) {
  const TreeReport order = reveal_order(space_asked(o), product_by_box, o.box.checked);
  return finish({{"order", to_json(order)}}, order.tree.has_value());
}

// Casts: every word of BF16, where no wider type is asked for.

int identify_cast_box(const IdentifyOptions& o) {
  const Format format = format_of(o.format, Format::e4m3);
  const Format dtype = o.box.dtype.empty() ? Format::bf16 : value_format(o.box.dtype, "--dtype");
  std::vector<std::pair<std::vector<float>, Words>> answers;
  const CastBox box = [&](std::span<const float> x) {
    const auto count = static_cast<std::int64_t>(x.size());
    const Words words = value_words(dtype, x);
    answers.emplace_back(
        std::vector<float>(x.begin(), x.end()),
        words_in(ask({{"x", dtype, 1, count, words}}, {{"codes", 1, count, {size_of(format)}}}).front()));
    return answers.back().second;
  };
  Match match = identify_cast(format, box, {"", dtype});
  for (const auto& [rounding_name, rounding] : kElementRoundings) {
    for (const auto& [overflow_name, overflow] : kOverflows) {
      const std::string name = fmt::format("{}, {}", rounding_name, overflow_name);
      if (rounding == Rounding::stochastic || std::ranges::find(match.explaining, name) == match.explaining.end())
        continue;
      std::int64_t others = 0;
      for (const auto& [x, codes] : answers) {
        for (std::size_t i = 0; i < x.size(); ++i)
          others += encode(format, x[i], rounding, overflow) == codes[i] ? 0 : 1;
      }
      if (others != 0) match.notes.push_back(fmt::format("{} but for which code of NaN: {} words", name, others));
    }
  }
  return finish(to_json(match, std::nullopt), match.explained());
}

// Quantizations.

QuantizeAnswer quantized_by_box(const QuantizeCall& call) {
  const std::int64_t scale_rows = ceil_div(call.rows, call.block.height(call.rows));
  const std::int64_t scale_cols = ceil_div(call.cols, call.block.width(call.cols));
  const std::vector<Received> given =
      ask({{"x", call.dtype, call.rows, call.cols, value_words(call.dtype, call.x)}},
          {{"codes", call.rows, call.cols, {size_of(call.format)}}, {"scales", scale_rows, scale_cols, {1, 4}}});
  return {words_in(given[0]), words_in(given[1]), given[1].width == 4};
}

int identify_quantize_box(const IdentifyOptions& o) {
  const Format format = format_of(o.format, Format::e4m3);
  const BlockShape block = block_shape_named(o.block.empty() ? "1x32" : o.block);
  BlocksQuestion question{"", value_format(o.box.dtype, "--dtype")};
  for (const std::string& name : o.box.names) question.names.push_back(recipe_named(name).name);
  const QuantizeMatch found = identify_quantize(format, block, quantized_by_box, question);
  return finish(to_json(found), found.match.explained());
}

// Routers.

RouteAnswer routed_by_box(const RouteCall& call) {
  const std::vector<Received> given =
      ask({{"logits", call.dtype, call.tokens, call.experts, value_words(call.dtype, call.logits)}},
          {{"experts", call.tokens, call.top_k, {4, 8}}, {"weights", call.tokens, call.top_k, {4}}});
  RouteAnswer answer;
  for (const std::uint64_t word : given[0].words) {
    const auto expert = static_cast<std::int32_t>(word);
    if (word > UINT32_MAX && static_cast<std::int64_t>(word) != expert)
      refuse_input("the box's answer has an expert that is no index: " +
                   std::to_string(static_cast<std::int64_t>(word)));
    answer.experts.push_back(expert);
  }
  for (const std::uint32_t word : words_in(given[1])) answer.weights.push_back(std::bit_cast<float>(word));
  return answer;
}

int identify_route_box(const IdentifyOptions& o) {
  const RouteSpace space{o.box.experts, o.box.top_k, value_format(o.box.dtype, "--dtype")};
  const Match match = identify_router(space, routed_by_box);
  return finish(to_json(match, std::nullopt), match.explained());
}

}  // namespace

int identify_box(const IdentifyOptions& o) {
  if (o.box.op == "cast") return identify_cast_box(o);
  if (o.box.op == "quantize") return identify_quantize_box(o);
  if (o.box.op == "route") return identify_route_box(o);
  return o.box.op == "tree" ? identify_tree_box(o) : identify_product_box(o);
}

}  // namespace mxcheck
