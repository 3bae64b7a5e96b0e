// SPDX-License-Identifier: Apache-2.0
// The engine requests of one generation, so that a cancel from the transport's thread reaches the engine immediately,
// whatever the text pool is doing. Thread rule: any thread.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/loop/engine.h"
#include "engine/request/types.h"

namespace dunlin::server {

class SubmittedRequests {
 public:
  // Calls Engine::Submit; requests after CancelAll are cancelled as soon as they are submitted. One engine for all.
  absl::Status Submit(engine::Engine* engine, engine::Request request, std::shared_ptr<engine::OutputSink> sink) {
    const absl::StatusOr<engine::RequestId> id = engine->Submit(std::move(request), std::move(sink));
    if (!id.ok()) return id.status();
    absl::MutexLock lock(&mutex_);
    engine_ = engine;
    ids_.push_back(*id);
    if (cancelled_.has_value()) engine->Cancel(*id, *cancelled_);
    return absl::OkStatus();
  }

  // One of them, in order of submission; the engine ignores those that have finished.
  void Cancel(size_t index, engine::FinishReason reason) {
    absl::MutexLock lock(&mutex_);
    if (index < ids_.size()) engine_->Cancel(ids_[index], reason);
  }

  // Cancels all requests, whether already submitted or submitted later. Only the first call counts.
  void CancelAll(engine::FinishReason reason) {
    absl::MutexLock lock(&mutex_);
    if (cancelled_.has_value()) return;
    cancelled_ = reason;
    for (const engine::RequestId id : ids_) engine_->Cancel(id, reason);
  }

 private:
  absl::Mutex mutex_;
  engine::Engine* engine_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<engine::RequestId> ids_ ABSL_GUARDED_BY(mutex_);
  std::optional<engine::FinishReason> cancelled_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
