// SPDX-License-Identifier: Apache-2.0
// A low-rank adapter (LoRA) in device memory: y += scale * (x A) B for the projections that it has. Made by
// LoadAdapter; its memory is released with the last holder. Thread rule: immutable; any thread. Source: Hu et al. 2021,
// "LoRA: Low-Rank Adaptation of Large Language Models", eq. 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model/spec/adaptable.h"
#include "kernels/api/device.h"
#include "kernels/api/low_rank.h"

namespace dunlin::engine {

class Adapter {
 public:
  ~Adapter();
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  // AdapterLease::id.
  uint64_t id() const { return id_; }
  int32_t rank() const { return rank_; }   // the largest of its matrices
  size_t bytes() const { return bytes_; }  // of device memory
  // The modules that it adapts, without their layers: "q_proj"; sorted, distinct.
  const std::vector<std::string>& targets() const { return targets_; }

  // The matrices of a projection of a layer, of distinct columns, in their order; empty where it has none.
  std::span<const kernels::LowRankPair> pairs(Projection projection, int32_t layer) const {
    const Range& range = ranges_[static_cast<size_t>(layer) * kNumProjections + static_cast<size_t>(projection)];
    return std::span(pairs_).subspan(range.first, range.count);
  }

 private:
  friend class AdapterBuilder;
  struct Range {
    size_t first = 0;
    size_t count = 0;
  };
  explicit Adapter(kernels::Device* device) : device_(device) {}

  kernels::Device* device_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  uint64_t id_ = 0;
  int32_t rank_ = 0;
  std::vector<std::string> targets_;
  std::vector<kernels::LowRankPair> pairs_;  // pointers into memory_
  std::vector<Range> ranges_;                // [num_layers, kNumProjections] of pairs_
};

}  // namespace dunlin::engine
