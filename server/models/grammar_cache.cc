// SPDX-License-Identifier: Apache-2.0
#include "server/models/grammar_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace dunlin::server {
namespace {

// Sizes and counts stand before what they are of, so that only equal sources have equal keys.
void AppendKey(const text::GrammarSource& source, std::string* key) {
  absl::StrAppend(key, static_cast<int>(source.kind), ":", source.text.size(), ":", source.text, source.choices.size());
  for (const std::string& choice : source.choices) absl::StrAppend(key, ":", choice.size(), ":", choice);
}

std::string KeyOf(const text::GrammarSource& source) {
  std::string key;
  AppendKey(source, &key);
  for (const text::GrammarSource& part : source.parts) AppendKey(part, &key);
  return key;
}

}  // namespace

GrammarCache::GrammarCache(GrammarLane::Model model)
    : max_bytes_(model.text_work.grammar_cache_bytes),
      lane_(std::move(model), [this](const std::shared_ptr<GrammarJob>& job, absl::StatusOr<Grammar> grammar) {
        OnCompiled(job, std::move(grammar));
      }) {}

std::unique_ptr<GrammarCache::Wait> GrammarCache::Find(const text::GrammarSource& source, const Caller& caller) {
  const std::string key = KeyOf(source);
  const absl::Time deadline = std::min(caller.deadline, absl::Now() + GrammarLane::kTimeLimit);
  absl::MutexLock lock(&mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    ++stats_.hits;
    entries_.splice(entries_.begin(), entries_, found->second);
    auto compilation = std::make_shared<Compilation>();
    compilation->result = entries_.front().grammar;
    return std::unique_ptr<Wait>(new Wait(this, std::move(compilation)));
  }
  std::shared_ptr<Compilation>& running = running_[key];
  if (running == nullptr) {
    running = std::make_shared<Compilation>();
    running->job = std::make_shared<GrammarJob>(key, source, caller.tenant);
    running->job->Extend(deadline);
    if (!lane_.Add(running->job)) {
      running_.erase(key);
      return nullptr;
    }
    ++stats_.compiled;
  } else {
    running->job->Extend(deadline);
    ++stats_.hits;
  }
  ++running->num_waits;
  running->on_done.push_back(caller.on_done);
  return std::unique_ptr<Wait>(new Wait(this, running));
}

absl::StatusOr<Grammar> GrammarCache::Get(const text::GrammarSource& source) {
  auto done = std::make_shared<absl::Notification>();
  const std::unique_ptr<Wait> wait = Find(source, {.on_done = [done] { done->Notify(); }});
  if (wait == nullptr) return absl::ResourceExhaustedError("too many grammars wait to be compiled");
  if (const auto result = wait->result()) return *result;
  done->WaitForNotification();
  return *wait->result();
}

void GrammarCache::OnCompiled(const std::shared_ptr<GrammarJob>& job, absl::StatusOr<Grammar> grammar) {
  std::list<std::function<void()>> on_done;
  {
    absl::MutexLock lock(&mutex_);
    if (grammar.ok()) Keep(job->key, *grammar);
    const auto running = running_.find(job->key);
    if (running == running_.end() || running->second->job != job) return;  // everybody has left
    running->second->result = std::move(grammar);
    on_done.swap(running->second->on_done);
    running_.erase(running);
  }
  for (const std::function<void()>& call : on_done) {
    if (call != nullptr) call();
  }
}

void GrammarCache::Leave(const std::shared_ptr<Compilation>& compilation) {
  absl::MutexLock lock(&mutex_);
  if (compilation->result.has_value() || --compilation->num_waits > 0) return;
  running_.erase(compilation->job->key);
  if (!lane_.Remove(compilation->job)) compilation->job->Cancel();
}

GrammarCache::Wait::~Wait() {
  cache_->Leave(compilation_);
}

std::optional<absl::StatusOr<Grammar>> GrammarCache::Wait::result() const {
  absl::MutexLock lock(&cache_->mutex_);
  return compilation_->result;
}

void GrammarCache::Keep(const std::string& key, const Grammar& grammar) {
  const size_t bytes = grammar.bytes + 2 * key.size();
  if (bytes > max_bytes_ || by_key_.contains(key)) return;
  entries_.push_front({key, grammar, bytes});
  by_key_[key] = entries_.begin();
  stats_.bytes += bytes;
  while (entries_.size() > kMaxEntries || stats_.bytes > max_bytes_) {
    stats_.bytes -= entries_.back().bytes;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

GrammarCache::Stats GrammarCache::stats() const {
  absl::MutexLock lock(&mutex_);
  Stats stats = stats_;
  stats.entries = entries_.size();
  return stats;
}

}  // namespace dunlin::server
