// SPDX-License-Identifier: Apache-2.0
// Which page sets of the prefix cache become reusable and stop being so, as numbered batches of events for routers,
// which call a page set a KV block: a batch per engine step in which something changed, numbers from 1 without gaps,
// the last ones kept for readers that come late.
//
// The engine thread marks pages while a step runs and compares them with what it published before at the step's end, so
// that a batch is a step's net effect. It takes the lock only where that is free: a batch that meets a reader goes out
// with the next one. All memory is taken at construction; a log is made only where a reader is configured.
// Thread rule: changes and Publish on the engine thread; everything else on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "engine/cache/page.h"
#include "engine/cache/page_changes.h"
#include "engine/cache/prefix_cache.h"
#include "engine/request/types.h"

namespace dunlin::engine {

struct KvEventLogOptions {
  int32_t num_pages = 0;               // >= 1
  int32_t max_tokens_per_page = 0;     // >= 1, over all KV dtypes
  int32_t max_batches = 10000;         // >= 1, kept for readers
  ExecutionProfile default_profile{};  // blocks of this profile, without a salt, have domain 0
};

enum class KvEventKind : uint8_t { kStored, kRemoved, kCleared };

// One KV block that requests can use, or can no longer use. Where layers slide, that takes a cached prefix which
// leads through the block to a whole window (page_set_tree.h): a block without pages of sliding groups is removed when
// no such prefix is left, and stored again when one is computed again.
struct KvEvent {
  KvEventKind kind = KvEventKind::kStored;
  KvBlockId block = kNoKvBlock;   // none with kCleared, after which no block is reusable
  KvBlockId parent = kNoKvBlock;  // kStored: of the block before it in its prefix; none for the first
  uint64_t domain = 0;            // kStored: 0, or what identifies (profile, salt) of requests that can read the block
  std::vector<TokenId> tokens;    // kStored: of this block; their number is the block size of its profile
};

struct KvEventBatch {
  uint64_t number = 0;          // >= 1
  TimeNs published = 0;         // on the engine's clock
  std::vector<KvEvent> events;  // removals first, and parents before what follows them
};

struct KvSnapshot {
  uint64_t number = 0;          // of the last batch that it includes; 0: none has been published
  std::vector<KvEvent> blocks;  // kStored, parents first
};

class KvEventListener {
 public:
  virtual ~KvEventListener() = default;
  // A batch was published. On the engine thread: neither blocks, nor allocates, nor calls the log.
  virtual void OnKvEvents() = 0;
};

class KvEventLog {
 public:
  explicit KvEventLog(const KvEventLogOptions& options);

  // Where the cache marks its pages.
  PageChanges* changes() { return &changes_; }
  // Publishes what has changed as a batch, if there is a net change, and calls the listeners. False: a reader has the
  // lock, and the changes stay for the next call.
  bool Publish(const PrefixCache& cache, TimeNs now);

  // Number of the newest batch; 0 before the first.
  uint64_t last() const;
  // Number of the oldest batch that is kept; last() + 1 before the first.
  uint64_t oldest() const;

  // Appends the batches after number `after`, in order, max_batches at most; none if there are none yet. OUT_OF_RANGE
  // when the next one is no longer kept, and when `after` is not a number of this log: the reader starts from Snapshot.
  absl::Status Read(uint64_t after, size_t max_batches, std::vector<KvEventBatch>* batches) const;

  // What is reusable, as far as it has been published: reading after its number continues it.
  KvSnapshot Snapshot() const;

  // A listener is called from now on until RemoveListener returns. At most kMaxListeners; false when there are as many.
  static constexpr size_t kMaxListeners = 64;
  bool AddListener(KvEventListener* listener);
  void RemoveListener(KvEventListener* listener);

 private:
  // What was last published of a page.
  struct Published {
    KvBlockId block = kNoKvBlock;
    KvBlockId parent = kNoKvBlock;
    uint64_t domain = 0;
    uint64_t serial = 0;  // of its entry in the cache; 0: the page holds nothing
    int32_t num_tokens = 0;
  };
  struct Event {
    KvEventKind kind;
    Published block;
  };
  struct Batch {
    uint64_t first_event;  // counts all events since construction
    uint32_t num_events;
    TimeNs published;
  };

  void Remove(const PrefixCache& cache) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Store(const PrefixCache& cache) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Append(KvEventKind kind, const Published& block, const TokenId* tokens) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t DomainOf(const PrefixCache& cache, const Digest& domain);
  static KvEvent Copy(KvEventKind kind, const Published& block, const TokenId* tokens);

  Batch& batch(uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return batches_[number % batches_.size()]; }
  const Batch& batch(uint64_t number) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return batches_[number % batches_.size()];
  }

  const KvEventLogOptions options_;
  const size_t page_tokens_;

  // Engine thread.
  PageChanges changes_;
  std::optional<Digest> default_domain_;  // known with the first cache
  std::vector<PageId> stored_;            // while a batch is made

  // Guards everything below, between the engine thread, which only tries, and readers, who hold it while they copy.
  mutable Mutex mutex_;
  std::vector<Published> pages_ ABSL_GUARDED_BY(mutex_);         // [num_pages]
  std::vector<TokenId> page_token_ids_ ABSL_GUARDED_BY(mutex_);  // [num_pages, page_tokens_]
  int32_t num_published_ ABSL_GUARDED_BY(mutex_) = 0;            // pages that hold something
  std::vector<Batch> batches_ ABSL_GUARDED_BY(mutex_);           // ring, by number
  uint64_t first_ ABSL_GUARDED_BY(mutex_) = 1;                   // of the batches that are kept
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Event> events_ ABSL_GUARDED_BY(mutex_);             // ring
  std::vector<TokenId> event_token_ids_ ABSL_GUARDED_BY(mutex_);  // [events_, page_tokens_]
  uint64_t num_events_ ABSL_GUARDED_BY(mutex_) = 0;               // appended since construction
  std::vector<KvEventListener*> listeners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::engine
