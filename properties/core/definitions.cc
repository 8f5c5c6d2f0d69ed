#include "properties/core/definitions.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "numerics/error.h"
#include "numerics/format/codec.h"
#include "numerics/text.h"
#include "properties/core/notation.h"

namespace mxcheck {
namespace {

constexpr std::size_t kMostRemembered = std::size_t{256} << 20;  // bytes of answers
constexpr std::size_t kMostNames = 8;                            // of rows with the same bytes, in one line

}  // namespace

bool same_element(const TensorInfo& info, std::span<const std::byte> a, std::span<const std::byte> b,
                  std::int64_t element) {
  const std::size_t width = bytes_of_element(info), at = static_cast<std::size_t>(element) * width;
  if (std::memcmp(a.data() + at, b.data() + at, width) == 0) return true;
  return info.any_nan_is_equal && info.integer_bits == 0 &&
         std::isnan(decode(info.format, word_of(info, a, element))) &&
         std::isnan(decode(info.format, word_of(info, b, element)));
}

bool same_elements(const TensorInfo& info, std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0) return true;
  if (!info.any_nan_is_equal || info.integer_bits != 0) return false;
  const auto count = static_cast<std::int64_t>(a.size() / bytes_of_element(info));
  for (std::int64_t i = 0; i < count; ++i) {
    if (!same_element(info, a, b, i)) return false;
  }
  return true;
}

Bytes bytes_of_row(const Definition& row, std::size_t output) {
  try {
    return row.bytes(output);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) throw;
    return {};
  }
}

std::uint32_t word_of(const TensorInfo& info, std::span<const std::byte> bytes, std::int64_t element) {
  return static_cast<std::uint32_t>(word_at(bytes, bytes_of_element(info), static_cast<std::size_t>(element)));
}

Definition definition_of_output(std::size_t output, std::string name, std::function<Bytes()> bytes, std::string source,
                                bool derived) {
  return {std::move(name),
          [output, b = std::move(bytes)](std::size_t asked) { return asked == output ? b() : Bytes(); },
          std::move(source), derived};
}

Definition definition_of_all(std::string name, std::function<std::vector<Bytes>()> answer,
                             const std::shared_ptr<AnswerMemo>& memo, std::string source) {
  const auto row = std::make_shared<std::function<std::vector<Bytes>()>>(std::move(answer));
  return {std::move(name),
          [row, memo](std::size_t output) {
            auto at = memo->answers.find(row);
            if (at == memo->answers.end()) {
              std::vector<Bytes> answer = (*row)();
              if (memo->bytes > kMostRemembered) memo->answers.clear(), memo->bytes = 0;
              for (const Bytes& bytes : answer) memo->bytes += bytes.size();
              at = memo->answers.emplace(row, std::move(answer)).first;
            }
            return output < at->second.size() ? at->second[output] : Bytes();
          },
          std::move(source)};
}

void merge(Table& to, Table rows) {
  for (Definition& row : rows) {
    const auto same = std::ranges::find(to, row.name, &Definition::name);
    if (same == to.end()) {
      to.push_back(std::move(row));
      continue;
    }
    same->bytes = [first = std::move(same->bytes), second = std::move(row.bytes)](std::size_t output) {
      Bytes bytes = first(output);
      return bytes.empty() ? second(output) : bytes;
    };
  }
}

void keep_named(Table& table, std::span<const std::string> names) {
  std::erase_if(table, [&](const Definition& row) {
    return !row.derived && std::ranges::none_of(names, [&](const std::string& name) {
      return name.find(row.name) != std::string::npos;
    });
  });
}

Table owning(Table rows, const std::shared_ptr<const void>& what) {
  for (Definition& row : rows)
    row.bytes = [bytes = std::move(row.bytes), what](std::size_t output) { return bytes(output); };
  return rows;
}

// One call: rows that give all of it.

