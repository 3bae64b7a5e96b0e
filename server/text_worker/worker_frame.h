// SPDX-License-Identifier: Apache-2.0
// What goes over the socket of a worker: a head, and as many bytes as it says. Both ends are the same build.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dunlin::server {

struct WorkerFrame {
  uint64_t size = 0;         // of what follows; a request of none stops the one before, or is ignored
  int64_t processor_ms = 0;  // of a request: what it may take; 0: no limit
  uint64_t kept_bytes = 0;   // of a reply: what the request has left allocated
  int64_t signal = 0;        // of a reply: that ended the request's own process; 0: none did
};

// Of a request: the vocabulary of a model is the largest. And of a reply.
inline constexpr size_t kMaxWorkerFrameBytes = size_t{256} << 20;
// The descriptor of the worker's end.
inline constexpr int kWorkerSocket = 3;
// The word after which the program is a worker: bytes of memory, nice, and 1 to fork for each request.
inline constexpr char kWorkerCommand[] = "text-worker";
inline constexpr int kNumWorkerArguments = 5;  // with the program and the word

}  // namespace dunlin::server
