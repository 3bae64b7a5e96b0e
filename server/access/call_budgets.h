// SPDX-License-Identifier: Apache-2.0
// How many calls clients may open without seeing them through: calls that they reset, let expire, leave half sent, or
// send in a form that no service sees. Each costs the server a call and the client some bytes, and HTTP/2's limit on
// streams does not hold them: a stream that is reset counts no more (CVE-2023-44487, CVE-2025-8671).
//
// Every call costs its connection a unit when it is opened, which it gets back when the server has answered the call in
// full; what it does not get back drains at a rate. A connection may owe as many as HTTP/2 lets it have open, and a
// second of the rate, and have open twice as many as HTTP/2 lets it: a client need not acknowledge that limit, but one
// that has not heard of it yet is not to blame. Calls abandoned also count against the client's address and the port;
// while either has had too many, those of each of its connections cost more, and a new connection may owe few but those
// that it has open. A call that had its stream for long before it was abandoned is as good as answered: HTTP/2's limit
// on streams bounds how many of these there can be in a second.
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "engine/base/mutex.h"
#include "engine/request/types.h"
#include "server/access/leaky_bucket.h"

namespace dunlin::server {

struct CallBudgetLimits {
  int32_t max_streams = 100;                 // that a connection may have open
  int32_t abandoned_calls_per_second = 200;  // of one connection; 5 times as many of an address, 10 times of the port
};

class CallBudgets {
 public:
  using TimeNs = engine::TimeNs;

  // A connection's calls. Guarded by the CallBudgets that made it.
  struct Connection {
    Connection(std::string from, int64_t per_second) : address(std::move(from)), owed(per_second) {}
    const std::string address;
    LeakyBucket owed;
    bool is_over = false;
  };

  explicit CallBudgets(const CallBudgetLimits& limits);

  // Of a new connection.
  std::unique_ptr<Connection> Add(const std::string& address, TimeNs now);
  // Counts a call that is opened while `num_open` streams are, this one not included. False: the connection is over its
  // budget, and from now on remains so.
  bool TryOpen(size_t num_open, Connection* connection, TimeNs now);
  // A call has ended, so long after it was begun: answered in full, or abandoned. False, as for TryOpen.
  bool OnEnded(bool is_abandoned, TimeNs lived, Connection* connection, TimeNs now);

 private:
  // Whether the address, or all of them together, have abandoned too many calls.
  bool IsInDebt(const std::string& address, TimeNs now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Abandon(int64_t calls, const std::string& address, TimeNs now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Prune(TimeNs now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Spend(int64_t amount, Connection* connection, TimeNs now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t per_second_;
  const size_t max_open_;
  const int64_t max_owed_;
  const TimeNs brief_;  // the life of a call that counts when it is abandoned: after more, streams change no faster
                        // than the rate
  const int64_t max_of_address_;
  const int64_t max_of_port_;
  engine::Mutex mutex_;                          // guards what follows, and every Connection
  LeakyBucket of_port_ ABSL_GUARDED_BY(mutex_);  // calls abandoned, as the next
  absl::flat_hash_map<std::string, LeakyBucket> by_address_ ABSL_GUARDED_BY(mutex_);
  size_t prune_at_ ABSL_GUARDED_BY(mutex_);  // addresses; then those that have abandoned none lately are erased
};

}  // namespace dunlin::server
