// Cluster launch control (PTX ISA 9.0, 9.7.13.17): a cluster asks for the work of one that has not started.
#include <cstring>

#include "emulation/sm100/machine.h"

namespace mxcheck::emulation::sm100 {
namespace {

constexpr std::uint64_t kCanceled = 1;  // bit 0 of the low word; the first CTA in the high one

}  // namespace

void try_cancel(std::uint32_t response, std::uint32_t barrier, bool multicast) {
  begin("clusterlaunchcontrol.try_cancel");
  Thread& t = self();
  Machine& machine = *t.machine;
  if (machine.claims_failed) {
    report(Hazard::launch, "another request after one that failed", "no request once is_canceled has been false");
  }
  if (response % 16 != 0) {
    stop(Hazard::address, "the response at byte " + std::to_string(response & 0xFFFFFFU), "a multiple of 16");
  }
  std::vector<SharedPlace> places;
  for (unsigned rank = 0; rank < machine.ctas.size(); ++rank) {
    if (multicast || rank == t.cta->rank) places.push_back(place_of(mapped(response & 0xFFFFFFU, rank), 16));
  }
  ClcResponse answer{0, 0};
  if (const std::optional<unsigned> block = machine.claim()) answer = {kCanceled, *block};
  for (const SharedPlace place : places) {
    const std::uint64_t number = ++machine.load_number;
    if (!t.async.knows(barrier_at({place.cta, barrier & 0xFFFFFFU}, t.instruction)->init)) {
      report(Hazard::barrier, "the mbarrier's initialization is not visible to the async proxy",
             "fence.mbarrier_init, then a barrier");
    }
    check_shared_write_async(*place.cta, place.offset, 16, number, Swizzle::none, false);
    issue_load(t.instruction, [place, answer, number, offset = barrier & 0xFFFFFFU] {
      if (place.cta->running == 0) {
        report(Hazard::exit, "the answer arrives in cta " + std::to_string(place.cta->block) + ", which has ended",
               "a wait for every answer");
        return;
      }
      std::memcpy(place.cta->shared.data() + place.offset, &answer, 16);
      Barrier* b = barrier_at({place.cta, offset}, "complete_tx");
      for (std::uint32_t i = place.offset / 4; i < place.offset / 4 + 4 && !place.cta->shared_cells.empty(); ++i) {
        SharedCell& cell = place.cta->shared_cells[i];
        if (cell.load != number) continue;
        cell.writer = SharedCell::Writer::tma;
        cell.write = {b->component, static_cast<std::uint32_t>(b->phase) + 1};
      }
      arrive_on(*b, 0, -16, {}, false);
    });
  }
}

bool is_canceled(const ClcResponse& response) {
  begin("clusterlaunchcontrol.query_cancel.is_canceled");
  const bool canceled = (response.low & kCanceled) != 0;
  if (!canceled) self().machine->claims_failed = true;
  return canceled;
}

std::uint32_t first_block(const ClcResponse& response) {
  begin("clusterlaunchcontrol.query_cancel.get_first_ctaid");
  if ((response.low & kCanceled) == 0) {
    report(Hazard::launch, "the first CTA of a request that failed", "is_canceled is asked first");
  }
  return static_cast<std::uint32_t>(response.high);
}

}  // namespace mxcheck::emulation::sm100
