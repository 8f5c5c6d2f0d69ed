// TMA and bulk copies (PTX ISA 9.0, 9.7.9.25 to 9.7.9.27). A load writes its whole box, zeros where it lies outside the
// tensor, and takes that many bytes off its barrier.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "emulation/sm100/machine.h"
#include "emulation/sm100/tensor_core/shared_matrix.h"

namespace mxcheck::emulation::sm100 {
namespace {

std::uint32_t box_bytes(const TensorMap& map) {
  auto bytes = static_cast<std::uint32_t>(map.element_bytes);
  for (int i = 0; i < map.rank; ++i) bytes *= map.box[static_cast<std::size_t>(i)];
  return bytes;
}

// `spans`: of the swizzle, of which the address in shared memory is a multiple.
void check_map(const TensorMap& map, std::span<const std::int32_t> at, std::uint32_t shared, std::uint32_t spans = 8) {
  const std::uint32_t inner = map.box[0] * static_cast<std::uint32_t>(map.element_bytes);
  if (map.rank < 1 || map.rank > 5 || at.size() != static_cast<std::size_t>(map.rank)) {
    stop(Hazard::address,
         std::to_string(at.size()) + " coordinates of a tensor of " + std::to_string(map.rank) + " dimensions",
         "as many as the tensor map has");
  }
  if (inner % 16 != 0)
    stop(Hazard::address, "rows of the box of " + std::to_string(inner) + " bytes", "a multiple of 16");
  const std::uint32_t span = swizzle_span(map.swizzle);
  const std::uint32_t alignment = map.swizzle == Swizzle::none ? 128 : spans * span;
  if (map.swizzle != Swizzle::none && inner > span) {
    stop(Hazard::swizzle, "rows of the box of " + std::to_string(inner) + " bytes",
         "no longer than the swizzle's " + std::to_string(span));
  }
  if ((shared & 0xFFFFFFU) % alignment != 0) {
    stop(Hazard::address, "byte " + std::to_string(shared & 0xFFFFFFU) + " of shared memory",
         "a multiple of " + std::to_string(alignment) + " for this swizzle");
  }
}

// Calls visit(offset in the box, address in the tensor or null) for every 16 bytes.
template <class Visit>
void each_unit(const TensorMap& map, std::span<const std::int32_t> at, const Visit& visit) {
  const std::uint32_t inner = map.box[0] * static_cast<std::uint32_t>(map.element_bytes);
  const std::uint32_t rows = box_bytes(map) / inner;
  std::vector<std::byte> line(inner);
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::uint32_t rest = row;
    bool inside = true;
    std::uint64_t offset = 0;
    for (std::size_t d = 1; d < static_cast<std::size_t>(map.rank); ++d) {
      const std::int64_t coordinate = std::int64_t{at[d]} + rest % map.box[d];
      rest /= map.box[d];
      if (coordinate < 0 || static_cast<std::uint64_t>(coordinate) >= map.extent[d]) {
        inside = false;
      } else {
        offset += static_cast<std::uint64_t>(coordinate) * map.stride[d];
      }
    }
    visit(row * inner, inside, offset);
  }
}

// One row of the box: the part of it that lies inside of the tensor.
struct Inside {
  std::uint32_t first, count;  // elements of the box's row
};
Inside inside_of(const TensorMap& map, std::int32_t at) {
  const std::int64_t begin = std::max<std::int64_t>(0, -std::int64_t{at});
  const std::int64_t end = std::min<std::int64_t>(map.box[0], static_cast<std::int64_t>(map.extent[0]) - at);
  if (end <= begin) return {0, 0};
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end - begin)};
}

// Bytes of a box's row, to or from shared memory, by 16-byte units and the XOR of the swizzle.
template <class Copy>
void each_shared_unit(const TensorMap& map, std::uint32_t shared, std::uint32_t box_offset, const Copy& copy) {
  const std::uint32_t inner = map.box[0] * static_cast<std::uint32_t>(map.element_bytes);
  for (std::uint32_t u = 0; u < inner; u += 16) copy(swizzled(map.swizzle, shared + box_offset + u), u);
}

void load_into(Cta& cta, const TensorMap& map, std::span<const std::int32_t> at, std::uint32_t shared) {
  const auto element = static_cast<std::uint32_t>(map.element_bytes);
  const Inside in = inside_of(map, at[0]);
  std::vector<std::byte> line(std::size_t{map.box[0]} * element);
  each_unit(map, at, [&](std::uint32_t box_offset, bool inside, std::uint64_t offset) {
    std::ranges::fill(line, std::byte{0});
    if (inside && in.count > 0) {
      const auto* from = static_cast<const std::byte*>(map.base) + offset +
                         static_cast<std::size_t>(std::int64_t{at[0]} + in.first) * element;
      std::memcpy(line.data() + std::size_t{in.first} * element, from, std::size_t{in.count} * element);
    }
    each_shared_unit(map, shared, box_offset, [&](std::uint32_t to, std::uint32_t u) {
      std::memcpy(cta.shared.data() + to, line.data() + u, 16);
    });
  });
}

