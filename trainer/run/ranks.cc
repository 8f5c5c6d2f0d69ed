#include "trainer/run/ranks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "numerics/error.h"
#include "reference/training/microbatches.h"

namespace mxcheck {
namespace {

// ---- A step on CPUs ----

// A rank's losses and digests, without gradients.
std::string losses_text(const MicrobatchSum& sum) {
  std::vector<std::uint64_t> words{std::bit_cast<std::uint32_t>(sum.loss),
                                   std::bit_cast<std::uint32_t>(sum.balance_loss),
                                   sum.overflowed ? std::uint64_t{1} : std::uint64_t{0}};
  for (const LayerObservation& layer : sum.layers) words.push_back(layer.output_digest);
  std::string text(words.size() * sizeof(words[0]), '\0');
  std::memcpy(text.data(), words.data(), text.size());
  return text;
}

MicrobatchSum losses_from(const std::string& text) {
  std::vector<std::uint64_t> words(text.size() / sizeof(std::uint64_t));
  if (words.size() < 3)
    throw Error(ErrorKind::internal, "a rank's losses have " + std::to_string(text.size()) + " bytes");
  std::memcpy(words.data(), text.data(), words.size() * sizeof(words[0]));
  MicrobatchSum sum;
  sum.loss = std::bit_cast<float>(static_cast<std::uint32_t>(words[0]));
  sum.balance_loss = std::bit_cast<float>(static_cast<std::uint32_t>(words[1]));
  sum.overflowed = words[2] != 0;
  for (std::size_t i = 3; i < words.size(); ++i) sum.layers.emplace_back().output_digest = words[i];
  return sum;
}

// Neighbours are added until one is left.
MicrobatchSum tree_of(std::vector<MicrobatchSum> sums) {
  for (std::size_t left = sums.size(); left > 1; left /= 2) {
    for (std::size_t i = 0; i < left / 2; ++i) {
      MicrobatchSum sum = std::move(sums[2 * i]);
      add(sum, std::move(sums[2 * i + 1]), 1);
      sums[i] = std::move(sum);
    }
  }
  return std::move(sums.front());
}

float tree_of(std::vector<float>& terms) {
  for (std::size_t left = terms.size(); left > 1; left /= 2) {
    for (std::size_t i = 0; i < left / 2; ++i) terms[i] = terms[2 * i] + terms[2 * i + 1];
  }
  return terms.front();
}

// Each rank adds up one slice of all ranks' gradients, in the order of the tree, and gets the others' slices.
void exchange_gradients(std::vector<std::vector<float>>& gradients, RankGroup& ranks) {
  const auto count = static_cast<std::size_t>(ranks.ranks());
  std::vector<float> all;
  for (const std::vector<float>& gradient : gradients) all.insert(all.end(), gradient.begin(), gradient.end());
  all.resize((all.size() + count - 1) / count * count);
  std::vector<float> slices(all.size());
  ranks.all_to_all("gradients", all, slices);
  const std::size_t size = all.size() / count;
  const std::size_t own = static_cast<std::size_t>(ranks.rank()) * size;
  std::vector<float> terms(count);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t r = 0; r < count; ++r) terms[r] = slices[r * size + i];
    all[own + i] = tree_of(terms);
  }
  ranks.gather_parts("summed gradients", all);
  auto from = all.cbegin();
  for (std::vector<float>& gradient : gradients) {
    std::copy_n(from, gradient.size(), gradient.begin());
    from += std::ssize(gradient);
  }
}

}  // namespace

void check_ranks(const TrainingConfig& config, std::int64_t ranks) {
  constexpr std::int64_t kMostRanks = 16;
  const bool shares =
      ranks > 0 && ranks <= kMostRanks && (ranks & (ranks - 1)) == 0 && config.microbatches % ranks == 0;
  if (shares) return;
  throw Error(ErrorKind::usage, std::to_string(ranks) + " ranks for " + std::to_string(config.microbatches) +
                                    (config.microbatches == 1 ? " microbatch" : " microbatches") +
                                    ": a power of two up to 16 that divides the microbatches is needed");
}

