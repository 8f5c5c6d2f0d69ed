#pragma once
// The card that a result was measured on, which every result states. Only results of one card at the same clocks are
// divided by one another (benchmarks/compare.py): cards of one name differ by up to 9 %, others by more.

#include <string>

#include "goldens/json/json.h"

namespace mxcheck::bench {

struct Card {
  std::string name;
  int processors = 0;
  int sm_clock_mhz = 0;  // at most
  int memory_clock_mhz = 0;
  std::string driver;  // "580.65.06", or "" where the driver does not say
  int cuda = 0;        // that the driver has: 13000
};

inline Json json_of(const Card& card) {
  return Json{{"name", card.name},
              {"processors", card.processors},
              {"sm_clock_mhz", card.sm_clock_mhz},
              {"memory_clock_mhz", card.memory_clock_mhz},
              {"driver", card.driver},
              {"driver_cuda", card.cuda}};
}

inline std::string to_line(const Card& card) { return to_text(json_of(card), {-1}); }

// A line of a table's head. Without fmt, which nvcc does not compile.
inline std::string to_text(const Card& card) {
  const auto text = [](int number) { return std::to_string(number); };
  return card.name + ", " + text(card.processors) + " processors, at most " + text(card.sm_clock_mhz) +
         " MHz, memory " + text(card.memory_clock_mhz) + " MHz; driver " + card.driver + ", CUDA " +
         text(card.cuda / 1000) + "." + text(card.cuda % 1000 / 10);
}

}  // namespace mxcheck::bench
