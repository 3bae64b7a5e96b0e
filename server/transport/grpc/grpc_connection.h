// SPDX-License-Identifier: Apache-2.0
// A connection that was handed to gRPC, as long as anybody refers to it: what its calls have cost, and the way to cut
// it. The descriptor is gRPC's, which does not say when it has closed it; it then refers to nothing or to another
// inode. Thread rule: any thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "server/access/call_budgets.h"

namespace dunlin::server {

// A connection from this address was cut, for this reason. Any thread; must not block.
using CutObserver = std::function<void(const std::string& address, const char* reason)>;

// What all connections of a port share.
struct ConnectionShared {
  // max_header_block: bytes of a call's headers, as they are sent.
  ConnectionShared(const CallBudgetLimits& limits, size_t max_header_block)
      : budgets(limits), max_header_block_bytes(max_header_block) {}

  CallBudgets budgets;
  const size_t max_header_block_bytes;
  std::atomic<uint64_t> num_cut{0};
  CutObserver on_cut;  // may be empty
};

class GrpcConnection {
 public:
  // fd: a connected socket. calls: of its address.
  GrpcConnection(int fd, std::unique_ptr<CallBudgets::Connection> calls, std::shared_ptr<ConnectionShared> shared);
  GrpcConnection(const GrpcConnection&) = delete;
  GrpcConnection& operator=(const GrpcConnection&) = delete;

  const std::string& address() const { return calls_->address; }
  int fd() const { return fd_; }
  // Whether the descriptor no longer refers to the connection.
  bool is_closed() const;

  // A client opens a call while `num_open` streams are open. False: the call is not to be made, because the connection
  // is over its budget; it is cut.
  bool TryOpen(size_t num_open);
  // So many more bytes of headers have come on the connection. False: there are too many since the last call was
  // opened; it is cut.
  bool TakeHeaderBytes(size_t bytes);
  // A call has ended, so long after it was begun: answered in full, or abandoned. A connection that is over its budget
  // is cut.
  void OnEnded(bool is_abandoned, engine::TimeNs lived);

 private:
  void Cut(const char* reason);

  const int fd_;
  const ino_t inode_;
  const std::unique_ptr<CallBudgets::Connection> calls_;
  const std::shared_ptr<ConnectionShared> shared_;
  std::atomic<size_t> header_bytes_{0};  // since the last call was opened
  std::atomic<bool> is_cut_{false};
};

}  // namespace dunlin::server