// The barrier that a destination's bytes count on.
SharedPlace barrier_of(Cta& destination, SharedPlace named, int cta_group, bool multicast) {
  Thread& t = self();
  if (cta_group == 2 && t.machine->ctas.size() % 2 != 0) {
    stop(Hazard::issue, "cta_group::2 without a pair", "a cluster of an even size");
  }
  if (!multicast) {
    const bool pair = destination.rank / 2 == named.cta->rank / 2;
    if (named.cta != &destination && !(cta_group == 2 && pair)) {
      stop(Hazard::barrier,
           "the barrier is in cta " + std::to_string(named.cta->block) + " and the data go to cta " +
               std::to_string(destination.block),
           cta_group == 2 ? "a barrier in the destination CTA or the other of its pair"
                          : "a barrier in the destination CTA");
    }
    return named;
  }
  // The barrier of a pair: in the destination or its peer, by the parity of the named barrier's CTA.
  const unsigned rank = cta_group == 2 ? (destination.rank & ~1U) | (named.cta->rank & 1U) : destination.rank;
  return {t.machine->ctas[rank].get(), named.offset};
}

struct Delivery {
  SharedPlace to, barrier;
};

// The steps common to all loads: the shadow at issue, the bytes and the arrival when it happens.
void issue(const std::vector<Delivery>& deliveries, std::uint32_t bytes, Swizzle swizzle, bool by_map,
           const std::function<void(Cta&, std::uint32_t)>& copy) {
  Thread& t = self();
  const std::uint64_t number = ++t.machine->load_number;
  for (const Delivery& d : deliveries) {
    Barrier* barrier = barrier_at(d.barrier, t.instruction);
    if (!t.async.knows(barrier->init)) {
      report(Hazard::barrier, "the mbarrier's initialization is not visible to the async proxy",
             "fence.mbarrier_init, then a barrier");
    }
    check_shared_write_async(*d.to.cta, d.to.offset, bytes, number, swizzle, by_map);
  }
  for (const Delivery& d : deliveries) {
    issue_load(t.instruction, [d, bytes, number, copy, checks = t.machine->options.checks] {
      for (const Cta* cta : {d.to.cta, d.barrier.cta}) {
        if (cta->running != 0) continue;
        report(Hazard::exit, "data or their bytes arrive in cta " + std::to_string(cta->block) + ", which has ended",
               "a wait for every load");
        return;
      }
      copy(*d.to.cta, d.to.offset);
      Barrier* barrier = barrier_at(d.barrier, "complete_tx");
      // Bytes that land in another CTA than the barrier's are seen through a wait at cluster scope alone.
      const std::uint32_t component = d.to.cta == d.barrier.cta ? barrier->component : barrier->remote_component;
      const Event written{component, static_cast<std::uint32_t>(barrier->phase) + 1};
      if (d.to.cta != self().cta) d.to.cta->reached.learn(written);
      if (checks) {
        for (std::uint32_t i = d.to.offset / 4; i < (d.to.offset + bytes) / 4; ++i) {
          SharedCell& cell = d.to.cta->shared_cells[i];
          if (cell.writer == SharedCell::Writer::tma_in_flight && cell.load == number) {
            cell.writer = SharedCell::Writer::tma;
            cell.write = written;
          }
        }
      }
      arrive_on(*barrier, 0, -std::int64_t{bytes}, {}, false);
    });
  }
}

std::vector<SharedPlace> destinations(std::uint32_t to, std::size_t bytes, std::uint16_t multicast) {
  if (multicast == 0) return {place_of(to, bytes)};
  std::vector<SharedPlace> places;
  for (unsigned rank = 0; rank < 16; ++rank) {
    if ((multicast >> rank & 1U) != 0) places.push_back(place_of(mapped(to & 0xFFFFFFU, rank), bytes));
  }
  return places;
}

}  // namespace

void tma_load(const TmaLoad& load) {
  begin(load.multicast != 0 ? "cp.async.bulk.tensor.multicast" : "cp.async.bulk.tensor");
  const TensorMap& map = *load.map;
  check_map(map, load.at, load.to);
  const std::uint32_t bytes = box_bytes(map);
  const SharedPlace named = place_of(load.barrier, 8);
  std::vector<Delivery> deliveries;
  for (const SharedPlace to : destinations(load.to, bytes, load.multicast)) {
    deliveries.push_back({to, barrier_of(*to.cta, named, load.cta_group, load.multicast != 0)});
  }
  issue(deliveries, bytes, map.swizzle, true,
        [map, at = std::vector<std::int32_t>(load.at.begin(), load.at.end())](Cta& cta, std::uint32_t offset) {
          load_into(cta, map, at, offset);
        });
}

