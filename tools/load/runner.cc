// SPDX-License-Identifier: Apache-2.0
#include "tools/load/runner.h"

#include <sys/resource.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <csignal>
#include <limits>
#include <utility>

namespace dunlin::tools::load {
namespace {

using boost::system::error_code;

// Requests sent in a row before other events are handled.
constexpr int kSendsAtOnce = 32;
constexpr auto kTick = std::chrono::milliseconds(500);

TimeNs FromSeconds(double seconds) {
  return static_cast<TimeNs>(seconds * static_cast<double>(kNsPerSecond));
}

// Of this process: all its threads, user and system.
double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  constexpr double kMicro = 1e-6;
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * kMicro;
}

}  // namespace

Runner::Runner(const Parts& parts, const LoadShape& shape, const Slo& slo)
    : parts_(parts),
      shape_(shape),
      started_(Now()),
      count_from_(started_ + FromSeconds(shape.warmup_s)),
      send_until_(shape.duration_s > 0 ? count_from_ + FromSeconds(shape.duration_s)
                                       : std::numeric_limits<TimeNs>::max()),
      recorder_(parts.mix->size(), slo, count_from_),
      picker_(*parts.mix),
      arrivals_(shape.arrivals, shape.rate, shape.burst, shape.seed),
      random_(shape.seed + 1),
      send_timer_(*parts.io),
      end_timer_(*parts.io),
      tick_timer_(*parts.io),
      signals_(*parts.io, SIGINT, SIGTERM) {}

Runner::~Runner() = default;

Recording Runner::Run(const OnTick& on_tick) {
  on_tick_ = on_tick;
  parts_.io->restart();
  signals_.async_wait([this](error_code error, int) {
    if (error) return;
    interrupted_ = true;
    StopSending();
    GiveUpAll();
  });
  if (shape_.duration_s > 0) {
    end_timer_.expires_at(TimePoint(send_until_));
    end_timer_.async_wait([this](error_code error) {
      if (error) return;
      if (shape_.rate > 0) SendDue();
      StopSending();
    });
  }
  Tick();
  if (shape_.rate > 0) {
    next_arrival_ = started_ + FromSeconds(arrivals_.Next());
    SendDue();
  } else {
    Refill();
  }
  const auto work = boost::asio::make_work_guard(*parts_.io);
  parts_.io->run();
  // Handlers still queued refer to this run: they run now, not during the next one.
  for (auto* timer : {&send_timer_, &end_timer_, &tick_timer_}) timer->cancel();
  signals_.cancel();
  parts_.io->restart();
  parts_.io->poll();
  Recording recording = recorder_.Snapshot();
  if (num_counted_ > 0) recording.cpu_seconds = CpuSeconds() - cpu_started_;
  return recording;
}

// Arrivals are counted by their due time: a pause of this process at the end neither adds one nor, up to kSendsAtOnce,
// drops one.
void Runner::SendDue() {
  for (int i = 0; sending_ && i < kSendsAtOnce && next_arrival_ <= Now() && next_arrival_ < send_until_; ++i) {
    Send(next_arrival_);
    next_arrival_ = started_ + FromSeconds(arrivals_.Next());
  }
  if (!sending_ || next_arrival_ >= send_until_) return;
  send_timer_.expires_at(TimePoint(next_arrival_));
  send_timer_.async_wait([this](error_code error) {
    if (!error) SendDue();
  });
}

void Runner::Refill() {
  for (int i = 0; sending_ && i < kSendsAtOnce; ++i) {
    if (static_cast<int64_t>(active_.size()) >= shape_.concurrency) return;
    Send(Now());
  }
  if (sending_) boost::asio::post(*parts_.io, [this] { Refill(); });
}

void Runner::Send(TimeNs intended) {
  const uint64_t id = next_id_++;
  const bool counted = intended >= count_from_;
  if (counted && num_counted_ == 0) cpu_started_ = CpuSeconds();
  const Prompt prompt = parts_.dataset->Next();
  CallOptions options;
  options.group = picker_.Next();
  options.intended = intended;
  options.prompt_tokens = static_cast<int32_t>(prompt.token_ids.size());
  options.recorder = counted ? &recorder_ : nullptr;
  options.on_end = [this, id] { boost::asio::post(*parts_.io, [this, id] { OnEnded(id); }); };
  const bool cancels =
      (shape_.cancel_after_tokens > 0 || shape_.cancel_after_ms > 0) && random_.Uniform() < shape_.cancel_fraction;
  if (cancels) options.cancel_after_tokens = shape_.cancel_after_tokens;
  const MixEntry& profile = (*parts_.mix)[options.group];
  Active& active = active_[id];
  active.call = std::make_shared<Call>(std::move(options));
  active.request = parts_.client->Start(prompt, profile, shape_.seed + id, active.call);
  if (cancels && shape_.cancel_after_ms > 0) ArmCancel(&active);
  if (counted && ++num_counted_ == shape_.num_requests) StopSending();
}

void Runner::ArmCancel(Active* active) {
  active->cancel_timer = std::make_unique<boost::asio::steady_timer>(*parts_.io);
  active->cancel_timer->expires_after(std::chrono::milliseconds(shape_.cancel_after_ms));
  active->cancel_timer->async_wait([call = active->call, request = active->request](error_code error) {
    if (error) return;
    call->GiveUp(Ending::kCancelled);
    request->Cancel();
  });
}

void Runner::OnEnded(uint64_t id) {
  active_.erase(id);
  if (sending_ && shape_.rate <= 0) Refill();
  StopWhenIdle();
}

void Runner::StopSending() {
  if (!std::exchange(sending_, false)) return;
  send_timer_.cancel();
  end_timer_.expires_after(std::chrono::nanoseconds(FromSeconds(shape_.drain_s)));
  end_timer_.async_wait([this](error_code error) {
    if (!error) GiveUpAll();
  });
  boost::asio::post(*parts_.io, [this] { StopWhenIdle(); });
}

void Runner::GiveUpAll() {
  for (const auto& [id, active] : active_) {
    active.call->GiveUp(Ending::kUnfinished);
    active.request->Cancel();
  }
  StopWhenIdle();
}

void Runner::StopWhenIdle() {
  if (!sending_ && active_.empty()) parts_.io->stop();
}

void Runner::Tick() {
  const TimeNs now = Now();
  const Recorder::Live live = recorder_.live();
  if (on_tick_) on_tick_(live, ToSeconds(now - started_));
  if (shape_.max_errors >= 0 && live.failed > shape_.max_errors && sending_) {
    StopSending();
    GiveUpAll();
  }
  tick_timer_.expires_after(kTick);
  tick_timer_.async_wait([this](error_code error) {
    if (!error) Tick();
  });
}

}  // namespace dunlin::tools::load
