#pragma once
// The card that a result was measured on, which every result states. Only results of one card at the same clocks are
// divided by one another (benchmarks/compare.py): cards of one name differ by up to 9 %, others by more.

#include <string>

#include <fmt/format.h>

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

// A line of a table's head.
inline std::string to_text(const Card& card) {
  return fmt::format("{}, {} processors, at most {} MHz, memory {} MHz; driver {}, CUDA {}.{}", card.name,
                     card.processors, card.sm_clock_mhz, card.memory_clock_mhz, card.driver, card.cuda / 1000,
                     card.cuda % 1000 / 10);
}

}  // namespace mxcheck::bench
