// SPDX-License-Identifier: Apache-2.0
// Submits requests to an engine and waits for what comes back. Sinks reserve their memory at submission, so that the
// engine's callbacks allocate nothing.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/loop/engine.h"
#include "engine/model/model.h"
#include "engine/request/types.h"
#include "engine/runtime/model_runtime.h"

namespace dunlin::engine {

struct Response {
  std::vector<TokenOutput> tokens;
  std::vector<std::pair<int32_t, TokenOutput>> prompt;  // (position, score)
  FinishInfo finish;
};

std::vector<TokenId> TokenIds(const Response& response);
// Same finish reason, token ids and the bits of every log probability. On difference *why says the first.
bool SameBits(const Response& a, const Response& b, std::string* why);

class RecordingSink : public OutputSink {
 public:
  explicit RecordingSink(const Request& request);
  bool OnToken(const TokenOutput& token) override;
  void OnPromptToken(int32_t position, const TokenOutput& token) override;
  void OnFinish(const FinishInfo& info) override;
  // Blocks until OnFinish.
  const Response& Wait();

 private:
  std::mutex mutex_;  // guards finished_; the rest is written before it is set
  std::condition_variable changed_;
  bool finished_ = false;
  Response response_;
};

// An engine over a model's runtime. Dies when either refuses.
class EngineClient {
 public:
  // drafter: as Engine's.
  EngineClient(const Model* model, const EngineOptions& options, std::unique_ptr<BatchDrafter> drafter = nullptr);
  // With a drafter that works in the runtime.
  EngineClient(const Model* model, const EngineOptions& options,
               const std::function<std::unique_ptr<BatchDrafter>(ModelRuntime*, const Model&)>& make_drafter);
  std::shared_ptr<RecordingSink> Submit(const Request& request);
  Response Run(const Request& request) { return Submit(request)->Wait(); }
  Engine& engine() { return *engine_; }

 private:
  std::unique_ptr<Engine> engine_;
};

}  // namespace dunlin::engine
