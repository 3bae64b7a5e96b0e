// SPDX-License-Identifier: Apache-2.0
#include "server/models/grammar_cache.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::server {
namespace {

// Sizes and counts stand before what they are of, so that only equal sources have equal keys.
void AppendKey(const engine::GrammarSource& source, std::string* key) {
  absl::StrAppend(key, static_cast<int>(source.kind), ":", source.text.size(), ":", source.text, source.choices.size());
  for (const std::string& choice : source.choices) absl::StrAppend(key, ":", choice.size(), ":", choice);
}

std::string KeyOf(const engine::GrammarSource& source) {
  std::string key;
  AppendKey(source, &key);
  for (const engine::GrammarSource& part : source.parts) AppendKey(part, &key);
  return key;
}

}  // namespace

absl::StatusOr<const engine::GrammarCompiler*> GrammarCache::Compiler() {
  absl::MutexLock lock(&compiler_mutex_);
  if (compiler_ == nullptr) {
    auto compiler = engine::GrammarCompiler::Create(tokenizer_, eos_token_ids_, vocab_size_);
    if (!compiler.ok()) return compiler.status();
    compiler_ = *std::move(compiler);
  }
  return compiler_.get();
}

absl::StatusOr<GrammarCache::Constraint> GrammarCache::Get(const engine::GrammarSource& source) {
  const std::string key = KeyOf(source);
  std::shared_ptr<Compilation> compilation;
  bool is_mine = false;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      ++stats_.hits;
      entries_.splice(entries_.begin(), entries_, found->second);
      return entries_.front().constraint;
    }
    std::shared_ptr<Compilation>& running = running_[key];
    is_mine = running == nullptr;
    if (is_mine) running = std::make_shared<Compilation>();
    compilation = running;
    ++(is_mine ? stats_.compiled : stats_.hits);
  }
  if (!is_mine) {
    compilation->done.WaitForNotification();
    return compilation->result;
  }
  size_t bytes = 0;
  const absl::StatusOr<const engine::GrammarCompiler*> compiler = Compiler();
  if (compiler.ok()) {
    compilation->result = (*compiler)->Compile(source, &bytes);
  } else {
    compilation->result = compiler.status();
  }
  {
    absl::MutexLock lock(&mutex_);
    running_.erase(key);
    if (compilation->result.ok()) Keep(key, *compilation->result, bytes + 2 * key.size());
  }
  compilation->done.Notify();
  return compilation->result;
}

void GrammarCache::Keep(const std::string& key, Constraint constraint, size_t bytes) {
  if (bytes > kMaxBytes) return;
  entries_.push_front({key, std::move(constraint), bytes});
  by_key_[key] = entries_.begin();
  stats_.bytes += bytes;
  while (entries_.size() > kMaxEntries || stats_.bytes > kMaxBytes) {
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
