// The table of products: other contracts, and slips that GEMM kernels are known for.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "properties/operations/matmul/fields.h"
#include "properties/operations/matmul/operation.h"
#include "properties/operations/matmul/problem.h"
#include "reference/matmul/matmul.h"

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

class Rows {
 public:
  explicit Rows(const MatmulProblem& p) : p_(p), own_(p.contract()) {}

  void add(const std::string& name, std::function<Bytes()> d) {
    all_.push_back(definition_of_output(0, name, [d = std::move(d)] {
      try {
        return d();
      } catch (const std::exception&) {  // a contract that does not take this product
        return Bytes();
      }
    }));
  }
  // The product with something else changed.
  void changed(const std::string& name, const std::function<void(MatmulProblem&)>& change) {
    add(name, [p = p_, own = own_, change] {
      MatmulProblem other = p;
      change(other);
      return other.answer(own).bytes;
    });
  }
  void contract(const MatmulContract& other) {
    if (to_text(other) == to_text(own_)) return;
    add("contract " + to_text(other), [p = p_, other] { return p.answer(other).bytes; });
  }
  void contracts();
  void slips();
  void slips_of_scales();
  Table take() { return std::move(all_); }

 private:
  const MatmulProblem& p_;
  MatmulContract own_;
  Table all_;
};

void Rows::contracts() {
  const bool scaled = matmul_of(p_.c.variant).scales != MXCHECK_NO_SCALES;
  for (std::int64_t interval : {0, 32, 64, 128, 256}) {
    MatmulContract other = own_;
    other.promotion = interval;
    if (own_.promotion != 0 && (interval != 0 || !scaled)) contract(other);
  }
  for (const MatmulContract::Order order : {MatmulContract::Order::a_first, MatmulContract::Order::b_first}) {
    MatmulContract other = own_;
    other.order = order;
    if (own_.promotion != 0) contract(other);
  }
  MatmulContract other = own_;
  other.descending = !own_.descending;
  if (own_.sum->arithmetic == Arithmetic::fused) contract(other);
  for (const char* name : {"exact", "ieee_fp32"}) contract(parse_matmul_contract(name));
}

void Rows::slips() {
  if (matmul_case(p_.c).adds) changed("C not added", [](MatmulProblem& p) { matmul_case(p.c).adds = false; });
  if (matmul_case(p_.c).alpha != 1) changed("alpha of 1", [](MatmulProblem& p) { matmul_case(p.c).alpha = 1; });
  if (p_.c.variant.dtype == Format::bf16 && !matmul_case(p_.c).adds) {  // FP32 first, then its upper half
    add("D cut to BF16 in place of rounded", [p = p_, own = own_] {
      MatmulProblem single = p;
      single.c.variant.dtype = Format::fp32;
      const Bytes words = single.answer(own).bytes;
      Bytes cut(words.size() / 2);
      for (std::size_t i = 0; i + 1 < cut.size(); i += 2) cut[i] = words[2 * i + 2], cut[i + 1] = words[2 * i + 3];
      return cut;
    });
  }
  if (matmul_case(p_.c).depth > 128 && matmul_of(p_.c.variant).groups != MXCHECK_DEPTH) {
    add("the last block of 128 of k left out", [p = p_, own = own_] {
      Matmul shorter = p.matmul(own);
      shorter.a.depth = shorter.b.depth = (matmul_case(p.c).depth - 1) / 128 * 128;
      Bytes d(p.answer(own).bytes.size());
      mxcheck::matmul(shorter, d.data());
      return d;
    });
  }
}

void Rows::slips_of_scales() {
  if (matmul_of(p_.c.variant).scales == MXCHECK_NO_SCALES) return;
  for (std::vector<std::byte> MatmulProblem::*const side : {&MatmulProblem::scales_a, &MatmulProblem::scales_b}) {
    const std::string of = side == &MatmulProblem::scales_a ? "A's" : "B's";
    changed(of + " scales taken as 1", [side](MatmulProblem& p) {
      const std::uint32_t one = matmul_of(p.c.variant).scales == MXCHECK_FP32 ? 0x3F800000 : 0x7F7F7F7F;
      std::vector<std::byte>& scales = p.*side;
      for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(one >> (8 * (i % 4)));
    });
    changed(of + " scales taken from the block of k before",
            [side](MatmulProblem& p) { p.*side = scales_of_the_block_before(p, p.*side); });
  }
}

}  // namespace

Table MatmulProblem::definitions(std::span<const Bytes>) const {
  if (c.elements() * matmul_case(c).depth > kMostToMatch) return {};
  Rows rows(*this);
  rows.contracts();
  rows.slips();
  rows.slips_of_scales();
  return rows.take();
}

}  // namespace mxcheck
