#pragma once
// The report of a probe: a question that the documents leave open, the answer, what was measured, and whether the
// emulation's model of the card says the same.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mxcheck::sm100::probe {

// The verdict on a part of a probe, and on the whole.
//   agrees     a form that the model has, with the model's words
//   disagrees  a form that the model has, with other words, a fault, or no end
//   undecided  it could not be run
//   answered   a form that the emulation refuses: there is no model to agree with, and the answer is the text
//   refused    by the emulation, which has a finding for it
enum class Verdict : std::uint8_t { agrees, disagrees, undecided, answered, refused };

// "yes", "no", "not decided", "the model has no answer", "refused by the emulation"
std::string_view text_of(Verdict verdict);

struct Part {
  Verdict verdict;
  std::string answer;
};

struct Evidence {
  std::string name;
  std::string value;  // counts, or words in hexadecimal
};

class Report {
 public:
  Report(int of_number, std::string of_question) : number(of_number), question(std::move(of_question)) {}

  void add(Verdict verdict, std::string answer) { parts.push_back({verdict, std::move(answer)}); }
  void add_evidence(std::string name, std::string value) { evidence.push_back({std::move(name), std::move(value)}); }
  // The worst part's verdict; parts without a model count where there is no other.
  [[nodiscard]] Verdict verdict() const;

  int number;
  std::string question;
  std::vector<Part> parts;
  std::vector<Evidence> evidence;
  double seconds = 0;
};

std::string hex(std::uint32_t word);                                         // "0x3f800000"
std::string counts(std::size_t some, std::size_t all, std::string_view of);  // "3 of 8 words"

// The record: JSON. `device` is the card's name, or "emulation".
std::string to_json(const std::vector<Report>& reports, std::string_view device);
std::string to_table(const std::vector<Report>& reports);

}  // namespace mxcheck::sm100::probe
