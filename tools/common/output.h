#pragma once
// Answers of the subcommands: text and JSON on standard output, files, and errors with the place that the user
// knows.

#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "goldens/json/json.h"
#include "numerics/error.h"
#include "numerics/scale/recipe_words.h"  // hexfloat

namespace mxcheck {

// The reference knows neither files nor flags: its errors are given the place that the user knows.
template <class Action>
void in_place(const std::string& where, Action action) {
  try {
    action();
  } catch (const Error& e) {
    throw Error(e.kind(), where + ": " + e.what());
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::environment, where + ": out of memory");
  }
}

// The same, for errors that may begin with the input's or the output's name already.
template <class Action>
void in_place_of_input(const std::string& input, const std::string& output, Action action) {
  try {
    action();
  } catch (const Error& e) {
    const std::string text = e.what();
    const bool names_file = text.starts_with(input) || text.starts_with(output);
    throw Error(e.kind(), names_file ? text : input + ": " + text);
  }
}

// Writes to standard output; Error{environment} when that fails (a full disk behind a redirection).
void print(std::string_view text);

// The same, flushed at once, for an answer without which no file may appear. If the reader of a pipe has ended, this
// throws too; otherwise SIGPIPE would end the process.
void print_at_once(std::string_view text);

std::string decimal(double value);                       // the shortest decimal that reads back as the same double
std::string decimal(float value);                        // ... as the same float
std::string hex(std::uint32_t bits, int width_in_bits);  // 0x7e: as many digits as the width needs

template <class Formats>
std::vector<std::string> names_of(const Formats& formats) {
  std::vector<std::string> names;
  for (const Format format : formats) names.emplace_back(spec(format).name);
  return names;
}

// JSON has no NaN and no infinities: these become the strings "nan", "inf" and "-inf".
Json json_number(double value);

// The text and a line end; Error{environment} when standard output cannot be written. Bytes that are no UTF-8, which
// arguments and file names may hold, are replaced.
void print_json(const Json& json);

enum class OutputKinds { safetensors_or_hdf5, npy_or_safetensors };

// Error{usage} for another extension, and for an output that is one of the inputs: files, or tensors in files
// ("x.safetensors:w"), or empty texts.
void check_output(const std::string& output, OutputKinds kinds, const std::vector<std::string>& inputs);

}  // namespace mxcheck