std::vector<std::string> names_that_explain(std::span<const AnswerTensor> outputs, const Table& table) {
  const auto gives = [&](std::size_t i, const Bytes& bytes) {
    return !bytes.empty() && same_elements(outputs[i].info, bytes, outputs[i].observed);
  };
  std::vector<bool> is_wrong, follows(outputs.size());
  for (const AnswerTensor& t : outputs) is_wrong.push_back(!same_elements(t.info, t.expected, t.observed));
  std::vector<std::vector<std::string>> of_output(outputs.size());
  std::vector<std::vector<std::string>> in_part(outputs.size());  // by rows that another output contradicts
  // Rows that give a wrong output and contradict none, with the outputs that they say nothing about.
  std::vector<std::pair<std::string, std::vector<std::size_t>>> whole;
  for (const Definition& row : table) {
    bool contradicted = false;
    std::vector<std::size_t> silent, given;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].observed.empty()) continue;
      const Bytes bytes = bytes_of_row(row, i);
      if (row.derived) {
        follows[i] = follows[i] || (is_wrong[i] && gives(i, bytes));
      } else if (bytes.empty()) {
        silent.push_back(i);
      } else if (!gives(i, bytes)) {
        contradicted = true;
      } else if (is_wrong[i]) {
        given.push_back(i);
      }
    }
    for (const std::size_t i : given) (contradicted ? in_part : of_output)[i].push_back(row.name);
    if (!given.empty() && !contradicted) whole.emplace_back(row.name, std::move(silent));
  }
  std::vector<std::string> names;
  for (const auto& [name, silent] : whole) {
    const bool all = std::ranges::all_of(silent, [&](std::size_t i) { return !is_wrong[i] || follows[i]; });
    if (all) names.push_back(name);
  }
  if (!names.empty()) return names;
  // Outputs that follow from another wrong one need no row of their own.
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (is_wrong[i] && !follows[i]) own.push_back(i);
  }
  const auto names_of = [&](std::size_t i) { return of_output[i].empty() ? in_part[i] : of_output[i]; };
  if (own.empty() || std::ranges::any_of(own, [&](std::size_t i) { return names_of(i).empty(); })) return {};
  if (own.size() == 1 && !of_output[own[0]].empty()) return of_output[own[0]];
  const auto line = [&](std::size_t i) { return outputs[i].info.name + ": " + names_of(i).front(); };
  return {join(own, "; ", line)};
}

// One output: how well each row fits.

Fit fit_of(const AnswerTensor& t, std::span<const std::byte> bytes) {
  Fit fit;
  const std::size_t width = bytes_of_element(t.info);
  for (std::size_t i = 0; i < t.expected.size() / width; ++i) {
    const bool right = same_element(t.info, t.expected, t.observed, static_cast<std::int64_t>(i));
    const bool foretold = same_element(t.info, bytes, t.observed, static_cast<std::int64_t>(i));
    if (right) {
      fit.contradicted += foretold ? 0 : 1;
    } else {
      ++fit.wrong;
      fit.explained += foretold ? 1 : 0;
    }
  }
  return fit;
}

namespace {

struct Likely {
  std::vector<std::string> names;
  Fit fit;
  Bytes bytes;
};

std::string text_of(const Likely& cause) {
  std::string text = cause.names.front();
  for (std::size_t i = 1; i < cause.names.size(); ++i) {
    if (i == kMostNames) return text + " and " + std::to_string(cause.names.size() - i) + " more)";
    text += (i == 1 ? " (identical here: " : ", ") + cause.names[i];
  }
  return text + (cause.names.size() > 1 ? ")" : "");
}

void keep(std::vector<Likely>& causes, const AnswerTensor& t, const Definition& row, const Fit& fit, Bytes bytes) {
  const auto same =
      std::ranges::find_if(causes, [&](const Likely& c) { return same_elements(t.info, c.bytes, bytes); });
  if (same == causes.end()) {
    causes.push_back({{row.name}, fit, std::move(bytes)});
  } else if (std::ranges::find(same->names, row.name) == same->names.end()) {
    same->names.push_back(row.name);
  }
}

std::string share_text(const Likely& c, const std::string& unit) {
  const std::string right = std::to_string(c.fit.contradicted);
  return std::to_string(c.fit.explained) + " of the " + std::to_string(c.fit.wrong) + " wrong " + unit +
         "s are those of " + text_of(c) + (c.fit.contradicted > 0 ? ", though " + right + " right ones are not" : "");
}

}  // namespace

std::vector<std::string> likeliest_causes(const AnswerTensor& tensor, const Table& table, std::size_t output,
                                          const std::string& unit, std::size_t most) {
  std::vector<Likely> exact, likely;
  // Differences that another output's fault explains speak for no row: shares count what is wrong beyond them.
  AnswerTensor t = tensor;
  Bytes follows;
  for (const Definition& row : table) {
    Bytes bytes = bytes_of_row(row, output);
    if (bytes.size() != t.expected.size()) continue;
    const Fit fit = fit_of(t, bytes);
    if (row.derived && !fit.exact() && fit.explained > fit.contradicted) {
      follows = std::move(bytes);
      t.expected = follows;
      continue;
    }
    if (fit.exact() && row.derived) return {row.name};
    if (row.derived || (!fit.exact() && !fit.likely())) continue;
    keep(fit.exact() ? exact : likely, t, row, fit, std::move(bytes));
  }
  std::vector<std::string> causes;
  for (const Likely& c : exact) {
    if (causes.size() < most) causes.push_back("every " + unit + " is that of " + text_of(c));
  }
  if (!exact.empty()) return causes;
  std::ranges::stable_sort(likely, [](const Likely& a, const Likely& b) {
    return a.fit.explained - a.fit.contradicted > b.fit.explained - b.fit.contradicted;
  });
  for (const Likely& c : likely) {
    // A cause that explains much less than the best one does so by an accident of overlap.
    if (causes.size() == most || 10 * c.fit.explained < 9 * likely.front().fit.explained) break;
    causes.push_back(share_text(c, unit));
  }
  return causes;
}

