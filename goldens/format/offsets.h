#pragma once
// Expert offsets as text and in files: the first row of each expert, then the number of rows.
//
//   parse_offsets("0,96,192", "--offsets")  == {0, 96, 192}
//   read_offsets("offsets.npy")             an I64 or I32 vector; or a text file of such numbers
//
// Does not promise that they ascend: check_offsets (reference/common/matrix.h) does, which knows the number of rows.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mxcheck {

// Decimal numbers of at least 0 with commas, blanks or line ends between. Error{usage} that begins with `where` for
// anything else, and for no numbers at all.
std::vector<std::int64_t> parse_offsets(const std::string& text, const std::string& where);

// A tensor of one dimension ("x.npy", "x.safetensors:offsets", "x.h5:/offsets") or a text of at most 16 MiB.
// Error{input} for a file that is neither.
std::vector<std::int64_t> read_offsets(const std::string& location);

std::string offsets_to_text(std::span<const std::int64_t> offsets);  // "0,96,192"

}  // namespace mxcheck
