#include "tests/repository/rules.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <string>

namespace mxcheck::repository {

namespace {

template <class F>
void for_each_line(std::string_view text, F f) {
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    f(line, text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

constexpr std::array<std::string_view, 13> kFolders{"bindings/",   "numerics/",   "reference/", "goldens/", "kernels/",
                                                    "properties/", "benchmarks/", "examples/",  "tools/",   "tests/",
                                                    "fuzz/",       "pages/",      "cost/"};

struct WordRule {
  const char* pattern;
  std::vector<std::string_view> words;  // a text without any of them has no match
  std::string_view what;
  std::vector<std::string_view> where;  // prefixes of paths
};

const std::vector<WordRule>& word_rules() {
  static const std::vector<std::string_view> libraries{"bindings/",   "numerics/", "reference/", "goldens/",
                                                       "properties/", "kernels/",  "pages/",     "cost/"};
  static const std::vector<std::string_view> all{kFolders.begin(), kFolders.end()};
  static const std::vector<WordRule> rules{
      {R"(\b(printf|puts|putchar|perror)\s*\(|\bstd::(cout|cerr|clog|print)\b)",
       {"printf", "puts", "putchar", "perror", "cout", "cerr", "clog", "print"},
       "libraries never print",
       libraries},
      {R"(\bfprintf\s*\()", {"fprintf"}, "libraries never print", libraries},
      {R"(\b(exit|abort|quick_exit|terminate)\s*\()",
       {"exit", "abort", "terminate"},
       "libraries never end the process",
       libraries},
      {R"(\breinterpret_cast\s*<\s*(const\s+)?(float|double|std::uint(16|32|64)_t|(unsigned\s+)?(int|long|short))\s*[&*])",
       {"reinterpret_cast"},
       "values change type by std::bit_cast or std::memcpy",
       {"numerics/", "reference/", "properties/"}},
      {R"(\barbitrary\s*<\s*(float|double)\s*>)",
       {"arbitrary"},
       "RapidCheck's float generators miss nearly all of the range",
       all},
      {R"(\busing\s+namespace\s+std\b)", {"using"}, "names of std are written out", all},
      {R"(\b(rand|srand)\s*\()", {"rand"}, "random numbers come from the root seed", all},
      {R"(\brandom_device\b)", {"random_device"}, "the tool alone may draw a root seed", libraries},
      {R"(\bTODO\b(?!\(#\d+\)))", {"TODO"}, "a TODO names its issue: TODO(#12)", all},
      {R"(\bcu(daDevice|Ctx)Synchronize\b)",
       {"Synchronize"},
       "waiting for the whole device ends the capture of a graph by another thread: wait for a stream",
       {"kernels/sm90/", "bindings/"}},
      {R"(\bassert\s*\()", {"assert"}, "a check that a release build leaves out is none: throw Error", libraries},
  };
  return rules;
}

}  // namespace

std::string code_only(std::string_view text, bool keep_literals) {
  std::string out(text);
  enum class In { code, line_comment, block_comment, literal } in = In::code;
  char quote = 0;
  const auto blank = [&](std::size_t i) {
    if (out[i] != '\n') out[i] = ' ';
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    switch (in) {
      case In::code:
        if (c == '/' && (next == '/' || next == '*')) {
          in = next == '/' ? In::line_comment : In::block_comment;
          blank(i), blank(i + 1), ++i;
        } else if (c == '"' || (c == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0))) {
          in = In::literal;  // a quote after a digit separates digits
          quote = c;
        }
        break;
      case In::line_comment:
        if (c == '\n') in = In::code;
        blank(i);
        break;
      case In::block_comment:
        blank(i);
        if (c == '*' && next == '/') {
          blank(++i);
          in = In::code;
        }
        break;
      case In::literal:
        if (c == quote || c == '\n') {
          in = In::code;
        } else if (!keep_literals) {
          blank(i);
          if (c == '\\' && next != '\n' && i + 1 < text.size()) blank(++i);
        } else if (c == '\\') {
          ++i;
        }
        break;
    }
  }
  return out;
}

bool starts_with_any(std::string_view path, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return path.starts_with(prefix); });
}

