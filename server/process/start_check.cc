// SPDX-License-Identifier: Apache-2.0
#include "server/process/start_check.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <latch>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dunlin::server {
namespace {

absl::Status TooFew(const char* what, size_t had, int needed, const char* limits, int error) {
  return absl::ResourceExhaustedError(absl::StrCat("the system gives this process ", had, " more ", what, " (",
                                                   std::strerror(error), "); it needs ", needed,
                                                   " at least: ", limits));
}

absl::Status CheckThreads(int needed) {
  std::latch end(1);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(needed));
  int error = 0;
  while (error == 0 && threads.size() < static_cast<size_t>(needed)) {
    try {
      threads.emplace_back([&end] { end.wait(); });
    } catch (const std::system_error& problem) {
      error = problem.code().value();
    }
  }
  end.count_down();
  for (std::thread& thread : threads) thread.join();
  if (error == 0) return absl::OkStatus();
  return TooFew("threads", threads.size(), needed, "ulimit -u, pids.max, ulimit -v and -d for their stacks", error);
}

absl::Status CheckDescriptors(int needed) {
  std::vector<int> opened;
  int error = 0;
  while (error == 0 && opened.size() < static_cast<size_t>(needed)) {
    const int descriptor = eventfd(0, EFD_CLOEXEC);
    error = descriptor < 0 ? errno : 0;
    if (descriptor >= 0) opened.push_back(descriptor);
  }
  for (const int descriptor : opened) close(descriptor);
  if (error == 0) return absl::OkStatus();
  return TooFew("file descriptors", opened.size(), needed, "ulimit -n", error);
}

}  // namespace

absl::Status CheckThreadsAndDescriptors(int threads, int descriptors) {
  absl::Status status = CheckDescriptors(descriptors);
  return status.ok() ? CheckThreads(threads) : status;
}

// Event engines; a resolver, an executor and two for timers.
int GrpcThreads(int num_cpus) {
  return std::clamp(num_cpus, 2, 32) + 4;
}

absl::Status CheckClient() {
  constexpr int kDescriptors = 5;
  return CheckThreadsAndDescriptors(GrpcThreads(static_cast<int>(sysconf(_SC_NPROCESSORS_CONF))), kDescriptors);
}

}  // namespace dunlin::server
