// SPDX-License-Identifier: Apache-2.0
// The OutputSink of one output: rings for its tokens and for its prompt scores, and its finish. Each event schedules
// the generation on the text pool; events that arrive while it is queued are batched. Two paths exist for speed
// (measured; docs/decisions.md):
// - Under overload, a token that arrives within `overload_interval` of the last scheduled one waits for later ones,
//   because a chunk costs the server some tens of microseconds whatever its size. Together with prebuilt refusals this
//   gave 249 instead of 206 to 228 requests/s at 20 times the knee (server on one Zen 5 core).
// - The end of the engine's only request is written on the engine's thread, which would otherwise go to sleep; waking a
//   text thread takes 43 us (749 to 792 us for a one-token request, against 648 to 649 us).
// Thread rule: the OutputSink functions on the engine thread, the rest on the text pool, one thread at a time.
#pragma once

#include <atomic>

#include "engine/loop/engine.h"
#include "engine/request/types.h"
#include "server/serving/core/overload.h"
#include "server/serving/core/text_pool.h"
#include "server/serving/output/token_ring.h"

namespace dunlin::server {

class OutputQueue final : public engine::OutputSink {
 public:
  struct Sizes {
    size_t max_unsent_tokens = 0;  // one more ends the sequence as a slow reader
    int32_t max_tokens = 0;        // of the output: its last token is the one with this number
    int32_t num_top = 0;           // of each token
    size_t prompt_scores = 0;      // number of scored prompt tokens (1..); 0 if not requested
    int32_t prompt_num_top = 0;
  };
  // All outlive the engine's last call; the engine shares ownership of the generation.
  struct Links {
    const engine::Engine* engine;
    TextPool* pool;
    TextTask* generation;
    const std::atomic<bool>* writing;  // a write of the generation is outstanding
    const Overload* overload;
    engine::TimeNs overload_interval;
    engine::Engine::Clock clock;
  };

  OutputQueue(const Sizes& sizes, const Links& links)
      : max_tokens_(sizes.max_tokens),
        max_held_(sizes.max_unsent_tokens / 2),
        links_(links),
        tokens_(sizes.max_unsent_tokens, sizes.num_top),
        prompt_scores_(sizes.prompt_scores, sizes.prompt_num_top) {}

  [[nodiscard]] bool OnToken(const engine::TokenOutput& token) override {
    const engine::TimeNs now = links_.clock();
    const bool taken = tokens_.Push(token, now);
    if (!taken && !links_.writing->load(std::memory_order_acquire)) behind_ = true;
    ++num_tokens_;
    if (num_tokens_ == max_tokens_ || HoldsBack(now)) return taken;  // OnFinish comes next, or another token
    num_held_ = 0;
    last_scheduled_ = now;
    links_.pool->ScheduleLater(links_.generation);
    return taken;
  }
  void OnPromptToken(int32_t, const engine::TokenOutput& token) override {
    (void)prompt_scores_.Push(token, 0);  // the ring has room for every position
    links_.pool->ScheduleLater(links_.generation);
  }
  void OnStepEnd() override { links_.pool->ScheduleDeferred(); }
  void OnFinish(const engine::FinishInfo& info) override {
    info_ = info;
    finished_.store(true, std::memory_order_release);
    links_.pool->ScheduleDeferred();
    const engine::EngineStats stats = links_.engine->stats();
    if (stats.running + stats.waiting == 1) return links_.pool->RunInline(links_.generation);
    links_.pool->Schedule(links_.generation);
  }

  TokenRing& tokens() { return tokens_; }
  TokenRing& prompt_scores() { return prompt_scores_; }
  // Null until the engine has finished this output. If it is non-null when read before draining a ring, the ring holds
  // everything that will ever be in it.
  const engine::FinishInfo* finish() const { return finished_.load(std::memory_order_acquire) ? &info_ : nullptr; }

  // The queue was full while no write was outstanding. False until finish() is not null.
  bool delivery_behind() const { return finish() != nullptr && behind_; }

 private:
  // Never holds back the first token, nor so many tokens that the client would count as a slow reader.
  bool HoldsBack(engine::TimeNs now) {
    if (num_tokens_ == 1 || now - last_scheduled_ >= links_.overload_interval) return false;
    return links_.overload->recent(now) && ++num_held_ <= max_held_;
  }

  const int32_t max_tokens_;
  const size_t max_held_;
  const Links links_;
  // Engine thread.
  int32_t num_tokens_ = 0;
  size_t num_held_ = 0;  // since last_scheduled_
  bool behind_ = false;  // read by others once finished_ is set
  engine::TimeNs last_scheduled_ = 0;
  // Both threads.
  TokenRing tokens_;
  TokenRing prompt_scores_;
  engine::FinishInfo info_;  // written once, before finished_
  std::atomic<bool> finished_{false};
};

}  // namespace dunlin::server