std::vector<Include> includes_of(std::string_view text) {
  static const std::regex include(R"(^\s*#\s*include\s*(["<])([^">]+)[">].*)");
  std::vector<Include> includes;
  const std::string code = code_only(text, true);
  for_each_line(code, [&](std::size_t number, std::string_view line) {
    if (line.find('#') == std::string_view::npos) return;  // std::regex takes a microsecond a byte
    std::match_results<std::string_view::const_iterator> match;
    if (!std::regex_match(line.begin(), line.end(), match, include)) return;
    includes.push_back({number, match[2], match[1] == "\""});
  });
  return includes;
}

std::vector<Finding> forbidden_words(std::string_view path, std::string_view text) {
  std::vector<Finding> findings;
  const std::string code = code_only(text);
  for (const WordRule& rule : word_rules()) {
    if (!starts_with_any(path, rule.where)) continue;
    // A TODO lives in a comment; every other word counts in code alone.
    const std::string_view searched = rule.what.starts_with("a TODO") ? text : std::string_view(code);
    const auto in_text = [&](std::string_view word) { return searched.find(word) != std::string_view::npos; };
    if (std::ranges::none_of(rule.words, in_text)) continue;
    const std::regex pattern(rule.pattern);
    for_each_line(searched, [&](std::size_t number, std::string_view line) {
      const auto in_line = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
      if (std::ranges::none_of(rule.words, in_line)) return;
      if (std::regex_search(line.begin(), line.end(), pattern)) findings.push_back({number, std::string(rule.what)});
    });
  }
  return findings;
}

std::vector<Finding> operation_names(std::string_view path, std::string_view text) {
  if (!path.starts_with("properties/") || path.starts_with("properties/operations/")) return {};
  if (path.starts_with("properties/diagnosis/")) return {};  // reads goldens, whose kinds have the same names
  // Knows what each operation's answers are compared with; a new operation is not identified until someone says that.
  if (path.starts_with("properties/identify/library/boxes.")) return {};
  static constexpr std::array<std::string_view, 12> kNames{
      "quantize",    "quantize_dual",  "dequantize",     "scale_layout",       "cast",        "matmul", "route",
      "route_round", "route_metadata", "route_backward", "route_balance_loss", "route_z_loss"};
  std::vector<Finding> findings;
  std::size_t line = 1;
  const std::string code = code_only(text, true);
  for (std::size_t at = 0; at < code.size(); ++at) {
    if (code[at] == '\n') ++line;
    if (code[at] != '"') continue;
    const std::string_view rest = std::string_view(code).substr(at + 1);
    for (const std::string_view name : kNames) {
      const bool ends =
          rest.starts_with(name) && rest.size() > name.size() && (rest[name.size()] == '"' || rest[name.size()] == ':');
      if (ends) findings.push_back({line, "names the operation " + std::string(name)});
    }
  }
  return findings;
}

std::vector<Finding> forbidden_bytes(std::string_view text) {
  std::vector<Finding> findings;
  for_each_line(text, [&](std::size_t number, std::string_view line) {
    for (const char c : line) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == '\t' || byte == '\r' || byte < 0x20 || byte > 0x7E) {
        findings.push_back({number, "byte " + std::to_string(byte) + " is not printable ASCII"});
        break;
      }
    }
    if (line.ends_with(' ')) findings.push_back({number, "white space at the end of the line"});
  });
  if (!text.empty() && !text.ends_with('\n')) findings.push_back({0, "no line break at the end of the file"});
  return findings;
}

std::vector<std::string> package_names(std::string_view text) {
  std::vector<std::string> names;
  for_each_line(text, [&](std::size_t, std::string_view line) {
    line = line.substr(0, line.find('#'));
    while (line.ends_with(' ')) line.remove_suffix(1);
    if (!line.empty()) names.emplace_back(line);
  });
  return names;
}

