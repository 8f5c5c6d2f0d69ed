#include "reference/matmul/checks.h"

#include <algorithm>

#include "numerics/error.h"
#include "reference/common/checked_size.h"

namespace mxcheck {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorKind::usage, text); }

std::string of(const std::string& name) { return "operand " + name; }

void check_operand(const MatmulOperand& x, const std::string& name, const Matmul& p) {
  const MatmulContract& c = p.contract;
  if (x.rows < 0 || x.depth < 0) {
    refuse(of(name) + " has " + std::to_string(x.rows) + " x " + std::to_string(x.depth) +
           " codes: 0 or more are needed");
  }
  (void)checked_product(x.rows, x.depth, of(name));
  if (!x.scaled()) {
    if (x.block.cols != 0) refuse(of(name) + " has blocks of no rows");
    if (c.sum->scale_terms != 0) refuse("contract " + to_text(c) + " needs scales of operand " + name);
    return;
  }
  if (x.block.rows < 0 || x.block.cols <= 0) {
    refuse(of(name) + " has scales of blocks " + to_text(x.block) + ": a number of rows and of k is needed");
  }
  const bool hardware = c.sum->scale_terms != 0;
  const bool plain_sum = c.sum->arithmetic == Arithmetic::fused && c.promotion == 0 && !c.decodes && !hardware;
  if (plain_sum) {
    refuse("contract " + to_text(c) + " takes no scales; with +promote" + std::to_string(x.block.cols) +
           " they enter as each block's sum is added, with +decode before");
  }
  if (c.promotion != 0 && x.block.cols % c.promotion != 0) {
    refuse("contract " + to_text(c) + " adds up every " + std::to_string(c.promotion) +
           " of k, but scales of operand " + name + " change every " + std::to_string(x.block.cols));
  }
  if (hardware && (x.block.rows != 1 || x.block.cols != c.sum->scale_terms)) {
    refuse("contract " + to_text(c) + " has scales of blocks 1x" + std::to_string(c.sum->scale_terms) + ", operand " +
           name + " of " + to_text(x.block));
  }
  const auto known = hardware ? c.sum->scales : std::span<const Format>();
  const bool in_list = std::find(known.begin(), known.end(), x.scale_format) != known.end();
  if (hardware ? !in_list : x.scale_format != Format::e8m0 && x.scale_format != Format::fp32) {
    refuse("scales of operand " + name + " are " + std::string(spec(x.scale_format).name) + ": contract " + to_text(c) +
           " takes " + (hardware ? std::string(spec(known.front()).name) : std::string("e8m0 or fp32")));
  }
}

void check_groups(const Matmul& p) {
  if (p.grouping == Grouping::none) {
    if (!p.offsets.empty()) refuse("offsets are given, but the product has no groups");
    return;
  }
  const std::int64_t end = p.grouping == Grouping::rows ? p.m() : p.a.depth;
  const std::string what = p.grouping == Grouping::rows ? "rows" : "k";
  if (p.offsets.empty() || p.offsets.front() != 0 || p.offsets.back() != end) {
    refuse("offsets of groups begin with 0 and end with the number of " + what + ", which is " + std::to_string(end));
  }
  for (std::size_t e = 1; e < p.offsets.size(); ++e) {
    if (p.offsets[e] < p.offsets[e - 1]) {
      refuse("offsets descend from " + std::to_string(p.offsets[e - 1]) + " to " + std::to_string(p.offsets[e]) +
             " at group " + std::to_string(e - 1));
    }
  }
}

}  // namespace

void check_matmul(const Matmul& p) {
  const MatmulContract& c = p.contract;
  if (c.sum == nullptr) refuse("a product without a contract");
  if (p.a.depth != p.b.depth) {
    refuse("K differs: operand a has " + std::to_string(p.a.depth) + ", operand b " + std::to_string(p.b.depth));
  }
  check_operand(p.a, "a", p);
  check_operand(p.b, "b", p);
  if (c.decodes) {
    if (spec(p.a.format).bits > 8 || spec(p.b.format).bits > 8) refuse("+decode is of codes of at most 8 bits");
  } else {
    check_operands(*c.sum, p.a.format, p.b.format);
  }
  if (c.sum->scale_terms != 0 && p.a.scale_format != p.b.scale_format)
    refuse("both operands' scales must be of one format");
  if (p.output != Format::fp32 && p.output != Format::bf16 && p.output != Format::fp16) {
    refuse("a product is written as fp32, bf16 or fp16, not " + std::string(spec(p.output).name));
  }
  if (c.from_c && p.c == nullptr) refuse("contract " + to_text(c) + " starts from C: there is none");
  if (c.from_c && (p.alpha != 1 || (c.sum->arithmetic == Arithmetic::fused ? p.output != c.sum->step.output.c
                                                                           : p.output != Format::fp32))) {
    refuse("contract " + to_text(c) + " starts from C: alpha is 1 and C has the sum's own type");
  }
  for (std::int32_t row : p.row_index) {
    if (row < 0 || row >= p.a.rows) {
      refuse("row index " + std::to_string(row) + " of operand a, which has " + std::to_string(p.a.rows) + " rows");
    }
  }
  check_groups(p);
  (void)checked_product(checked_product(p.experts(), p.m(), "D"), p.b.rows, "D");
}

}  // namespace mxcheck
