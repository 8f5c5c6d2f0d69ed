// mxcheck parallel: the command line.

#include "tools/parallel/parallel.h"

#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>

#include "kernels/parallel/ranks.h"
#include "numerics/error.h"
#include "numerics/text.h"
#include "tools/subcommands.h"

namespace mxcheck {

namespace parallel = mxcheck_kernels::parallel;

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

void check_options(const ParallelOptions& o) {
  const LayerRecipe& recipe = parallel_recipe(o);
  if (o.width % 8 != 0 || o.inner % 8 != 0)
    refuse_usage("--width and --inner must be multiples of 8, which rows of 16 bytes need");
  if (o.top_k > o.experts)
    refuse_usage("--top-k " + std::to_string(o.top_k) + " is more than the " + std::to_string(o.experts) + " experts");
  if (o.tokens * o.top_k > kMost) refuse_usage("--tokens times --top-k is beyond 2^31 - 1 rows");
  (void)recipe;
  if (!(o.timeout >= 0.1 && o.timeout <= 86'400)) refuse_usage("--timeout must be from 0.1 to 86400 seconds");
  if (!(o.slow >= 0)) refuse_usage("--slow must be 0 or more seconds");
  if (!(o.link >= 0)) refuse_usage("--link must be 0 or more GB/s");
}

int run_parallel(const ParallelOptions& o) {
  try {
    check_options(o);
    const std::optional<parallel::RankPlace> place =
        parallel::find_rank([](const char* name) { return std::getenv(name); });
    if (place) {
      if (o.ranks != 0 && o.ranks != place->ranks) {
        refuse_usage("--ranks " + std::to_string(o.ranks) + ", and " + place->launcher + " has started " +
                     std::to_string(place->ranks) + ": leave out --ranks");
      }
      parallel::RankPlace at = *place;
      if (std::getenv(kListenerVariable) != nullptr) at.launcher = "mxcheck";
      return run_parallel_rank(o, at);
    }
    const std::int64_t ranks = o.ranks == 0 ? 1 : o.ranks;
    (void)parallel::place_experts(o.placement, o.experts, static_cast<int>(ranks));
    return launch_ranks(ranks, {.after_failure = parallel_timeout(o)});
  } catch (const parallel::ParallelError& e) {
    throw Error(e.fault() == parallel::Fault::environment ? ErrorKind::environment : ErrorKind::usage, e.what());
  }
}

void add_layer_options(Command& sub, ParallelOptions& o) {
  const std::string group = "Layer";
  sub.option("--tokens", o.tokens, "Tokens of all ranks").between(0, kMost).shows_default().in_group(group);
  sub.option("--width", o.width, "d").between(8, kMost).shows_default().in_group(group);
  sub.option("--inner", o.inner, "n of an expert").between(8, kMost / 2).shows_default().in_group(group);
  sub.option("--experts", o.experts, "Of all ranks").between(1, 65536).shows_default().in_group(group);
  sub.option("--top-k", o.top_k, "Experts of a token").between(1, 65536).shows_default().in_group(group);
  sub.option("--recipe", o.recipe, "One of mxcheck layer --list without scales of whole tensors and random words")
      .not_empty()
      .shows_default()
      .in_group(group);
  sub.option("--gate-up", o.gate_up, "Columns of W1 and H")
      .one_of({"halves", "interleaved"})
      .shows_default()
      .in_group(group);
  sub.option("--load", o.load,
             "Of the experts: random; skewed: the odds of expert e are 1 / (1 + e)^2; one: the first k get all")
      .one_of({"random", "skewed", "one"})
      .shows_default()
      .in_group(group);
  sub.option("--capacity", o.capacity, "Rows that an expert has at most, later ones are dropped; 0: any number")
      .between(0, kMost)
      .shows_default()
      .in_group(group);
  sub.option("--seed", o.seed, "Of all tensors")
      .between(0, std::numeric_limits<std::int64_t>::max())
      .shows_default()
      .in_group(group);
}

void add_rank_options(Command& sub, ParallelOptions& o) {
  const std::string group = "Ranks";
  sub.option("--ranks", o.ranks, "Processes to start on this host; 0: one, or those of torchrun, mpirun or srun")
      .between(0, 1024)
      .shows_default()
      .in_group(group);
  sub.option("--placement", o.placement,
             "The rank of each expert: contiguous, strided, one (all on the last rank), seed:N, or a list 0,0,1,1")
      .not_empty()
      .shows_default()
      .in_group(group);
  sub.option("--dispatch", o.dispatch, "How X travels: bf16, or fp8 (E4M3 with scales of powers of two, 1 x 128)")
      .one_of({"bf16", "fp8"})
      .shows_default()
      .in_group(group);
  sub.option("--chunks", o.chunks, "Groups of a rank's experts: one is computed while the next one's rows arrive")
      .between(1, 1024)
      .shows_default()
      .in_group(group);
  sub.option(
         "--engine", o.engine,
         "reference; sm90; or libraries behind the candidate interface, separated by commas, that have moe_forward, "
         "moe_backward and aggregate")
      .not_empty()
      .shows_default()
      .in_group(group);
  sub.option(
         "--transport", o.transport,
         "auto: for GPUs peer (memory of one host that the ranks show one another) if each pair can, else nccl; for "
         "the host sockets")
      .one_of({"auto", "peer", "nccl", "sockets"})
      .shows_default()
      .in_group(group);
  sub.option("--nccl", o.nccl, "libnccl.so.2, 2.27 or later, if the dynamic linker does not find it; or MXCHECK_NCCL")
      .not_empty()
      .in_group(group);
  sub.flag("--one-gpu", o.one_gpu, "All ranks of a host share its first GPU, over sockets").in_group(group);
  sub.option("--timeout", o.timeout, "Seconds after which a rank that does not arrive is given up")
      .shows_default()
      .in_group(group);
}

void add_report_options(Command& sub, ParallelOptions& o) {
  const std::string group = "Answer";
  sub.option("--against", o.against, "call: compare with one call that has all tokens and experts, on rank 0; or none")
      .one_of({"call", "none"})
      .shows_default()
      .in_group(group);
  sub.option("--samples", o.samples, "Passes to time; more than 1: also transfers and computation alone")
      .between(1, 1000)
      .shows_default()
      .in_group(group);
  sub.option("--link", o.link, "GB/s of a GPU's links in one direction (450 of an H200), to print the share")
      .in_group(group);
  sub.option("--slow", o.slow, "Seconds after which the last rank to arrive is called slow")
      .shows_default()
      .in_group(group);
  sub.option("--delay", o.delay, "RANK:SECONDS, to see that: this rank waits before a pass")
      .not_empty()
      .in_group(group);
  sub.flag("--json", o.json, "The answer as JSON").in_group(group);
}

}  // namespace

const LayerRecipe& parallel_recipe(const ParallelOptions& o) {
  const LayerRecipe& recipe = layer_recipe_named(o.recipe);
  if (is_stochastic(recipe))
    refuse_usage("--recipe " + o.recipe +
                 ": its random words are by the number of a row in the whole layer, which an " +
                 "expert's rank does not have");
  for (const GemmRule& gemm : recipe.gemms) {
    for (const OperandRule* operand : {&gemm.a, &gemm.b}) {
      if (operand->quantized() && has_scale_of_tensor(*operand))
        refuse_usage("--recipe " + o.recipe + ": has a scale of a whole tensor, which no rank has");
    }
  }
  return recipe;
}

parallel::LayerSpec layer_spec(const ParallelOptions& o) {
  const LayerRecipe& recipe = parallel_recipe(o);
  parallel::LayerSpec spec;
  spec.width = o.width, spec.inner = o.inner, spec.recipe = o.recipe;
  spec.interleaved = o.gate_up == "interleaved", spec.dispatches_fp8 = o.dispatch == "fp8";
  spec.keeps_x_codes = recipe.keeps_quantized_x;
  spec.x_scales_fp32 = recipe.keeps_quantized_x && scale_format_of(recipe.gemm(LayerGemm::up).a) == Format::fp32;
  spec.keeps_h_e5m6 = recipe.kept_h.quantized();
  spec.chunks = static_cast<int>(o.chunks);
  return spec;
}

std::chrono::milliseconds parallel_timeout(const ParallelOptions& o) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(o.timeout * 1000));
}

