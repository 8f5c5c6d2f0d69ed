#pragma once
// GEMMs of four contracts, of all kinds of groups, with and without C and rows by index.

#include <string>
#include <vector>

#include "properties/operations/matmul/operation.h"

namespace mxcheck::test {

inline std::vector<Case> some_matmuls() {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  for (const char* contract : {"sm90_fp8+promote128", "sm90_bf16+decode", "sm90_bf16+from_c", "sm90_tf32"}) {
    const std::vector<Variant> all = askable_matmuls(std::string("matmul:") + contract);
    const std::size_t step = all.size() > 50 ? 5 : 1;
    for (std::size_t i = 0; i < all.size(); i += step, ++seed) {
      Case c = matmul_corner(all[i], 3 + static_cast<std::int64_t>(seed % 9), 5, 256, Data::normal, seed);
      matmul_case(c).adds = seed % 2 == 0;
      const int groups = matmul_of(all[i]).groups;
      if (seed % 3 == 0 && (groups == MXCHECK_DENSE || groups == MXCHECK_ROWS)) c.gather = 7;
      cases.push_back(c);
    }
  }
  return cases;
}

}  // namespace mxcheck::test
