// SPDX-License-Identifier: Apache-2.0
#include "server/text_worker/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/text_worker/worker_frame.h"

namespace dunlin::server {
namespace {

// For a worker to kill the process of a request.
constexpr absl::Duration kStopLimit = absl::Seconds(1);

constexpr absl::Duration kLongestPoll = absl::Minutes(1);

// Of a worker that forks.
bool EndedRequestAlone(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsResourceExhausted(status);
}

absl::Status Unavailable(const char* what, int error) {
  return absl::UnavailableError(absl::StrCat("a text worker could not be started: ", what, ": ", strerror(error)));
}

// No signal of this process is blocked or ignored in the worker, and none that a terminal sends to a group reaches it.
void SetAttributes(posix_spawnattr_t* attributes) {
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setsigdefault(attributes, &all);
  posix_spawnattr_setpgroup(attributes, 0);
  posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

// The dynamic linker's path and the allocator's one arena; nothing of ours, keys for instance.
std::vector<std::string> Environment() {
  std::vector<std::string> environment = {"MALLOC_ARENA_MAX=1"};
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) {
    environment.push_back(absl::StrCat("LD_LIBRARY_PATH=", path));
  }
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<pid_t> Spawn(const std::string& program, const WorkerLimits& limits, int socket) {
  std::vector<std::string> arguments = {"dunlin", kWorkerCommand, absl::StrCat(limits.memory_bytes),
                                        absl::StrCat(limits.nice), limits.forks ? "1" : "0"};
  std::vector<std::string> environment = Environment();
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_init(&actions);
  SetAttributes(&attributes);
  posix_spawn_file_actions_adddup2(&actions, socket, kWorkerSocket);
  for (int standard = 0; standard < kWorkerSocket; ++standard) {
    posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
  }
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes, Pointers(&arguments).data(),
                                Pointers(&environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return Unavailable("posix_spawn", error);
  return pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const std::string& program,
                                                                    const WorkerLimits& limits) {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) return Unavailable("socketpair", errno);
  fcntl(sockets[0], F_SETFL, O_NONBLOCK);
  const absl::StatusOr<pid_t> pid = Spawn(program, limits, sockets[1]);
  close(sockets[1]);
  if (pid.ok()) return std::unique_ptr<WorkerProcess>(new WorkerProcess(*pid, sockets[0], limits));
  close(sockets[0]);
  return pid.status();
}

WorkerProcess::~WorkerProcess() {
  End();
  close(socket_);
}

void WorkerProcess::End() {
  if (pid_ == -1) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) == -1 && errno == EINTR) {
  }
  pid_ = -1;
}

bool WorkerProcess::IsRunning() {
  if (pid_ != -1 && waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = -1;
  return pid_ != -1;
}

absl::StatusOr<WorkerProcess::Reply> WorkerProcess::Call(std::string_view request, const Bounds& bounds) {
  if (absl::Status sent = Send(request, bounds); !sent.ok()) return sent;
  return Receive(bounds);
}

absl::Status WorkerProcess::Send(std::string_view request, const Bounds& bounds) {
  if (pid_ == -1) return absl::UnavailableError("the text worker has ended");
  WorkerFrame head;
  head.size = request.size();
  processor_time_ = bounds.processor_time;
  if (processor_time_ != absl::InfiniteDuration()) head.processor_ms = absl::ToInt64Milliseconds(processor_time_);
  absl::Status sent = Write({reinterpret_cast<const char*>(&head), sizeof(head)}, bounds);
  if (sent.ok()) sent = Write(request, bounds);
  if (!sent.ok()) End();
  return sent;
}

absl::StatusOr<WorkerProcess::Reply> WorkerProcess::Receive(const Bounds& bounds) {
  if (pid_ == -1) return absl::UnavailableError("the text worker has ended");
  absl::StatusOr<Reply> reply = ReadReply(bounds);
  const bool in_time = !absl::IsDeadlineExceeded(reply.status()) && !absl::IsCancelled(reply.status());
  const bool goes_on = limits_.forks && (in_time ? EndedRequestAlone(reply.status()) : Stop());
  if (!reply.ok() && !goes_on) End();
  return reply;
}

bool WorkerProcess::Stop() {
  const Bounds soon{.deadline = absl::Now() + kStopLimit};
  const WorkerFrame stop;
  if (!Write({reinterpret_cast<const char*>(&stop), sizeof(stop)}, soon).ok()) return false;
  const absl::StatusOr<Reply> last = ReadReply(soon);
  return last.ok() || EndedRequestAlone(last.status());
}

absl::StatusOr<WorkerProcess::Reply> WorkerProcess::ReadReply(const Bounds& bounds) {
  WorkerFrame head;
  absl::Status received = Read(reinterpret_cast<char*>(&head), sizeof(head), bounds);
  if (!received.ok()) return received;
  if (head.signal != 0) return EndedBy(static_cast<int>(head.signal));
  if (head.size > kMaxWorkerFrameBytes) return absl::UnavailableError("the text worker's reply is broken");
  Reply reply;
  reply.text.resize(head.size);
  reply.kept_bytes = head.kept_bytes;
  // The rest is on its way: a reply that is left in the middle could not be told from the next.
  received = Read(reply.text.data(), reply.text.size(), {.deadline = absl::Now() + kStopLimit});
  if (!received.ok()) return received;
  return reply;
}

absl::Status WorkerProcess::Wait(short events, const Bounds& bounds) const {
  while (true) {
    const absl::Time now = absl::Now();
    if (bounds.deadline <= now) return absl::DeadlineExceededError("the text worker's time is up");
    const auto left = std::min(bounds.deadline - now, kLongestPoll);
    std::array<pollfd, 2> polled = {pollfd{socket_, events, 0}, pollfd{bounds.cancel, POLLIN, 0}};
    const int ready = poll(polled.data(), polled.size(), static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready < 0 && errno != EINTR) return absl::UnavailableError(strerror(errno));
    if (ready <= 0) continue;
    if (polled[1].revents != 0) return absl::CancelledError("nobody waits for the text worker");
    if (polled[0].revents != 0) return absl::OkStatus();
  }
}

absl::Status WorkerProcess::Write(std::string_view bytes, const Bounds& bounds) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return WhyItEnded();
    if (absl::Status waited = Wait(POLLOUT, bounds); !waited.ok()) return waited;
  }
  return absl::OkStatus();
}

