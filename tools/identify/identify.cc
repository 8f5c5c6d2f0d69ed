// mxcheck identify: which definition a dump or a library follows.

#include "tools/identify/identify.h"

#include <unistd.h>

#include <cstring>
#include <memory>

#include "goldens/data/embedded.h"
#include "goldens/io/atomic_file.h"
#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/format/format.h"
#include "numerics/names.h"
#include "properties/identify/library/library.h"
#include "properties/identify/reveal.h"
#include "properties/process/candidate_process.h"
#include "reference/common/matrix.h"
#include "reference/quantize/hadamard.h"
#include "tools/common/output.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

int run(const IdentifyOptions& o) {
  struct Kind {
    bool asked;
    int (*answers)(const IdentifyOptions&);
    bool has_tree;
  };
  const Kind kinds[] = {
      {!o.a.empty() || !o.b.empty() || !o.d.empty() || !o.scale_a.empty() || !o.scale_b.empty(), identify_product_dump,
       true},
      {!o.x.empty() || !o.codes.empty() || !o.scales.empty() || !o.words.empty(), identify_blocks_dump, false},
      {!o.logits.empty() || !o.experts.empty() || !o.weights.empty(), identify_routes_dump, false},
      {!o.candidate.empty(), identify_candidate, true},
      {!o.box.op.empty(), identify_box, false},
      {!o.draw.empty(), draw_tree, true}};
  const Kind* chosen = nullptr;
  for (const Kind& kind : kinds) {
    if (!kind.asked) continue;
    if (chosen != nullptr) throw Error(ErrorKind::usage, "one dump or one library at a time");
    chosen = &kind;
  }
  if (chosen == nullptr) {
    throw Error(ErrorKind::usage,
                "nothing to identify: --a --b --d, --x --codes, --logits --experts --weights, "
                "--candidate or --box; mxcheck identify --help says more");
  }
  if (!o.svg.empty() && !chosen->has_tree) throw Error(ErrorKind::usage, "--svg draws a product's order of summation");
  if (chosen->answers != identify_blocks_dump &&
      !(o.hadamard.size + o.hadamard.signs + o.hadamard.sum + o.hadamard.result).empty())
    throw Error(ErrorKind::usage, "--hadamard is of a quantization: --x, --codes and --scales");
  if (o.first_call && !o.seed) throw Error(ErrorKind::usage, "--first-call is of --seed");
  if (o.seed && chosen->answers != identify_blocks_dump)
    throw Error(ErrorKind::usage, "--seed is of codes under E4M3 scales: --x, --codes and --scales");
  check_picture(o);
  return chosen->answers(o);
}

void add_dumps(Command& sub, IdentifyOptions& o) {
  const char* product = "A product";
  sub.option("--a", o.a, "Codes of A, m x k, as mxcheck mma reads them: FILE.npy, FILE.safetensors:TENSOR ...")
      .in_group(product);
  sub.option("--b", o.b, "Codes of B, n x k").in_group(product);
  sub.option("--d", o.d, "The kernel's output: D, m x n, in F32, BF16 or F16").in_group(product);
  sub.option("--format-a", o.format_a, "Format of A's codes (U8: e4m3 if not given; U16: bf16; F8_...: its own)")
      .in_group(product);
  sub.option("--format-b", o.format_b, "Format of B's codes").in_group(product);
  sub.option("--scale-a", o.scale_a, "Scales of A: U8 (E8M0) or F32, blocks of 1 or 128 rows x blocks of k")
      .not_empty()
      .in_group(product);
  sub.option("--scale-b", o.scale_b, "Scales of B, likewise").not_empty().in_group(product);
  sub.option("--scale-k", o.scale_k, "Elements of k that share a scale; 0: as many as the number of scales says")
      .between(0, 1 << 30)
      .in_group(product);
  const char* blocks = "A cast, or with scales a quantization";
  sub.option("--x", o.x, "Its input, rows x columns, in F32, BF16 or F16").in_group(blocks);
  sub.option("--codes", o.codes, "What it gave, of x's shape").in_group(blocks);
  sub.option("--scales", o.scales, "Its scales, compact: U8 (E8M0), F32, or F8_E4M3 of NVFP4").in_group(blocks);
  sub.option("--tensor-scale", o.tensor_scale,
             "NVFP4: the scale of the tensor, a number or a tensor of one F32; scales are then E4M3, in U8 too")
      .not_empty()
      .in_group(blocks);
  sub.option("--words", o.words, "Random words of a stochastic cast, of x's shape, in I32 or U32: docs/numerics.md")
      .not_empty()
      .in_group(blocks);
  sub.option("--seed", o.seed,
             "NVFP4: the key of codes that are rounded stochastically, rng_state[0]: every order of words is tried")
      .in_group(blocks);
  sub.option("--first-call", o.first_call, "--seed: the first call of Philox, rng_state[1] (0 if not given)")
      .in_group(blocks);
  sub.option("--format", o.format, "Format of the codes (U8: e4m3 if not given)")
      .completes(names_of(kQuantizedFormats))
      .in_group(blocks);
  sub.option("--block", o.block, "Block of a scale (1x32 ...), where the shapes leave a choice")
      .completes(names_in(kBlockShapes))
      .in_group(blocks);
  add_hadamard_options(sub, o.hadamard, "A Hadamard transform of x, before it was quantized (docs/nvfp4.md)",
                       "each is tried");
  const char* routes = "A router";
  sub.option("--logits", o.logits, "tokens x experts, in F32, BF16 or F16").in_group(routes);
  sub.option("--experts", o.experts, "What it chose, best first: tokens x k, in I32 or I64").in_group(routes);
  sub.option("--weights", o.weights, "tokens x k, in F32").in_group(routes);
}

