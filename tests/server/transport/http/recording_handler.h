// SPDX-License-Identifier: Apache-2.0
// A handler that records what its connection tells it; the test answers through its exchange, on its own thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/transport/http/http_exchange.h"

namespace dunlin::server {

class RecordingHandler final : public HttpHandler {
 public:
  // What has been seen so far.
  struct Seen {
    std::shared_ptr<HttpExchange> exchange;
    std::string body;
    size_t admitted_bytes = 0;
    size_t body_bytes = 0;
    int writes_done = 0;
    int writes_failed = 0;
    bool cancelled = false;
    bool done = false;
  };
  // max_body_bytes: with more, the handler refuses the rest of the body.
  explicit RecordingHandler(std::optional<HttpReply> refusal = std::nullopt, size_t max_body_bytes = SIZE_MAX)
      : refusal_(std::move(refusal)), max_body_bytes_(max_body_bytes) {}

  std::optional<HttpReply> Admit(const HttpRequest& /*request*/, size_t body_bytes) override {
    absl::MutexLock lock(&mutex_);
    seen_.admitted_bytes = body_bytes;
    return refusal_;
  }
  std::optional<HttpReply> OnBodyBytes(size_t bytes) override {
    absl::MutexLock lock(&mutex_);
    seen_.body_bytes += bytes;
    if (seen_.body_bytes <= max_body_bytes_) return std::nullopt;
    return HttpReply{429, kPlainText, "full\n"};
  }
  void Start(std::shared_ptr<HttpExchange> exchange, std::string body) override {
    absl::MutexLock lock(&mutex_);
    seen_.exchange = std::move(exchange);
    seen_.body = std::move(body);
  }
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    ++(ok ? seen_.writes_done : seen_.writes_failed);
  }
  void OnCancel() override {
    absl::MutexLock lock(&mutex_);
    seen_.cancelled = true;
  }
  void OnDone() override {
    absl::MutexLock lock(&mutex_);
    seen_.exchange.reset();
    seen_.done = true;
  }

  Seen seen() const {
    absl::MutexLock lock(&mutex_);
    return seen_;
  }
  // Waits until `condition` holds of what was seen, 20 s at most.
  template <class Condition>
  bool WaitUntil(const Condition& condition) const {
    const absl::Time end = absl::Now() + absl::Seconds(20);
    while (!condition(seen())) {
      if (absl::Now() > end) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }
  std::shared_ptr<HttpExchange> WaitForExchange() const {
    WaitUntil([](const Seen& seen) { return seen.exchange != nullptr; });
    return seen().exchange;
  }
  bool WaitUntilDone() const {
    return WaitUntil([](const Seen& seen) { return seen.done; });
  }

 private:
  const std::optional<HttpReply> refusal_;
  const size_t max_body_bytes_;
  mutable absl::Mutex mutex_;  // guards what follows, between the HTTP thread and the test's
  Seen seen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
