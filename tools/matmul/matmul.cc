// mxcheck matmul: D = A B^T of two files of mxcheck quantize, as a kernel under a named contract must give it.

#include "numerics/accumulate/contract.h"
#include "tools/matmul/operands.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "goldens/format/quantized_file.h"
#include "goldens/io/byte_source.h"
#include "numerics/error.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "reference/matmul/matmul.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

struct Options {
  std::string a, b, c, output;
  std::string contract = "exact";
  std::string dtype = "f32";
  std::string groups = "none";
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t experts = 1;
  float alpha = 1;
  std::string explain;
  std::int64_t expert = 0;
  bool json = false;
};

// The matrix as it was quantized is rows x k, or, transposed, k x rows.
MatmulOperand operand_of(const QuantizedTensor& q, bool transposed) {
  MatmulOperand x;
  x.format = q.element();
  x.codes = q.codes.data.data();
  x.rows = transposed ? q.cols() : q.rows();
  x.depth = transposed ? q.rows() : q.cols();
  x.row_stride = transposed ? 1 : q.cols();
  x.depth_stride = transposed ? q.cols() : 1;
  const BlockShape block{q.block().height(q.rows()), q.block().width(q.cols())};
  x.block = transposed ? block.transposed() : block;
  x.scale_format = q.scales().format;
  x.scales = q.scales().data.data();
  x.scale_row_stride = transposed ? 1 : q.scale_cols();
  x.scale_depth_stride = transposed ? q.scale_cols() : 1;
  return x;
}

QuantizedFile read(const std::string& path) {
  check_quantized_path(path, "matmul");
  QuantizedFile file = from_safetensors(read_safetensors(path), path);
  const Format element = file.matrix.element();
  if (!spec(element).is_element) {
    throw Error(ErrorKind::input,
                path + ": " + std::string(spec(element).name) + " codes are no operands of a product");
  }
  check_codes(element, file.matrix.codes.data, path);
  return file;
}

// Groups: offsets that the quantizer wrote with its blocks.
void set_groups(const Options& o, Matmul& p, const QuantizedFile& a, const QuantizedFile& b) {
  if (o.groups == "none") {
    const bool split =
        (a.offsets.size() > 2 && a.matrix.block().rows != 1) || (b.offsets.size() > 2 && b.matrix.block().rows != 1);
    if (split)
      throw Error(ErrorKind::usage, "blocks restart at experts in these files: --groups rows or depth is needed");
    return;
  }
  p.grouping = o.groups == "rows" ? Grouping::rows : Grouping::depth;
  p.offsets = a.offsets;
  if (a.offsets.empty()) throw Error(ErrorKind::input, o.a + ": has no offsets; quantize --offsets writes them");
  if (p.grouping == Grouping::depth) {
    if (!o.transpose_a || !o.transpose_b) {
      throw Error(ErrorKind::usage,
                  "--groups depth sums over tokens, the rows of both files: --transpose-a --transpose-b");
    }
    if (a.offsets != b.offsets) throw Error(ErrorKind::input, o.b + ": has other offsets than " + o.a);
    return;
  }
  const std::int64_t experts = p.experts();
  if (o.transpose_a || o.transpose_b || p.b.rows % experts != 0) {
    throw Error(ErrorKind::usage,
                fmt::format("--groups rows: {} holds the weights of {} experts, one after another", o.b, experts));
  }
  p.b.rows /= experts;
  const bool restarts = b.offsets.size() == a.offsets.size();  // quantized expert by expert
  if (p.b.block.rows != 1 && p.b.rows % p.b.block.rows != 0 && !restarts) {
    throw Error(ErrorKind::usage,
                fmt::format("{}: blocks of {} rows run across experts of {}; quantize them with --offsets", o.b,
                            p.b.block.rows, p.b.rows));
  }
}

Tensor read_c(const std::string& location, const Tensor& d) {
  Tensor c = read_tensor(location);
  if (c.format == d.format && c.shape == d.shape) return c;
  refuse_c(location, c,
           fmt::format("C has D's type and shape: {} of {}", safetensors_name(d.format), shape_to_text(d.shape)));
}

Json side_json(const std::string& file, const MatmulOperand& x) {
  return {
      {"input", file}, {"format", spec(x.format).name}, {"block", to_text(x.block)}, {"rows", x.rows}, {"k", x.depth}};
}

// The answer as JSON: the explained output, the file that was written, or both.
Json answer_json(const Options& o, const Matmul& p, const Tensor& d) {
  return {{"output", o.output},
          {"contract", to_text(p.contract)},
          {"a", side_json(o.a, p.a)},
          {"b", side_json(o.b, p.b)},
          {"d", {{"dtype", safetensors_name(d.format)}, {"shape", d.shape}}}};
}

