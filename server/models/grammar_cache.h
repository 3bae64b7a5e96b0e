// SPDX-License-Identifier: Apache-2.0
// The compiled grammars of one served model, and its grammar compiler, which is made when the first request needs it: a
// model without structured output pays nothing. The least recently used grammars leave first.
// Thread rule: any thread that may block for the seconds that compiling takes: a text pool thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "engine/text/grammar.h"

namespace dunlin::server {

class GrammarCache {
 public:
  using Constraint = std::shared_ptr<const engine::TokenConstraint>;

  // Bounds of what is kept; a grammar in use lives on without the cache.
  static constexpr size_t kMaxEntries = 256;
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  // tokenizer outlives this object. vocab_size: width of the model's logits.
  GrammarCache(const engine::Tokenizer& tokenizer, std::vector<engine::TokenId> eos_token_ids, int32_t vocab_size)
      : tokenizer_(tokenizer), eos_token_ids_(std::move(eos_token_ids)), vocab_size_(vocab_size) {}

  // Requests for a grammar that is being compiled wait for it. Errors: as GrammarCompiler::Create and ::Compile; they
  // are not kept.
  absl::StatusOr<Constraint> Get(const engine::GrammarSource& source);

  struct Stats {
    int64_t hits = 0;      // found, or waited for
    int64_t compiled = 0;  // also in vain
    size_t entries = 0;
    size_t bytes = 0;
  };
  Stats stats() const;

 private:
  struct Compilation {
    absl::Notification done;
    absl::StatusOr<Constraint> result = absl::InternalError("not compiled");  // read after done
  };
  struct Entry {
    std::string key;
    Constraint constraint;
    size_t bytes = 0;
  };

  absl::StatusOr<const engine::GrammarCompiler*> Compiler();
  void Keep(const std::string& key, Constraint constraint, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const engine::Tokenizer& tokenizer_;
  const std::vector<engine::TokenId> eos_token_ids_;
  const int32_t vocab_size_;
  absl::Mutex compiler_mutex_;  // guards the making of the compiler, which takes long
  std::unique_ptr<engine::GrammarCompiler> compiler_ ABSL_GUARDED_BY(compiler_mutex_);
  mutable absl::Mutex mutex_;                         // guards what follows
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // the most recently used first
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::shared_ptr<Compilation>> running_ ABSL_GUARDED_BY(mutex_);
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