namespace {

struct Provides {
  std::string_view header;
  std::string_view names;  // of namespace std, with a space between two
};

// A name in several rows comes with each of these headers. Of a nested namespace one name stands for all.
constexpr std::array kProvided{
    Provides{
        "algorithm",
        "all_of any_of none_of clamp copy copy_if copy_n count count_if equal equal_range fill fill_n find find_if "
        "for_each is_sorted lexicographical_compare lower_bound max max_element min min_element minmax "
        "minmax_element mismatch move nth_element partial_sort partition remove_if replace reverse rotate search "
        "shuffle sort stable_partition stable_sort transform unique upper_bound ranges"},
    Provides{"any", "any any_cast"},
    Provides{"array", "array to_array tuple_size"},
    Provides{"atomic",
             "atomic atomic_flag atomic_ref atomic_thread_fence memory_order memory_order_acquire "
             "memory_order_relaxed memory_order_release"},
    Provides{"bit",
             "bit_cast bit_ceil bit_floor bit_width countl_one countl_zero countr_zero endian has_single_bit "
             "popcount rotl rotr"},
    Provides{"bitset", "bitset"},
    Provides{"cctype", "isalnum isalpha isdigit isspace tolower toupper"},
    Provides{"charconv", "chars_format from_chars from_chars_result to_chars to_chars_result"},
    Provides{"chrono", "chrono"},
    Provides{"cmath",
             "abs ceil copysign cos exp exp2 expm1 fabs fdim floor fma fmax fmin fmod frexp ilogb isfinite "
             "isinf isnan isnormal ldexp llround log log10 log1p log2 lround nearbyint nextafter pow remainder rint "
             "round scalbn signbit sin sqrt tanh trunc"},
    Provides{"compare", "partial_ordering strong_ordering weak_ordering"},
    Provides{"concepts",
             "convertible_to derived_from floating_point integral invocable regular same_as "
             "signed_integral unsigned_integral"},
    Provides{"condition_variable", "condition_variable condition_variable_any"},
    Provides{"csignal", "raise signal sig_atomic_t"},
    Provides{"cstddef", "byte max_align_t nullptr_t ptrdiff_t size_t to_integer"},
    Provides{"cstdint", "int8_t int16_t int32_t int64_t intptr_t uint8_t uint16_t uint32_t uint64_t uintptr_t"},
    Provides{"cstdio",
             "FILE fclose fflush fopen fprintf fputs fread fseek fwrite printf puts remove rename snprintf "
             "size_t"},
    Provides{"cstdlib",
             "abort abs aligned_alloc atoi exit free getenv malloc realloc size_t strtod strtol strtoul "
             "strtoull system"},
    Provides{"cstring", "memchr memcmp memcpy memmove memset size_t strchr strcmp strerror strlen strncmp strstr"},
    Provides{"ctime", "clock time time_t tm"},
    Provides{"deque", "deque"},
    Provides{"exception", "current_exception exception exception_ptr rethrow_exception terminate uncaught_exceptions"},
    Provides{"filesystem", "filesystem"},
    Provides{"fstream", "fstream ifstream ofstream ios"},
    Provides{"functional", "bind_front function greater hash invoke less multiplies plus ref cref reference_wrapper"},
    Provides{"future", "async future promise"},
    Provides{"initializer_list", "initializer_list"},
    Provides{"iomanip", "setfill setprecision setw"},
    Provides{"ios", "dec fixed hex ios streamsize"},
    Provides{"iostream", "cerr cin clog cout ios istream ostream"},
    Provides{"istream", "istream"},
    Provides{"iterator",
             "advance back_inserter begin distance end forward_iterator_tag istreambuf_iterator "
             "make_move_iterator next ostream_iterator prev size ssize"},
    Provides{"limits", "numeric_limits"},
    Provides{"list", "list"},
    Provides{"map", "map multimap"},
    Provides{"memory",
             "addressof allocator enable_shared_from_this make_shared make_unique shared_ptr unique_ptr "
             "weak_ptr"},
    Provides{"mutex", "call_once lock_guard mutex once_flag scoped_lock unique_lock"},
    Provides{"new", "exception align_val_t bad_alloc launder nothrow"},
    Provides{"numbers", "numbers"},
    Provides{"numeric", "accumulate exclusive_scan gcd inclusive_scan iota lcm partial_sum reduce"},
    Provides{"optional", "make_optional nullopt nullopt_t optional"},
    Provides{"ostream", "endl flush ostream"},
    Provides{"queue", "priority_queue queue"},
    Provides{"random",
             "mt19937 mt19937_64 normal_distribution random_device seed_seq uniform_int_distribution "
             "uniform_real_distribution"},
    Provides{"ranges", "ranges views"},
    Provides{"regex", "regex regex_match regex_replace regex_search smatch sregex_iterator"},
    Provides{"set", "multiset set"},
    Provides{"shared_mutex", "shared_lock shared_mutex"},
    Provides{"span", "as_bytes as_writable_bytes dynamic_extent size span ssize"},
    Provides{"sstream", "istringstream ostringstream stringstream"},
    Provides{"stack", "stack"},
    Provides{"stdexcept",
             "domain_error invalid_argument length_error logic_error out_of_range overflow_error "
             "range_error runtime_error"},
    Provides{"stop_token", "stop_source stop_token"},
    Provides{"string",
             "char_traits getline size ssize stod stof stoi stol stoll stoul stoull string to_string u8string"},
    Provides{"string_view", "size ssize string_view"},
    Provides{"system_error", "exception errc error_code generic_category system_category system_error"},
    Provides{"thread", "jthread this_thread thread"},
    Provides{"tuple", "apply forward_as_tuple get ignore make_tuple tie tuple tuple_size"},
    Provides{"type_traits",
             "add_const_t bool_constant common_type_t conditional_t decay_t enable_if_t false_type integral_constant "
             "invoke_result_t is_arithmetic_v is_base_of_v is_const_v is_constant_evaluated is_convertible_v is_enum_v "
             "is_floating_point_v is_integral_v is_invocable_v is_same is_same_v is_signed_v is_standard_layout_v "
             "is_trivially_copyable_v is_unsigned_v is_void_v make_signed_t make_unsigned_t remove_const_t "
             "remove_cvref_t remove_reference_t true_type type_identity_t underlying_type_t void_t"},
    Provides{"unordered_map", "unordered_map"},
    Provides{"unordered_set", "unordered_set"},
    Provides{"utility",
             "as_const cmp_equal cmp_greater cmp_less cmp_less_equal declval exchange forward in_range "
             "index_sequence make_index_sequence make_pair move pair piecewise_construct swap"},
    Provides{"variant", "bad_variant_access get get_if holds_alternative monostate variant visit"},
    Provides{"vector", "size ssize vector"},
};

using Headers = std::vector<std::string_view>;

const std::map<std::string_view, Headers>& headers_of_names() {
  static const std::map<std::string_view, Headers> all = [] {
    std::map<std::string_view, Headers> found;
    for (const Provides& row : kProvided) {
      std::string_view names = row.names;
      while (!names.empty()) {
        const std::size_t end = std::min(names.find(' '), names.size());
        found[names.substr(0, end)].push_back(row.header);
        names.remove_prefix(std::min(end + 1, names.size()));
      }
    }
    return found;
  }();
  return all;
}

// Names that every header of containers and algorithms brings along.
constexpr std::array<std::string_view, 5> kEverywhere{"forward", "move", "pair", "size_t", "swap"};

// The standard headers that a text includes, itself or by headers of ours; `seen`: the paths looked at so far.
void add_std_includes(std::string_view text, const HeaderTexts& headers, std::set<std::string>& seen,
                      std::set<std::string>& included) {
  for (const Include& include : includes_of(text)) {
    if (!include.quoted) {
      included.insert(include.name);
    } else if (const auto header = headers.find(include.name); header != headers.end()) {
      if (seen.insert(include.name).second) add_std_includes(header->second, headers, seen, included);
    }
  }
}

bool is_provided(std::string_view name, const Headers& by, const std::set<std::string>& included) {
  if (std::ranges::find(kEverywhere, name) != kEverywhere.end())
    return std::ranges::any_of(kProvided, [&](const Provides& p) { return included.contains(std::string(p.header)); });
  return std::ranges::any_of(by, [&](std::string_view header) {
    return included.contains(std::string(header)) || included.contains(std::string(header.substr(1)) + ".h");
  });
}

bool in_a_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string among(const Headers& headers) {
  std::string text;
  for (const std::string_view header : headers) text += (text.empty() ? "<" : " or <") + std::string(header) + ">";
  return text;
}

}  // namespace

