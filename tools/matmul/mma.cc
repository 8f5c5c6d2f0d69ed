// mxcheck mma: sums of products of codes as a tensor core's instructions give them.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "goldens/io/byte_source.h"
#include "numerics/accumulate/contract.h"
#include "numerics/names.h"
#include "numerics/text.h"
#include "reference/matmul/matmul.h"
#include "tools/common/output.h"
#include "tools/common/progress.h"
#include "tools/matmul/operands.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

struct MmaOptions {
  std::string contract;
  std::string a, b, c, scale_a, scale_b, output;
  std::string format_a, format_b;
  std::string explain;
  bool json = false;
  bool list = false;
};

int list_contracts(bool json) {
  Json all{{"contracts", Json::array()}};
  for (const Contract& c : all_contracts()) {
    std::vector<std::string> operands;
    for (const Format f : c.operands) operands.emplace_back(spec(f).name);
    all["contracts"].push_back(
        {{"name", c.name}, {"evidence", to_text(c.evidence)}, {"note", c.note}, {"operands", operands}});
  }
  if (json) {
    print_json(all);
    return 0;
  }
  for (const Contract& c : all_contracts()) {
    const std::string formats = join(c.operands, " ", [](Format f) { return spec(f).name; });
    print(fmt::format("{:<16} {:<16} {}; {}\n", c.name, to_text(c.evidence), c.note, formats));
  }
  return 0;
}

struct Side {
  Tensor codes;
  Tensor scales;
  Stack stack;
  MatmulOperand operand;
};

// Scales as the contract has them: one for every scale_terms products, or every interval of promotion.
void read_scales(const std::string& location, const MatmulContract& contract, Side& side) {
  if (location.empty()) return;
  side.scales = read_tensor(location);
  const Stack s = stack_of(side.scales, location);
  const std::int64_t block = contract.sum->scale_terms != 0 ? contract.sum->scale_terms : contract.promotion;
  if (block == 0) {
    throw Error(ErrorKind::usage, location + ": contract " + to_text(contract) +
                                      " takes no scales; +promoteN adds up every N of k times them");
  }
  const std::int64_t blocks = (side.stack.cols + block - 1) / block;
  if (s.count != side.stack.count || s.rows != side.stack.rows || s.cols != blocks) {
    throw Error(ErrorKind::input,
                fmt::format("{}: is {} x {}; {} scales for each of {} rows are needed, one for {} of k", location,
                            s.rows, s.cols, blocks, side.stack.rows, block));
  }
  const Format narrow = contract.sum->scale_terms != 0 ? contract.sum->scales.front() : Format::e8m0;
  const bool bytes = side.scales.format == Format::uint8 || side.scales.format == narrow;
  if (!bytes && side.scales.format != Format::fp32)
    throw Error(ErrorKind::input,
                location + ": scales are U8, " + (narrow == Format::e8m0 ? "F8_E8M0" : "F8_E4M3") + " or F32");
  side.operand.block = {1, block};
  side.operand.scale_format = bytes ? narrow : Format::fp32;
  side.operand.scale_row_stride = blocks;
}

void read_side(const std::string& location, const std::string& format, Side& side) {
  side.codes = read_tensor(location);
  side.stack = stack_of(side.codes, location);
  side.operand.format = code_format(format, side.codes, location);
  check_codes(side.operand.format, side.codes.data, location);
  side.operand.rows = side.stack.rows, side.operand.depth = side.stack.cols;
  side.operand.row_stride = side.stack.cols;
}

// The n-th matrix of a batch.
void select(Side& side, std::int64_t n) {
  const std::int64_t codes = side.stack.rows * side.stack.cols * static_cast<std::int64_t>(size_of(side.codes.format));
  side.operand.codes = side.codes.data.data() + n * codes;
  if (!side.operand.scaled()) return;
  const std::int64_t scales =
      side.stack.rows * side.operand.scale_row_stride * static_cast<std::int64_t>(size_of(side.scales.format));
  side.operand.scales = side.scales.data.data() + n * scales;
}

