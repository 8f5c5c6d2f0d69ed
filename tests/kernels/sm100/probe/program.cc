#include "tests/kernels/sm100/probe/program.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>

#include "tests/kernels/sm100/probe/launcher.h"

namespace mxcheck::sm100::probe {

// --- reports

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string answer_of(const Report& report) {
  std::string answer;
  for (const Part& part : report.parts) answer += (answer.empty() ? "" : "; ") + part.answer;
  return answer;
}

}  // namespace

std::string_view text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::agrees: return "yes";
    case Verdict::disagrees: return "no";
    case Verdict::undecided: return "not decided";
    case Verdict::answered: return "the model has no answer";
    case Verdict::refused: return "refused by the emulation";
  }
  return "";
}

Verdict Report::verdict() const {
  for (const Verdict v :
       {Verdict::disagrees, Verdict::undecided, Verdict::agrees, Verdict::answered, Verdict::refused}) {
    if (std::ranges::any_of(parts, [v](const Part& p) { return p.verdict == v; })) return v;
  }
  return Verdict::undecided;
}

std::string hex(std::uint32_t word) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%08x", static_cast<unsigned>(word));
  return text;
}

std::string counts(std::size_t some, std::size_t all, std::string_view of) {
  return std::to_string(some) + " of " + std::to_string(all) + " " + std::string(of);
}

std::string to_json(const std::vector<Report>& reports, std::string_view device) {
  std::string out = "{\n  \"program\": \"mxcheck_sm100_probe\",\n  \"device\": " + quoted(device);
  out += ",\n  \"probes\": [";
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const Report& r = reports[i];
    char seconds[32];
    std::snprintf(seconds, sizeof(seconds), "%.3f", r.seconds);
    out += std::string(i == 0 ? "" : ",") + "\n    {\n      \"number\": " + std::to_string(r.number);
    out += ",\n      \"question\": " + quoted(r.question) + ",\n      \"answer\": " + quoted(answer_of(r));
    out += ",\n      \"agrees\": " + quoted(text_of(r.verdict())) + ",\n      \"seconds\": " + seconds;
    out += ",\n      \"parts\": [";
    for (std::size_t p = 0; p < r.parts.size(); ++p) {
      out += std::string(p == 0 ? "" : ",") + "\n        {\"agrees\": " + quoted(text_of(r.parts[p].verdict));
      out += ", \"answer\": " + quoted(r.parts[p].answer) + "}";
    }
    out += "\n      ]";
    out += ",\n      \"evidence\": [";
    for (std::size_t e = 0; e < r.evidence.size(); ++e) {
      out += std::string(e == 0 ? "" : ",") + "\n        {\"name\": " + quoted(r.evidence[e].name);
      out += ", \"value\": " + quoted(r.evidence[e].value) + "}";
    }
    out += "\n      ]\n    }";
  }
  return out + "\n  ]\n}\n";
}

std::string to_table(const std::vector<Report>& reports) {
  std::string out;
  for (const Report& r : reports) {
    std::string number = std::to_string(r.number);
    number.insert(0, number.size() < 2 ? 2 - number.size() : 0, ' ');
    out += number + "  " + r.question + "\n    agrees with the model: " + std::string(text_of(r.verdict())) + "\n";
    for (const Part& part : r.parts) out += "    - " + part.answer + "\n";
  }
  return out;
}

// --- the program

namespace {

constexpr std::string_view kUsage =
    "mxcheck_sm100_probe [--only N] [--repeat N] [--timeout SECONDS] [--record FILE] [--emulated]\n"
    "  --only N       one probe, 1 to 11\n"
    "  --repeat N     loops of probes 1, 7 and 8 run N times as often, 1 to 40\n"
    "  --timeout N    seconds that a launch may take, 1 to 3600; 30 if not given; long loops have more\n"
    "  --record FILE  writes what was found as JSON, after each probe\n"
    "  --emulated     on the CPU, by the emulation\n";

struct Settings {
  std::optional<int> only;
  std::uint32_t repeat = 1;
  unsigned timeout = 30;
  std::string record;
  bool emulated = false, help = false;
};

std::optional<int> number_in(const std::string& text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high) return std::nullopt;
  return value;
}