void tma_gather4(const TmaGather4& load) {
  begin("cp.async.bulk.tensor.gather4");
  const TensorMap& map = *load.map;
  if (map.rank != 2 || map.box[1] != 1) {
    std::string box = std::to_string(map.box[0]);
    for (int i = 1; i < map.rank; ++i) box += " x " + std::to_string(map.box[static_cast<std::size_t>(i)]);
    stop(Hazard::descriptor, "a tensor map of " + std::to_string(map.rank) + " dimensions with boxes of " + box,
         "two dimensions and boxes of one row");
  }
  // Four rows are half of the eight that a swizzle's pattern has: any of its halves may be written.
  check_map(map, std::array{load.x, load.rows[0]}, load.to, 4);
  const std::uint32_t row_bytes = box_bytes(map);
  const SharedPlace to = place_of(load.to, 4 * row_bytes);
  issue({{to, barrier_of(*to.cta, place_of(load.barrier, 8), load.cta_group, false)}}, 4 * row_bytes, map.swizzle, true,
        [map, x = load.x, rows = load.rows, row_bytes](Cta& cta, std::uint32_t offset) {
          for (const std::int32_t row : rows) {
            load_into(cta, map, std::array{x, row}, offset);
            offset += row_bytes;
          }
        });
}

void bulk_load(std::uint32_t to, const void* from, unsigned bytes, std::uint32_t barrier, std::uint16_t multicast) {
  begin("cp.async.bulk.shared::cluster.global");
  if (bytes % 16 != 0 || (to & 0xFFFFFFU) % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0) {
    stop(Hazard::address, std::to_string(bytes) + " bytes to byte " + std::to_string(to & 0xFFFFFFU),
         "all multiples of 16");
  }
  const SharedPlace named = place_of(barrier, 8);
  std::vector<Delivery> deliveries;
  for (const SharedPlace place : destinations(to, bytes, multicast)) {
    deliveries.push_back({place, barrier_of(*place.cta, named, 1, multicast != 0)});
  }
  issue(deliveries, bytes, Swizzle::none, false,
        [from, bytes](Cta& cta, std::uint32_t offset) { std::memcpy(cta.shared.data() + offset, from, bytes); });
}

namespace {

void issue_store(std::uint32_t from, std::uint32_t bytes, std::function<void(const Cta&, std::uint32_t)> copy) {
  Thread& t = self();
  const SharedPlace place = place_of(from, bytes);
  if (place.cta != t.cta) stop(Hazard::address, "a source in another CTA", "shared::cta");
  if (t.open_group == nullptr) {
    if (t.bulk_component == 0) t.bulk_component = t.machine->component();
    t.open_group = std::make_shared<BulkGroup>(BulkGroup{0, {t.bulk_component, ++t.bulk_issued}});
  }
  ++t.open_group->open;
  check_shared_read_async(*place.cta, place.offset, bytes, t.open_group->event, {}, "the store");
  issue_load(t.instruction, [place, copy = std::move(copy), group = t.open_group] {
    copy(*place.cta, place.offset);
    --group->open;
  });
}

}  // namespace

void tma_store(const TensorMap* map, std::span<const std::int32_t> at, std::uint32_t from) {
  begin("cp.async.bulk.tensor.global.shared::cta");
  check_map(*map, at, from);
  issue_store(from, box_bytes(*map),
              [map = *map, at = std::vector<std::int32_t>(at.begin(), at.end())](const Cta& cta, std::uint32_t shared) {
                const auto element = static_cast<std::uint32_t>(map.element_bytes);
                const Inside in = inside_of(map, at[0]);
                std::vector<std::byte> line(std::size_t{map.box[0]} * element);
                each_unit(map, at, [&](std::uint32_t box_offset, bool inside, std::uint64_t offset) {
                  if (!inside || in.count == 0) return;
                  each_shared_unit(map, shared, box_offset, [&](std::uint32_t where, std::uint32_t u) {
                    std::memcpy(line.data() + u, cta.shared.data() + where, 16);
                  });
                  auto* to = static_cast<std::byte*>(map.base) + offset +
                             static_cast<std::size_t>(std::int64_t{at[0]} + in.first) * element;
                  std::memcpy(to, line.data() + std::size_t{in.first} * element, std::size_t{in.count} * element);
                });
              });
}

void bulk_store(void* to, std::uint32_t from, unsigned bytes) {
  begin("cp.async.bulk.global.shared::cta");
  if (bytes % 16 != 0 || (from & 0xFFFFFFU) % 16 != 0 || reinterpret_cast<std::uintptr_t>(to) % 16 != 0) {
    stop(Hazard::address, std::to_string(bytes) + " bytes from byte " + std::to_string(from & 0xFFFFFFU),
         "all multiples of 16");
  }
  issue_store(from, bytes, [to, bytes](const Cta& cta, std::uint32_t shared) {
    std::memcpy(to, cta.shared.data() + shared, bytes);
  });
}

void bulk_commit_group() {
  begin("cp.async.bulk.commit_group");
  Thread& t = self();
  if (t.open_group != nullptr) t.groups.push_back(std::exchange(t.open_group, nullptr));
}

void bulk_wait_group(unsigned pending, bool reads_only) {
  begin(reads_only ? "cp.async.bulk.wait_group.read" : "cp.async.bulk.wait_group");
  Thread& t = self();
  while (t.groups.size() > pending) {
    wait_until("its bulk stores", [group = t.groups.front()] { return group->open == 0; });
    t.memory.learn(t.groups.front()->event);
    t.groups.pop_front();
  }
}

}  // namespace mxcheck::emulation::sm100