absl::Status WorkerProcess::Read(char* bytes, size_t size, const Bounds& bounds) {
  while (size > 0) {
    const ssize_t received = recv(socket_, bytes, size, 0);
    if (received > 0) {
      bytes += received;
      size -= static_cast<size_t>(received);
      continue;
    }
    if (received == 0 || (errno != EAGAIN && errno != EINTR)) return WhyItEnded();
    if (absl::Status waited = Wait(POLLIN, bounds); !waited.ok()) return waited;
  }
  return absl::OkStatus();
}

// The socket is closed by its end, so that the kernel has an end to tell, at once or soon.
absl::Status WorkerProcess::WhyItEnded() {
  int status = 0;
  const absl::Time limit = absl::Now() + absl::Seconds(1);
  while (waitpid(pid_, &status, WNOHANG) == 0 && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(1));
  if (!WIFSIGNALED(status) && !WIFEXITED(status)) return absl::UnavailableError("the text worker does not answer");
  pid_ = -1;
  if (WIFSIGNALED(status)) return EndedBy(WTERMSIG(status));
  return absl::UnavailableError(absl::StrCat("the text worker has ended with status ", WEXITSTATUS(status)));
}

absl::Status WorkerProcess::EndedBy(int signal) const {
  if (signal == SIGPROF) {
    const std::string limit = absl::FormatDuration(processor_time_);
    return absl::AbortedError(absl::StrCat("takes more than ", limit, " of processor time; limit is ", limit));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("takes more memory or stack than it may; limit is ", limits_.memory_bytes >> 20U, " MiB"));
}

}  // namespace dunlin::server
