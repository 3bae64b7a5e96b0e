// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/encoder_scheduler.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/base/check.h"

namespace dunlin::engine {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

int64_t TokensLeft(const LiveCall& live) {
  return live.num_tokens - static_cast<int64_t>(live.next_token);
}

}  // namespace

EncoderScheduler::EncoderScheduler(const Limits& limits)
    : limits_(limits), tenants_(limits.max_calls, limits.max_batch_tokens) {
  const auto max_calls = static_cast<size_t>(limits.max_calls);
  const auto max_inputs = static_cast<size_t>(limits.max_batch_inputs);
  calls_.reserve(max_calls);
  retired_.reserve(max_calls);
  batch_.inputs.reserve(max_inputs);
  owners_.reserve(max_inputs);
}

void EncoderScheduler::Add(LiveCall* live) {
  DUNLIN_CHECK(calls_.size() < calls_.capacity(), "more live calls than max_calls");
  const EncodeRequest& request = live->call->request;
  live->num_tokens = std::accumulate(request.lengths.begin(), request.lengths.end(), int64_t{0});
  live->tenant = tenants_.Join(request.tenant, 0);
  calls_.push_back(live);
}

void EncoderScheduler::Finish(LiveCall* live, FinishReason reason, TimeNs now) {
  live->call->reason = reason;
  live->call->finished = now;
  const auto num_tokens = static_cast<uint64_t>(live->num_tokens);
  ++counters_.ended_calls;
  counters_.ended_tokens += num_tokens;
  if (live->queue_usage != nullptr) live->queue_usage->Dequeue(num_tokens);
  --(live->next_input > 0 ? live->tenant->num_running : live->tenant->num_waiting);
  std::exchange(live->tenant, nullptr)->last_live = now;
  if (live->next_input > 0) --counters_.running;
  live->sink->OnFinish(std::move(live->call));
  retired_.push_back(live);
}

// reason_of(call) gives a reason to end it, or none. The others keep their order.
template <typename Reason>
void EncoderScheduler::EndWhere(TimeNs now, const Reason& reason_of) {
  const auto ends = [&](LiveCall* live) {
    const std::optional<FinishReason> reason = reason_of(*live);
    if (reason.has_value()) Finish(live, *reason, now);
    return reason.has_value();
  };
  calls_.erase(std::remove_if(calls_.begin(), calls_.end(), ends), calls_.end());
}

void EncoderScheduler::End(LiveCall* live, FinishReason reason, TimeNs now) {
  if (live->call == nullptr) return;
  EndWhere(now, [&](const LiveCall& other) { return &other == live ? std::optional(reason) : std::nullopt; });
}

void EncoderScheduler::EndExpired(TimeNs now) {
  EndWhere(now, [&](const LiveCall& live) {
    return live.call->request.deadline <= now ? std::optional(FinishReason::kDeadline) : std::nullopt;
  });
}

void EncoderScheduler::EndAll(FinishReason reason, TimeNs now) {
  EndWhere(now, [&](const LiveCall&) { return std::optional(reason); });
}

// Nanoseconds, at least; 0 before the first Commit.
double EncoderScheduler::TimeOf(int64_t num_tokens) const {
  const int64_t batches = (num_tokens + limits_.max_batch_tokens - 1) / limits_.max_batch_tokens;
  return cost_.Predict({static_cast<double>(num_tokens), static_cast<double>(batches)});
}

double EncoderScheduler::TimeLeft(const LiveCall& live, TimeNs now) const {
  const TimeNs deadline = live.call->request.deadline;
  return deadline == kNoDeadline ? kForever : static_cast<double>(deadline - now);
}

void EncoderScheduler::EndLate(TimeNs now) {
  if (calls_.size() < 2) return;
  int64_t waiting_tokens = 0;
  for (const LiveCall* live : calls_) waiting_tokens += TokensLeft(*live);
  const double batch = TimeOf(std::min<int64_t>(waiting_tokens, limits_.max_batch_tokens));
  const auto fits = [&](const LiveCall* live, double at_least) {
    return live->next_input > 0 || std::max(at_least, TimeOf(TokensLeft(*live))) <= TimeLeft(*live, now);
  };
  const auto some_fit = [&](double at_least) {
    return std::any_of(calls_.begin(), calls_.end(), [&](const LiveCall* live) { return fits(live, at_least); });
  };
  const double needed = some_fit(batch) ? batch : 0.0;
  const LiveCall* tried = needed > 0.0 || some_fit(0.0) ? nullptr : calls_.front();
  EndWhere(now, [&](const LiveCall& live) {
    return &live == tried || fits(&live, needed) ? std::nullopt : std::optional(FinishReason::kDeadline);
  });
}

