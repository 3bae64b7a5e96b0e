// SPDX-License-Identifier: Apache-2.0
#include "server/text_worker/worker_pool.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace dunlin::server {

absl::StatusOr<std::string> WorkerPool::Call(std::string_view request, bool prepares) {
  std::unique_ptr<WorkerProcess> worker = Take();
  absl::StatusOr<std::string> reply = CallOne(request, prepares, &worker);
  Return(reply.ok() ? std::move(worker) : nullptr);
  if (absl::IsAborted(reply.status())) return absl::ResourceExhaustedError(reply.status().message());
  if (!absl::IsDeadlineExceeded(reply.status())) return reply;
  const std::string limit = absl::FormatDuration(bounds_.time);
  return absl::ResourceExhaustedError(absl::StrCat("takes longer than ", limit, "; limit is ", limit));
}

absl::StatusOr<std::string> WorkerPool::CallOne(std::string_view request, bool prepares,
                                                std::unique_ptr<WorkerProcess>* worker) {
  const WorkerProcess::Bounds bounds{.processor_time = bounds_.processor_time, .deadline = absl::Now() + bounds_.time};
  if (*worker == nullptr || prepares) {
    absl::StatusOr<std::unique_ptr<WorkerProcess>> started = WorkerProcess::Start(program_, limits_);
    if (!started.ok()) return started.status();
    *worker = *std::move(started);
    std::string preparation;
    {
      absl::MutexLock lock(&mutex_);
      if (prepares) preparation_ = std::string(request);
      preparation = preparation_;
    }
    absl::StatusOr<WorkerProcess::Reply> prepared = (*worker)->Call(preparation, bounds);
    if (!prepared.ok()) return prepared.status();
    if (prepares) return std::move(prepared->text);
  }
  absl::StatusOr<WorkerProcess::Reply> reply = (*worker)->Call(request, bounds);
  if (!reply.ok()) return reply.status();
  return std::move(reply->text);
}

std::unique_ptr<WorkerProcess> WorkerPool::Take() {
  absl::MutexLock lock(&mutex_);
  const auto has_room = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return num_taken_ < bounds_.workers; };
  mutex_.Await(absl::Condition(&has_room));
  ++num_taken_;
  while (!idle_.empty()) {
    std::unique_ptr<WorkerProcess> worker = std::move(idle_.back());
    idle_.pop_back();
    if (worker->IsRunning()) return worker;
  }
  return nullptr;
}

void WorkerPool::Return(std::unique_ptr<WorkerProcess> worker) {
  absl::MutexLock lock(&mutex_);
  --num_taken_;
  if (worker != nullptr) idle_.push_back(std::move(worker));
}

}  // namespace dunlin::server
