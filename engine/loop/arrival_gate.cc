// SPDX-License-Identifier: Apache-2.0
#include "engine/loop/arrival_gate.h"

#include <algorithm>

#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {

bool ArrivalGate::stopped() const {
  return mode_.has_value() && (*mode_ != PauseMode::kWait || scheduler_->empty());
}

void ArrivalGate::Add(std::span<Sequence* const> arrivals) {
  if (mode_.has_value()) {
    held_.insert(held_.end(), arrivals.begin(), arrivals.end());
    return;
  }
  for (Sequence* sequence : arrivals) scheduler_->Add(sequence);
}

void ArrivalGate::Set(std::optional<PauseMode> mode, TimeNs now) {
  mode_ = mode;
  if (!mode.has_value()) return Release();
  if (*mode != PauseMode::kAbort) return;
  Release();
  scheduler_->EndAll(FinishReason::kCancelled, now, false);
}

void ArrivalGate::End(Sequence* sequence, FinishReason reason, TimeNs now) {
  const auto held = std::find(held_.begin(), held_.end(), sequence);
  if (held != held_.end()) {
    held_.erase(held);
    scheduler_->Add(sequence);
  }
  scheduler_->End(sequence, reason, now);
}

void ArrivalGate::EndExpired(TimeNs now) {
  scheduler_->EndExpired(now);
  for (size_t i = held_.size(); i-- > 0;) {
    if (held_[i]->request.deadline <= now) End(held_[i], FinishReason::kDeadline, now);
  }
}

void ArrivalGate::Release() {
  for (Sequence* sequence : held_) scheduler_->Add(sequence);
  held_.clear();
}

}  // namespace dunlin::engine
