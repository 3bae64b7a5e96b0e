// SPDX-License-Identifier: Apache-2.0
// Decides whether a call may be made: the key that it presents against the endpoint table. Without keys every call may,
// and every caller is anonymous, unless ForbidAdminWithoutKeys was called; with keys, what no key allows is refused.
// Thread rule: any thread. Takes one short lock to read which keys are in force; a call keeps the record that it was
// admitted with, also when its key is withdrawn.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "engine/base/mutex.h"
#include "server/access/key_set.h"
#include "server/access/principal.h"
#include "server/access/quota.h"

namespace dunlin::server {

// A call that was refused by permission, for the audit log. Holds no part of a key.
struct AccessDenial {
  std::string_view key;       // the name of its record; kUnknownKey
  std::string_view endpoint;  // as the endpoint table names it
  std::string_view peer;
  std::string_view reason;  // "no valid key", "needs permission metrics", "model not allowed", ...
};

// Any thread; must not block.
class AccessObserver {
 public:
  virtual ~AccessObserver() = default;
  virtual void OnDenied(const AccessDenial& denial) = 0;
};

enum class AccessRefusal : uint8_t { kUnauthenticated, kPermissionDenied };
inline constexpr size_t kNumAccessRefusals = 2;

struct AccessAnswer {
  Principal principal;                   // also of a call that is refused for want of a permission
  std::optional<AccessRefusal> refusal;  // empty: the call may be made
};

struct AccessStats {
  bool enabled = false;
  size_t num_keys = 0;           // records in force
  bool file_ok = true;           // the last reading of the key file
  uint64_t unauthenticated = 0;  // calls refused for want of a valid key
  uint64_t denied = 0;           // calls refused to a valid key
};

class AccessControl {
 public:
  // observer outlives this object; null: nobody is told.
  explicit AccessControl(AccessObserver* observer = nullptr) : observer_(observer) {}

  // From now on these keys are in force, and no others. Never null. What a name has used of its quota stays used. One
  // call at a time.
  void Use(std::shared_ptr<const KeySet> keys);
  // Whether the last reading of the key file succeeded, for stats.
  void NoteReading(bool ok) { file_ok_.store(ok, std::memory_order_relaxed); }
  // Strangers can reach the server: while there are no keys, endpoints that need Permission::kAdmin are refused. Before
  // calls come.
  void ForbidAdminWithoutKeys() { admin_needs_key_ = true; }
  bool admin_needs_key() const { return admin_needs_key_; }
  // The config lets callers do without keys what an administrator may. Before calls come.
  void AllowAdminWithoutKeys() { admin_without_keys_ = true; }
  // Whether calls may load and unload models, which without keys is the config's alone.
  bool models_may_change() const { return enabled() || admin_without_keys_; }
  // Whether keys are set.
  bool enabled() const { return enabled_.load(std::memory_order_acquire); }

  // presented: the key, as the client sent it; "" for none. The caller is anonymous at an open endpoint without a valid
  // key, and without keys at every one that is not refused. A missing, a wrong, a withdrawn and an expired key are not
  // told apart. Does not fill in endpoint and peer, and reports nothing.
  AccessAnswer Authorize(std::string_view presented, const Endpoint& endpoint, absl::Time now) const;

  // Counts a refusal and tells the observer.
  void Report(AccessRefusal refusal, const AccessDenial& denial) const;

  AccessStats stats() const;

 private:
  struct InForce {
    std::shared_ptr<const KeySet> keys;
    absl::flat_hash_map<std::string, std::shared_ptr<Quota>> quotas;  // by the name of the record, of those with limits
  };
  std::shared_ptr<const InForce> in_force() const;

  AccessObserver* const observer_;
  bool admin_needs_key_ = false;
  bool admin_without_keys_ = false;
  std::atomic<bool> enabled_{false};
  std::atomic<bool> file_ok_{true};
  mutable std::atomic<uint64_t> num_refused_[kNumAccessRefusals]{};
  Quotas quotas_;                // of this set of keys and the last: who stays in the file keeps what it has used
  mutable engine::Mutex mutex_;  // guards in_force_, between Use and calls
  std::shared_ptr<const InForce> in_force_ ABSL_GUARDED_BY(mutex_);
};

// The key in a header "Bearer KEY" (the scheme in any case); "" if there is none.
std::string_view BearerKey(std::string_view authorization);

}  // namespace dunlin::server
