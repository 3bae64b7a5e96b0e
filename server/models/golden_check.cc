// SPDX-License-Identifier: Apache-2.0
#include "server/models/golden_check.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/string_view.h"
#include "engine/request/types.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kStopPeriod = absl::Milliseconds(50);
constexpr size_t kMoreTokens = 8;       // than the expected text has, since a model may divide it otherwise
constexpr size_t kMaxShownBytes = 256;  // of a text in a message

class TokenCollector final : public engine::OutputSink {
 public:
  bool OnToken(const engine::TokenOutput& token) override {
    absl::MutexLock lock(&mutex_);
    tokens_.push_back(token.token_id);
    return true;
  }
  void OnPromptToken(int32_t /*position*/, const engine::TokenOutput& /*token*/) override {}
  void OnFinish(const engine::FinishInfo& info) override {
    absl::MutexLock lock(&mutex_);
    reason_ = info.reason;
    finished_ = true;
  }
  // Whether it has finished by the end of a period.
  bool AwaitPeriod() {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&finished_), kStopPeriod);
  }
  engine::FinishReason reason() const {
    absl::MutexLock lock(&mutex_);
    return reason_;
  }
  std::vector<engine::TokenId> tokens() const {
    absl::MutexLock lock(&mutex_);
    return tokens_;
  }

 private:
  mutable absl::Mutex mutex_;  // guards what follows
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  engine::FinishReason reason_ ABSL_GUARDED_BY(mutex_) = engine::FinishReason::kStop;
  std::vector<engine::TokenId> tokens_ ABSL_GUARDED_BY(mutex_);
};

std::string Shown(std::string_view text) {
  return absl::StrCat("\"", engine::AbslView(text.substr(0, kMaxShownBytes)),
                      text.size() > kMaxShownBytes ? "...\"" : "\"");
}

absl::StatusOr<engine::Request> RequestOf(const GoldenPrompt& golden, const ServedModel& model) {
  if (model.engine == nullptr || model.tokenizer == nullptr) {
    return absl::FailedPreconditionError("models[].golden needs a model that takes text and generates it");
  }
  engine::Request request;
  auto prompt = model.tokenizer->Encode(golden.prompt);
  if (!prompt.ok()) return prompt.status();
  request.prompt = *std::move(prompt);
  const auto output = model.tokenizer->Encode(golden.output, {.add_special_tokens = false});
  if (!output.ok()) return output.status();
  const size_t context = static_cast<size_t>(model.engine->max_context_tokens());
  const size_t room = context - std::min(context, request.prompt.size());
  request.stopping.max_tokens = static_cast<int32_t>(std::max<size_t>(1, std::min(room, output->size() + kMoreTokens)));
  request.sampling.temperature = 0;
  const absl::StatusOr<engine::ExecutionProfile> profile = model.profiles->Resolve({});
  if (!profile.ok()) return profile.status();
  request.profile = *profile;
  if (absl::Status status = model.engine->Validate(request); !status.ok()) return status;
  return request;
}

}  // namespace

absl::Status CheckGolden(const GoldenPrompt& golden, const ServedModel& model, const std::atomic<bool>& stop) {
  if (golden.prompt.empty()) return absl::OkStatus();
  absl::StatusOr<engine::Request> request = RequestOf(golden, model);
  if (!request.ok()) return request.status();
  const auto sink = std::make_shared<TokenCollector>();
  const absl::StatusOr<engine::RequestId> id = model.engine->Submit(*std::move(request), sink);
  if (!id.ok()) return id.status();
  while (!sink->AwaitPeriod()) {
    if (stop) model.engine->Cancel(*id, engine::FinishReason::kCancelled);
  }
  if (stop) return absl::CancelledError("loading was stopped");
  const engine::FinishReason reason = sink->reason();
  if (reason != engine::FinishReason::kStop && reason != engine::FinishReason::kLength) {
    return absl::FailedPreconditionError("models[].golden.prompt: the model gave no output");
  }
  const absl::StatusOr<std::string> text = model.tokenizer->Decode(sink->tokens());
  if (!text.ok()) return text.status();
  const absl::string_view said = absl::StripLeadingAsciiWhitespace(*text);
  const absl::string_view expected = absl::StripLeadingAsciiWhitespace(golden.output);
  if (said.substr(0, expected.size()) == expected) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("models[].golden.prompt is continued by ",
                                                    Shown(engine::StdView(said)), "; models[].golden.output is ",
                                                    Shown(engine::StdView(expected))));
}

}  // namespace dunlin::server