std::vector<std::string> constant_tail(const AnswerTensor& t, const std::string& unit) {
  constexpr std::size_t kFewest = 32;
  const std::size_t width = bytes_of_element(t.info);
  const std::size_t count = t.expected.size() / width;
  const auto same = [&](std::span<const std::byte> bytes, std::size_t a, std::size_t b) {
    return std::memcmp(bytes.data() + a * width, bytes.data() + b * width, width) == 0;
  };
  if (count < kFewest) return {};
  std::size_t begin = count - 1, expected_begin = count - 1;
  while (begin > 0 && same(t.observed, begin - 1, count - 1)) --begin;
  while (expected_begin > 0 && same(t.expected, expected_begin - 1, count - 1)) --expected_begin;
  std::int64_t wrong = 0, wrong_in_tail = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (same_element(t.info, t.expected, t.observed, static_cast<std::int64_t>(i))) continue;
    ++wrong;
    wrong_in_tail += i >= begin ? 1 : 0;
  }
  if (count - begin < kFewest || expected_begin <= begin || 2 * wrong_in_tail < wrong) return {};
  char hex[16];
  std::snprintf(hex, sizeof(hex), "0x%0*x", static_cast<int>(2 * width),
                word_of(t.info, t.observed, static_cast<std::int64_t>(count) - 1));
  return {"from " + unit + " " + std::to_string(begin) + " of " + std::to_string(count) + " on all are " + hex +
          ": were they written?"};
}

// Several calls of a black box.

namespace {

struct Tally {
  std::int64_t equal = 0;
  std::int64_t compared = 0;
  std::optional<ProbeDifference> first;
  std::vector<std::string> probes;  // explained
};

std::int64_t elements_of(const Probe& probe, std::size_t output) {
  return static_cast<std::int64_t>(probe.observed[output].size() / bytes_of_element(probe.outputs[output]));
}

void count(const Probe& probe, std::size_t output, const Bytes& expected, Tally& tally) {
  const TensorInfo& info = probe.outputs[output];
  const Bytes& observed = probe.observed[output];
  const std::size_t width = bytes_of_element(info);
  const std::int64_t n = elements_of(probe, output);
  tally.compared += n;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool has = (at + 1) * width <= expected.size();
    if (has && same_element(info, expected, observed, static_cast<std::int64_t>(at))) {
      ++tally.equal;
    } else if (!tally.first && has) {
      const std::int64_t cols = std::max<std::int64_t>(1, info.cols);
      tally.first = {probe.name,
                     info.name,
                     i / cols,
                     i % cols,
                     info.integer_bits != 0 ? std::nullopt : std::optional(info.format),
                     word_of(info, expected, i),
                     word_of(info, observed, i)};
    }
  }
}

// Nothing where the row is not defined for one of the probes.
std::optional<Tally> tally_of(const std::string& name, std::span<const Probe> probes) {
  Tally tally;
  for (const Probe& probe : probes) {
    const auto row = std::ranges::find(probe.table, name, &Definition::name);
    if (row == probe.table.end()) return std::nullopt;
    const std::int64_t differing = tally.compared - tally.equal;
    for (std::size_t i = 0; i < probe.outputs.size(); ++i) {
      const Bytes expected = bytes_of_row(*row, i);
      if (expected.empty() && !probe.observed[i].empty()) return std::nullopt;
      count(probe, i, expected, tally);
    }
    if (tally.compared - tally.equal == differing) tally.probes.push_back(probe.name);
  }
  return tally;
}

}  // namespace

std::string notation(const std::optional<Format>& format, std::uint32_t word) {
  return format ? notations(*format, word) : std::to_string(static_cast<std::int32_t>(word));
}

