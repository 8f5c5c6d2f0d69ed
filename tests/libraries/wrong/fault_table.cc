// Runs the gate on the faulty copies of a library: `mxcheck_fault_table TOOL CATALOGUE LIBRARY PREFIX [NAME...]` prints
// a row of a Markdown table for each row of LIBRARY in the catalogue, all of them without a name; PREFIXNAME.so is the
// copy. Exit code 0 if every fault was caught and named as the catalogue says, its printed case fails again, and the
// control passed.
//
//   --alone                runs, for each fault, only the statement that the catalogue names
//   --when quick|nightly   the faults that the catalogue leaves to these tests
//   --part K/N             of the faults, the control not among them, the Kth of N, the (K + N)th and so on

#include <algorithm>
#include <chrono>
#include <exception>

#include <nlohmann/json.hpp>

#include "tests/libraries/catalogue.h"
#include "tests/tools/shell.h"

namespace {

using Fault = mxcheck::test::WrongLibrary;
using Json = nlohmann::json;

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

// How a call ended is its cause, where it is not the bytes that are wrong.
std::string matches_of(const Json& counterexample) {
  if (counterexample.at("kind") != "mismatch") return counterexample.at("summary").get<std::string>();
  std::string text;
  for (const Json& match : counterexample.at("matches")) text += (text.empty() ? "" : ", ") + match.get<std::string>();
  return text;
}

// The tests that run a fault's statement alone.
std::string when_of(const Fault& fault) {
  return fault.has("nightly") ? "nightly" : fault.has("whole") ? "whole" : "quick";
}

// Faults by what the report says of them: the catalogue has the right names.
struct {
  int what_it_is = 0, something_else = 0, not_at_all = 0;
} named_as;

bool print_row(const std::string& tool, const Fault& fault, const std::string& library, bool alone) {
  const auto start = std::chrono::steady_clock::now();
  std::string only = alone ? " --only " + quoted(fault.found_by) : "";
  // Faults are found early; what is right would be asked thousands of random cases.
  if (fault.must_pass() && alone) only += " --cases 400";
  const Run run = run_gate(tool, library, only);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Json* statement = failed_statement(run.report);
  if (fault.must_pass()) {
    std::printf("| control | | %s: exit code %d, %s | | | %.1f | |\n", fault.what.c_str(), run.exit_code,
                run.exit_code == 0 ? "passes, as it must" : "MUST PASS", seconds);
    return run.exit_code == 0;
  }
  const auto is_failure = [](int exit_code) { return exit_code == 1 || exit_code == 6; };
  const bool stopped = is_failure(run.exit_code) && statement != nullptr;
  if (!stopped) {
    std::printf("| %s | %s | NOT CAUGHT, exit code %d: %s | | | %.1f | |\n", fault.name.c_str(), fault.source.c_str(),
                run.exit_code, fault.what.c_str(), seconds);
    return false;
  }
  const Json& example = statement->at("counterexample");
  const std::string name = statement->at("name");
  const std::string reproduce = name + ": " + example.at("case").get<std::string>();
  const Run again = run_gate(tool, library, " --reproduce " + quoted(reproduce));
  // A failure that only happens after other calls cannot happen again alone: then the report must have said so.
  const std::string summary = example.at("summary");
  const bool has_state = summary.find("state of earlier calls") != std::string::npos ||
                         summary.find("something other than the call") != std::string::npos;
  // A call that ended in an error of the device among others may alone give bits that differ: any failure counts.
  const bool reproduced = is_failure(again.exit_code) || has_state;
  const std::string matches = matches_of(example);
  const bool named = matches.find(fault.says) != std::string::npos || summary.find(fault.says) != std::string::npos;
  if (fault.says.empty()) {
    ++(matches.empty() ? named_as.not_at_all : named_as.something_else);
  } else {
    ++(named ? named_as.what_it_is : named_as.something_else);
  }
  std::printf("| %s | %s | %s%s | %lld x %lld | %d%s | %.1f | %s%s |\n", fault.name.c_str(), fault.source.c_str(),
              name.c_str(),
              !reproduced ? " (DOES NOT REPRODUCE)"
              : has_state ? " (after other calls only)"
                          : "",
              example.at("rows").get<long long>(), example.at("cols").get<long long>(),
              example.at("shrink_tries").get<int>(), example.at("shrink_budget_spent").get<bool>() ? "+" : "", seconds,
              matches.c_str(), named ? "" : (" (NOT NAMED: " + fault.says + ")").c_str());
  return reproduced && named;
}

struct Options {
  bool alone = false;
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
    if (a == "--alone") {
      o.alone = true;
      continue;
    }
    if (i + 1 == arguments.size()) throw std::runtime_error(a + " has no value");
    const std::string& value = arguments[++i];
    if (a == "--when") {
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

std::vector<Fault> chosen_faults(std::vector<Fault> faults, const Options& o) {
  if (!o.names.empty()) {
    std::erase_if(faults,
                  [&](const Fault& f) { return std::find(o.names.begin(), o.names.end(), f.name) == o.names.end(); });
    if (faults.size() < o.names.size()) throw std::runtime_error("there is no fault of such a name");
  }
  if (!o.when.empty()) std::erase_if(faults, [&](const Fault& f) { return when_of(f) != o.when; });
  if (o.parts != 0) {
    std::erase_if(faults, [](const Fault& f) { return f.must_pass(); });
    std::vector<Fault> part;
    for (std::size_t i = o.part - 1; i < faults.size(); i += o.parts) part.push_back(faults[i]);
    faults = part;
  }
  if (faults.empty()) throw std::runtime_error("there is no fault to run");
  return faults;
}

int print_table(const std::string& tool, const std::vector<Fault>& faults, const std::string& prefix,
                const Options& options) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::puts("| fault | met in | first statement that fails | minimal case | shrink tries | seconds | matches |");
  std::puts("|---|---|---|---|---|---|---|");
  bool good = true;
  for (const Fault& fault : chosen_faults(faults, options)) {
    const bool caught = print_row(tool, fault, prefix + fault.name + ".so", options.alone);
    good = good && caught;
  }
  std::printf("\nnamed as what they are: %d; as something else: %d; not named: %d\n", named_as.what_it_is,
              named_as.something_else, named_as.not_at_all);
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs(
        "usage: mxcheck_fault_table TOOL CATALOGUE LIBRARY PREFIX [--alone] [--when quick|nightly] [--part K/N] "
        "[NAME...]\n",
        stderr);
    return 2;
  }
  try {
    return print_table(argv[1], mxcheck::test::read_catalogue(argv[2], argv[3]), argv[4],
                       read_options(std::vector<std::string>(argv + 5, argv + argc)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mxcheck_fault_table: %s\n", error.what());
    return 2;
  }
}