void check_given(const MmaOptions& o) {
  for (const auto& [flag, value] : {std::pair{"--contract", o.contract}, {"--a", o.a}, {"--b", o.b}}) {
    if (value.empty())
      throw Error(ErrorKind::usage, std::string(flag) + " is needed; mxcheck mma --help says what for");
  }
  if (o.output.empty() && o.explain.empty()) throw Error(ErrorKind::usage, "-o or --explain is needed");
}

// C of D's shape and type, or its bits.
Tensor mma_read_c(const std::string& location, const Contract& contract, const Tensor& d) {
  Tensor c = read_tensor(location);
  const bool halves = d.format == Format::fp16;
  const Format bits = halves ? Format::uint16 : Format::uint32;
  if ((c.format != d.format && c.format != bits) || c.shape != d.shape) {
    refuse_c(location, c,
             fmt::format("C and D of {} are {}: {} (or its bits as {}) of {}", contract.name, halves ? "FP16" : "FP32",
                         safetensors_name(d.format), safetensors_name(bits), shape_to_text(d.shape)));
  }
  return c;
}

// D with room for every matrix of the batch.
Tensor empty_d(Format dtype, const Stack& a, const Stack& b, const std::string& output) {
  Tensor d{"d", dtype, {}, {}};
  if (a.batched) d.shape.push_back(a.count);
  d.shape.insert(d.shape.end(), {a.rows, b.rows});
  const std::string where = output.empty() ? "D" : output;
  d.data = room_for(checked_bytes(d.shape, size_of(dtype), where), where);
  return d;
}

Json mma_side_json(const std::string& location, const Side& side) {
  return {{"input", location}, {"format", spec(side.operand.format).name}, {"shape", side.codes.shape}};
}

// The answer as JSON: the explained output, the file that was written, or both.
Json mma_answer_json(const MmaOptions& o, const MatmulContract& contract, const Side& a, const Side& b,
                     const Tensor& d) {
  return {{"output", o.output},
          {"contract", to_text(contract)},
          {"a", mma_side_json(o.a, a)},
          {"b", mma_side_json(o.b, b)},
          {"d", {{"dtype", safetensors_name(d.format)}, {"shape", d.shape}}}};
}

int mma_run(const MmaOptions& o) {
  if (o.list) return list_contracts(o.json);
  check_given(o);
  Matmul p;
  p.contract = parse_matmul_contract(o.contract);
  if (!o.output.empty()) check_output(o.output, OutputKinds::npy_or_safetensors, {o.a, o.b, o.c, o.scale_a, o.scale_b});
  Side a, b;
  read_side(o.a, o.format_a, a);
  read_side(o.b, o.format_b, b);
  if (a.stack.count != b.stack.count) {
    throw Error(ErrorKind::input, fmt::format("{} has {} matrices, {} has {}", o.a, a.stack.count, o.b, b.stack.count));
  }
  read_scales(o.scale_a, p.contract, a);
  read_scales(o.scale_b, p.contract, b);
  p.output = p.contract.sum->arithmetic == Arithmetic::fused ? p.contract.sum->step.output.c : Format::fp32;
  Tensor d = empty_d(p.output == Format::fp16 ? Format::fp16 : Format::fp32, a.stack, b.stack, o.output);
  Tensor c;
  if (!o.c.empty()) {
    c = mma_read_c(o.c, *p.contract.sum, d);
    p.contract.from_c = p.contract.promotion == 0;
  }
  const std::int64_t matrix = a.stack.rows * b.stack.rows * static_cast<std::int64_t>(size_of(d.format));  // bytes
  const auto at = [&](std::int64_t n) {
    select(a, n), select(b, n);
    p.a = a.operand, p.b = b.operand;
    p.c = o.c.empty() ? nullptr : c.data.data() + n * matrix;
  };
  Json json = mma_answer_json(o, p.contract, a, b, d);
  std::string text;
  if (!o.explain.empty()) {
    const std::pair place = parse_place(o.explain, "--explain");
    at(0);
    const std::vector<std::string> lines = explain_output(p, 0, place.first, place.second).lines;
    json["explained"] = explained_json(place, lines);
    for (const std::string& line : lines) text += line + "\n";
  }
  if (o.output.empty()) {
    print(o.json ? to_text(json) + "\n" : text);
    return 0;
  }
  std::atomic<std::int64_t> rows_done = 0;  // outlives progress
  p.rows_done = &rows_done;
  std::optional<Progress> progress(std::in_place, "multiplying");
  progress->watch("multiplying", [&, all = static_cast<double>(a.stack.count * a.stack.rows)] {
    return static_cast<double>(rows_done) / std::max(1.0, all);
  });
  for (std::int64_t n = 0; n < a.stack.count; ++n) {
    at(n);
    matmul(p, d.data.data() + n * matrix);
  }
  progress->now("writing " + o.output);
  text += fmt::format("{}: {} x {} x {} by {}, {} and {}\n", o.output, a.stack.count, a.stack.rows, b.stack.rows,
                      to_text(p.contract), spec(a.operand.format).name, spec(b.operand.format).name);
  write_result(o.output, std::move(d), [&] {
    progress.reset();
    print_at_once(o.json ? to_text(json) + "\n" : text);
  });
  return 0;
}

}  // namespace

