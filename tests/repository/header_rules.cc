#include "tests/repository/rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

namespace mxcheck::repository {
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
  if (std::ranges::find(kEverywhere, name) != kEverywhere.end()) {
    return std::ranges::any_of(kProvided, [&](const Provides& p) { return included.contains(std::string(p.header)); });
  }
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
      findings.push_back({line, "the table of header_rules.cc has no std::" + std::string(name)});
    } else if (!is_provided(name, known->second, included)) {
      findings.push_back({line, "std::" + std::string(name) + " needs " + among(known->second)});
    }
  }
  return findings;
}

}  // namespace mxcheck::repository
