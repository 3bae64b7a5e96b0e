// SPDX-License-Identifier: Apache-2.0
// The compiled grammars of one served model. What is not there is compiled by the model's grammar_lane, while whoever
// asked goes on with something else. The least recently used grammars leave first.
// Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/models/grammar_lane.h"

namespace dunlin::server {

class GrammarCache {
  struct Compilation;

 public:
  // What is kept is bounded by this and TextWorkLimits::grammar_cache_bytes; a grammar in use lives on without the
  // cache.
  static constexpr size_t kMaxEntries = 256;

  // Who asks.
  struct Caller {
    engine::TenantId tenant = engine::kSharedTenant;
    absl::Time deadline = absl::InfiniteFuture();
    // Called once when the result is there, on the lane's thread, unless it was there at once. It must not block, and
    // may be called for a short time after its Wait is gone.
    std::function<void()> on_done;
  };

  // One who waits for a grammar. A compilation for which nobody waits any more is ended. The cache outlives it.
  class Wait {
   public:
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    // nullopt: it is not there yet. Errors: as GrammarCompiler's, which are not kept; RESOURCE_EXHAUSTED too when it
    // takes longer than GrammarLane's limits; UNAVAILABLE (no worker could be started).
    std::optional<absl::StatusOr<Grammar>> result() const;

   private:
    friend class GrammarCache;
    Wait(GrammarCache* cache, std::shared_ptr<Compilation> compilation)
        : cache_(cache), compilation_(std::move(compilation)) {}
    GrammarCache* const cache_;
    const std::shared_ptr<Compilation> compilation_;
  };

  explicit GrammarCache(GrammarLane::Model model);
  GrammarCache(const GrammarCache&) = delete;
  GrammarCache& operator=(const GrammarCache&) = delete;

  // Equal sources are compiled once, whoever asks. Null: too many grammars wait to be compiled, of this tenant or of
  // all.
  std::unique_ptr<Wait> Find(const text::GrammarSource& source, const Caller& caller);
  // As Find, and waits.
  absl::StatusOr<Grammar> Get(const text::GrammarSource& source);

  struct Stats {
    int64_t hits = 0;      // found, or waited for
    int64_t compiled = 0;  // also in vain
    size_t entries = 0;
    size_t bytes = 0;
  };
  Stats stats() const;

 private:
  struct Compilation {
    std::shared_ptr<GrammarJob> job;  // null: the result was there at once
    int num_waits = 0;
    std::list<std::function<void()>> on_done;
    std::optional<absl::StatusOr<Grammar>> result;
  };
  struct Entry {
    std::string key;
    Grammar grammar;
    size_t bytes = 0;
  };

  void OnCompiled(const std::shared_ptr<GrammarJob>& job, absl::StatusOr<Grammar> grammar);
  void Leave(const std::shared_ptr<Compilation>& compilation);
  void Keep(const std::string& key, const Grammar& grammar) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_bytes_;
  mutable absl::Mutex mutex_;                         // guards what follows
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // the most recently used first
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::shared_ptr<Compilation>> running_ ABSL_GUARDED_BY(mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);
  GrammarLane lane_;  // last: its thread calls this object
};

}  // namespace dunlin::server
