#pragma once
// Where tensors begin: so many bytes past an address that is a multiple of 64. The C interface promises alignment to
// the element and to nothing more.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mxcheck {

struct Misalignment {
  // The last entry holds for those after it too. Of a tensor of wider elements the next multiple below is taken.
  std::array<std::uint8_t, 4> inputs{};
  std::array<std::uint8_t, 4> outputs{};
  friend bool operator==(const Misalignment&, const Misalignment&) = default;

  [[nodiscard]] bool any() const { return *this != Misalignment{}; }
  [[nodiscard]] std::uint8_t of_input(std::size_t i) const { return inputs[i < 3 ? i : 3]; }
  [[nodiscard]] std::uint8_t of_output(std::size_t i) const { return outputs[i < 3 ? i : 3]; }
};

std::string to_text(const Misalignment& m);  // "3,0,0,0/5,0,0,0": inputs, then outputs
// Error{usage} for anything else, and for 64 bytes or more.
Misalignment parse_misalignment(std::string_view text);

}  // namespace mxcheck
