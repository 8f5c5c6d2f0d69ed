// mxcheck identify: which contract gives the D of a dump, from its operands.

#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "numerics/error.h"
#include "properties/identify/product.h"
#include "tools/common/text.h"
#include "tools/matmul/operands.h"
#include "tools/subcommands.h"

namespace mxcheck {
namespace {

struct Options {
  std::string a, b, d, scale_a, scale_b, format_a, format_b;
  std::int64_t scale_k = 0;
};

std::vector<std::uint32_t> words_of(const Tensor& t) {
  const std::size_t width = size_of(t.dtype);
  std::vector<std::uint32_t> words(t.data.size() / width);
  for (std::size_t i = 0; i < words.size(); ++i) std::memcpy(&words[i], t.data.data() + i * width, width);
  return words;
}

struct Side {
  Format format;
  Stack shape;
  std::vector<std::uint32_t> words;
};

Side read_side(const std::string& location, const std::string& format) {
  const Tensor t = read_tensor(location);
  Side side{code_format(format, t, location), stack_of(t, location), {}};
  if (side.shape.batched) throw Error(ErrorKind::input, location + ": is a batch; one matrix is identified at a time");
  check_codes(side.format, t.data, location);
  side.words = words_of(t);
  return side;
}

std::vector<std::uint32_t> read_scales(const std::string& location, const Side& side, std::int64_t scale_k,
                                       ProductCall& call) {
  const Tensor t = read_tensor(location);
  const Stack s = stack_of(t, location);
  const std::int64_t blocks = (side.shape.cols + scale_k - 1) / scale_k;
  if (s.batched || s.rows != side.shape.rows || s.cols != blocks) {
    throw Error(ErrorKind::input,
                fmt::format("{}: is {} x {}; scales of {} rows, one for {} of k, are {} x {}", location, s.rows, s.cols,
                            side.shape.rows, scale_k, side.shape.rows, blocks));
  }
  if (t.dtype != Dtype::u8 && t.dtype != Dtype::f32) throw Error(ErrorKind::input, location + ": scales are U8 or F32");
  call.scale_format = t.dtype == Dtype::u8 ? Format::e8m0 : Format::fp32;
  return words_of(t);
}

int run(const Options& o) {
  for (const auto& [flag, value] : {std::pair{"--a", o.a}, {"--b", o.b}, {"--d", o.d}}) {
    if (value.empty())
      throw Error(ErrorKind::usage, std::string(flag) + " is needed; mxcheck identify --help says what for");
  }
  if (o.scale_a.empty() != o.scale_b.empty() || o.scale_a.empty() != (o.scale_k == 0)) {
    throw Error(ErrorKind::usage, "--scale-a, --scale-b and --scale-k go together");
  }
  Side a = read_side(o.a, o.format_a);
  Side b = read_side(o.b, o.format_b);
  if (a.shape.cols != b.shape.cols) {
    throw Error(ErrorKind::input, fmt::format("K is {} in {} and {} in {}", a.shape.cols, o.a, b.shape.cols, o.b));
  }
  Side d = read_side(o.d, "");
  if (!spec(d.format).is_value || d.shape.rows != a.shape.rows || d.shape.cols != b.shape.rows) {
    throw Error(ErrorKind::input,
                fmt::format("{}: is {} of {} x {}; D is F32, BF16 or F16 of {} x {}", o.d, spec(d.format).name,
                            d.shape.rows, d.shape.cols, a.shape.rows, b.shape.rows));
  }
  ProductCall call{a.format, b.format, d.format, a.shape.rows, b.shape.rows, a.shape.cols, {}, {}, o.scale_k};
  if (o.scale_k != 0) {
    call.a_scales = read_scales(o.scale_a, a, o.scale_k, call);
    const Format format = call.scale_format;
    call.b_scales = read_scales(o.scale_b, b, o.scale_k, call);
    if (format != call.scale_format) throw Error(ErrorKind::input, o.scale_b + ": its type is not that of --scale-a");
  }
  call.a = std::move(a.words), call.b = std::move(b.words);
  const Match match = match_products({&o.d, 1}, {&call, 1}, {&d.words, 1});
  print(to_text(match));
  return match.explaining.empty() ? 1 : 0;
}

}  // namespace

void add_identify(Command& app) {
  auto o = std::make_shared<Options>();
  Command sub = app.subcommand("identify", "Which contract gives the bits of a dumped D?");
  sub.option("--a", o->a, "Codes of A, m x k, as mxcheck mma reads them: FILE.npy, FILE.safetensors:TENSOR ...");
  sub.option("--b", o->b, "Codes of B, n x k");
  sub.option("--d", o->d, "What the kernel gave: D, m x n, in F32, BF16 or F16");
  sub.option("--format-a", o->format_a, "Format of A's codes (U8: e4m3 if not given; U16: bf16)");
  sub.option("--format-b", o->format_b, "Format of B's codes");
  sub.option("--scale-a", o->scale_a, "Scales of A: U8 (E8M0) or F32, m x blocks of k").not_empty();
  sub.option("--scale-b", o->scale_b, "Scales of B, n x blocks of k").not_empty();
  sub.option("--scale-k", o->scale_k, "Elements of k that share a scale").between(1, 1 << 30);
  sub.footer(
      "Every contract, with promotion at every multiple of its step, each order of scales and steps, is compared with\n"
      "every bit of D. Exit code 0 where one explains all, 1 where none does (the closest are shown).\n\n"
      "Examples:\n"
      "  mxcheck identify --a a.npy --b b.npy --d d.npy");
  sub.runs([o] { return run(*o); });
}

}  // namespace mxcheck