std::vector<Finding> own_header_first(std::string_view path, std::string_view text,
                                      std::span<const std::string> headers) {
  const std::string_view stem = path.substr(0, path.rfind('.'));
  const std::string_view ending = path.substr(stem.size());
  if ((ending != ".cc" && ending != ".cu") || path.starts_with("kernels/sm90/")) return {};
  const auto own = std::ranges::find_if(headers, [&](std::string_view header) {
    return header.starts_with(stem) && (header.substr(stem.size()) == ".h" || header.substr(stem.size()) == ".cuh");
  });
  if (own == headers.end()) return {};
  const std::vector<Include> includes = includes_of(text);
  if (!includes.empty() && includes.front().name == *own) return {};
  return {{includes.empty() ? 1 : includes.front().line, "the first include is not " + *own}};
}

std::vector<Finding> missing_std_includes(std::string_view text, const HeaderTexts& headers) {
  std::set<std::string> included;
  std::set<std::string> looked_at;
  add_std_includes(text, headers, looked_at, included);
  std::vector<Finding> findings;
  std::set<std::string_view> seen;
  const std::string code = code_only(text);
  const std::string_view view = code;
  std::size_t line = 1;
  std::size_t counted = 0;
  for (std::size_t at = view.find("std::"); at != std::string_view::npos; at = view.find("std::", at + 1)) {
    if (at > 0 && (in_a_name(view[at - 1]) || view[at - 1] == ':')) continue;
    std::size_t end = at + 5;
    while (end < view.size() && in_a_name(view[end])) ++end;
    const std::string_view name = view.substr(at + 5, end - at - 5);
    if (name.empty() || !seen.insert(name).second) continue;
    line += static_cast<std::size_t>(std::ranges::count(view.substr(counted, at - counted), '\n'));
    counted = at;
    const auto known = headers_of_names().find(name);
    if (known == headers_of_names().end()) {
      findings.push_back({line, "the table of rules.cc has no std::" + std::string(name)});
    } else if (!is_provided(name, known->second, included)) {
      findings.push_back({line, "std::" + std::string(name) + " needs " + among(known->second)});
    }
  }
  return findings;
}