// Empty, or what is wrong and what would be right.
std::string parse(std::span<const std::string> arguments, Settings& settings) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--emulated") {
      settings.emulated = true;
      continue;
    }
    if (name == "--help" || name == "-h") {
      settings.help = true;
      continue;
    }
    if (name != "--only" && name != "--repeat" && name != "--timeout" && name != "--record") {
      return name + " is no option: --only, --repeat, --timeout, --record and --emulated are";
    }
    if (i + 1 == arguments.size()) return name + " has no value: " + (name == "--record" ? "a file" : "a number");
    const std::string& value = arguments[++i];
    if (name == "--record") {
      if (value.empty()) return "--record of an empty name: a file is right";
      settings.record = value;
      continue;
    }
    const int high = name == "--only" ? kProbes : name == "--repeat" ? 40 : 3600;
    const std::optional<int> number = number_in(value, 1, high);
    if (!number) return name + " " + value + ": 1 to " + std::to_string(high) + " is right";
    if (name == "--only") settings.only = *number;
    if (name == "--repeat") settings.repeat = static_cast<std::uint32_t>(*number);
    if (name == "--timeout") settings.timeout = static_cast<unsigned>(*number);
  }
  return "";
}

Report run_probe(const Probe& probe, Launcher& launcher) {
  const auto begin = std::chrono::steady_clock::now();
  Report report(probe.number, "");
  try {
    report = probe.run(launcher);
  } catch (const std::exception& error) {
    report.add(Verdict::undecided, error.what());
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

bool write_record(const std::string& file, const std::vector<Report>& reports, std::string_view device) {
  std::ofstream record(file);
  record << to_json(reports, device);
  record.close();
  return !record.fail();
}

}  // namespace

int run_program(std::span<const std::string> arguments, const CardFunctions* card, const Print& out, const Print& err) {
  Settings settings;
  const std::string wrong = parse(arguments, settings);
  if (!wrong.empty()) {
    err("mxcheck_sm100_probe: " + wrong + "\n" + std::string(kUsage));
    return 2;
  }
  if (settings.help) {
    out(kUsage);
    return 0;
  }
  std::string device = "emulation";
  std::unique_ptr<Launcher> launcher;
  std::vector<Probe> probes;
  if (settings.emulated) {
    launcher = std::make_unique<EmulatedLauncher>(emulation::sm100::LaunchOptions{}, settings.repeat);
    probes = emulated_probes();
  } else {
    const CardState state = card != nullptr ? card->state() : CardState{"", "this program was built without CUDA"};
    const std::string needs = card != nullptr ? card->needs : "compute capability 10.0";
    if (state.name.empty()) {
      err("mxcheck_sm100_probe: " + state.problem + "; this probe needs " + needs +
          "; --emulated runs it on the CPU\n");
      return 3;
    }
    device = state.name;
    launcher = card->launcher(settings.timeout, settings.repeat);
    probes = card->probes();
  }
  std::vector<Report> reports;
  // Before the first probe too: a file that cannot be written is known before an hour on a card is spent.
  const auto record = [&] {
    if (settings.record.empty() || write_record(settings.record, reports, device)) return true;
    err("mxcheck_sm100_probe: " + settings.record + " cannot be written: --record needs a file in a folder that can\n");
    return false;
  };
  if (!record()) return 2;
  out("mxcheck_sm100_probe on " + device + "\n");
  bool all_agree = true;
  for (const Probe& probe : probes) {
    if (settings.only && *settings.only != probe.number) continue;
    reports.push_back(run_probe(probe, *launcher));
    out(to_table({reports.back()}));
    all_agree = all_agree && reports.back().verdict() == Verdict::agrees;
    if (!record()) return 2;
  }
  return all_agree ? 0 : 1;
}

}  // namespace mxcheck::sm100::probe
