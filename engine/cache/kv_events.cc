// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/kv_events.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace dunlin::engine {
namespace {

// A batch has at most a removal and a store for each page; small pools keep a few events for each batch all the same.
size_t EventCapacity(const KvEventLogOptions& options) {
  return 2 * (static_cast<size_t>(options.num_pages) + static_cast<size_t>(options.max_batches));
}

}  // namespace

KvEventLog::KvEventLog(const KvEventLogOptions& options)
    : options_(options),
      page_tokens_(static_cast<size_t>(options.max_tokens_per_page)),
      changes_(options.num_pages),
      pages_(static_cast<size_t>(options.num_pages)),
      page_token_ids_(pages_.size() * page_tokens_),
      batches_(static_cast<size_t>(options.max_batches)),
      events_(EventCapacity(options)),
      event_token_ids_(events_.size() * page_tokens_) {
  DUNLIN_CHECK(options.num_pages >= 1 && options.max_tokens_per_page >= 1 && options.max_batches >= 1,
               "a log keeps something");
  stored_.reserve(static_cast<size_t>(options.num_pages));
  listeners_.reserve(kMaxListeners);
}

uint64_t KvEventLog::DomainOf(const PrefixCache& cache, const Digest& domain) {
  if (!default_domain_.has_value()) default_domain_ = cache.Root(options_.default_profile, "").domain;
  return domain == *default_domain_ ? 0 : KvBlockIdOf(domain);
}

bool KvEventLog::Publish(const PrefixCache& cache, TimeNs now) {
  if (changes_.pages().empty()) return true;
  if (!mutex_.TryLock()) return false;
  const uint64_t first_event = num_events_;
  Remove(cache);
  Store(cache);
  changes_.Clear();
  if (num_events_ > first_event) {
    batch(++last_) = {first_event, static_cast<uint32_t>(num_events_ - first_event), now};
    if (last_ - first_ == batches_.size()) ++first_;
    while (batch(first_).first_event + events_.size() < num_events_) ++first_;
    for (KvEventListener* listener : listeners_) listener->OnKvEvents();
  }
  mutex_.Unlock();
  return true;
}

// Two pages may hold the same block: what followed a prefix that was dropped and computed again. It is removed with the
// last of them.
void KvEventLog::Remove(const PrefixCache& cache) {
  const bool clears = cache.num_cached() == 0 && num_published_ > 0;
  if (clears) Append(KvEventKind::kCleared, {}, nullptr);
  for (const PageId page : changes_.pages()) {
    Published& published = pages_[static_cast<size_t>(page)];
    if (published.serial == 0 || published.serial == cache.PageSetOf(page).serial) continue;
    if (!clears && !cache.HoldsPageSet(published.block)) Append(KvEventKind::kRemoved, published, nullptr);
    published = {};
    --num_published_;
  }
}

void KvEventLog::Store(const PrefixCache& cache) {
  stored_.clear();
  for (const PageId page : changes_.pages()) {
    if (cache.PageSetOf(page).serial != 0 && pages_[static_cast<size_t>(page)].serial == 0) stored_.push_back(page);
  }
  const auto serial = [&cache](PageId page) { return cache.PageSetOf(page).serial; };
  std::sort(stored_.begin(), stored_.end(), [&](PageId a, PageId b) { return serial(a) < serial(b); });
  for (const PageId page : stored_) {
    const CachedPageSet block = cache.PageSetOf(page);
    Published& published = pages_[static_cast<size_t>(page)];
    published = {block.id, block.parent, DomainOf(cache, *block.domain), block.serial, block.num_tokens};
    std::copy_n(block.tokens, block.num_tokens, &page_token_ids_[static_cast<size_t>(page) * page_tokens_]);
    ++num_published_;
    Append(KvEventKind::kStored, published, block.tokens);
  }
}

void KvEventLog::Append(KvEventKind kind, const Published& block, const TokenId* tokens) {
  const size_t slot = num_events_ % events_.size();
  events_[slot] = {kind, block};
  if (kind == KvEventKind::kStored) std::copy_n(tokens, block.num_tokens, &event_token_ids_[slot * page_tokens_]);
  ++num_events_;
}

KvEvent KvEventLog::Copy(KvEventKind kind, const Published& block, const TokenId* tokens) {
  KvEvent event;
  event.kind = kind;
  event.block = block.block;
  if (kind != KvEventKind::kStored) return event;
  event.parent = block.parent;
  event.domain = block.domain;
  event.tokens.assign(tokens, tokens + block.num_tokens);
  return event;
}

uint64_t KvEventLog::last() const {
  MutexLock lock(&mutex_);
  return last_;
}

uint64_t KvEventLog::oldest() const {
  MutexLock lock(&mutex_);
  return first_;
}

absl::Status KvEventLog::Read(uint64_t after, size_t max_batches, std::vector<KvEventBatch>* batches) const {
  MutexLock lock(&mutex_);
  if (after > last_ || after + 1 < first_) {
    return absl::OutOfRangeError(
        absl::StrCat("KV events after batch ", after, " are not kept; batches ", first_, " to ", last_, " are"));
  }
  const uint64_t end = std::min<uint64_t>(last_, after + std::min<uint64_t>(max_batches, last_ - after));
  for (uint64_t number = after + 1; number <= end; ++number) {
    const Batch& source = batch(number);
    KvEventBatch copy;
    copy.number = number;
    copy.published = source.published;
    copy.events.reserve(source.num_events);
    for (uint64_t i = source.first_event; i < source.first_event + source.num_events; ++i) {
      const size_t slot = i % events_.size();
      copy.events.push_back(Copy(events_[slot].kind, events_[slot].block, &event_token_ids_[slot * page_tokens_]));
    }
    batches->push_back(std::move(copy));
  }
  return absl::OkStatus();
}

KvSnapshot KvEventLog::Snapshot() const {
  KvSnapshot snapshot;
  std::vector<size_t> pages;
  MutexLock lock(&mutex_);
  const std::vector<Published>& published = pages_;
  snapshot.number = last_;
  for (size_t page = 0; page < published.size(); ++page) {
    if (published[page].serial != 0) pages.push_back(page);
  }
  std::sort(pages.begin(), pages.end(),
            [&published](size_t a, size_t b) { return published[a].serial < published[b].serial; });
  snapshot.blocks.reserve(pages.size());
  for (const size_t page : pages) {
    snapshot.blocks.push_back(Copy(KvEventKind::kStored, published[page], &page_token_ids_[page * page_tokens_]));
  }
  return snapshot;
}

bool KvEventLog::AddListener(KvEventListener* listener) {
  MutexLock lock(&mutex_);
  if (listeners_.size() == kMaxListeners) return false;
  listeners_.push_back(listener);
  return true;
}

void KvEventLog::RemoveListener(KvEventListener* listener) {
  MutexLock lock(&mutex_);
  std::erase(listeners_, listener);
}

}  // namespace dunlin::engine
