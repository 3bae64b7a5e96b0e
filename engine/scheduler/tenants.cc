// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/tenants.h"

#include <algorithm>

#include "engine/base/check.h"

namespace dunlin::engine {

Tenants::Tenants(int32_t max_live, int32_t max_tokens_per_step)
    : window_(int64_t{kWindowSteps} * max_tokens_per_step), table_(static_cast<size_t>(max_live) + kMaxRemembered) {
  free_.reserve(table_.size());
  known_.reserve(table_.size());
  ordered_.reserve(table_.size());
  for (size_t i = table_.size(); i-- > 0;) {
    table_[i].index = static_cast<int32_t>(i);
    free_.push_back(&table_[i]);
  }
}

Tenant* Tenants::Join(TenantId id, int32_t priority) {
  const auto found =
      std::find_if(known_.begin(), known_.end(), [id](const Tenant* tenant) { return tenant->id == id; });
  Tenant* tenant = nullptr;
  if (found != known_.end()) {
    tenant = *found;
  } else {
    if (free_.empty()) ForgetOne();
    tenant = free_.back();
    free_.pop_back();
    *tenant = {.id = id, .index = tenant->index, .count = floor_ - window_};
    known_.push_back(tenant);
  }
  tenant->priority = tenant->is_live() ? std::max(tenant->priority, priority) : priority;
  ++tenant->num_waiting;
  return tenant;
}

void Tenants::BeginPlan(TimeNs now) {
  Forget(now);
  AdvanceFloor();
  for (Tenant* tenant : known_) {
    tenant->count = std::clamp(tenant->count, floor_ - window_, floor_ + window_);
    if (!tenant->has_prompts()) tenant->busy_tokens = 0;
  }
  std::sort(known_.begin(), known_.end(), [](const Tenant* a, const Tenant* b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    return a->count != b->count ? a->count < b->count : a->index < b->index;
  });
  ordered_.clear();
  int64_t lowest = std::numeric_limits<int64_t>::max();
  for (Tenant* tenant : known_) {
    lowest = std::min(lowest, tenant->count);
    tenant->is_behind = false;
    if (!tenant->has_prompts()) continue;
    tenant->is_behind = tenant->count > lowest && tenant->busy_tokens > window_;
    tenant->rank = static_cast<int32_t>(ordered_.size());
    ordered_.push_back(tenant);
  }
}

// Forgets tenants without sequences after kMemory, and those that have been idle for longest beyond kMaxRemembered.
void Tenants::Forget(TimeNs now) {
  const auto is_idle = [](const Tenant* tenant) { return !tenant->is_live(); };
  auto num_idle = static_cast<size_t>(std::count_if(known_.begin(), known_.end(), is_idle));
  for (; num_idle > kMaxRemembered; --num_idle) ForgetOne();
  std::erase_if(known_, [&](Tenant* tenant) {
    if (tenant->is_live() || now - tenant->last_live < kMemory) return false;
    free_.push_back(tenant);
    return true;
  });
}

// Forgets the one that has been idle for longest.
void Tenants::ForgetOne() {
  const auto found = std::min_element(known_.begin(), known_.end(), [](const Tenant* a, const Tenant* b) {
    if (a->is_live() != b->is_live()) return b->is_live();
    return a->last_live != b->last_live ? a->last_live < b->last_live : a->index < b->index;
  });
  DUNLIN_CHECK(found != known_.end() && !(*found)->is_live(), "more live sequences than max_live");
  free_.push_back(*found);
  known_.erase(found);
}

// Where nobody has prompts, nobody is owed anything.
void Tenants::AdvanceFloor() {
  int64_t lowest = std::numeric_limits<int64_t>::max();
  int64_t highest = floor_;
  for (const Tenant* tenant : known_) {
    if (tenant->has_prompts()) lowest = std::min(lowest, tenant->count);
    if (tenant->is_live()) highest = std::max(highest, tenant->count);
  }
  floor_ = lowest == std::numeric_limits<int64_t>::max() ? highest : std::max(floor_, lowest);
}

}  // namespace dunlin::engine
