#include "engine/encoder/encoder_turns.h"

#include <optional>
#include <utility>

namespace dunlin::engine {

EncoderTurns::EncoderTurns(const Limits& limits) : limits_(limits) {
  const auto max_calls = static_cast<size_t>(limits.max_calls);
  const auto max_inputs = static_cast<size_t>(limits.max_batch_inputs);
  calls_.reserve(max_calls);
  waiting_turn_.reserve(max_calls);
  batch_.inputs.reserve(max_inputs);
  owners_.reserve(max_inputs);
}

void EncoderTurns::Finish(LiveCall* live, FinishReason reason, TimeNs now) {
  live->call->reason = reason;
  live->call->finished = now;
  ++counters_.ended_calls;
  counters_.ended_tokens += live->call->request.tokens.size();
  if (live->next_input > 0) --counters_.running;
  live->sink->OnFinish(std::move(live->call));
}

// reason_of(call) gives a reason to end it, or none. The order of the others stays.
template <typename Reason>
void EncoderTurns::EndWhere(TimeNs now, const Reason& reason_of) {
  size_t kept = 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (const std::optional<FinishReason> reason = reason_of(calls_[i])) {
      Finish(&calls_[i], *reason, now);
      continue;
    }
    if (kept != i) calls_[kept] = std::move(calls_[i]);
    ++kept;
  }
  calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(kept), calls_.end());
}

void EncoderTurns::End(RequestId id, FinishReason reason, TimeNs now) {
  EndWhere(now, [&](const LiveCall& live) { return live.id == id ? std::optional(reason) : std::nullopt; });
}

void EncoderTurns::EndExpired(TimeNs now) {
  EndWhere(now, [&](const LiveCall& live) {
    return live.call->request.deadline <= now ? std::optional(FinishReason::kDeadline) : std::nullopt;
  });
}

void EncoderTurns::EndAll(FinishReason reason, TimeNs now) {
  EndWhere(now, [&](const LiveCall&) { return std::optional(reason); });
}

EncodeBatch* EncoderTurns::Plan(TimeNs now) {
  batch_.inputs.clear();
  batch_.num_tokens = 0;
  owners_.clear();
  if (calls_.empty()) return &batch_;
  batch_.profile = calls_.front().call->request.profile;
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].call->request.profile == batch_.profile) TakeInputs(&calls_[i], now);
    owners_.resize(batch_.inputs.size(), i);
  }
  return &batch_;
}

void EncoderTurns::TakeInputs(LiveCall* live, TimeNs now) {
  EncodeCall& call = *live->call;
  const EncodeRequest& request = call.request;
  while (live->next_input < request.lengths.size()) {
    const int32_t num_tokens = request.lengths[live->next_input];
    if (batch_.num_tokens + num_tokens > limits_.max_batch_tokens) return;
    if (batch_.inputs.size() == static_cast<size_t>(limits_.max_batch_inputs)) return;
    if (live->next_input == 0) {
      call.first_scheduled = now;
      ++counters_.running;
    }
    const auto dimensions = static_cast<size_t>(request.dimensions);
    batch_.inputs.push_back({.tokens = request.tokens.data() + live->next_token,
                             .num_tokens = num_tokens,
                             .vector = call.vectors.data() + live->next_input * dimensions,
                             .dimensions = request.dimensions,
                             .pooling = request.pooling,
                             .normalize = request.normalize});
    batch_.num_tokens += num_tokens;
    live->next_token += static_cast<size_t>(num_tokens);
    ++live->next_input;
    live->in_batch = true;
  }
}

void EncoderTurns::Commit(TimeNs now) {
  counters_.computed_tokens += static_cast<uint64_t>(batch_.num_tokens);
  for (size_t i = 0; i < batch_.inputs.size(); ++i) {
    if (!batch_.inputs[i].finite) calls_[owners_[i]].numerical = true;
  }
  EndWhere(now, [](const LiveCall& live) -> std::optional<FinishReason> {
    if (live.numerical) return FinishReason::kNumerical;
    if (live.next_input == live.call->request.lengths.size()) return FinishReason::kStop;
    return std::nullopt;
  });
  for (LiveCall& live : calls_) {
    if (!live.in_batch) waiting_turn_.push_back(std::move(live));
  }
  for (LiveCall& live : calls_) {
    if (live.call == nullptr) continue;  // moved above
    live.in_batch = false;
    waiting_turn_.push_back(std::move(live));
  }
  calls_.swap(waiting_turn_);
  waiting_turn_.clear();
}

}  // namespace dunlin::engine