namespace {

const Arrow* arrow_of(std::string_view path, const std::vector<Arrow>& arrows) {
  const Arrow* longest = nullptr;
  for (const Arrow& arrow : arrows) {
    if (path.starts_with(arrow.from) && (longest == nullptr || arrow.from.size() > longest->from.size()))
      longest = &arrow;
  }
  return longest;
}

// Findings of a text: the includes that `looked_at` takes and that the arrow of the path does not allow.
template <class LookedAt>
std::vector<Finding> findings_of(std::string_view path, std::string_view text, const std::vector<Arrow>& arrows,
                                 LookedAt looked_at) {
  const Arrow* arrow = arrow_of(path, arrows);
  if (arrow == nullptr) return {};
  std::vector<std::string_view> allowed = arrow->to;
  const std::size_t own = path.find('/', arrow->from.size());
  if (arrow->own_folder && own != std::string_view::npos) allowed.push_back(path.substr(0, own + 1));
  std::vector<Finding> findings;
  for (const Include& include : includes_of(text)) {
    if (looked_at(include) && !starts_with_any(include.name, allowed))
      findings.push_back({include.line, std::string(path) + " must not include " + include.name});
  }
  return findings;
}

}  // namespace

const std::vector<Arrow>& folder_arrows() {
  static const std::vector<Arrow> all{
      {"numerics/", {"numerics/"}},
      {"reference/", {"reference/", "numerics/"}},
      {"emulation/", {"emulation/", "numerics/"}},
      {"cost/", {"cost/", "numerics/", "reference/"}},
      {"bindings/", {"bindings/", "numerics/", "reference/", "mxcheck_version.h"}},
      // The SIMD library as any candidate, for large tensors: the tool and the C interface call it.
      {"bindings/simd/", {"bindings/simd/", "numerics/", "reference/", "kernels/candidate.h"}},
      // The worker of a candidate's process, which an interpreter's process enters.
      {"bindings/worker/",
       {"bindings/worker/", "numerics/", "properties/process/", "kernels/candidate.h", "kernels/candidate_dispatch.h",
        "kernels/candidate_layer.h", "kernels/candidate_matmul.h", "kernels/candidate_moe.h",
        "kernels/candidate_nvfp4.h", "kernels/candidate_route.h"}},
      {"goldens/", {"goldens/", "numerics/", "reference/"}},
      {"pages/", {"pages/", "goldens/json/"}},
      {"trainer/",
       {"trainer/", "pages/", "goldens/", "numerics/", "reference/", "mxcheck_version.h", "kernels/train.h"}},
      {"properties/",
       {"properties/", "pages/", "reference/", "goldens/", "numerics/", "kernels/candidate.h",
        "kernels/candidate_dispatch.h", "kernels/candidate_kept_weights.h", "kernels/candidate_layer.h",
        "kernels/candidate_matmul.h", "kernels/candidate_moe.h", "kernels/candidate_nvfp4.h",
        "kernels/candidate_route.h", "mxcheck_version.h"}},
      {"kernels/",
       {"kernels/common/", "kernels/candidate.h", "kernels/candidate_dispatch.h", "kernels/candidate_kept_weights.h",
        "kernels/candidate_layer.h", "kernels/candidate_matmul.h", "kernels/candidate_moe.h",
        "kernels/candidate_nvfp4.h", "kernels/candidate_route.h", "kernels/train.h"},
       true},
      // The body of the thin layer without a card, and the launches of the kernels on it.
      {"kernels/sm100/",
       {"kernels/sm100/", "kernels/common/", "kernels/candidate.h", "kernels/candidate_matmul.h",
        "kernels/candidate_nvfp4.h", "emulation/"}},
      // Headers as users have them: the C interface, or the installed headers (docs/library.md).
      {"examples/", {"kernels/candidate.h", "kernels/candidate_matmul.h", "kernels/candidate_route.h"}},
      {"examples/cpp/", {"mxcheck/"}},
  };
  return all;
}

