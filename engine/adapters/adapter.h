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
    size_t experts = 0;  // of experts: where expert_begins has those of its experts
  };
  // First matrices of pairs, which all ranks of a divided model read, then each rank's second ones: rank r's begin at
  // up_begins[r] and end where the next rank's begin.
  size_t bytes = 0;                  // of all matrices
  std::vector<size_t> up_begins;     // [num_ranks + 1], the last is `bytes`
  size_t device_bytes = 0;           // that they take: `bytes`, but that linked ranks have copies of the first matrices
  int32_t rank = 0;                  // the largest
  uint64_t hash = 0;                 // of the bytes
  std::vector<std::string> targets;  // the modules that it adapts, without their layers: "q_proj"; sorted, distinct
  std::vector<Placed> pairs;
  std::vector<Range> ranges;  // [num_ranks, ModelConfig::all_layers, kNumProjections] of pairs
  // Of each range of experts with pairs num_experts + 1 numbers of pairs: those of expert e begin at the e-th.
  std::vector<size_t> expert_begins;
  size_t ranges_of_rank = 0;  // all_layers * kNumProjections
};

// An adapter in host memory.
struct PackedAdapter {
  std::shared_ptr<const AdapterLayout> layout;
  std::vector<std::byte> matrices;  // [layout->bytes]
};

class Adapter {
 public:
  // Copies the matrices to the device or, of linked ranks, to each rank's what it reads. devices: AdapterDevices; they
  // outlive the adapter. Errors: RESOURCE_EXHAUSTED where a device has no memory, INTERNAL where it fails.
  static absl::StatusOr<std::shared_ptr<const Adapter>> Create(const std::vector<kernels::Device*>& devices,
                                                               const PackedAdapter& packed, uint64_t id);
  ~Adapter();
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  // AdapterLease::id.
  uint64_t id() const { return id_; }
  int32_t rank() const { return layout_->rank; }          // the largest of its matrices
  size_t bytes() const { return layout_->device_bytes; }  // of device memory
  size_t packed_bytes() const { return layout_->bytes; }  // as Pack returns it
  const std::vector<std::string>& targets() const { return layout_->targets; }

  // The matrices of a projection of a layer, of distinct columns, in their order; empty where it has none. Of a divided
  // model the rank's columns of it. Of experts (IsOfExperts) those of all, one after another.
  std::span<const kernels::LowRankPair> pairs(Projection projection, int32_t layer, int32_t rank = 0) const {
    const AdapterLayout::Range& range = RangeOf(projection, layer, rank);
    return std::span(pairs_).subspan(range.first, range.count);
  }
  // The same of one expert of the layer.
  std::span<const kernels::LowRankPair> expert_pairs(Projection projection, int32_t layer, int32_t expert,
                                                     int32_t rank = 0) const {
    const AdapterLayout::Range& range = RangeOf(projection, layer, rank);
    if (range.count == 0) return {};
    const size_t* const begins = &layout_->expert_begins[range.experts + static_cast<size_t>(expert)];
    return std::span(pairs_).subspan(begins[0], begins[1] - begins[0]);
  }

  // What Create was given, byte by byte. INTERNAL where the device fails.
  absl::StatusOr<PackedAdapter> Pack() const;

 private:
  // Memory of one device: first matrices, and second ones of [ups_begin, ups_end) of the layout.
  struct Part {
    kernels::Device* device;
    size_t ups_begin;
    size_t ups_end;
    std::byte* memory = nullptr;
  };
  Adapter(std::shared_ptr<const AdapterLayout> layout, uint64_t id) : layout_(std::move(layout)), id_(id) {}
  const AdapterLayout::Range& RangeOf(Projection projection, int32_t layer, int32_t rank) const {
    return layout_->ranges[static_cast<size_t>(rank) * layout_->ranges_of_rank +
                           static_cast<size_t>(layer) * kNumProjections + static_cast<size_t>(projection)];
  }
  size_t first_bytes() const { return layout_->up_begins.front(); }
  absl::Status Fill(Part* part, const PackedAdapter& packed) const;
  // The pairs of the ranks whose second matrices the part has.
  void AddPairs(const Part& part);

  const std::shared_ptr<const AdapterLayout> layout_;
  const uint64_t id_;
  std::vector<Part> parts_;                  // one, or one of each linked rank
  std::vector<kernels::LowRankPair> pairs_;  // pointers into their memory
};

}  // namespace dunlin::engine
