#pragma once
// Findings: what a launch did that the PTX ISA forbids or leaves undefined.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mxcheck::emulation::sm100 {

enum class Hazard : std::uint8_t {
  allocation,     // tensor memory: allocated, freed or relinquished against the rules, columns that nobody owns
  address,        // outside shared or tensor memory, another warp's lanes, alignment
  uninitialized,  // tensor memory or shared memory that nothing has written
  not_complete,   // read before the operation that writes it is known to be complete
  not_ordered,    // complete, but no tcgen05.fence orders it
  overwritten,    // written while something before may still read or write it
  proxy,          // generic and async accesses without a fence.proxy.async between them
  descriptor,     // of a matrix in shared memory, or of an instruction
  swizzle,        // written by TMA in one swizzle, read in another
  scale_copies,   // copies of scales that must be equal and are not
  live_scales,    // strict: tcgen05.cp onto scales that an mma before may still read
  issue,          // who issues: several lanes, several threads, both cta_groups
  collective,     // a warp, a CTA or a cluster does not execute together what it must
  barrier,        // mbarrier: not initialized, too many arrivals, scope, overlap
  phase,          // mbarrier: a phase that nobody waited for, or a wait that missed one
  transaction,    // mbarrier: bytes that do not add up
  launch,         // cluster launch control
  exit,           // what is left when a CTA ends; accesses to a CTA that has ended
  deadlock,       // nothing can go on
  unknown,        // a form that is not modelled: the run says nothing about it
};

std::string_view name_of(Hazard hazard);

struct Finding {
  Hazard hazard;
  std::string who;          // "cta 0 warp 1 lane 0 (mma)"
  std::string instruction;  // "tcgen05.ld.32x32b.x32"
  std::string what;         // what is wrong, where: column, lane, byte, barrier
  std::string right;        // what would be right
  std::size_t times = 1;    // met again by the same role at the same instruction
};

std::string text_of(const Finding& finding);

// The findings that differ in hazard, role, instruction or in what would be right, the first of each in full.
class Findings {
 public:
  void add(Finding finding, std::string_view role);
  [[nodiscard]] const std::vector<Finding>& all() const { return all_; }

 private:
  std::vector<Finding> all_;
  std::vector<std::string> keys_;
};

}  // namespace mxcheck::emulation::sm100
