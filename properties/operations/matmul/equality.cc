// GEMMs: the bits of D are those of the contract that the operation claims.

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "properties/core/check.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/problem.h"

namespace mxcheck {
namespace {

constexpr std::int64_t kMostToMatch = std::int64_t{1} << 24;  // multiplications: as many as a drawn case has

// The scales of an operand, each of them that of the block of k before it; the first keeps its own.
std::vector<std::byte> scales_of_the_block_before(const MatmulProblem& p, const std::vector<std::byte>& scales) {
  const std::size_t width = matmul_of(p.c.variant).scales == MXCHECK_FP32 ? 4 : 1;
  const std::size_t line = static_cast<std::size_t>(matmul_case(p.c).depth / 128) * width;
  std::vector<std::byte> shifted = scales;
  if (line == 0 || matmul_of(p.c.variant).block.cols != 128 || matmul_case(p.c).depth % 128 != 0) return shifted;
  for (std::size_t i = 0; i < shifted.size(); ++i) {
    if (i % line >= width) shifted[i] = scales[i - width];
  }
  return shifted;
}

// What common faults make of D, by name.
std::vector<std::pair<std::string, std::vector<std::byte>>> faults(const MatmulProblem& p, const MatmulContract& own) {
  std::vector<std::pair<std::string, std::vector<std::byte>>> all;
  const ExpectedTensor right = p.answer(own);
  if (p.c.variant.dtype == Format::bf16) {  // FP32 first, then its upper half
    MatmulProblem single = p;
    single.c.variant.dtype = Format::fp32;
    if (!matmul_case(p.c).adds) {
      const std::vector<std::byte> words = single.answer(own).bytes;
      std::vector<std::byte> cut(right.bytes.size());
      for (std::size_t i = 0; i + 1 < cut.size(); i += 2) cut[i] = words[2 * i + 2], cut[i + 1] = words[2 * i + 3];
      all.emplace_back("D cut to BF16 in place of rounded", std::move(cut));
    }
  }
  if (matmul_case(p.c).depth > 128 && matmul_of(p.c.variant).groups != MXCHECK_DEPTH) {
    Matmul shorter = p.matmul(own);
    shorter.a.depth = shorter.b.depth = (matmul_case(p.c).depth - 1) / 128 * 128;
    std::vector<std::byte> d(right.bytes.size());
    mxcheck::matmul(shorter, d.data());
    all.emplace_back("the last block of 128 of k left out", std::move(d));
  }
  if (matmul_of(p.c.variant).scales != MXCHECK_NO_SCALES) {
    MatmulProblem shifted = p;
    shifted.scales_a = scales_of_the_block_before(p, p.scales_a);
    all.emplace_back("A's scales taken from the block of k before", shifted.answer(own).bytes);
    shifted.scales_a = p.scales_a, shifted.scales_b = scales_of_the_block_before(p, p.scales_b);
    all.emplace_back("B's scales taken from the block of k before", shifted.answer(own).bytes);
  }
  return all;
}

// Under which other contract, or with which common fault, D would be exactly what was observed.
std::vector<std::string> contracts_that_match(const MatmulProblem& p, const std::vector<std::byte>& observed) {
  std::vector<std::string> names;
  const MatmulContract own = parse_matmul_contract(contract_text(p.c.variant.operation));
  const auto try_problem = [&](const MatmulProblem& other, const MatmulContract& contract, const std::string& name) {
    try {
      if (other.answer(contract).bytes == observed) names.push_back(name);
    } catch (const std::exception&) {  // a contract that does not take this product
    }
  };
  const auto try_contract = [&](const MatmulContract& contract) {
    if (to_text(contract) != to_text(own)) try_problem(p, contract, "contract " + to_text(contract));
  };
  for (std::int64_t interval : {0, 32, 64, 128, 256}) {
    MatmulContract other = own;
    other.promotion = interval;
    if (own.promotion != 0 && (interval != 0 || matmul_of(p.c.variant).scales == MXCHECK_NO_SCALES))
      try_contract(other);
  }
  for (const MatmulContract::Order order : {MatmulContract::Order::a_first, MatmulContract::Order::b_first}) {
    MatmulContract other = own;
    other.order = order;
    if (own.promotion != 0) try_contract(other);
  }
  MatmulContract other = own;
  other.descending = !own.descending;
  if (own.sum->arithmetic == Arithmetic::fused) try_contract(other);
  for (const char* name : {"exact", "ieee_fp32"}) try_contract(parse_matmul_contract(name));
  if (matmul_case(p.c).adds) {
    MatmulProblem without = p;
    matmul_case(without.c).adds = false;
    try_problem(without, own, "C not added");
  }
  if (matmul_case(p.c).alpha != 1) {
    MatmulProblem without = p;
    matmul_case(without.c).alpha = 1;
    try_problem(without, own, "alpha of 1");
  }
  if (matmul_of(p.c.variant).scales != MXCHECK_NO_SCALES) {
    for (const bool first : {true, false}) {
      MatmulProblem without = p;
      std::vector<std::byte>& scales = first ? without.scales_a : without.scales_b;
      const std::uint32_t one = matmul_of(p.c.variant).scales == MXCHECK_FP32 ? 0x3F800000 : 0x7F7F7F7F;
      for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(one >> (8 * (i % 4)));
      try_problem(without, own, first ? "A's scales taken as 1" : "B's scales taken as 1");
    }
  }
  for (const auto& [name, bytes] : faults(p, own)) {
    if (bytes == observed) names.push_back(name);
  }
  return names;
}

std::optional<Finding> equals_contract(CheckContext& context, const Case& c) {
  const Posed posed = posed_of(context, c);
  const auto& p = static_cast<const MatmulProblem&>(*posed.problem);
  const ExpectedTensor& expected = posed.answer.front();
  const bool large = c.elements() > 100'000;
  for (std::uint8_t poison : kPoisons) {
    if (large && poison != kPoisons[c.seed & 1]) continue;
    const Got got = run_problem(context, p, poison);
    if (!got.usable()) return pass_on(context, got);
    auto finding = differ(expected.info, expected.bytes, got.outputs[0],
                          "D differs from its contract, " + std::string(contract_text(c.variant.operation)));
    if (!finding) continue;
    p.explain(0, *finding);
    if (context.thorough && c.elements() * matmul_case(c).depth <= kMostToMatch)
      finding->matches = contracts_that_match(p, got.outputs[0]);
    return finding;
  }
  return std::nullopt;
}

// Integers: no contract rounds, so that the exact product is the only right one, whatever was claimed.
std::optional<Finding> sums_integers(CheckContext& context, const Case& c) {
  const MatmulProblem p(c);
  const Got got = run_problem(context, p);
  if (!got.usable()) return pass_on(context, got);
  const ExpectedTensor expected = p.answer(parse_matmul_contract("exact"));
  auto finding =
      differ(expected.info, expected.bytes, got.outputs[0], "D differs from the exact product of small integers");
  if (finding) p.explain(0, *finding);
  return finding;
}

// C in D's own memory: D is what it is in memory of its own.
std::optional<Finding> updates_in_place(CheckContext& context, const Case& c) {
  Case adding = c;
  matmul_case(adding).adds = true;
  const MatmulProblem p(adding);
  const Got apart = run_problem(context, p);
  if (!apart.usable()) return pass_on(context, apart);
  Call call = p.call();
  call.misaligned = c.misaligned;
  call.outputs[0].in_place_of = matmul_of(c.variant).scales != MXCHECK_NO_SCALES ? 4 : 2;
  call.guard_pages = (c.seed & 1) != 0;
  Got in_place = run_call(context, call, adding);
  if (!in_place.usable() && !in_place.finding && call.guard_pages) {
    // Between guards operands begin where they must to end at a page, which may be refused.
    call.guard_pages = false;
    in_place = run_call(context, call, adding);
  }
  if (in_place.finding) return in_place.finding;
  if (!in_place.usable()) {
    Finding finding;
    finding.kind = FindingKind::refused;
    finding.summary = "the candidate takes C, and not where it is in D's memory";
    return finding;
  }
  return differ(p.outputs[0], apart.outputs[0], in_place.outputs[0], "D differs where C is in its memory");
}

// Shapes and data that every variant meets on every run.
std::vector<Case> usual_corners(const Variant& v, Suite suite) {
  std::vector<Case> cases{
      matmul_corner(v, 0, 5, 128, Data::zeros, 1),      matmul_corner(v, 3, 0, 128, Data::zeros, 2),
      matmul_corner(v, 5, 7, 0, Data::normal, 3),       matmul_corner(v, 1, 1, 128, Data::boundaries, 4),
      matmul_corner(v, 130, 136, 384, Data::slots, 5),  matmul_corner(v, 65, 264, 640, Data::boundaries, 6),
      matmul_corner(v, 257, 129, 256, Data::wide, 7),   matmul_corner(v, 64, 8, 128, Data::specials, 8),
      matmul_corner(v, 200, 72, 1280, Data::normal, 9),
  };
  if (matmul_of(v).groups == MXCHECK_ROWS) {  // one expert with everything; sizes around the edges of tiles
    cases[4].experts = {0, 0, 130, 130};
    cases[8].experts = {0, 1, 1, 65, 128, 200};
    Case sizes = matmul_corner(v, 0, 40, 256, Data::slots, 10);
    sizes.experts = {0};
    for (std::int64_t n : {0, 1, 63, 64, 65, 127, 128, 129, 2, 0, 255, 256, 257})
      sizes.experts.push_back(sizes.experts.back() + n);
    sizes.rows = sizes.experts.back();
    cases.push_back(sizes);
  }
  if (matmul_of(v).groups == MXCHECK_DEPTH) cases[8].experts = {0, 0, 128, 640, 640, 1280};
  // One operand one-hot over a tile: at every k in the quick suite, in every row at every k in the exhaustive one.
  const std::uint64_t step = suite == Suite::quick ? 128 : suite == Suite::full ? 32 : 1;
  for (std::uint64_t shift = 0; shift < 256; shift += step) {
    for (const std::uint64_t operand : {std::uint64_t{0}, std::uint64_t{1}}) {
      cases.push_back(matmul_corner(v, 128, 256, 256, Data::every_word, 2 * shift + operand));
    }
  }
  if (matmul_of(v).scales != MXCHECK_NO_SCALES && suite != Suite::quick) {  // every pair of scale bytes
    cases.push_back(
        matmul_corner(v, 256, matmul_of(v).block_b.rows == 128 ? 32768 : 256, matmul_of(v).block.cols, Data::slots, 0));
    if (matmul_of(v).groups == MXCHECK_ROWS) cases.back().experts = {0, 256};
    if (matmul_of(v).groups == MXCHECK_DEPTH) cases.back().experts = {0, matmul_of(v).block.cols};
  }
  return cases;
}

// Tens of millions of single-instruction sums: the evidence that the contract is the hardware's.
std::vector<Case> many_sums(const Variant& v, Suite suite) {
  std::vector<Case> cases;
  const std::int64_t side = suite == Suite::quick ? 96 : suite == Suite::full ? 512 : 2048;
  std::uint64_t seed = 1;
  for (const Data data : {Data::normal, Data::boundaries, Data::wide, Data::bits, Data::specials, Data::slots}) {
    for (const std::int64_t cols : {std::int64_t{8}, std::int64_t{64}, side}) {
      for (const std::int64_t depth : {32, 96}) {
        for (const bool adds : {false, true}) {
          Case c = matmul_corner(v, side, cols, depth, data, seed++);
          matmul_case(c).adds = adds;
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

bool is_plain(const Variant& v) {
  return is_matmul(v.operation) && parse_matmul_contract(contract_text(v.operation)).from_c;
}

}  // namespace

std::vector<Statement> matmul_statements() {
  std::vector<Statement> s(4);
  s[0].name = "matmul_equals_its_contract";
  s[0].sentence =
      "every output has the bits that the operation's accumulation contract gives, whatever the shape, groups and data";
  s[0].source = "reference/matmul/matmul.h; numerics/accumulate/contract.h";
  s[0].applies = [](const Variant& v, std::span<const Variant>) { return is_matmul(v.operation); };
  s[0].data = {Data::normal, Data::normal, Data::boundaries, Data::boundaries, Data::slots,
               Data::wide,   Data::bits,   Data::specials,   Data::sparse};
  s[0].experts = 0, s[0].strides = false;
  s[0].check = equals_contract;
  s[0].corners = usual_corners;
  s[0].cases_per_variant = 2;
  s[0].covers_pairs = true;

  s[1] = s[0];
  s[1].name = "matmul_of_small_integers_is_exact";
  s[1].sentence = "where no rounding can happen, D is the exact product, whatever contract is claimed";
  // Products of at most 4 over a drawn k of at most 2560, and a C of at most 4.
  s[1].source = "sums below 2^14, which the 14 significant bits of the narrowest accumulator hold";
  s[1].data = {Data::codes};
  s[1].check = sums_integers;
  s[1].corners = {};
  s[1].cases_per_variant = 2;
  s[1].covers_pairs = false;

  s[2] = s[0];
  s[2].name = "matmul_sums_are_the_tensor_cores";
  s[2].sentence =
      "sums that start from C are the chained steps of the contract: by the million, several widths of the instruction";
  s[2].source = "numerics/accumulate/fused_sum.h";
  s[2].applies = [](const Variant& v, std::span<const Variant>) { return is_plain(v); };
  s[2].data = {};
  s[2].corners = many_sums;

  s[3] = s[1];
  s[3].name = "matmul_updates_c_in_place";
  s[3].sentence = "where C lies in D's memory, D is the same as where it does not";
  s[3].source = "kernels/candidate_matmul.h";
  s[3].data = {Data::normal, Data::boundaries, Data::specials};
  s[3].check = updates_in_place;
  return s;
}

}  // namespace mxcheck