namespace {

std::string first_words(const Explained& e) {
  const ProbeDifference& d = e.first;
  constexpr std::size_t kMostProbes = 4;
  std::string whole;
  if (!e.probes.empty())
    whole = "  explains    every bit of " + join(std::span(e.probes).first(std::min(kMostProbes, e.probes.size())));
  if (e.probes.size() > kMostProbes) whole += " and " + std::to_string(e.probes.size() - kMostProbes) + " more";
  if (!whole.empty()) whole += "\n";
  return whole + "  first       " + d.part + "(" + std::to_string(d.row) + ", " + std::to_string(d.col) +
         ") of probe '" + d.probe + "'\n" + "  expected    " + notation(d.format, d.expected) + "\n" +
         "  observed    " + notation(d.format, d.observed) + "\n";
}

std::string declared_text(const Match& match) {
  if (match.declared.empty()) return "";
  const std::string name = "declared      " + match.declared;
  if (match.holds()) return name + ", which holds\n";
  if (!match.not_declared) return name + ", which is WRONG: it is not defined for these operands\n";
  return name + ", which is WRONG: " + std::to_string(match.not_declared->equal) + " of " +
         std::to_string(match.compared) + " words equal\n" + first_words(*match.not_declared);
}

}  // namespace

Match match_answers(std::span<const Probe> probes, const std::string& declared) {
  Match match;
  match.declared = declared;
  match.probes = probes.size();
  if (probes.empty()) return match;
  for (const Probe& probe : probes) {
    for (std::size_t i = 0; i < probe.outputs.size(); ++i) match.compared += elements_of(probe, i);
  }
  for (const Definition& row : probes.front().table) {
    const std::optional<Tally> tally = tally_of(row.name, probes);
    if (!tally) continue;
    ++match.tried;
    if (tally->equal == match.compared) {
      match.explaining.push_back(row.name);
    } else if (tally->first) {
      match.closest.push_back({row.name, tally->equal, *tally->first, tally->probes});
      if (row.name == declared) match.not_declared = match.closest.back();
    }
  }
  // clang 14 can't read what libstdc++ 12 returns from std::ranges::stable_partition.
  std::stable_partition(match.explaining.begin(), match.explaining.end(),
                        [&](const std::string& name) { return name == declared; });
  keep_closest(match);
  return match;
}

void narrow(Match& match, std::span<const Probe> probes) {
  const std::int64_t before = match.compared;
  match.probes += probes.size();
  for (const Probe& probe : probes) {
    for (std::size_t i = 0; i < probe.outputs.size(); ++i) match.compared += elements_of(probe, i);
  }
  const auto add = [&](Explained& known) {
    const std::optional<Tally> tally = tally_of(known.name, probes);
    if (!tally) return;
    known.equal += tally->equal;
    known.probes.insert(known.probes.end(), tally->probes.begin(), tally->probes.end());
  };
  for (Explained& known : match.closest) add(known);
  if (match.not_declared) add(*match.not_declared);
  std::erase_if(match.explaining, [&](const std::string& name) {
    const std::optional<Tally> tally = tally_of(name, probes);
    if (!tally || !tally->first) return !tally;
    match.closest.push_back({name, before + tally->equal, *tally->first, tally->probes});
    if (name == match.declared) match.not_declared = match.closest.back();
    return true;
  });
  keep_closest(match);
}

void try_slips(Match& match, std::span<const Probe> probes) {
  if (match.explained() || probes.empty()) return;
  Match slips = match_answers(probes.first(1));
  narrow(slips, probes.subspan(1));
  match.slips.insert(match.slips.end(), slips.explaining.begin(), slips.explaining.end());
  match.tried += slips.tried;
}

void keep_closest(Match& match) {
  std::ranges::stable_sort(match.closest, [](const Explained& a, const Explained& b) { return a.equal > b.equal; });
  if (match.closest.size() > 3) match.closest.resize(3);
}

std::string to_text(const Match& match) {
  const std::string scope = std::to_string(match.compared) + " words of " + std::to_string(match.probes) +
                            " probes compared with " + std::to_string(match.tried) + " definitions\n";
  if (match.compared == 0) return "nothing was compared\n";
  std::string remarks;
  for (const std::string& remark : match.remarks) remarks += "and           " + remark + "\n";
  if (!match.explaining.empty()) {
    std::string text = declared_text(match) + "explained by  " + match.explaining.front() + ", every bit\n";
    if (match.explaining.size() > 1) {
      text += "identical here " + join(std::span(match.explaining).subspan(1)) + "\n";
    }
    for (const std::string& note : match.notes) text += "that is also  " + note + "\n";
    return text + remarks + "compared      " + scope;
  }
  std::string text = declared_text(match) + "explained by  none of the definitions\ncompared      " + scope;
  text += remarks;
  for (const std::string& slip : match.slips) text += "a slip        " + slip + ": every bit\n";
  for (const Explained& e : match.closest) {
    if (e.name == match.declared) continue;
    text += "closest       " + e.name + ": " + std::to_string(e.equal) + " of " + std::to_string(match.compared) +
            " words equal\n" + first_words(e);
  }
  return text;
}

}  // namespace mxcheck