int run(const Options& o) {
  if (o.output.empty() && o.explain.empty()) throw Error(ErrorKind::usage, "-o or --explain is needed");
  if (!o.output.empty()) check_output(o.output, OutputKinds::npy_or_safetensors, {o.a, o.b, o.c});
  Matmul p;
  p.contract = parse_matmul_contract(o.contract);
  std::atomic<std::int64_t> rows_done = 0;  // outlives progress
  p.rows_done = &rows_done;
  std::optional<Progress> progress(std::in_place, "reading " + o.a);
  const QuantizedFile a = read(o.a);
  const QuantizedFile b = read(o.b);
  p.a = operand_of(a.matrix, o.transpose_a);
  p.b = operand_of(b.matrix, o.transpose_b);
  p.output = o.dtype == "f32" ? Format::fp32 : Format::bf16;
  p.alpha = o.alpha;
  set_groups(o, p, a, b);
  Tensor d{"d", o.dtype == "f32" ? Format::fp32 : Format::bf16, {}, {}};
  if (p.grouping == Grouping::depth) d.shape.push_back(p.experts());
  d.shape.insert(d.shape.end(), {p.m(), p.b.rows});
  Tensor c;
  if (!o.c.empty()) {
    c = read_c(o.c, d);
    p.c = c.data.data();
  }
  Json json = answer_json(o, p, d);
  std::string text;
  if (!o.explain.empty()) {
    const std::pair place = parse_place(o.explain, "--explain");
    const std::vector<std::string> lines = explain_output(p, o.expert, place.first, place.second).lines;
    json["explained"] = explained_json(place, lines);
    for (const std::string& line : lines) text += line + "\n";
  }
  if (o.output.empty()) {
    progress.reset();
    print(o.json ? to_text(json) + "\n" : text);
    return 0;
  }
  progress->watch("multiplying", [&, all = static_cast<double>(p.rows_of_d())] {
    return static_cast<double>(rows_done) / std::max(1.0, all);
  });
  d.data = room_for(checked_bytes(d.shape, size_of(d.format), o.output), o.output);
  matmul(p, d.data.data());
  progress->now("writing " + o.output);
  text += fmt::format("{}: {} {} = {} {} by {} {} over k = {}, contract {}\n", o.output, shape_to_text(d.shape),
                      o.dtype, spec(p.a.format).name, to_text(p.a.block), spec(p.b.format).name, to_text(p.b.block),
                      p.a.depth, to_text(p.contract));
  write_result(o.output, std::move(d), [&] {
    progress.reset();
    print_at_once(o.json ? to_text(json) + "\n" : text);
  });
  return 0;
}

}  // namespace

void add_matmul(Command& app) {
  auto o = std::make_shared<Options>();
  Command sub = app.subcommand("matmul", "The product of two quantized matrices under a named contract");
  sub.option("A", o->a, "A safetensors file of mxcheck quantize: m x k").required();
  sub.option("B", o->b, "Another file of mxcheck quantize: n x k").required();
  sub.option("-o,--output", o->output, "D, m x n: OUT.npy or OUT.safetensors with the tensor d").not_empty();
  sub.option("--contract", o->contract, "sm90_fp8+promote128, sm90_bf16+decode, exact, ...: what the kernel claims")
      .completes(names_in(all_contracts()))
      .shows_default();
  sub.option("--dtype", o->dtype, "Type of D").one_of({"f32", "bf16"}).shows_default();
  sub.option("--c", o->c, "C, added to the sums: of D's type and shape").not_empty();
  sub.option("--alpha", o->alpha, "Multiplies the sums before C is added").finite_fp32().shows_default();
  sub.flag("--transpose-a", o->transpose_a, "A's file holds k x m: the sum runs over its rows");
  sub.flag("--transpose-b", o->transpose_b, "B's file holds k x n");
  sub.option(
         "--groups", o->groups,
         "rows: experts have rows of A each, and matrices of B one below the other; depth: D is one matrix an expert")
      .one_of({"none", "rows", "depth"})
      .shows_default();
  sub.option("--explain", o->explain, "ROW,COLUMN of an output to show step by step").not_empty();
  sub.option("--expert", o->expert, "Of which matrix of D, with --groups depth");
  sub.flag("--json", o->json, "Print what was done, and what is explained, as JSON");
  sub.footer(
      "A contract is the name of a sum (mxcheck mma --list) and what a kernel does on top of it:\n"
      "  +promoteN  every N of k the sum is multiplied by the scales and added to an FP32 sum: fma(sum, sa * sb, acc)\n"
      "  +a_first, +b_first  fma(sum * sa, sb, acc) and fma(sum * sb, sa, acc)\n"
      "  +decode    operands become BF16 first: code * scale, ties to even\n"
      "  +descending  the last of k first\n"
      "Offsets, for --groups, are those that the files were quantized with.\n\n"
      "Examples:\n"
      "  mxcheck matmul x.safetensors w.safetensors --contract sm90_fp8+promote128 --dtype bf16 -o y.npy\n"
      "  mxcheck matmul x.safetensors w.safetensors --contract sm90_bf16+decode --explain 0,5\n"
      "  mxcheck matmul dy.safetensors x.safetensors --transpose-a --transpose-b --groups depth -o dw.npy");
  sub.runs([o] { return run(*o); });
}