void add_mma(Command& app) {
  auto o = std::make_shared<MmaOptions>();
  Command sub = app.subcommand("mma", "Sums of products as a tensor core gives them, bit for bit");
  sub.flag("--list", o->list, "List the contracts, and how each was checked");
  sub.option("--contract", o->contract, "Whose sums: sm90_fp8, sm100_mxf8f6f4, exact, ... (--list)")
      .completes(names_in(all_contracts()));
  sub.option("--a", o->a, "Codes of A, m x k: U8 or U16, or BF16, F16, F32; FILE.npy, FILE.safetensors:TENSOR ...");
  sub.option("--b", o->b, "Codes of B, n x k");
  sub.option("--c", o->c,
             "C, m x n, that each sum starts from; zeros without it. F32 or its bits as U32; F16 where the contract "
             "accumulates in FP16, or its bits as U16")
      .not_empty();
  sub.option("--format-a", o->format_a, "Format of A's codes (U8: e4m3 if not given; U16: bf16; F8_...: its own)");
  sub.option("--format-b", o->format_b, "Format of B's codes");
  sub.option("--scale-a", o->scale_a, "Scales of A: U8 (E8M0, or UE4M3 for nvf4), m x blocks of k; F32 with +promoteN")
      .not_empty();
  sub.option("--scale-b", o->scale_b, "Scales of B, n x blocks of k").not_empty();
  sub.option("-o,--output", o->output, "D, m x n: OUT.npy or OUT.safetensors with the tensor d").not_empty();
  sub.option("--explain", o->explain, "ROW,COLUMN of an output (of the first matrix) to show step by step").not_empty();
  sub.flag("--json", o->json, "Print what was done, what is explained, or the list, as JSON");
  sub.footer(
      "D = A B^T + C, k in steps of the instruction. A leading dimension, the same for all tensors, is a batch.\n"
      "K may end inside a step: the rest is zeros. NaN is 7fffffff, as the hardware writes it.\n\n"
      "Examples:\n"
      "  mxcheck mma --list\n"
      "  mxcheck mma --contract sm90_fp8 --a a.npy --b b.npy --c c.npy -o d.npy\n"
      "  mxcheck mma --contract sm90_fp8+promote128 --a a.npy --b b.npy --explain 3,7\n"
      "  mxcheck mma --contract sm100_mxf8f6f4 --a a.npy --b b.npy --scale-a sa.npy --scale-b sb.npy -o d.npy");
  sub.runs([o] { return mma_run(*o); });
}

}  // namespace mxcheck
