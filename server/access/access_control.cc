// SPDX-License-Identifier: Apache-2.0
#include "server/access/access_control.h"

#include <utility>

#include "absl/strings/match.h"
#include "engine/base/string_view.h"
#include "server/process/monotonic_clock.h"

namespace dunlin::server {

void AccessControl::Use(std::shared_ptr<const KeySet> keys) {
  auto next = std::make_shared<InForce>();
  const engine::TimeNs now = MonotonicNs();
  for (const std::shared_ptr<const KeyRecord>& record : keys->records()) {
    const QuotaLimits& limits = record->quota;
    if (limits.any()) next->quotas[record->name] = quotas_.Of(record->name, limits, now);
  }
  next->keys = std::move(keys);
  std::shared_ptr<const InForce> last = std::move(next);  // destroyed after the lock is released
  {
    const engine::MutexLock lock(&mutex_);
    in_force_.swap(last);
  }
  enabled_.store(true, std::memory_order_release);
}

std::shared_ptr<const AccessControl::InForce> AccessControl::in_force() const {
  const engine::MutexLock lock(&mutex_);
  return in_force_;
}

AccessAnswer AccessControl::Authorize(std::string_view presented, const Endpoint& endpoint, absl::Time now) const {
  AccessAnswer answer;
  if (!enabled()) {
    if (admin_needs_key_ && endpoint.needed == Permission::kAdmin) answer.refusal = AccessRefusal::kPermissionDenied;
    return answer;
  }
  const std::shared_ptr<const InForce> in_force = this->in_force();
  std::shared_ptr<const KeyRecord> record;
  if (!presented.empty() && presented.size() <= kMaxKeyBytes) record = in_force->keys->Find(DigestOf(presented));
  if (record != nullptr && now > record->not_after) record = nullptr;
  if (record == nullptr) {
    if (endpoint.needed.has_value()) answer.refusal = AccessRefusal::kUnauthenticated;
    return answer;
  }
  answer.principal.name = record->name;
  if (endpoint.needed.has_value() && !record->Has(*endpoint.needed)) answer.refusal = AccessRefusal::kPermissionDenied;
  answer.principal.key = std::move(record);
  const auto quota = in_force->quotas.find(answer.principal.name);
  if (quota != in_force->quotas.end()) answer.principal.quota = quota->second;
  return answer;
}

void AccessControl::Report(AccessRefusal refusal, const AccessDenial& denial) const {
  num_refused_[static_cast<size_t>(refusal)].fetch_add(1, std::memory_order_relaxed);
  if (observer_ != nullptr) observer_->OnDenied(denial);
}

AccessStats AccessControl::stats() const {
  AccessStats stats;
  stats.enabled = enabled();
  if (stats.enabled) stats.num_keys = in_force()->keys->size();
  stats.file_ok = file_ok_.load(std::memory_order_relaxed);
  stats.unauthenticated = num_refused_[static_cast<size_t>(AccessRefusal::kUnauthenticated)].load();
  stats.denied = num_refused_[static_cast<size_t>(AccessRefusal::kPermissionDenied)].load();
  return stats;
}

std::string_view BearerKey(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (!absl::StartsWithIgnoreCase(engine::AbslView(authorization), engine::AbslView(kScheme))) return {};
  authorization.remove_prefix(kScheme.size());
  const size_t first = authorization.find_first_not_of(' ');
  if (first == authorization.npos) return {};
  authorization.remove_prefix(first);
  return authorization.substr(0, authorization.find_last_not_of(" \t") + 1);
}

}  // namespace dunlin::server