StepOutcome step_of_ranks(const TrainingConfig& config, TrainingState& state, std::span<const std::uint8_t> tokens,
                          bool observe, int threads, RankGroup& ranks) {
  const std::int64_t own = config.microbatches / ranks.ranks();
  MicrobatchSum mine = sum_of_microbatches(config, state, tokens, {ranks.rank() * own, own}, observe, threads);
  std::vector<MicrobatchSum> sums;
  for (const std::string& text : ranks.all_gather("losses", losses_text(mine))) sums.push_back(losses_from(text));
  const bool overflowed =
      std::any_of(sums.begin(), sums.end(), [](const MicrobatchSum& sum) { return sum.overflowed; });
  if (!overflowed) exchange_gradients(mine.gradients, ranks);
  // Loads and operands are the first microbatch's.
  if (ranks.rank() == 0) sums.front().layers = std::move(mine.layers);
  MicrobatchSum sum = tree_of(std::move(sums));
  if (!overflowed) sum.gradients = std::move(mine.gradients);
  return finish_step(config, state, std::move(sum), threads);
}

// ---- The leader's words ----

namespace {

constexpr std::string_view kCommand = "command";
constexpr std::string_view kLoad = "load ";
constexpr std::string_view kStep = "step ";
constexpr std::string_view kObservedStep = "see  ";
constexpr std::string_view kEnd = "end  ";

// Rank 0's text, on every rank.
std::string told(RankGroup& ranks, std::string_view step, std::string_view text) {
  return std::move(ranks.all_gather(step, ranks.rank() == 0 ? text : std::string_view()).front());
}

std::string_view text_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {static_cast<const char*>(static_cast<const void*>(bytes.data())), bytes.size()};
}

void share_tensor(std::vector<float>& tensor, RankGroup& ranks) {
  const std::string text = told(ranks, "state", text_of(tensor));
  tensor.resize(text.size() / sizeof(float));
  if (!text.empty()) std::memcpy(tensor.data(), text.data(), text.size());
}

// The state of rank 0, on every rank.
void share_state(TrainingState& state, RankGroup& ranks) {
  const std::int64_t numbers[] = {state.step, state.updates, std::ssize(state.weights)};
  std::string text(sizeof(numbers), '\0');
  std::memcpy(text.data(), numbers, sizeof(numbers));
  text = told(ranks, "state", text);
  std::int64_t found[3] = {};
  std::memcpy(found, text.data(), std::min(text.size(), sizeof(found)));
  state.step = found[0], state.updates = found[1];
  for (auto* tensors : {&state.weights, &state.first_moments, &state.second_moments}) {
    tensors->resize(static_cast<std::size_t>(found[2]));
    for (std::vector<float>& tensor : *tensors) share_tensor(tensor, ranks);
  }
}

class LeadingEngine final : public TrainingEngine {
 public:
  LeadingEngine(TrainingEngine& own, RankGroup& ranks) : own_(own), ranks_(ranks) {}

  [[nodiscard]] std::string name() const override { return own_.name(); }
  [[nodiscard]] std::string device() const override {
    return std::to_string(ranks_.ranks()) + " ranks, rank 0 on " + own_.device();
  }
  void load(TrainingState state) override {
    told(ranks_, kCommand, kLoad);
    share_state(state, ranks_);
    own_.load(std::move(state));
  }
  [[nodiscard]] std::int64_t steps_done() const override { return own_.steps_done(); }
  [[nodiscard]] const TrainingState& state() override { return own_.state(); }
  StepOutcome step(std::span<const std::uint8_t> tokens, bool observe) override {
    std::string text(observe ? kObservedStep : kStep);
    for (const std::uint8_t byte : tokens) text.push_back(static_cast<char>(byte));
    told(ranks_, kCommand, text);
    return own_.step(tokens, observe);
  }
  Evaluation evaluate(const LayerRecipe& recipe, std::span<const std::uint8_t> tokens) override {
    return own_.evaluate(recipe, tokens);
  }

 private:
  TrainingEngine& own_;
  RankGroup& ranks_;
};

}  // namespace

std::unique_ptr<TrainingEngine> leading_engine(TrainingEngine& own, RankGroup& ranks) {
  return std::make_unique<LeadingEngine>(own, ranks);
}

void dismiss_followers(RankGroup& ranks) { told(ranks, kCommand, kEnd); }

void follow(TrainingEngine& own, RankGroup& ranks) {
  for (;;) {
    const std::string text = told(ranks, kCommand, "");
    if (text == kEnd) return;
    if (text == kLoad) {
      TrainingState state;
      share_state(state, ranks);
      own.load(std::move(state));
      continue;
    }
    std::vector<std::uint8_t> tokens;
    for (const char c : std::string_view(text).substr(std::min(text.size(), kStep.size())))
      tokens.push_back(static_cast<std::uint8_t>(c));
    own.step(tokens, text.starts_with(kObservedStep));
  }
}

}  // namespace mxcheck
