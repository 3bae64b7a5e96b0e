// The OutputSink of one output: rings for its tokens and for the scores of its prompt, and how it ended. Each event
// schedules the stream on the text pool; events that come while it is queued are gathered. Under pressure a token that
// comes soon after one that did waits for later ones: a message costs as much as its tokens' share of a small model.
// The end of the engine's only request is answered on the engine's thread, which has nothing else to do: a sleeping
// thread takes longer to wake.
// Thread rule: the OutputSink functions on the engine thread, the rest on the text pool, one thread at a time.
#pragma once

#include <atomic>

#include "engine/engine.h"
#include "engine/types.h"
#include "server/grpc/token_ring.h"
#include "server/pressure.h"
#include "server/text_pool.h"

namespace dunlin::server {

class OutputQueue final : public engine::OutputSink {
 public:
  struct Sizes {
    size_t max_unsent_tokens = 0;  // a token beyond them ends the sequence as a slow reader's
    int32_t max_tokens = 0;        // of the output: the one with this number ends it
    int32_t num_top = 0;           // of each token
    size_t prompt_scores = 0;      // prompt tokens 1.. when they are scored, else 0
    int32_t prompt_num_top = 0;
  };
  struct Pacing {
    const Pressure* pressure;
    engine::TimeNs busy_interval;  // under pressure, of the tokens that schedule the stream
  };

  // pool and stream outlive the last call of the engine: the engine holds an owner of the stream.
  OutputQueue(const Sizes& sizes, const Pacing& pacing, const engine::Engine& engine, TextPool* pool, TextTask* stream,
              engine::Engine::Clock clock)
      : max_tokens_(sizes.max_tokens),
        max_held_(sizes.max_unsent_tokens / 2),
        pacing_(pacing),
        engine_(engine),
        tokens_(sizes.max_unsent_tokens, sizes.num_top),
        prompt_scores_(sizes.prompt_scores, sizes.prompt_num_top),
        pool_(pool),
        stream_(stream),
        clock_(clock) {}

  [[nodiscard]] bool OnToken(const engine::TokenOutput& token) override {
    const engine::TimeNs now = clock_();
    const bool taken = tokens_.Push(token, now);
    ++num_tokens_;
    if (num_tokens_ == max_tokens_ || Holds(now)) return taken;  // OnFinish comes next; or another token
    num_held_ = 0;
    last_scheduled_ = now;
    pool_->Schedule(stream_);
    return taken;
  }
  void OnPromptToken(int32_t, const engine::TokenOutput& token) override {
    // The ring has room for every position; a score too many would be the engine's mistake and is left out.
    (void)prompt_scores_.Push(token, 0);
    pool_->Schedule(stream_);
  }
  void OnFinish(const engine::FinishInfo& info) override {
    info_ = info;
    finished_.store(true, std::memory_order_release);
    const engine::EngineStats stats = engine_.stats();
    if (stats.running + stats.waiting == 1) return pool_->RunHere(stream_);
    pool_->Schedule(stream_);
  }

  TokenRing& tokens() { return tokens_; }
  TokenRing& prompt_scores() { return prompt_scores_; }
  // Null until the engine has finished with this output. Asked before a ring is drained, it tells whether what the ring
  // then holds is all.
  const engine::FinishInfo* finish() const { return finished_.load(std::memory_order_acquire) ? &info_ : nullptr; }

 private:
  // Never the first token, and never so many that a reader would seem slow.
  bool Holds(engine::TimeNs now) {
    if (num_tokens_ == 1 || now - last_scheduled_ >= pacing_.busy_interval || !pacing_.pressure->high(now))
      return false;
    return ++num_held_ <= max_held_;
  }

  const int32_t max_tokens_;
  const size_t max_held_;
  const Pacing pacing_;
  const engine::Engine& engine_;
  // Engine thread.
  int32_t num_tokens_ = 0;
  size_t num_held_ = 0;  // since last_scheduled_
  engine::TimeNs last_scheduled_ = 0;
  // Both.
  TokenRing tokens_;
  TokenRing prompt_scores_;
  TextPool* const pool_;
  TextTask* const stream_;
  const engine::Engine::Clock clock_;
  engine::FinishInfo info_;  // written once, before finished_
  std::atomic<bool> finished_{false};
};

}  // namespace dunlin::server
