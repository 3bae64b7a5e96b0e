// SPDX-License-Identifier: Apache-2.0
#include "server/text_worker/worker_main.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/numbers.h"
#include "server/text_worker/worker_frame.h"
#include "text/text_worker.h"

namespace dunlin::server {
namespace {

// Sanitizers reserve terabytes of addresses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLimitsAddresses = false;
#else
constexpr bool kLimitsAddresses = true;
#endif

// Blocks of that size are mapped alone, and leave the process when they are freed.
constexpr int kMapFromBytes = 256 << 10;

struct Limits {
  int64_t memory_bytes = 0;
  int nice = 0;
  int forks = 0;
};

bool ReadLimits(char** argv, Limits* limits) {
  return absl::SimpleAtoi(argv[2], &limits->memory_bytes) && absl::SimpleAtoi(argv[3], &limits->nice) &&
         absl::SimpleAtoi(argv[4], &limits->forks) && limits->memory_bytes > 0;
}

void SetLimit(int what, uint64_t value) {
  const rlimit limit = {value, value};
  setrlimit(static_cast<__rlimit_resource_t>(what), &limit);
}

int64_t AddressBytes() {
  int64_t pages = 0;
  FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%ld", &pages) != 1) pages = 0;
  std::fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

// The soft limit alone, so that it can be raised once the worker is prepared.
void LimitAddresses(const Limits& limits) {
  if (!kLimitsAddresses) return;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0) return;
  limit.rlim_cur = std::min(static_cast<rlim_t>(AddressBytes() + limits.memory_bytes), limit.rlim_max);
  setrlimit(RLIMIT_AS, &limit);
}

// What no request needs. Where a filter of system calls refuses one of these, the others hold.
void Restrict(const Limits& limits) {
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_NAME, "text-worker");
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  syscall(SYS_close_range, kWorkerSocket + 1, UINT_MAX, 0);
  SetLimit(RLIMIT_CORE, 0);
  SetLimit(RLIMIT_FSIZE, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + limits.nice);
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, kMapFromBytes);
  LimitAddresses(limits);
}

// From now on; 0: no limit. The signal of its end is SIGPROF, which ends the process.
void LimitProcessorTime(int64_t ms) {
  itimerval timer{};
  timer.it_value.tv_sec = ms / 1000;
  timer.it_value.tv_usec = ms % 1000 * 1000;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

size_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// False at the end of the socket or the pipe.
bool Read(int descriptor, void* data, size_t size) {
  char* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t received = read(descriptor, bytes, size);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    bytes += received;
    size -= static_cast<size_t>(received);
  }
  return true;
}

bool Write(int descriptor, const void* data, size_t size) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(descriptor, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

struct Request {
  std::string text;
  int64_t processor_ms = 0;
};

// False once there are no more.
bool ReadRequest(Request* request) {
  WorkerFrame head;
  do {
    if (!Read(kWorkerSocket, &head, sizeof(head)) || head.size > kMaxWorkerFrameBytes) return false;
  } while (head.size == 0);
  request->processor_ms = head.processor_ms;
  request->text.resize(head.size);
  return Read(kWorkerSocket, request->text.data(), request->text.size());
}

// Does the work, and writes the reply there.
bool Answer(const Request& request, int descriptor, text::TextWorker* worker) {
  LimitProcessorTime(request.processor_ms);
  const size_t before = AllocatedBytes();
  const absl::StatusOr<std::string> reply = worker->Handle(request.text);
  if (!reply.ok()) return false;
  const size_t after = AllocatedBytes() - reply->capacity();
  LimitProcessorTime(0);
  WorkerFrame head;
  head.size = reply->size();
  head.kept_bytes = after > before ? after - before : 0;
  const bool written = Write(descriptor, &head, sizeof(head)) && Write(descriptor, reply->data(), reply->size());
  worker->Clear();
  return written;
}

// What the process of a request has written when it has ended: into this pipe. It is killed when the socket says so.
std::string Collect(int pipe, pid_t process) {
  std::string reply;
  std::array<pollfd, 2> polled = {pollfd{pipe, POLLIN, 0}, pollfd{kWorkerSocket, POLLIN, 0}};
  while (true) {
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled[1].revents != 0) {
      kill(process, SIGKILL);
      polled[1].fd = -1;  // what it says is read once this has ended
    }
    if (polled[0].revents == 0) continue;
    std::array<char, 65536> bytes;
    const ssize_t size = read(pipe, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return reply;
    reply.append(bytes.data(), static_cast<size_t>(size));
  }
}

// As Answer to the socket, by a process that may be killed.
bool AnswerInFork(const Request& request, text::TextWorker* worker) {
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) return false;
  const pid_t process = fork();
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(Answer(request, pipe[1], worker) ? 0 : 1);
  }
  close(pipe[1]);
  if (process < 0) return false;
  const std::string reply = Collect(pipe[0], process);
  close(pipe[0]);
  int status = 0;
  while (waitpid(process, &status, 0) == -1 && errno == EINTR) {
  }
  if (!WIFSIGNALED(status)) return Write(kWorkerSocket, reply.data(), reply.size());
  WorkerFrame ended;
  ended.signal = WTERMSIG(status);
  return Write(kWorkerSocket, &ended, sizeof(ended));
}

}  // namespace

bool IsTextWorker(int argc, char** argv) {
  return argc == kNumWorkerArguments && std::strcmp(argv[1], kWorkerCommand) == 0;
}

int RunTextWorker(char** argv) {
  Limits limits;
  if (!ReadLimits(argv, &limits)) return 2;
  Restrict(limits);
  text::TextWorker worker;
  Request request;
  if (!ReadRequest(&request) || !Answer(request, kWorkerSocket, &worker)) return 1;
  LimitAddresses(limits);  // what it was prepared with is not counted
  while (ReadRequest(&request)) {
    const bool answered = limits.forks != 0 ? AnswerInFork(request, &worker) : Answer(request, kWorkerSocket, &worker);
    if (!answered) return 1;
  }
  return 0;
}

}  // namespace dunlin::server
