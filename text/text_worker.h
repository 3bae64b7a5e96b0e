// SPDX-License-Identifier: Apache-2.0
// Text work that no bound holds, as messages: what a chat template or a grammar can take is up to whoever wrote it, and
// the libraries that do the work cannot be interrupted. So it is done where it can be killed: in a process whose loop
// hands each request to a TextWorker (server/text_worker).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

struct dunlin_text_worker;  // the C ABI's handle, text/rust/include/dunlin_text.h

namespace dunlin::text {

// Does what requests ask for. Thread rule: one thread at a time.
class TextWorker {
 public:
  TextWorker();
  ~TextWorker();
  TextWorker(const TextWorker&) = delete;
  TextWorker& operator=(const TextWorker&) = delete;

  // The reply, which holds the errors of the work too. Errors: INTERNAL (a bug).
  absl::StatusOr<std::string> Handle(std::string_view request);
  // Frees what the last request has made and left, so that its memory can be measured before.
  void Clear();

 private:
  dunlin_text_worker* handle_ = nullptr;  // owned
};

// Carries requests to a worker in another process. Thread rule: any number of threads at once.
class TextWorkerCalls {
 public:
  virtual ~TextWorkerCalls() = default;
  // prepares: every worker must have had this request before others, also one that is started later. Errors: those of
  // the way there; RESOURCE_EXHAUSTED (the worker was ended, as it took too much; the next call has another one).
  virtual absl::StatusOr<std::string> Call(std::string_view request, bool prepares) = 0;
};

}  // namespace dunlin::text
