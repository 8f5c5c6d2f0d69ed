#include "kernels/sm100/probe/report.h"

#include <algorithm>
#include <cstdio>

namespace mxcheck::sm100::probe {
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

}  // namespace mxcheck::sm100::probe
