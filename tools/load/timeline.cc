// SPDX-License-Identifier: Apache-2.0
#include "tools/load/timeline.h"

#include <algorithm>

namespace dunlin::tools::load {

void Timeline::Slot::Add(const Slot& other) {
  sent += other.sent;
  completed += other.completed;
  refused += other.refused;
  failed += other.failed;
  tokens += other.tokens;
  first_tokens += other.first_tokens;
  ttft_ms_sum += other.ttft_ms_sum;
  in_flight_max = std::max(in_flight_max, other.in_flight_max);
}

Timeline::Slot& Timeline::At(TimeNs since_start) {
  const TimeNs time = std::max<TimeNs>(0, since_start);
  while (static_cast<size_t>(time / slot_ns_) >= kMaxSlots) {
    for (size_t i = 0; i < slots_.size(); i += 2) {
      Slot sum = slots_[i];
      if (i + 1 < slots_.size()) sum.Add(slots_[i + 1]);
      slots_[i / 2] = sum;
    }
    slots_.resize((slots_.size() + 1) / 2);
    slot_ns_ *= 2;
  }
  const auto index = static_cast<size_t>(time / slot_ns_);
  if (index >= slots_.size()) slots_.resize(index + 1);
  return slots_[index];
}

}  // namespace dunlin::tools::load
