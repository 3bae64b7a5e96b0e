// SPDX-License-Identifier: Apache-2.0
// A run over time: counts in slots of equal length from its start. Memory is bounded: when the slots are full, their
// length doubles and neighbours are merged. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/load/load_time.h"

namespace dunlin::tools::load {

class Timeline {
 public:
  struct Slot {
    int64_t sent = 0;
    int64_t completed = 0;
    int64_t refused = 0;
    int64_t failed = 0;  // including those past their deadline
    int64_t tokens = 0;
    int64_t first_tokens = 0;
    double ttft_ms_sum = 0;  // of first_tokens
    int64_t in_flight_max = 0;

    void Add(const Slot& other);
  };

  static constexpr size_t kMaxSlots = 512;

  explicit Timeline(TimeNs slot_ns = 250 * kNsPerMs) : slot_ns_(slot_ns) {}

  // since_start < 0 counts as 0. The reference holds until the next call.
  Slot& At(TimeNs since_start);
  TimeNs slot_ns() const { return slot_ns_; }
  const std::vector<Slot>& slots() const { return slots_; }

 private:
  TimeNs slot_ns_;
  std::vector<Slot> slots_;
};

}  // namespace dunlin::tools::load