void add_box(Command& sub, BoxOptions& o) {
  constexpr std::int64_t kMost = 1 << 20;
  const char* group = "A box: calls are frames on standard output, answers frames on standard input (docs/identify.md)";
  const auto option = [&](const char* name, auto& to, const char* help) {
    return sub.option(name, to, help).in_group(group);
  };
  option("--box", o.op, "What it does; --format-a, --format-b, --format and --block say of what")
      .one_of({"matmul", "tree", "cast", "quantize", "route"});
  option("--m", o.m, "Rows of A in every call").between(1, kMost).shows_default();
  option("--n", o.n, "Rows of B").between(1, kMost).shows_default();
  option("--k", o.k, "Products of a sum").between(1, kMost).shows_default();
  option("--output", o.output, "Type of D: fp32 (if not given), bf16, fp16");
  option("--scale-type", o.scale_type, "It is given scales of A and B too: e8m0 or fp32");
  option("--block-a", o.block_a, "Block of a scale of A").shows_default();
  option("--block-b", o.block_b, "Block of a scale of B").shows_default();
  option("--names", o.names, "A contract or recipe to try in place of all; may be given again");
  option("--tree", o.tree, "When the order of summation is looked for")
      .one_of({"always", "where-unexplained", "never"})
      .shows_default();
  option("--checked", o.checked, "Pairs of terms to ask for beside those that a tree follows from")
      .between(0, kMost)
      .shows_default();
  option("--dtype", o.dtype, "Type of what a quantization or router reads: fp32 (if not given), bf16, fp16");
  option("--expert-count", o.experts, "Experts of a router").between(1, kMost).shows_default();
  option("--top-k", o.top_k, "Experts of a token").between(1, kMost).shows_default();
}

}  // namespace

int answer(const IdentifyOptions& o, const Match& match, const std::optional<TreeReport>& order) {
  if (o.json) {
    print_json(to_json(match, order));
  } else {
    print(to_text(match) + (order ? to_text(*order) : ""));
  }
  return match.explained() ? 0 : 1;
}

int answer(const IdentifyOptions& o, const QuantizeMatch& found) {
  if (o.json) {
    print_json(to_json(found));
  } else {
    print(to_text(found));
  }
  return found.match.explained() ? 0 : 1;
}

void check_picture(const IdentifyOptions& o) {
  if (!o.svg.empty()) AtomicFile probe(o.svg);
}

void write_picture(const IdentifyOptions& o, const SumTree& tree, const std::string& title) {
  if (o.svg.empty()) return;
  AtomicFile file(o.svg);
  file.write(tree.svg(title));
  file.commit();
}

int draw_tree(const IdentifyOptions& o) {
  const SumTree tree = parse_tree(o.draw);
  const std::string shape = shape_of(tree).value_or("of no name");
  write_picture(o, tree, std::to_string(tree.terms()) + " terms, " + shape);
  if (o.json) {
    print_json({{"tree", tree.text()}, {"terms", tree.terms()}, {"shape", shape}, {"dot", tree.dot()}});
  } else {
    print("order         " + shape + "\n  tree        " + tree.text() + "\n");
  }
  return 0;
}

