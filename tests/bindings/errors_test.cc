#include "numerics/error.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "bindings/guard.h"

// What other languages say of the table of errors.
namespace mxcheck {
namespace {

std::string file_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(std::string(MXCHECK_SOURCE_DIR "/") + path).rdbuf();
  return text.str();
}

// Programs that were built before know these.
TEST(Errors, keep_their_numbers) {
  const std::set<std::string> known{"usage 1 2", "input 2 2", "environment 3 3", "golden 4 5", "internal 5 70"};
  std::set<std::string> rows;
  for (const ErrorKindSpec& row : kErrorKinds)
    rows.insert(std::string(row.name) + " " + std::to_string(row.c_result) + " " + std::to_string(row.exit_code));
  EXPECT_EQ(rows, known);
}

TEST(Errors, are_results_of_the_c_interface) {
  for (const ErrorKindSpec& row : kErrorKinds) {
    EXPECT_EQ(c::guarded([&] { throw Error(row.kind, "words"); }), row.c_result);
    EXPECT_EQ(c::last_error(), "words");
  }
  EXPECT_EQ(c::guarded([] {}), 0);
}

TEST(Errors, are_those_of_the_c_header) {
  const std::string text = file_text("bindings/mxcheck_c.h");
  const std::string errors = text.substr(text.find("Errors, a function's result: 0 none, "), 400);
  for (const ErrorKindSpec& row : kErrorKinds) {
    const std::string words = row.kind == ErrorKind::internal ? std::string(row.meaning) : std::string(row.name);
    EXPECT_NE(errors.find(std::to_string(row.c_result) + " " + words), std::string::npos) << row.name;
  }
}

TEST(Errors, are_exceptions_of_python) {
  const std::string text = file_text("python/mxcheck/_errors.py");
  std::string table = "_TABLE = (\n";
  for (const ErrorKindSpec& row : kErrorKinds) {
    table += "    (\"" + std::string(row.name) + "\", " + std::to_string(row.c_result) + ", " +
             std::to_string(row.exit_code) + ", " + std::string(row.python) + "),\n";
    EXPECT_NE(text.find("class " + std::string(row.python) + "("), std::string::npos) << row.python;
  }
  EXPECT_NE(text.find(table + ")\n"), std::string::npos) << table;
}

TEST(Errors, have_their_exit_codes_in_the_documentation) {
  const std::string text = file_text("docs/ci.md");
  for (const ErrorKindSpec& row : kErrorKinds)
    EXPECT_NE(text.find("\n| " + std::to_string(row.exit_code) + " | "), std::string::npos) << row.name;
}

}  // namespace
}  // namespace mxcheck