Stack stack_of(const Tensor& t, const std::string& location) {
  if (t.shape.size() != 2 && t.shape.size() != 3) {
    throw Error(ErrorKind::input, location + ": has " + std::to_string(t.shape.size()) +
                                      " dimensions; a matrix, or a batch of matrices, is needed");
  }
  Stack s;
  s.batched = t.shape.size() == 3;
  s.count = s.batched ? t.shape[0] : 1;
  s.rows = t.shape[t.shape.size() - 2], s.cols = t.shape.back();
  return s;
}

Format code_format(const std::string& name, const Tensor& t, const std::string& location) {
  const auto width = static_cast<int>(size_of(t.format)) * 8;
  if (name.empty()) {
    switch (t.format) {
      case Format::uint8: return Format::e4m3;
      case Format::e2m1:
      case Format::e4m3:
      case Format::e5m2: return t.format;
      case Format::uint16:
      case Format::bf16: return Format::bf16;
      case Format::fp16: return Format::fp16;
      case Format::fp32:
      case Format::uint32: return Format::fp32;
      default: break;
    }
    throw Error(ErrorKind::input, location + ": is " + safetensors_name(t.format) +
                                      "; codes are U8, F8_E4M3, F8_E5M2, F4 or U16, values BF16, F16 or F32");
  }
  const auto format = find_format(name);
  if (!format) refuse_usage("'" + name + "' is no format" + known_names(name, names_of(kAllFormats)));
  const int needed = spec(*format).bits <= 8 ? 8 : spec(*format).bits <= 16 ? 16 : 32;
  const bool integers = t.format == Format::uint8 || t.format == Format::uint16 || t.format == Format::uint32;
  const bool itself = t.format == *format;  // BF16, F16, F32, F8_E4M3, F8_E5M2, F4
  if ((!integers && !itself) || width != needed) {
    throw Error(ErrorKind::input, location + ": is " + safetensors_name(t.format) + "; " +
                                      std::string(spec(*format).name) + " codes are U" + std::to_string(needed) +
                                      (t.format == Format::e4m3 || t.format == Format::e5m2 || t.format == Format::e2m1
                                           ? ": codes of one format are not read as another's"
                                           : ""));
  }
  return *format;
}

void check_codes(Format format, std::span<const std::byte> codes, const std::string& location) {
  const int bits = spec(format).bits;
  if (bits >= 8) return;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const int code = std::to_integer<int>(codes[i]);
    if (code >> bits == 0) continue;
    throw Error(ErrorKind::input, location + ": code " + std::to_string(code) + " at place " + std::to_string(i) +
                                      ": " + std::string(spec(format).name) + " codes are 0 to " +
                                      std::to_string((1 << bits) - 1) + ", one a byte");
  }
}

std::pair<std::int64_t, std::int64_t> parse_place(const std::string& text, const std::string& flag) {
  const std::size_t comma = std::min(text.find(','), text.size());
  const auto row = parse_number<std::int64_t>(std::string_view(text).substr(0, comma));
  const auto col = parse_number<std::int64_t>(std::string_view(text).substr(std::min(comma + 1, text.size())));
  if (!row || !col || *row < 0 || *col < 0) {
    throw Error(ErrorKind::usage, flag + " " + text + ": an output is named ROW,COLUMN");
  }
  return {*row, *col};
}

void write_result(const std::string& output, Tensor d, const std::function<void()>& before_it_appears) {
  if (output.ends_with(".npy")) return write_npy(output, d, before_it_appears);
  write_safetensors(output, {{std::move(d)}, {}}, before_it_appears);
}

void refuse_c(const std::string& location, const Tensor& c, const std::string& wanted) {
  throw Error(ErrorKind::input,
              location + ": is " + safetensors_name(c.format) + " of " + shape_to_text(c.shape) + "; " + wanted);
}

Json explained_json(std::pair<std::int64_t, std::int64_t> place, const std::vector<std::string>& lines) {
  return {{"row", place.first}, {"column", place.second}, {"steps", lines}};
}

}  // namespace mxcheck
