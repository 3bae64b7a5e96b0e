// SPDX-License-Identifier: Apache-2.0
#include "server/access/call_budgets.h"

#include <algorithm>

namespace dunlin::server {
namespace {

constexpr int64_t kBurstSeconds = 1;        // of a connection's rate, beyond the streams that it may have open
constexpr int64_t kAddressRates = 5;        // connections' worth that an address may abandon,
constexpr int64_t kPortRates = 10;          // and all of them;
constexpr int64_t kSharedBurstSeconds = 2;  // at once
// Of a connection whose address or port is in debt. 200 a second at 8 units each are over within 0.2 s, 25 never.
constexpr int64_t kUnitsInDebt = 8;
constexpr int64_t kBurstInDebt = 20;    // of a new connection then, in calls; so many drain within 0.1 s
constexpr size_t kFirstPruneAt = 1024;  // addresses

}  // namespace

CallBudgets::CallBudgets(const CallBudgetLimits& limits)
    : per_second_(limits.abandoned_calls_per_second),
      max_open_(2 * static_cast<size_t>(limits.max_streams)),
      max_owed_(limits.max_streams + kBurstSeconds * per_second_),
      brief_(limits.max_streams * int64_t{1'000'000'000} / per_second_),
      max_of_address_(kSharedBurstSeconds * kAddressRates * per_second_),
      max_of_port_(kSharedBurstSeconds * kPortRates * per_second_),
      of_port_(kPortRates * per_second_),
      prune_at_(kFirstPruneAt) {}

bool CallBudgets::IsInDebt(const std::string& address, TimeNs now) const {
  if (of_port_.Level(now) > max_of_port_) return true;
  const auto found = by_address_.find(address);
  return found != by_address_.end() && found->second.Level(now) > max_of_address_;
}

void CallBudgets::Prune(TimeNs now) {
  if (by_address_.size() < prune_at_) return;
  absl::erase_if(by_address_, [now](const auto& entry) { return entry.second.Level(now) == 0; });
  prune_at_ = std::max(kFirstPruneAt, 2 * by_address_.size());
}

void CallBudgets::Abandon(int64_t calls, const std::string& address, TimeNs now) {
  Prune(now);
  const auto found = by_address_.try_emplace(address, kAddressRates * per_second_).first;
  // Debts end within a burst's seconds after the last abandoned call.
  found->second.Add(calls, 2 * max_of_address_, now);
  of_port_.Add(calls, 2 * max_of_port_, now);
}

void CallBudgets::Spend(int64_t amount, Connection* connection, TimeNs now) {
  connection->owed.Add(amount, 2 * max_owed_, now);
  if (connection->owed.Level(now) > max_owed_) connection->is_over = true;
}

std::unique_ptr<CallBudgets::Connection> CallBudgets::Add(const std::string& address, TimeNs now) {
  auto connection = std::make_unique<Connection>(address, per_second_);
  const engine::MutexLock lock(&mutex_);
  if (!IsInDebt(address, now)) return connection;
  connection->owed.Add(std::max<int64_t>(kBurstSeconds * per_second_ - kBurstInDebt, 0), max_owed_, now);
  return connection;
}

bool CallBudgets::TryOpen(size_t num_open, Connection* connection, TimeNs now) {
  const engine::MutexLock lock(&mutex_);
  if (connection->is_over) return false;
  Spend(1, connection, now);
  if (num_open >= max_open_) connection->is_over = true;
  if (connection->is_over) Abandon(connection->owed.Level(now), connection->address, now);
  return !connection->is_over;
}

bool CallBudgets::OnEnded(bool is_abandoned, TimeNs lived, Connection* connection, TimeNs now) {
  const engine::MutexLock lock(&mutex_);
  if (connection->is_over) return false;
  if (!is_abandoned || lived >= brief_) {
    connection->owed.Remove(1);
    return true;
  }
  Abandon(1, connection->address, now);
  if (IsInDebt(connection->address, now)) Spend(kUnitsInDebt - 1, connection, now);
  return !connection->is_over;
}

}  // namespace dunlin::server