void add_identify(Command& app) {
  auto o = std::make_shared<IdentifyOptions>();
  Command sub =
      app.subcommand("identify", "Which contract, rounding, recipe or router do a dump's or a library's bits follow?");
  add_dumps(sub, *o);
  const char* library = "A library (docs/candidate.md)";
  sub.option("--candidate", o->candidate, "As of mxcheck gate: cpu, sm90_gemm, ./libmine.so, python:MODULE:NAME")
      .completes(tree_candidates())
      .in_group(library);
  sub.option("--op", o->op, "matmul, quantize, cast, scale or route alone")
      .completes({"matmul", "quantize", "cast", "scale", "route"})
      .in_group(library);
  sub.option("--only", o->only, "Policies whose text has this, as 'format=e5m2'").in_group(library);
  add_process_limits(sub, o->limits, library);
  add_box(sub, o->box);
  sub.option("--draw", o->draw, "A tree of summation, '((0 1) (2 3))', for --svg");
  sub.flag("--order", o->order, "Look for the tree of summation also where a contract explains every bit");
  sub.flag("--json", o->json, "The answer as JSON");
  sub.option("--svg", o->svg, "Draw the tree of summation to this file").not_empty();
  sub.exits({{0, "a definition explains all; of a library: every policy follows what it declares"},
             {1, "none does"},
             {2, "the command line, or files that do not belong together"},
             {4, "a library that offers nothing to ask"},
             {6, "a library that crashed or hung"}});
  sub.footer(
      "Definitions are compared with every bit. Of a product each contract is tried with promotion at every multiple "
      "of\n"
      "its step, each order of scales and steps, then split-k of 2, 3 and 4.\n\n"
      "Examples:\n"
      "  mxcheck identify --a a.npy --b b.npy --d d.npy\n"
      "  mxcheck identify --x x.npy --codes codes.npy --scales scales.npy\n"
      "  mxcheck identify --candidate ./libmine.so --op matmul --svg order.svg");
  sub.runs([o] { return run(*o); });
}

// A library behind the candidate interface, in a process of its own.

namespace {

int code_of(const LibraryReport& report) {
  if (report.ended() != 0) return 6;
  if (report.policies.empty()) return 4;
  return report.holding() == report.policies.size() ? 0 : 1;
}

}  // namespace

int identify_candidate(const IdentifyOptions& o) {
  const TimeLimits limits = time_limits(o.limits);
  const std::string tool = own_executable();
  LibraryQuestion question;
  question.op = o.op, question.only = o.only;
  question.always_tree = o.order || !o.svg.empty();
  check_operation(question);
  CandidateProcess process(tool, find_candidate_library(o.candidate, tool), limits);
  bool has_header = o.json;
  const auto print_header = [&] {  // once the question is known to be one
    if (!has_header) print(header_text(process.info()));
    has_header = true;
  };
  const SumTree* tree = nullptr;
  std::string title;
  const LibraryReport report = identify_library(process, question, [&](const PolicyReport& p) {
    print_header();
    if (!o.json) print(to_text(p));
  });
  print_header();
  if (o.json) {
    print_json(to_json(report));
  } else {
    print(summary_text(report));
  }
  if (o.svg.empty()) return code_of(report);
  for (const PolicyReport& p : report.policies) {
    if (tree != nullptr || !p.order || !p.order->tree) continue;
    tree = &*p.order->tree;
    title = p.policy;
  }
  if (tree == nullptr) throw Error(ErrorKind::usage, "there is no picture for " + o.svg + ": no product has a tree");
  write_picture(o, *tree, title);
  return code_of(report);
}

std::vector<std::uint32_t> words_of(const Tensor& t) {
  const std::size_t width = size_of(t.format);
  if (width > 4)
    throw Error(ErrorKind::input,
                std::string("a tensor of ") + safetensors_name(t.format) + " has no words of 32 bits");
  std::vector<std::uint32_t> words(t.data.size() / width);
  for (std::size_t i = 0; i < words.size(); ++i) std::memcpy(&words[i], t.data.data() + i * width, width);
  return words;
}

Tensor quantized_input(const IdentifyOptions& o) {
  Tensor x = tensor_at(o.x);
  if (x.shape.size() != 2 || !spec(x.format).is_value) return x;  // refused where it is read
  const std::optional<Hadamard> transform = hadamard_of(o.hadamard, x.format);
  if (!transform) return x;
  Tensor transformed;
  in_place(o.x, [&] {
    transformed = hadamard({x.format, x.data.data(), x.rows(), x.cols(), x.cols()}, *transform, Along::rows);
  });
  return transformed;
}

std::vector<float> values_of(const Tensor& t, const std::string& location, Format& type) {
  switch (t.format) {
    case Format::fp32: type = Format::fp32; break;
    case Format::bf16: type = Format::bf16; break;
    case Format::fp16: type = Format::fp16; break;
    default:
      throw Error(ErrorKind::input, location + ": is " + safetensors_name(t.format) + "; F32, BF16 or F16 is needed");
  }
  std::vector<float> values;
  for (std::uint32_t word : words_of(t)) values.push_back(static_cast<float>(decode(type, word)));
  return values;
}

}  // namespace mxcheck
