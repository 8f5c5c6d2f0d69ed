// Runs the gate on the faulty copies of a library: `mxcheck_fault_table TOOL FAULTS.tsv [NAME...]` prints a row
// of a Markdown table for each, all of them without a name. Exit code 0 if every fault was caught, its printed case
// fails again, and the control passed. `--by CAUGHT_BY.tsv` runs, for each, only the statement that the file names.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/tools/shell.h"

namespace {

using Json = nlohmann::json;

struct Fault {
  std::string name;
  std::string reference;
  std::string what;
  std::string library;
};

std::vector<Fault> read_catalogue(const std::string& path) {
  std::ifstream file(path);
  std::vector<Fault> faults;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    Fault f;
    std::getline(fields, f.name, '\t'), std::getline(fields, f.reference, '\t');
    std::getline(fields, f.what, '\t'), std::getline(fields, f.library);
    faults.push_back(f);
  }
  if (faults.size() < 2) throw std::runtime_error(path + " holds no faults");
  return faults;
}

std::string quoted(const std::string& argument) {
  std::string out = "'";
  for (char c : argument) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

struct Run {
  int exit_code = -1;
  Json report;
};

Run run_gate(const std::string& tool, const std::string& library, const std::string& more) {
  const std::string command = quoted(tool) + " gate --candidate " + quoted(library) +
                              " --suite quick --fail-fast --seed 1 --json --save ''" + more + " 2>/dev/null";
  const mxcheck::test::ShellAnswer answer = mxcheck::test::run_shell(command);
  return {answer.code, Json::parse(answer.out, nullptr, false)};
}

const Json* failed_statement(const Json& report) {
  if (!report.is_object()) return nullptr;
  for (const Json& s : report.at("statements")) {
    if (s.contains("counterexample")) return &s;
  }
  return nullptr;
}

std::string matches_of(const Json& counterexample) {
  std::string text;
  for (const Json& match : counterexample.at("matches")) text += (text.empty() ? "" : ", ") + match.get<std::string>();
  return text;
}

// The statement that catches each fault; lines of "fault<tab>statement", with "<tab>nightly" after it or not.
std::map<std::string, std::string> read_statements(const std::string& path) {
  std::ifstream file(path);
  std::map<std::string, std::string> statements;
  for (std::string line; std::getline(file, line);) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos || line[0] == '#') continue;
    const std::string rest = line.substr(tab + 1);
    statements[line.substr(0, tab)] = rest.substr(0, rest.find('\t'));
  }
  if (statements.empty()) throw std::runtime_error(path + " names no statement");
  return statements;
}

bool print_row(const std::string& tool, const Fault& fault, const std::string& statement_alone) {
  const auto start = std::chrono::steady_clock::now();
  std::string only = statement_alone.empty() ? "" : " --only " + quoted(statement_alone);
  // Faults are found early; what is right would be asked thousands of random cases.
  if (fault.name == "control" && !statement_alone.empty()) only += " --cases 400";
  const Run run = run_gate(tool, fault.library, only);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Json* statement = failed_statement(run.report);
  if (fault.name == "control") {
    std::printf("| control | | %s: exit code %d, %s | | | %.1f | |\n", fault.what.c_str(), run.exit_code,
                run.exit_code == 0 ? "passes, as it must" : "MUST PASS", seconds);
    return run.exit_code == 0;
  }
  const bool stopped = (run.exit_code == 1 || run.exit_code == 6) && statement != nullptr;
  if (!stopped) {
    std::printf("| %s | %s | NOT CAUGHT, exit code %d: %s | | | %.1f | |\n", fault.name.c_str(),
                fault.reference.c_str(), run.exit_code, fault.what.c_str(), seconds);
    return false;
  }
  const Json& example = statement->at("counterexample");
  const std::string name = statement->at("name");
  const std::string reproduce = name + ": " + example.at("case").get<std::string>();
  const Run again = run_gate(tool, fault.library, " --reproduce " + quoted(reproduce));
  // What only happens after other calls cannot happen again alone: then the report must have said so.
  const std::string summary = example.at("summary");
  const bool has_state = summary.find("state of earlier calls") != std::string::npos ||
                         summary.find("something other than the call") != std::string::npos;
  const bool reproduced = again.exit_code == run.exit_code || has_state;
  std::printf("| %s | %s | %s%s | %lld x %lld | %d%s | %.1f | %s |\n", fault.name.c_str(), fault.reference.c_str(),
              name.c_str(),
              !reproduced ? " (DOES NOT REPRODUCE)"
              : has_state ? " (after other calls only)"
                          : "",
              example.at("rows").get<long long>(), example.at("cols").get<long long>(),
              example.at("shrink_tries").get<int>(), example.at("shrink_budget_spent").get<bool>() ? "+" : "", seconds,
              matches_of(example).c_str());
  return reproduced;
}

int print_table(const std::string& tool, const std::string& catalogue, std::vector<std::string> names) {
  std::map<std::string, std::string> alone;
  if (names.size() >= 2 && names[0] == "--by") {
    alone = read_statements(names[1]);
    names.erase(names.begin(), names.begin() + 2);
  }
  bool good = true;
  std::size_t shown = 0;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::puts("| fault | met in | first statement that fails | minimal case | shrink tries | seconds | matches |");
  std::puts("|---|---|---|---|---|---|---|");
  for (const Fault& fault : read_catalogue(catalogue)) {
    if (!names.empty() && std::find(names.begin(), names.end(), fault.name) == names.end()) continue;
    const std::string& statement = alone[fault.name];
    const bool caught = print_row(tool, fault, statement);
    good = good && caught;
    ++shown;
  }
  if (shown < std::max<std::size_t>(1, names.size())) throw std::runtime_error("no such fault in " + catalogue);
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: mxcheck_fault_table TOOL FAULTS.tsv [--by CAUGHT_BY.tsv] [NAME...]\n", stderr);
    return 2;
  }
  try {
    return print_table(argv[1], argv[2], std::vector<std::string>(argv + 3, argv + argc));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mxcheck_fault_table: %s\n", error.what());
    return 2;
  }
}