EncodeBatch* EncoderScheduler::Plan(TimeNs now) {
  batch_.inputs.clear();
  batch_.num_tokens = 0;
  owners_.clear();
  EndLate(now);
  planned_ = now;
  batch_time_left_ = kForever;
  if (calls_.empty()) return &batch_;
  tenants_.Clear();
  for (const LiveCall* live : calls_) live->tenant->has_running_prompts = true;  // one that has inputs left
  tenants_.BeginPlan(now);
  for (const Tenant* tenant : tenants_.ordered()) {
    const int32_t max_tokens = tenant->is_behind ? limits_.max_batch_tokens / 4 : limits_.max_batch_tokens;
    for (LiveCall* live : calls_) {
      if (live->tenant != tenant) continue;
      const EncodeRequest& request = live->call->request;
      if (batch_.inputs.empty()) {
        batch_.profile = request.profile;
        batch_.classify = request.classify;
      }
      const bool fits = request.profile == batch_.profile && request.classify == batch_.classify;
      if (fits) TakeInputs(live, max_tokens, now);
      owners_.resize(batch_.inputs.size(), live);
    }
  }
  return &batch_;
}

BatchInput EncoderScheduler::NextInput(LiveCall* live) const {
  EncodeCall& call = *live->call;
  const EncodeRequest& request = call.request;
  const size_t index = live->next_input;
  const auto dimensions = static_cast<size_t>(request.dimensions);
  BatchInput input{.num_tokens = request.lengths[index],
                   .first_length = request.first_lengths.empty() ? INT32_MAX : request.first_lengths[index],
                   .dimensions = request.dimensions,
                   .pooling = request.classify ? limits_.classifier_pooling : request.pooling,
                   .normalize = request.normalize};
  if (request.grids.empty()) {
    input.tokens = request.tokens.data() + live->next_token;
    input.vector = call.vectors.data() + index * dimensions;
  } else {
    const size_t first_row = live->next_token / static_cast<size_t>(limits_.image.patches_per_row());
    input.patches = request.patches.data() + live->next_token * static_cast<size_t>(limits_.image.patch_features());
    input.grid = request.grids[index];
    input.vector = call.vectors.data() + first_row * dimensions;
  }
  return input;
}

void EncoderScheduler::TakeInputs(LiveCall* live, int32_t max_tokens, TimeNs now) {
  EncodeCall& call = *live->call;
  const EncodeRequest& request = call.request;
  const double time_left = TimeLeft(*live, now);
  const bool in_time = TimeOf(TokensLeft(*live)) <= time_left;  // else no batch makes a difference
  while (live->next_input < request.lengths.size()) {
    const int32_t num_tokens = request.lengths[live->next_input];
    if (!batch_.inputs.empty() && batch_.num_tokens + num_tokens > max_tokens) return;
    if (batch_.inputs.size() == static_cast<size_t>(limits_.max_batch_inputs)) return;
    const double latest = in_time ? std::min(batch_time_left_, time_left) : batch_time_left_;
    if (!batch_.inputs.empty() && TimeOf(batch_.num_tokens + num_tokens) > latest) return;
    batch_time_left_ = latest;
    if (live->next_input == 0) {
      call.first_scheduled = now;
      ++counters_.running;
      --live->tenant->num_waiting;
      ++live->tenant->num_running;
    }
    batch_.inputs.push_back(NextInput(live));
    batch_.num_tokens += num_tokens;
    live->next_token += static_cast<size_t>(num_tokens);
    ++live->next_input;
  }
}

void EncoderScheduler::Commit(TimeNs now) {
  counters_.computed_tokens += static_cast<uint64_t>(batch_.num_tokens);
  if (now > planned_) {
    const auto time = static_cast<double>(now - planned_);
    cost_.Learn({static_cast<double>(batch_.num_tokens), 1.0}, time, time);
  }
  for (size_t i = 0; i < batch_.inputs.size(); ++i) {
    Tenants::Charge(batch_.inputs[i].num_tokens, owners_[i]->tenant);
    if (!batch_.inputs[i].finite) owners_[i]->numerical = true;
  }
  EndWhere(now, [](const LiveCall& live) -> std::optional<FinishReason> {
    if (live.numerical) return FinishReason::kNumerical;
    if (live.next_input == live.call->request.lengths.size()) return FinishReason::kStop;
    return std::nullopt;
  });
  // The owners stand in order, so those that are left go to the end in it.
  owners_.erase(std::unique(owners_.begin(), owners_.end()), owners_.end());
  for (LiveCall* owner : owners_) {
    if (owner->call == nullptr) continue;  // it has ended
    const auto place = std::find(calls_.begin(), calls_.end(), owner);
    std::rotate(place, place + 1, calls_.end());
  }
}

}  // namespace dunlin::engine
