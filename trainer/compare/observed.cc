#include "trainer/compare/observed.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace mxcheck {
namespace {

struct Mean {
  double sum = 0;
  std::int64_t count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  [[nodiscard]] double value() const { return sum / static_cast<double>(count); }
};
using Means = std::map<std::int64_t, Mean>;  // by step

StepCurve curve_from(const Means& means) {
  StepCurve curve;
  for (const auto& [step, mean] : means) curve.push_back({step, mean.value()});
  return curve;
}

double share(std::int64_t part, std::int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

std::vector<double> shares_of_rows(const LayerObservation& layer) {
  std::int64_t rows = 0;
  for (const std::int64_t load : layer.expert_loads) rows += load;
  std::vector<double> shares;
  if (rows == 0) return shares;
  for (const std::int64_t load : layer.expert_loads) shares.push_back(share(load, rows));
  std::ranges::sort(shares, std::greater<>());
  return shares;
}

double entropy(const std::vector<double>& shares) {
  double sum = 0;
  for (const double p : shares) {
    if (p > 0) sum -= p * std::log(p);
  }
  return shares.size() > 1 ? sum / std::log(static_cast<double>(shares.size())) : 1;
}

void add_routes(const Arm& arm, ObservedArm& out) {
  Means by_step;
  std::map<std::size_t, Mean> by_layer;
  for (const NamedRun* run : arm.runs) {
    for (const RecordedEvaluation& e : run->record.evaluations) {
      if (e.routes <= 0) continue;
      for (std::size_t l = 0; l < e.equal_routes.size(); ++l) {
        by_step[e.step].add(share(e.equal_routes[l], e.routes));
        if (&e == &run->record.evaluations.back()) by_layer[l].add(share(e.equal_routes[l], e.routes));
      }
    }
  }
  out.equal_routes = curve_from(by_step);
  for (const auto& [layer, mean] : by_layer) out.equal_routes_by_layer.push_back(mean.value());
}

void add_loads(const Arm& arm, ObservedArm& out) {
  Means by_step;
  std::vector<std::vector<Mean>> last;  // by layer and rank
  for (const NamedRun* run : arm.runs) {
    for (const RecordedObservation& o : run->record.observations) {
      for (std::size_t l = 0; l < o.layers.size(); ++l) {
        const std::vector<double> shares = shares_of_rows(o.layers[l]);
        if (shares.empty()) continue;
        by_step[o.step].add(entropy(shares));
        if (&o != &run->record.observations.back()) continue;
        if (last.size() <= l) last.resize(l + 1);
        if (last[l].size() < shares.size()) last[l].resize(shares.size());
        for (std::size_t i = 0; i < shares.size(); ++i) last[l][i].add(shares[i]);
      }
    }
  }
  out.load_entropy = curve_from(by_step);
  for (const std::vector<Mean>& layer : last) {
    std::vector<double>& shares = out.loads.emplace_back();
    for (const Mean& mean : layer) shares.push_back(mean.value());
  }
}

void add_operands(const Arm& arm, ObservedArm& out) {
  std::map<std::string, std::pair<Means, Means>> by_name;
  for (const NamedRun* run : arm.runs) {
    for (const RecordedObservation& o : run->record.observations) {
      std::map<std::string, OperandFacts> sums;  // over the layers
      for (const LayerObservation& layer : o.layers) {
        for (const OperandFacts& facts : layer.operands) {
          OperandFacts& sum = sums[facts.name];
          sum.elements += facts.elements;
          sum.saturated += facts.saturated;
          sum.flushed += facts.flushed;
        }
      }
      for (const auto& [name, sum] : sums) {
        if (sum.elements <= 0) continue;
        by_name[name].first[o.step].add(share(sum.saturated, sum.elements));
        by_name[name].second[o.step].add(share(sum.flushed, sum.elements));
      }
    }
  }
  for (const auto& [name, means] : by_name)
    out.operands.push_back({name, curve_from(means.first), curve_from(means.second)});
}

}  // namespace

ObservedArm observed_of(const Arm& arm) {
  ObservedArm out;
  add_routes(arm, out);
  add_loads(arm, out);
  add_operands(arm, out);
  return out;
}

}  // namespace mxcheck
