#pragma once
// Vector clocks: which events a thread, a barrier or a memory cell knows to lie before it. An event is a component (a
// thread, the tensor-core operations of a thread, a barrier's transactions) and its number there, from 1 on.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mxcheck::emulation::sm100 {

struct Event {
  std::uint32_t component = 0;
  std::uint32_t number = 0;  // 0: no event
  bool operator==(const Event&) const = default;
};

class Clock {
 public:
  [[nodiscard]] bool knows(Event e) const {
    return e.number == 0 || (e.component < known_.size() && known_[e.component] >= e.number);
  }

  [[nodiscard]] std::uint32_t upto(std::uint32_t component) const {
    return component < known_.size() ? known_[component] : 0;
  }

  void learn(Event e) {
    if (e.number == 0) return;
    if (e.component >= known_.size()) known_.resize(e.component + std::size_t{1});
    known_[e.component] = std::max(known_[e.component], e.number);
  }

  [[nodiscard]] bool covers(const Clock& other) const {
    for (std::size_t i = 0; i < other.known_.size(); ++i) {
      if (other.known_[i] > (i < known_.size() ? known_[i] : 0)) return false;
    }
    return true;
  }

  void join(const Clock& other) {
    if (other.known_.size() > known_.size()) known_.resize(other.known_.size());
    for (std::size_t i = 0; i < other.known_.size(); ++i) known_[i] = std::max(known_[i], other.known_[i]);
  }

 private:
  std::vector<std::uint32_t> known_;
};

}  // namespace mxcheck::emulation::sm100
