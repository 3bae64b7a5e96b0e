// SPDX-License-Identifier: Apache-2.0
// A child process that does text work for this one: our own program, started anew as `dunlin text-worker`, with no
// descriptor but its end of a socket, no environment, no core file, and limits on processor time and memory that it
// sets itself before it reads anything. It ends with the socket, and is killed when a call takes too long. Thread rule:
// one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dunlin::server {

struct WorkerLimits {
  size_t memory_bytes = size_t{128} << 20;  // of address space, beyond what it has once it is prepared
  int nice = 0;                             // above its parent's
  // Each request but the first, which prepares the worker, is done by a process that it forks: a limit ends that one
  // alone, and what it was prepared with stays. Costs some 0.5 ms a request.
  bool forks = false;
};

class WorkerProcess {
 public:
  struct Reply {
    std::string text;
    size_t kept_bytes = 0;  // that the request has left allocated, until the next one
  };

  // program: this one's path, "/proc/self/exe". Errors: UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(const std::string& program, const WorkerLimits& limits);
  // Kills it.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // How long a call may take.
  struct Bounds {
    absl::Duration processor_time = absl::InfiniteDuration();
    absl::Time deadline = absl::InfiniteFuture();
    int cancel = -1;  // a descriptor that becomes readable when nobody waits any more; -1: none
  };

  // Errors: ABORTED (the processor time); DEADLINE_EXCEEDED; CANCELLED; RESOURCE_EXHAUSTED (memory or stack). These
  // messages complete the sentence "the text ...". UNAVAILABLE (the process has ended). After an error the process has
  // ended, unless it forks: IsRunning says so.
  absl::StatusOr<Reply> Call(std::string_view request, const Bounds& bounds);
  // The two halves of a call.
  absl::Status Send(std::string_view request, const Bounds& bounds);
  absl::StatusOr<Reply> Receive(const Bounds& bounds);

  // Somebody else may have ended it: the kernel, where memory is short.
  bool IsRunning();
  pid_t pid() const { return pid_; }

 private:
  WorkerProcess(pid_t pid, int socket, const WorkerLimits& limits) : pid_(pid), socket_(socket), limits_(limits) {}

  absl::Status Wait(short events, const Bounds& bounds) const;
  absl::Status Write(std::string_view bytes, const Bounds& bounds);
  absl::Status Read(char* bytes, size_t size, const Bounds& bounds);
  absl::StatusOr<Reply> ReadReply(const Bounds& bounds);
  // Of a worker that forks: whether it has ended the request and can take another.
  bool Stop();
  void End();  // kills and collects it
  absl::Status WhyItEnded();
  absl::Status EndedBy(int signal) const;

  pid_t pid_;  // -1 once it has ended
  const int socket_;
  const WorkerLimits limits_;
  absl::Duration processor_time_;  // of the request
};

}  // namespace dunlin::server
