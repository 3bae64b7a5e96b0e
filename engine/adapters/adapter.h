// SPDX-License-Identifier: Apache-2.0
// A low-rank adapter (LoRA): its matrices as they are packed, and in device memory, where layers read them: y += scale
// * (x A) B for the projections that it has. Device memory is released with the last holder. Thread rule: immutable;
// any thread. Source: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", eq. 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/spec/adaptable.h"
#include "engine/request/adapter_lease.h"
#include "kernels/api/device.h"
#include "kernels/api/low_rank.h"

namespace dunlin::engine {

// AdapterLimits::max_rank may be used so often in a projection of a layer: by Q, K and V. A rank of a divided model may
// have several parts of one module's rows, each a pair of its own.
constexpr int32_t AdapterRanks(int32_t num_ranks) {
  return num_ranks > 1 ? 2 * kAdapterRanks : kAdapterRanks;
}

// Where the matrices of an adapter lie among its bytes.
struct AdapterLayout {
  // A pair whose down and up are null, and where they begin.
  struct Placed {
    kernels::LowRankPair pair{};
    size_t down = 0;
    size_t up = 0;
  };
  struct Range {
    size_t first = 0;
    size_t count = 0;
  };
  size_t bytes = 0;                  // of all matrices
  int32_t rank = 0;                  // the largest
  uint64_t hash = 0;                 // of the bytes
  std::vector<std::string> targets;  // the modules that it adapts, without their layers: "q_proj"; sorted, distinct
  std::vector<Placed> pairs;
  std::vector<Range> ranges;  // [num_ranks, num_layers, kNumProjections] of pairs
  size_t ranges_of_rank = 0;  // num_layers * kNumProjections
};

// An adapter in host memory.
struct PackedAdapter {
  std::shared_ptr<const AdapterLayout> layout;
  std::vector<std::byte> matrices;  // [layout->bytes]
};

class Adapter {
 public:
  // Copies the matrices to the device, which outlives the adapter. Errors: RESOURCE_EXHAUSTED where the device has no
  // memory, INTERNAL where it fails.
  static absl::StatusOr<std::shared_ptr<const Adapter>> Create(kernels::Device* device, const PackedAdapter& packed,
                                                               uint64_t id);
  ~Adapter();
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  // AdapterLease::id.
  uint64_t id() const { return id_; }
  int32_t rank() const { return layout_->rank; }   // the largest of its matrices
  size_t bytes() const { return layout_->bytes; }  // of device memory
  const std::vector<std::string>& targets() const { return layout_->targets; }

  // The matrices of a projection of a layer, of distinct columns, in their order; empty where it has none. Of a divided
  // model the rank's columns of it.
  std::span<const kernels::LowRankPair> pairs(Projection projection, int32_t layer, int32_t rank = 0) const {
    const size_t index = static_cast<size_t>(rank) * layout_->ranges_of_rank +
                         static_cast<size_t>(layer) * kNumProjections + static_cast<size_t>(projection);
    const AdapterLayout::Range& range = layout_->ranges[index];
    return std::span(pairs_).subspan(range.first, range.count);
  }

  // What Create was given, byte by byte. INTERNAL where the device fails.
  absl::StatusOr<PackedAdapter> Pack() const;

 private:
  Adapter(kernels::Device* device, std::shared_ptr<const AdapterLayout> layout, uint64_t id)
      : device_(device), layout_(std::move(layout)), id_(id) {}

  kernels::Device* const device_;
  const std::shared_ptr<const AdapterLayout> layout_;
  const uint64_t id_;
  void* memory_ = nullptr;                   // [layout_->bytes]
  std::vector<kernels::LowRankPair> pairs_;  // pointers into memory_
};

}  // namespace dunlin::engine
