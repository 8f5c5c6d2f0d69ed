// docs/candidate.md's table of clauses: it quotes the headers, names statements and bad arguments that there are, and
// leaves none of the bad arguments out.

#include <fmt/format.h>
#include <cctype>
#include <nlohmann/json.hpp>
#include <regex>

#include "properties/core/invalid_call.h"
#include "properties/core/layers/layers.h"
#include "properties/core/operation.h"
#include "properties/core/statement.h"
#include "tests/repository/rules.h"
#include "tests/testing.h"

namespace mxcheck::repository {
namespace {

struct Clause {
  std::string id;
  std::string quote;
  std::string checked_by;
};

std::vector<Clause> clauses() {
  static const std::regex kRow(R"(\| ([CDKLMNRW][0-9]+) \| (.+) \| (.+) \|)");
  std::vector<Clause> all;
  std::istringstream lines(contents(root() / "docs/candidate.md"));
  for (std::string line; std::getline(lines, line);) {
    std::smatch parts;
    if (std::regex_match(line, parts, kRow)) all.push_back({parts[1], parts[2], parts[3]});
  }
  return all;
}

// Words with one space between them; a comment's stars and slashes at the start of a line left out.
std::string words_of(const std::string& text) {
  static const std::regex kMargin(R"(\n */?\*+ ?)");
  std::string words;
  for (const char c : std::regex_replace("\n" + text, kMargin, "\n")) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!space || (!words.empty() && words.back() != ' ')) words += space ? ' ' : c;
  }
  return words;
}

std::vector<std::string> between(const std::string& text, char mark) {
  const std::regex pattern(std::string(1, mark) + "([^" + mark + "]+)" + mark);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) found.push_back((*it)[1]);
  return found;
}

std::set<std::string> bad_arguments() {
  std::set<std::string> all;
  for (const InvalidCall& invalid : common_invalid_calls()) all.insert(invalid.how);
  for (const InvalidTensor& invalid : invalid_tensors()) all.insert(invalid.how);
  for (const InvalidCall& invalid : misplaced_offsets(0)) all.insert(invalid.how);
  for (const Operation* operation : all_operations()) {
    for (const InvalidCall& invalid : operation->invalid_calls()) all.insert(invalid.how);
  }
  return all;
}

TEST(Clauses, are_numbered_and_quote_their_headers) {
  const std::map<char, std::string> headers{
      {'C', words_of(contents(root() / "kernels/candidate.h"))},
      {'M', words_of(contents(root() / "kernels/candidate_matmul.h"))},
      {'N', words_of(contents(root() / "kernels/candidate_nvfp4.h"))},
      {'R', words_of(contents(root() / "kernels/candidate_route.h"))},
      {'L', words_of(contents(root() / "kernels/candidate_layer.h"))},
      {'W', words_of(contents(root() / "kernels/candidate_moe.h"))},
      {'K', words_of(contents(root() / "kernels/candidate_kept_weights.h"))},
      {'D', words_of(contents(root() / "kernels/candidate_dispatch.h"))},
  };
  std::map<char, int> count;
  for (const Clause& clause : clauses()) {
    const char header = clause.id[0];
    EXPECT_EQ(clause.id, header + std::to_string(++count[header]));
    EXPECT_NE(headers.at(header).find(words_of(clause.quote)), std::string::npos) << clause.id << ": " << clause.quote;
  }
  EXPECT_EQ(count.size(), headers.size());
}

TEST(Clauses, name_statements_and_bad_arguments_that_there_are) {
  std::set<std::string> statements;
  for (const Statement& s : all_statements()) statements.emplace(s.name);
  const std::set<std::string> bad = bad_arguments();
  static const std::regex kName("[a-z][a-z0-9]*(_[a-z0-9]+)+");  // other code is no name of a statement
  for (const Clause& clause : clauses()) {
    for (const std::string& name : between(clause.checked_by, '`'))
      EXPECT_TRUE(!std::regex_match(name, kName) || statements.contains(name)) << clause.id << ": " << name;
    for (const std::string& how : between(clause.checked_by, '"'))
      EXPECT_TRUE(bad.contains(how)) << clause.id << ": " << how;
  }
}

TEST(Clauses, leave_no_bad_argument_out) {
  std::set<std::string> named;
  for (const Clause& clause : clauses()) {
    for (std::string& how : between(clause.checked_by, '"')) named.insert(std::move(how));
  }
  for (const std::string& how : bad_arguments()) EXPECT_TRUE(named.contains(how)) << how;
}

// docs/layers.md has a line for each of the layers that the gate draws, with their values, and no other.

std::string row_of(const ProductionLayer& l) {
  std::string router = " |  | ";
  if (l.router) {
    const LayerRouter& r = *l.router;
    router = fmt::format("`{}`{} | {} | {}", r.variant, r.bias ? " + bias" : "",
                         r.groups > 1 ? fmt::format("{} of {}", r.groups_kept, r.groups) : "", r.scale);
  }
  return fmt::format("| [{}]({}) | {} | {} | {} | {} | {} | {} | [values]({}) |", l.model, l.source, l.d, l.n,
                     l.experts, l.active, l.shared, router, l.checked);
}

TEST(LayersPage, has_each_layer_as_it_is_drawn) {
  std::istringstream lines(contents(root() / "docs/layers.md"));
  std::size_t at = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| [")) continue;
    ASSERT_LT(at, production_layers().size()) << line;
    EXPECT_EQ(line, row_of(production_layers()[at++]));
  }
  EXPECT_EQ(at, production_layers().size());
}

// The build must not contract a * b + c into one rounding: neither the code that this very file is compiled to, nor by
// the flags of any other file.

// Free to contract, were the build to allow it: the target has the instruction, the expression is one statement.
#if defined(__x86_64__)
__attribute__((noinline, target("fma")))
#else
__attribute__((noinline))
#endif
double
multiply_add(double a, double b, double c) {
  return a * b + c;
}

TEST(Contraction, is_off_in_this_build) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "this CPU has no FMA, so contraction could not show";
#endif
  // (1 + 2^-30)^2 = 1 + 2^-29 + 2^-60: the last term is lost when the product is rounded, and left when it is not.
  const double a = 1 + 0x1p-30;
  const double c = -(1 + 0x1p-29);
  ASSERT_EQ(std::fma(a, a, c), 0x1p-60);
  EXPECT_EQ(multiply_add(a, a, c), 0.0);
}

TEST(Contraction, is_off_in_the_flags_of_every_source_of_ours) {
  std::ifstream in(MXCHECK_BINARY_DIR "/compile_commands.json");
  ASSERT_TRUE(in.good());
  const nlohmann::json commands = nlohmann::json::parse(in);
  std::size_t seen = 0;
  for (const nlohmann::json& entry : commands) {
    const std::string file = entry.at("file");
    if (!file.ends_with(".cc") && !file.ends_with(".c")) continue;
    if (file.find("/examples/") != std::string::npos) continue;  // a third party's library, built its own way
    ++seen;
    const std::string command = entry.at("command");
    const std::size_t off = command.rfind("-ffp-contract=off");
    EXPECT_NE(off, std::string::npos) << file;
    for (const char* other : {"-ffp-contract=fast", "-ffp-contract=on", "-ffast-math", "-Ofast",
                              "-funsafe-math-optimizations", "-fassociative-math"}) {
      EXPECT_EQ(command.find(other), std::string::npos) << file << ": " << other;
    }
  }
  EXPECT_GT(seen, 10U);
}

}  // namespace
}  // namespace mxcheck::repository
