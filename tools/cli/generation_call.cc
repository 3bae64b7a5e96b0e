// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/generation_call.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <chrono>

namespace dunlin::cli {
namespace {

constexpr std::chrono::milliseconds kStopPeriod(20);

enum Step : intptr_t { kStart = 1, kRead, kFinish };

void* Tag(Step step) {
  return reinterpret_cast<void*>(step);  // NOLINT(performance-no-int-to-ptr): gRPC hands tags back untouched
}

}  // namespace

CallResult RunGeneration(v1::GenerationService::Stub* stub, const v1::GenerateRequest& request, int64_t timeout_ms,
                         const std::function<bool()>& stop,
                         const std::function<void(const v1::GenerateResponse&)>& on_response) {
  CallResult result;
  grpc::ClientContext context;
  if (timeout_ms > 0) context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
  grpc::CompletionQueue queue;
  const auto reader = stub->PrepareAsyncGenerate(&context, request, &queue);
  reader->StartCall(Tag(kStart));
  v1::GenerateResponse response;
  for (bool finished = false; !finished;) {
    void* tag = nullptr;
    bool ok = false;
    const auto next = queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kStopPeriod);
    if (!result.stopped && stop()) {
      result.stopped = true;
      context.TryCancel();
    }
    if (next != grpc::CompletionQueue::GOT_EVENT) continue;
    finished = tag == Tag(kFinish);
    if (finished) break;
    if (tag == Tag(kRead) && ok) {
      result.completion.Add(response);
      on_response(response);
    }
    if (ok) {
      reader->Read(&response, Tag(kRead));
    } else {
      reader->Finish(&result.status, Tag(kFinish));
    }
  }
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
  // A call that ended before the cancellation reached it is complete.
  result.stopped = result.stopped && !result.status.ok();
  return result;
}

}  // namespace dunlin::cli
