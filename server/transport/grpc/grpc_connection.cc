// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/grpc_connection.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "server/process/monotonic_clock.h"

namespace dunlin::server {
namespace {

constexpr char kTooManyCalls[] =
    "it opened too many calls that it did not see through (limits.max_abandoned_calls_per_second)";
constexpr char kEndlessHeaders[] = "the headers of a call are far over limits.max_metadata_bytes";

// 0 when the descriptor is not open.
ino_t InodeOf(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

// Resets a TCP connection and throws away what it has received and not been read: after a shutdown, gRPC would read
// that first, megabytes of calls.
void Reset(int fd) {
  const sockaddr nowhere = {AF_UNSPEC, {}};
  if (connect(fd, &nowhere, sizeof(nowhere)) != 0) shutdown(fd, SHUT_RDWR);
}

}  // namespace

GrpcConnection::GrpcConnection(int fd, std::unique_ptr<CallBudgets::Connection> calls,
                               std::shared_ptr<ConnectionShared> shared)
    : fd_(fd), inode_(InodeOf(fd)), calls_(std::move(calls)), shared_(std::move(shared)) {}

bool GrpcConnection::is_closed() const {
  return InodeOf(fd_) != inode_;
}

bool GrpcConnection::TryOpen(size_t num_open) {
  header_bytes_.store(0, std::memory_order_relaxed);
  if (shared_->budgets.TryOpen(num_open, calls_.get(), MonotonicNs())) return true;
  Cut(kTooManyCalls);
  return false;
}

bool GrpcConnection::TakeHeaderBytes(size_t bytes) {
  if (header_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= shared_->max_header_block_bytes) return true;
  Cut(kEndlessHeaders);
  return false;
}

void GrpcConnection::OnEnded(bool is_abandoned, engine::TimeNs lived) {
  if (!shared_->budgets.OnEnded(is_abandoned, lived, calls_.get(), MonotonicNs())) Cut(kTooManyCalls);
}

void GrpcConnection::Cut(const char* reason) {
  if (is_cut_.exchange(true)) return;
  // gRPC may close the descriptor at any time and another connection get its number; a duplicate stays what it is.
  const int own = fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (own >= 0) {
    if (InodeOf(own) == inode_) Reset(own);
    close(own);
  } else if (!is_closed()) {  // no descriptors left
    Reset(fd_);
  }
  shared_->num_cut.fetch_add(1, std::memory_order_relaxed);
  if (shared_->on_cut) shared_->on_cut(address(), reason);
}

}  // namespace dunlin::server
