#pragma once
// catalogue.tsv: the libraries that the gate must fail, and who must find each.

#include <fstream>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace mxcheck::test {

// A row, as the head of catalogue.tsv has its columns; "-" is empty here.
struct WrongLibrary {
  std::string library, name, with, source, found_by, exit, says, what;

  // True if it is run in this way: a word of `with`.
  [[nodiscard]] bool has(std::string_view word) const {
    std::istringstream words(with);
    for (std::string one; words >> one;) {
      if (one == word) return true;
    }
    return false;
  }
  // The value of KEY=VALUE in `with`.
  [[nodiscard]] std::string value(const std::string& key, const std::string& otherwise) const {
    std::istringstream words(with);
    for (std::string one; words >> one;) {
      if (one.rfind(key + '=', 0) == 0) return one.substr(key.size() + 1);
    }
    return otherwise;
  }
  [[nodiscard]] std::vector<std::string> statements() const {
    std::vector<std::string> all(1);
    for (const char c : found_by) c == ',' ? all.emplace_back().clear() : all.back().push_back(c);
    return all;
  }
  [[nodiscard]] bool must_pass() const { return exit == "0"; }
  [[nodiscard]] int exit_code() const { return std::stoi(exit); }

  friend void PrintTo(const WrongLibrary& one, std::ostream* out) { *out << one.name; }
};

// The rows of a library, in order.
inline std::vector<WrongLibrary> read_catalogue(const std::string& path, std::string_view library) {
  std::ifstream file(path);
  std::vector<WrongLibrary> all;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    WrongLibrary r;
    std::istringstream cells(line);
    for (std::string* cell : {&r.library, &r.name, &r.with, &r.source, &r.found_by, &r.exit, &r.says, &r.what}) {
      if (!std::getline(cells, *cell, '\t')) throw std::runtime_error(path + " has a line of too few cells: " + line);
      if (*cell == "-") cell->clear();
    }
    if (r.library == library) all.push_back(r);
  }
  if (all.empty()) throw std::runtime_error(path + " has no library " + std::string(library));
  return all;
}

#ifdef MXCHECK_CATALOGUE
inline std::vector<WrongLibrary> wrong_libraries(std::string_view library) {
  return read_catalogue(MXCHECK_CATALOGUE, library);
}

// The libraries that a table of tests has, and no test of its own.
inline std::vector<WrongLibrary> tabled_libraries(std::string_view library) {
  std::vector<WrongLibrary> all;
  for (const WrongLibrary& one : wrong_libraries(library)) {
    if (!one.has("own_test")) all.push_back(one);
  }
  return all;
}

inline WrongLibrary wrong_library(std::string_view library, std::string_view name) {
  for (const WrongLibrary& one : wrong_libraries(library)) {
    if (one.name == name) return one;
  }
  throw std::runtime_error("the catalogue has no " + std::string(name));
}
#endif

}  // namespace mxcheck::test
