// How an operation behaves, whatever it computes: within its buffers, the same every time, and clear in its refusals.

#include <array>

#include "kernels/candidate_matmul.h"
#include "properties/core/rng.h"
#include "properties/gate/generate.h"
#include "properties/operations/matmul/problem.h"
#include "properties/operations/router/problem.h"
#include "properties/statements/common.h"
#include "properties/statements/invalid_call.h"

namespace mxcheck {
namespace {

std::optional<Finding> stays_inside(CheckContext& context, const Case& c) {
  const Problem p = make_problem(c);
  Call call = p.call();
  call.guard_pages = true;
  const Got got = run_call(context, call, c);
  if (got.usable()) return std::nullopt;
  std::optional<Finding> finding = pass_on(context, got);
  if (finding && finding->kind == FindingKind::fault) {
    finding->summary += "; every tensor ended at an inaccessible page, so an access outside is fatal";
  }
  return finding;
}

std::optional<Finding> same_outputs(const Problem& p, const Got& a, const Got& b, const std::string& summary) {
  for (std::size_t i = 0; i < p.outputs.size(); ++i) {
    if (auto f = differ(p.outputs[i], a.outputs[i], b.outputs[i], p.outputs[i].name + " " + summary)) return f;
  }
  return std::nullopt;
}

std::optional<Finding> any_thread_count(CheckContext& context, const Case& c) {
  Case one = c;
  one.threads = 1;
  const Problem p = make_problem(one);
  const Got alone = run_problem(context, p);
  if (!alone.usable()) return pass_on(context, alone);
  for (int threads : {2, 3, 8, 0}) {
    Problem other = p;
    other.c.threads = threads;
    const Got got = run_problem(context, other);
    if (!got.usable()) return pass_on(context, got);
    if (auto f = same_outputs(p, alone, got,
                              "differ between 1 thread and " +
                                  (threads == 0 ? std::string("the library's choice") : std::to_string(threads)))) {
      return f;
    }
  }
  return std::nullopt;
}

std::optional<Finding> same_when_repeated(CheckContext& context, const Case& c) {
  const Problem p = make_problem(c);
  const Got first = run_problem(context, p, kPoisons[0]);
  if (!first.usable()) return pass_on(context, first);
  Case between = c;  // other data at the same addresses, another shape: what a cache or a stale buffer would keep
  between.seed = mix64(c.seed), between.plants.clear();
  between.data = Data::normal;
  const Got other = run_problem(context, make_problem(between), kPoisons[1]);
  if (!other.usable()) return pass_on(context, other);
  if (between.rows > 1) {
    between.rows /= 2;
    if (is_matmul(c.variant.operation))
      fit_experts(between);
    else
      between.experts.clear();
    const Got smaller = run_problem(context, make_problem(between), kPoisons[1]);
    if (!smaller.usable()) return pass_on(context, smaller);
  }
  const Got again = run_problem(context, p, kPoisons[1]);
  if (!again.usable()) return pass_on(context, again);
  return same_outputs(p, first, again, "differ between two runs of the same call");
}

// CUDA candidates: the same call in every way in which a stream can be used.
std::optional<Finding> any_stream(CheckContext& context, const Case& c) {
  const Problem p = make_problem(c);
  const Got own = run_problem(context, p);
  if (!own.usable()) return pass_on(context, own);
  using wire::StreamMode;
  struct Way {
    StreamMode mode;
    const char* what;
  };
  static constexpr Way kWays[] = {
      {StreamMode::behind, "when the inputs arrive in the stream after run has returned"},
      {StreamMode::legacy, "in the default stream"},
      {StreamMode::captured, "in a graph that was captured from its stream and launched twice"},
      {StreamMode::crowded, "when three calls are in flight in three streams, at new addresses"},
  };
  for (const Way& way : kWays) {
    Call call = p.call();
    call.stream = way.mode;
    const Got got = run_call(context, call, c);
    if (got.finding) {
      Finding finding = *got.finding;
      finding.summary += std::string("; ") + way.what;
      return finding;
    }
    if (!got.usable()) return pass_on(context, got);
    if (auto f = same_outputs(p, own, got, std::string("differ ") + way.what)) return f;
  }
  return std::nullopt;
}

std::vector<std::int64_t>& broken_offsets() {
  static thread_local std::vector<std::int64_t> offsets;
  return offsets;
}

bool with_offsets(Call& call, std::vector<std::int64_t> offsets) {
  if (is_route(call.operation)) return false;  // has none, or others
  broken_offsets() = std::move(offsets);
  CallTensor t;
  t.is_offsets = true;
  t.shape = {static_cast<std::int64_t>(broken_offsets().size())};
  t.data = reinterpret_cast<const std::byte*>(broken_offsets().data());
  t.bytes = broken_offsets().size() * sizeof(std::int64_t);
  for (CallTensor& input : call.inputs) {
    if (input.is_offsets) {
      input = t;
      return true;
    }
  }
  call.inputs.push_back(t);
  return true;
}

std::int64_t offsets_end(const Call& c) { return c.policy.grouping == MXCHECK_DEPTH ? c.policy.depth : c.policy.rows; }

bool with_last_index(Call& call, std::int32_t value) {
  static thread_local std::vector<std::int32_t> index;
  if (is_route(call.operation)) return false;
  for (CallTensor& input : call.inputs) {
    if (!input.is_index || input.bytes == 0) continue;
    const auto* begin = reinterpret_cast<const std::int32_t*>(input.data);
    index.assign(begin, begin + input.shape[0]);
    index.back() = value;
    input.data = reinterpret_cast<const std::byte*>(index.data());
    return true;
  }
  return false;
}

const std::array kSpoiled{
    Spoiled{"the first input's data is a null pointer",
            [](Call& c) {
              c.inputs[0].null_data = true;
              return true;
            }},
    Spoiled{"the first output's data is a null pointer",
            [](Call& c) {
              c.outputs[0].null_data = true;
              return true;
            }},
    Spoiled{"the last output is missing",
            [](Call& c) {
              c.outputs.pop_back();
              return true;
            }},
    Spoiled{"the first output has one row too few",
            [](Call& c) {
              if (c.outputs[0].shape.size() != 2) return false;
              --c.outputs[0].shape[0];
              return true;
            }},
    Spoiled{"the last output has one column too few",
            [](Call& c) {
              --c.outputs.back().shape.back();
              return true;
            }},
    Spoiled{"the policy's cols disagree with the tensors",
            [](Call& c) {
              c.policy.cols += 1;
              return c.operation != "scale_layout";
            }},
    Spoiled{"the policy's rows are negative",
            [](Call& c) {
              c.policy.rows = -1;
              return true;
            }},
    Spoiled{"an extent is negative",
            [](Call& c) {
              c.inputs[0].shape[0] = -1;
              return true;
            }},
    Spoiled{"the format is unknown",
            [](Call& c) {
              c.policy.format[0] = 'z';
              return c.operation != "scale_layout" && !is_route(c.operation);
            }},
    Spoiled{"the recipe is unknown",
            [](Call& c) {
              c.policy.recipe[0] = 'z';
              return c.operation == "quantize" || c.operation == "quantize_dual" ||
                     (is_route(c.operation) && c.operation != "route_metadata");
            }},
    Spoiled{"the layout is unknown",
            [](Call& c) {
              c.policy.layout = 7;
              return c.operation != "cast" && !is_route(c.operation);
            }},
    Spoiled{"the block is of negative size",
            [](Call& c) {
              c.policy.block_cols = -32;
              return c.operation != "cast" && !is_route(c.operation);
            }},
    Spoiled{"the first input has another dtype",
            [](Call& c) {
              const bool values = c.operation == "quantize" || c.operation == "quantize_dual" || c.operation == "cast";
              const bool fp32 = c.inputs[0].dtype == Format::fp32;
              c.inputs[0].dtype = values || fp32 || is_route(c.operation) ? Format::e4m3 : Format::fp32;
              c.inputs[0].is_index = false;
              return true;
            }},
    Spoiled{"the offsets are not sorted",
            [](Call& c) {
              const std::int64_t end = offsets_end(c);
              return end > 2 && with_offsets(c, {0, end, 1, end});
            }},
    Spoiled{"the last offset is not the row count",
            [](Call& c) {
              return with_offsets(c, {0, offsets_end(c) / 2, offsets_end(c) + 1});
            }},
    Spoiled{"the first offset is not zero",
            [](Call& c) {
              return with_offsets(c, {1, offsets_end(c)});
            }},
    Spoiled{"K of the second operand is one less",
            [](Call& c) {
              if (!is_matmul(c.operation) || c.policy.depth == 0) return false;
              --c.inputs[1].shape[1];
              return true;
            }},
    Spoiled{"the policy's depth disagrees with the operands",
            [](Call& c) {
              c.policy.depth += 128;
              return is_matmul(c.operation);
            }},
    Spoiled{"the second operand's format is unknown",
            [](Call& c) {
              c.policy.format_b[0] = 'z';
              return is_matmul(c.operation);
            }},
    Spoiled{"the scales of the first operand have one column too few",
            [](Call& c) {
              if (!is_matmul(c.operation) || c.policy.scale_type == 0 || c.inputs[2].shape[1] == 0) return false;
              --c.inputs[2].shape[1];
              return true;
            }},
    Spoiled{"the scales of the second operand have one row too few",
            [](Call& c) {
              if (!is_matmul(c.operation) || c.policy.scale_type == 0 || c.inputs[3].shape[0] == 0) return false;
              --c.inputs[3].shape[0];
              return true;
            }},
    Spoiled{"the type of scales is unknown",
            [](Call& c) {
              c.policy.scale_type = 9;
              return is_matmul(c.operation);
            }},
    Spoiled{"the kind of groups is unknown",
            [](Call& c) {
              c.policy.grouping = 9;
              return is_matmul(c.operation);
            }},
    Spoiled{"C is promised and missing",
            [](Call& c) {
              if (!is_matmul(c.operation) || c.policy.accumulate != 0) return false;
              c.policy.accumulate = 1;
              return true;
            }},
    Spoiled{"the blocks of the second operand are of negative size",
            [](Call& c) {
              c.policy.block_b_cols = -128;
              return is_matmul(c.operation);
            }},
    Spoiled{"a row index is negative", [](Call& c) { return with_last_index(c, -1); }},
    Spoiled{"a row index is the number of rows that there are",
            [](Call& c) { return with_last_index(c, static_cast<std::int32_t>(c.inputs[0].shape[0])); }},
};

std::optional<Finding> refuses_cleanly(CheckContext& context, const Case& c) {
  if (c.rows < 2 || c.cols < 2 || (is_matmul(c.variant.operation) && c.depth < 2)) return nothing_claimed(context);
  const Problem p = make_problem(c);
  if (is_route(c.variant.operation) && p.call().inputs[0].bytes == 0) return nothing_claimed(context);  // no slots
  std::vector<Spoiled> all(kSpoiled.begin(), kSpoiled.end());
  if (is_route(c.variant.operation)) all.insert(all.end(), spoiled_routes().begin(), spoiled_routes().end());
  for (const Spoiled& spoiled : all) {
    Call call = p.call();
    if (!spoiled.spoil(call)) continue;
    const Outcome outcome = context.process.run(call);
    const bool returned = outcome.kind == OutcomeKind::returned;
    const bool clean = returned && outcome.status != MXCHECK_OK && outcome.outputs_untouched && !outcome.trespass &&
                       !outcome.message.empty();
    if (clean) continue;
    Finding finding;
    finding.kind = returned ? FindingKind::refused : FindingKind::fault;
    finding.summary = std::string(spoiled.how) + ", and the candidate ";
    if (outcome.kind == OutcomeKind::crashed) {
      finding.summary += "crashed (signal " + std::to_string(outcome.signal) + ")";
    } else if (!returned) {
      finding.summary += "did not return";
    } else if (outcome.status == MXCHECK_OK) {
      finding.summary += "returned MXCHECK_OK";
    } else if (outcome.outputs_untouched && !outcome.trespass) {
      finding.summary += "refused without a message";
    } else {
      finding.summary += "refused but wrote to " + outcome.trespass.value_or("an output");
    }
    return finding;
  }
  return std::nullopt;
}

// Large enough that a library has a reason to use several threads, ragged in both directions.
std::vector<Case> large_enough_for_threads(const Variant& v, Suite suite) {
  if (is_matmul(v.operation)) {
    if (suite == Suite::quick && v.wide != Format::bf16) return {};
    return {product_corner(v, 515, 263, 256, Data::normal, 5)};
  }
  if (is_route(v.operation)) {
    const bool usual = v.wide == Format::bf16 && v.recipe == "softmax-topk" && !v.bias && !v.limited && !v.nan_last &&
                       (v.rule.empty() || v.rule == "nr-s");
    if (suite == Suite::quick && !usual && v.operation != "route_metadata") return {};
    Case c = route_corner(v, 1031, 64, 6, Data::normal, 5);
    if (v.operation != "route" && v.operation != "route_backward") c.tile = 32;
    return {c};
  }
  if (suite == Suite::quick && (v.wide != Format::bf16 || v.recipe != "rceil" || v.format != Format::e4m3)) return {};
  Case c;
  c.variant = v, c.rows = 1031, c.cols = 1037, c.data = Data::boundaries, c.seed = 5, c.pad = 1;
  if (v.operation == "cast") return {c};
  Case grouped = c;
  grouped.experts = {0, 3, 3, 515, 1031};
  return {c, grouped};
}

}  // namespace

std::vector<Statement> conduct_statements() {
  const auto any = [](const Variant&, std::span<const Variant>) { return true; };
  const std::vector<Data> data{Data::boundaries, Data::normal, Data::specials, Data::slots};
  std::vector<Statement> s(5);
  s[0] = {"nothing_is_accessed_outside_the_tensors",
          "no byte outside the tensors is read or written: each tensor ends at an inaccessible page",
          "kernels/candidate.h",
          any,
          data,
          30,
          true,
          stays_inside,
          {},
          2};
  s[1] = {"the_thread_count_changes_nothing",
          "1, 2, 3, 8 threads and the library's choice give the same bytes",
          "kernels/candidate.h",
          any,
          data,
          30,
          true,
          any_thread_count,
          large_enough_for_threads};
  s[1].device = Statement::Device::host;
  s[2] = {"the_same_call_gives_the_same_bytes",
          "a call repeated after other calls, over another poison, gives the same bytes",
          "kernels/candidate.h",
          any,
          data,
          30,
          true,
          same_when_repeated};
  s[3] = {
      "bad_arguments_are_refused_and_nothing_is_written",
      "null pointers, wrong shapes, dtypes, policies and offsets are refused with a status, and no output byte changes",
      "kernels/candidate.h",
      any,
      {Data::normal},
      30,
      false,
      refuses_cleanly};
  s[4] = {"the_stream_changes_nothing",
          "whatever the stream, what else is in flight and what was allocated before, a call gives the same bytes; it "
          "does not wait and can be captured in a graph",
          "kernels/candidate.h",
          any,
          data,
          30,
          true,
          any_stream};
  s[4].device = Statement::Device::cuda;
  return s;
}

}  // namespace mxcheck
