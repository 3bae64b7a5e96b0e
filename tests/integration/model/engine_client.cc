// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/model/engine_client.h"

#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

TimeNs SteadyClock() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

void DieUnlessOk(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

// "" when equal.
std::string Difference(const TokenOutput& a, const TokenOutput& b) {
  if (a.token_id != b.token_id) return absl::StrCat("token ", a.token_id, " and ", b.token_id);
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  if (bits(a.logprob) != bits(b.logprob)) return absl::StrCat("logprob ", a.logprob, " and ", b.logprob);
  if (a.rank != b.rank) return absl::StrCat("rank ", a.rank, " and ", b.rank);
  if (a.num_top != b.num_top) return "number of top tokens";
  for (size_t i = 0; i < static_cast<size_t>(a.num_top); ++i) {
    if (a.top[i].token_id != b.top[i].token_id || bits(a.top[i].logprob) != bits(b.top[i].logprob)) {
      return absl::StrCat("top token ", i);
    }
  }
  return "";
}

}  // namespace

std::vector<TokenId> TokenIds(const Response& response) {
  std::vector<TokenId> ids;
  for (const TokenOutput& token : response.tokens) ids.push_back(token.token_id);
  return ids;
}

bool SameBits(const Response& a, const Response& b, std::string* why) {
  why->clear();
  for (size_t i = 0; i < std::min(a.tokens.size(), b.tokens.size()) && why->empty(); ++i) {
    *why = Difference(a.tokens[i], b.tokens[i]);
    if (!why->empty()) *why = absl::StrCat("output token ", i, ": ", *why);
  }
  for (size_t i = 0; i < std::min(a.prompt.size(), b.prompt.size()) && why->empty(); ++i) {
    *why = a.prompt[i].first != b.prompt[i].first ? "position" : Difference(a.prompt[i].second, b.prompt[i].second);
    if (!why->empty()) *why = absl::StrCat("prompt score ", i, ": ", *why);
  }
  if (!why->empty()) return false;
  if (a.tokens.size() != b.tokens.size()) *why = "number of tokens";
  if (a.prompt.size() != b.prompt.size()) *why = "number of prompt scores";
  if (a.finish.reason != b.finish.reason) *why = "finish reason";
  return why->empty();
}

RecordingSink::RecordingSink(const Request& request) {
  response_.tokens.reserve(static_cast<size_t>(request.stopping.max_tokens));
  response_.prompt.reserve(request.sampling.prompt_logprobs >= 0 ? request.prompt.size() : 0);
}

bool RecordingSink::OnToken(const TokenOutput& token) {
  response_.tokens.push_back(token);
  return true;
}

void RecordingSink::OnPromptToken(int32_t position, const TokenOutput& token) {
  response_.prompt.emplace_back(position, token);
}

void RecordingSink::OnFinish(const FinishInfo& info) {
  response_.finish = info;
  const std::lock_guard<std::mutex> lock(mutex_);
  finished_ = true;
  changed_.notify_all();
}

const Response& RecordingSink::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return finished_; });
  return response_;
}

EngineClient::EngineClient(const Model* model, const EngineOptions& options, std::unique_ptr<BatchDrafter> drafter)
    : EngineClient(model, options, [&drafter](ModelRuntime*, const Model&) { return std::move(drafter); }) {}

EngineClient::EngineClient(
    const Model* model, const EngineOptions& options,
    const std::function<std::unique_ptr<BatchDrafter>(ModelRuntime*, const Model&)>& make_drafter) {
  absl::StatusOr<std::unique_ptr<ModelRuntime>> runtime = ModelRuntime::Create(model, options);
  DieUnlessOk(runtime.status());
  std::unique_ptr<BatchDrafter> drafter = make_drafter(runtime->get(), *model);
  engine_ = std::make_unique<Engine>(options, model->config(), *std::move(runtime), &SteadyClock, nullptr,
                                     std::move(drafter));
}

std::shared_ptr<RecordingSink> EngineClient::Submit(const Request& request) {
  DieUnlessOk(engine_->Validate(request));
  auto sink = std::make_shared<RecordingSink>(request);
  DieUnlessOk(engine_->Submit(request, sink).status());
  return sink;
}

}  // namespace dunlin::engine