const std::vector<Arrow>& property_arrows() {
  static const std::vector<Arrow> all{
      {"properties/core/", {"properties/core/"}},
      // Kinds of goldens are in the folders of their operations, and listed in one place.
      {"properties/goldens/", {"properties/core/", "properties/goldens/"}},
      {"properties/goldens/registry", {"properties/goldens/", "properties/operations/"}},
      // The GPU model's C interface: the child loads it, and what claims to be a model's answer is told in its terms.
      {"properties/gpu_model/", {"properties/gpu_model/"}},
      {"properties/process/", {"properties/core/", "properties/process/", "properties/gpu_model/gpu_model.h"}},
      // An operation knows no other operation; their registry alone knows all.
      {"properties/operations/", {"properties/core/", "properties/goldens/", "properties/gpu_model/gpu_model.h"}, true},
      // Exceptions: what operations on scaled blocks share; statements about two of them; and cast, whose problem is
      // quantize's.
      {"properties/operations/scaled_blocks/",
       {"properties/core/", "properties/goldens/", "properties/operations/scaled_blocks/"}},
      {"properties/operations/nvfp4/",
       {"properties/core/", "properties/goldens/", "properties/operations/scaled_blocks/",
        "properties/operations/nvfp4/"}},
      {"properties/operations/quantize/",
       {"properties/core/", "properties/operations/scaled_blocks/", "properties/operations/quantize/",
        "properties/operations/dequantize/problem.h", "properties/operations/scale_layout/problem.h"}},
      {"properties/operations/dequantize/",
       {"properties/core/", "properties/operations/scaled_blocks/", "properties/operations/dequantize/"}},
      {"properties/operations/scale_layout/",
       {"properties/core/", "properties/operations/scaled_blocks/", "properties/operations/scale_layout/"}},
      {"properties/operations/cast/",
       {"properties/core/", "properties/operations/scaled_blocks/", "properties/operations/cast/",
        "properties/operations/quantize/problem.h"}},
      // quantize_transposed is drawn, described and shrunk as those are.
      {"properties/operations/layer/",
       {"properties/core/", "properties/goldens/", "properties/operations/scaled_blocks/",
        "properties/operations/layer/"}},
      // A layer's tensors are described as those of its steps, and its table is theirs.
      {"properties/operations/moe/",
       {"properties/core/", "properties/goldens/", "properties/operations/moe/",
        "properties/operations/layer/definitions.h", "properties/operations/layer/golden.h",
        "properties/operations/layer/tensors.h", "properties/operations/router/golden.h"}},
      // The sums of combine are those of aggregate: its elements, its table and its lines of a report.
      {"properties/operations/dispatch/",
       {"properties/core/", "properties/operations/dispatch/", "properties/operations/layer/expand.h",
        "properties/operations/layer/problem.h", "properties/operations/layer/sum_errors.h",
        "properties/operations/layer/tensors.h"}},
      {"properties/operations/registry", {"properties/core/", "properties/operations/"}},
      {"properties/statements/", {"properties/core/", "properties/statements/"}},
      // Goldens and black boxes are explained by the tables and problems of their operations.
      {"properties/diagnosis/",
       {"properties/core/", "properties/diagnosis/", "properties/goldens/", "properties/operations/layer/definitions.h",
        "properties/operations/layer/steps.h", "properties/operations/quantize/problem.h",
        "properties/operations/router/golden.h", "properties/operations/scaled_blocks/definitions.h"}},
      {"properties/identify/",
       {"properties/core/", "properties/identify/", "properties/operations/matmul/definitions.h",
        "properties/operations/router/definitions.h", "properties/operations/scaled_blocks/definitions.h"}},
      // A policy of a library is posed as the gate poses it, with inputs of identify's own, and held to the gate's
      // cases.
      {"properties/identify/library/",
       {"properties/core/", "properties/process/", "properties/identify/", "properties/gate/coverage/parts.h",
        "properties/operations/matmul/fields.h", "properties/operations/router/fields.h",
        "properties/operations/scaled_blocks/fields.h"}},
      {"properties/records/", {"properties/core/", "properties/process/", "properties/records/"}},
      {"properties/gate/", {"properties/core/", "properties/process/", "properties/records/", "properties/gate/"}},
      {"properties/merge/",
       {"properties/core/", "properties/process/", "properties/records/", "properties/gate/", "properties/merge/"}},
      {"properties/report/",
       {"properties/core/", "properties/process/", "properties/records/", "properties/gate/", "properties/report/"}},
  };
  return all;
}