void add_parallel(Command& app) {
  Command sub = app.subcommand("parallel", "A mixture-of-experts layer over several processes or GPUs");
  sub.requires_subcommand();
  auto o = std::make_shared<ParallelOptions>();
  Command layer = sub.subcommand("layer", "The same bits as in one call? And how fast?");
  add_layer_options(layer, *o);
  add_rank_options(layer, *o);
  add_report_options(layer, *o);
  layer.exits(
      {{0, "every output has the bits of one call, or nothing was compared"},
       {1, "an output differs"},
       {2, "the command line, or ranks that differ in configuration, library or data"},
       {3, "the machine lacks something: NCCL, a GPU, memory"},
       {6, "a rank ended, or did not arrive in time"},
       {128, "and the number of a signal: SIGINT, SIGTERM or SIGHUP, which the launcher hands on to its ranks"}});
  layer.footer(
      "Examples:\n"
      "  mxcheck parallel layer --ranks 3 --placement seed:1            three processes on the host\n"
      "  mxcheck parallel layer --ranks 2 --engine sm90 --chunks 4      two GPUs, dispatch under the GEMMs\n"
      "  torchrun --nproc-per-node 4 --no-python mxcheck parallel layer --engine sm90");
  layer.runs([o] { return run_parallel(*o); });
}

}  // namespace mxcheck
