// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/idle_ticker.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <chrono>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace dunlin::server {
namespace {

constexpr auto kTick = std::chrono::milliseconds(400);

using grpc::health::v1::Health;

}  // namespace

// Ticks form a chain of alternating calls and pauses; the first to see `stopping` ends it.
struct IdleTicker::State {
  State(const std::shared_ptr<grpc::Channel>& channel, std::function<void()> function)
      : stub(Health::NewStub(channel)), on_tick(std::move(function)) {}

  std::unique_ptr<Health::Stub> stub;
  const std::function<void()> on_tick;
  const grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;  // of the current call
  std::unique_ptr<grpc::ClientContext> context;    // of the current call
  absl::Mutex mutex;                               // guards what follows, between the chain and the destructor
  std::unique_ptr<grpc::Alarm> alarm ABSL_GUARDED_BY(mutex);
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;
};

IdleTicker::IdleTicker(const std::shared_ptr<grpc::Channel>& channel, std::function<void()> on_tick)
    : state_(std::make_shared<State>(channel, std::move(on_tick))) {
  Tick(state_);
}

IdleTicker::~IdleTicker() {
  std::unique_ptr<grpc::Alarm> alarm;
  {
    absl::MutexLock lock(&state_->mutex);
    state_->stopping = true;
    alarm = std::move(state_->alarm);
  }
  if (alarm != nullptr) alarm->Cancel();
  absl::MutexLock lock(&state_->mutex);
  state_->mutex.Await(absl::Condition(&state_->ended));
  // Released here: the thread of the last callback may hold the state a little longer, and the last channel to go joins
  // gRPC's callback threads, of which that is one.
  state_->context.reset();
  state_->stub.reset();
}

void IdleTicker::Tick(const std::shared_ptr<State>& state) {
  {
    absl::MutexLock lock(&state->mutex);
    if (state->stopping) {
      state->ended = true;
      return;
    }
  }
  state->context = std::make_unique<grpc::ClientContext>();
  state->context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  state->stub->async()->Check(state->context.get(), &state->request, &state->response,
                              [state](const grpc::Status&) { Rest(state); });
}

void IdleTicker::Rest(const std::shared_ptr<State>& state) {
  state->on_tick();
  absl::MutexLock lock(&state->mutex);
  if (state->stopping) {
    state->ended = true;
    return;
  }
  // A new alarm each time, because the old one may still be running its function. The alarm keeps the function, so the
  // function's captures must not own the alarm.
  state->alarm = std::make_unique<grpc::Alarm>();
  state->alarm->Set(std::chrono::system_clock::now() + kTick, [weak = std::weak_ptr<State>(state)](bool) {
    if (const auto alive = weak.lock()) Tick(alive);
  });
}

}  // namespace dunlin::server