std::vector<Finding> forbidden_includes(std::string_view path, std::string_view text) {
  static constexpr std::array<std::string_view, 14> kOurs{
      "bindings/", "numerics/", "reference/", "goldens/", "kernels/", "properties/", "benchmarks/",
      "examples/", "tools/",    "tests/",     "fuzz/",    "mxcheck/", "pages/",      "cost/"};
  return findings_of(path, text, folder_arrows(), [](const Include& include) {
    // A name without a folder is a neighbour, which this tree does not use, or generated; of others come "hwy/..." too.
    const bool bare = include.quoted && include.name.find('/') == std::string::npos;
    return bare || starts_with_any(include.name, kOurs) || include.name.find("..") != std::string::npos;
  });
}

std::vector<Finding> forbidden_group_includes(std::string_view path, std::string_view text) {
  return findings_of(path, text, property_arrows(),
                     [](const Include& include) { return include.name.starts_with("properties/"); });
}

namespace fs = std::filesystem;

const fs::path& root() {
  static const fs::path path = MXCHECK_SOURCE_DIR;
  return path;
}

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::vector<Source>& sources() {
  static const std::vector<Source> all = [] {
    static const std::set<std::string> kinds{".h", ".cc", ".c", ".cu", ".cuh"};
    std::vector<Source> found;
    for (const char* folder : {"bindings", "numerics", "emulation", "reference", "goldens", "kernels", "properties",
                               "tools", "trainer", "tests", "benchmarks", "examples", "fuzz", "pages", "cost"}) {
      for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root() / folder)) {
        if (!entry.is_regular_file() || !kinds.contains(entry.path().extension())) continue;
        found.push_back({fs::relative(entry.path(), root()).generic_string(), contents(entry.path())});
      }
    }
    return found;
  }();
  return all;
}

}  // namespace mxcheck::repository
