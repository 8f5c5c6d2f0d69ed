// Runs the gate on the faulty copies of a library: `mxcheck_fault_table TOOL FAULTS.tsv [NAME...]` prints a row
// of a Markdown table for each, all of them without a name. Exit code 0 if every fault was caught, its printed case
// fails again, and the control passed.
//
//   --by CAUGHT_BY.tsv     runs, for each fault, only the statement that the file names
//   --when quick|nightly   the faults that CAUGHT_BY leaves to these tests: "quick" stands for no word after the
//   statement
//   --part K/N             of the faults, the control not among them, the Kth of N, the (K + N)th and so on

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

// The statement that catches a fault, and the tests that run it alone.
struct CaughtBy {
  std::string statement;
  std::string when = "quick";
};

// Lines of "fault<tab>statement", with "<tab>nightly" after it or not. "whole" in place of a statement: no test runs
// one alone.
std::map<std::string, CaughtBy> read_statements(const std::string& path) {
  std::ifstream file(path);
  std::map<std::string, CaughtBy> statements;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    std::string name;
    CaughtBy by;
    std::getline(fields, name, '\t'), std::getline(fields, by.statement, '\t');
    if (!std::getline(fields, by.when)) by.when = by.statement == "whole" ? "whole" : "quick";
    if (by.when == "whole") by.statement.clear();
    statements[name] = by;
  }
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
  const auto is_failure = [](int exit_code) { return exit_code == 1 || exit_code == 6; };
  const bool stopped = is_failure(run.exit_code) && statement != nullptr;
  if (!stopped) {
    std::printf("| %s | %s | NOT CAUGHT, exit code %d: %s | | | %.1f | |\n", fault.name.c_str(),
                fault.reference.c_str(), run.exit_code, fault.what.c_str(), seconds);
    return false;
  }
  const Json& example = statement->at("counterexample");
  const std::string name = statement->at("name");
  const std::string reproduce = name + ": " + example.at("case").get<std::string>();
  const Run again = run_gate(tool, fault.library, " --reproduce " + quoted(reproduce));
  // A failure that only happens after other calls cannot happen again alone: then the report must have said so.
  const std::string summary = example.at("summary");
  const bool has_state = summary.find("state of earlier calls") != std::string::npos ||
                         summary.find("something other than the call") != std::string::npos;
  // A call that ended in an error of the device among others may alone give bits that differ: any failure counts.
  const bool reproduced = is_failure(again.exit_code) || has_state;
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

struct Options {
  std::string by;
  std::string when;
  std::size_t part = 0, parts = 0;
  std::vector<std::string> names;
};

Options read_options(const std::vector<std::string>& arguments) {
  Options o;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    if (a.rfind("--", 0) != 0) {
      o.names.push_back(a);
      continue;
    }
    if (i + 1 == arguments.size()) throw std::runtime_error(a + " has no value");
    const std::string& value = arguments[++i];
    if (a == "--by") {
      o.by = value;
    } else if (a == "--when") {
      o.when = value;
    } else if (a == "--part") {
      if (std::sscanf(value.c_str(), "%zu/%zu", &o.part, &o.parts) != 2 || o.part < 1 || o.part > o.parts)
        throw std::runtime_error("--part " + value + ": must be K/N, K from 1 to N");
    } else {
      throw std::runtime_error("no such option: " + a);
    }
  }
  return o;
}

// Every fault has a statement, and every statement a fault: a test of a part must not leave one out unnoticed.
void require_the_same_faults(const std::vector<Fault>& faults, const std::map<std::string, CaughtBy>& statements,
                             const std::string& path) {
  for (const Fault& f : faults) {
    if (!statements.contains(f.name)) throw std::runtime_error(path + " has no statement for " + f.name);
  }
  for (const auto& [name, by] : statements) {
    const std::string& wanted = name;  // clang 14 captures no structured binding
    if (std::none_of(faults.begin(), faults.end(), [&](const Fault& f) { return f.name == wanted; }))
      throw std::runtime_error(path + ": no such fault: " + name);
  }
}

std::vector<Fault> chosen_faults(std::vector<Fault> faults, const std::map<std::string, CaughtBy>& statements,
                                 const Options& o) {
  if (!o.names.empty()) {
    std::erase_if(faults,
                  [&](const Fault& f) { return std::find(o.names.begin(), o.names.end(), f.name) == o.names.end(); });
    if (faults.size() < o.names.size()) throw std::runtime_error("there is no fault of such a name");
  }
  if (!o.when.empty()) std::erase_if(faults, [&](const Fault& f) { return statements.at(f.name).when != o.when; });
  if (o.parts != 0) {
    std::erase_if(faults, [](const Fault& f) { return f.name == "control"; });
    std::vector<Fault> part;
    for (std::size_t i = o.part - 1; i < faults.size(); i += o.parts) part.push_back(faults[i]);
    faults = part;
  }
  if (faults.empty()) throw std::runtime_error("there is no fault to run");
  return faults;
}

int print_table(const std::string& tool, const std::string& catalogue, const Options& options) {
  const std::vector<Fault> faults = read_catalogue(catalogue);
  std::map<std::string, CaughtBy> alone;
  if (!options.by.empty()) {
    alone = read_statements(options.by);
    require_the_same_faults(faults, alone, options.by);
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::puts("| fault | met in | first statement that fails | minimal case | shrink tries | seconds | matches |");
  std::puts("|---|---|---|---|---|---|---|");
  bool good = true;
  for (const Fault& fault : chosen_faults(faults, alone, options)) {
    const bool caught = print_row(tool, fault, options.by.empty() ? "" : alone.at(fault.name).statement);
    good = good && caught;
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs(
        "usage: mxcheck_fault_table TOOL FAULTS.tsv [--by CAUGHT_BY.tsv [--when quick|nightly]] [--part K/N] "
        "[NAME...]\n",
        stderr);
    return 2;
  }
  try {
    return print_table(argv[1], argv[2], read_options(std::vector<std::string>(argv + 3, argv + argc)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mxcheck_fault_table: %s\n", error.what());
    return 2;
  }
}
