#include "reference/training/state.h"

#include <cmath>
#include <limits>

#include "numerics/elementary/elementary.h"
#include "reference/common/checked_size.h"
#include "reference/training/parts.h"

namespace mxcheck {
namespace {

// (u_0 + ... + u_11 - 393210) / 65536 of twelve 16-bit numbers: an integer of 20 bits over a power of two, exact.
float normal_number(std::uint64_t seed, std::size_t parameter, std::int64_t element) {
  const auto i = static_cast<std::uint64_t>(element);
  std::int32_t sum = -393210;
  for (std::uint32_t j = 0; j < 6; ++j) {
    const std::uint32_t word = philox_word(seed, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                                           static_cast<std::uint32_t>(parameter), j);
    sum += static_cast<std::int32_t>(word & 0xFFFFU) + static_cast<std::int32_t>(word >> 16);
  }
  return static_cast<float>(sum) * 0x1p-16F;
}

std::vector<float> initial_weights(const ParameterSpec& spec, std::uint64_t seed, std::size_t parameter, int threads) {
  std::vector<float> w;
  resize_or_throw(w, spec.size(), spec.name);
  parallel_ranges(spec.size(), spec.size() * 8, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      w[static_cast<std::size_t>(i)] = spec.deviation == 0 ? 1.0F : spec.deviation * normal_number(seed, parameter, i);
  });
  return w;
}

// Up or down by the low bit of a word that the normal numbers do not take.
void perturb_all(std::vector<float>& w, std::uint64_t seed, std::size_t parameter) {
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::uint32_t word = philox_word(seed, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                                           static_cast<std::uint32_t>(parameter), 6);
    w[i] *= word & 1U ? 1 + 0x1p-8F : 1 - 0x1p-8F;
  }
}

}  // namespace

TrainingState initial_state(const TrainingConfig& config, int threads) {
  check(config);
  TrainingState state;
  const std::vector<ParameterSpec> specs = parameters_of(config.model);
  std::int64_t perturbed = config.perturb - 1;  // counted from the tensor that is next
  for (std::size_t p = 0; p < specs.size(); ++p) {
    state.weights.push_back(initial_weights(specs[p], config.seed, p, threads));
    if (config.perturb == kPerturbAll) perturb_all(state.weights.back(), config.seed, p);
    if (perturbed >= 0 && perturbed < specs[p].size()) {
      float& weight = state.weights.back()[static_cast<std::size_t>(perturbed)];
      weight = std::nextafter(weight, std::numeric_limits<float>::infinity());
    }
    perturbed -= specs[p].size();
    state.first_moments.emplace_back();
    resize_or_throw(state.first_moments.back(), specs[p].size(), specs[p].name);
    state.second_moments.emplace_back();
    resize_or_throw(state.second_moments.back(), specs[p].size(), specs[p].name);
  }
  return state;
}

}  // namespace mxcheck
