// SPDX-License-Identifier: Apache-2.0
#include "server/serving/generation/generation_outputs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

constexpr int64_t kMaxTokensPerChunk = 1024;
constexpr engine::TimeNs kTimeNsPerMs = 1'000'000;

// How many tokens fit into a message: 96 bytes per token for id, log-probability, rank, text and bytes, and 56 per
// alternative.
int32_t MaxTokensPerChunk(const engine::SamplingParams& sampling, const Limits& limits) {
  const int64_t num_top = std::max({sampling.logprobs, sampling.prompt_logprobs, 0});
  return static_cast<int32_t>(
      std::clamp(limits.max_message_bytes / (96 + 56 * num_top), int64_t{1}, kMaxTokensPerChunk));
}

// no_output: the only token was drawn because the engine draws one, and is nobody's.
OutputFinish FinishOf(const engine::FinishInfo& info, const OutputText& text, bool no_output) {
  OutputFinish finish;
  finish.usage = {info.prompt_tokens, info.cached_tokens, text.num_tokens(), info.drafted_tokens, info.accepted_tokens};
  finish.timings = {MillisecondsBetween(info.arrival, info.first_scheduled),
                    MillisecondsBetween(info.arrival, info.first_token),
                    MillisecondsBetween(info.arrival, info.finished)};
  finish.has_tool_calls = text.has_tool_calls();
  if (text.stopped()) {
    if (const std::string* stop = text.matched_stop()) finish.stop_string = *stop;
  } else {
    finish.reason = no_output ? engine::FinishReason::kLength : info.reason;
    if (!no_output) finish.stop_token_id = info.stop_token_id;
  }
  return finish;
}

OutputQueue::Sizes QueueSizes(const engine::Request& request, size_t index, const Limits& limits) {
  const engine::SamplingParams& sampling = request.sampling;
  OutputQueue::Sizes sizes;
  // The output never has more tokens than max_tokens.
  sizes.max_unsent_tokens = static_cast<size_t>(std::min(limits.max_unsent_tokens, request.stopping.max_tokens));
  sizes.max_tokens = request.stopping.max_tokens;
  sizes.num_top = std::max(sampling.logprobs, 0);
  if (sampling.prompt_logprobs >= 0 && index == 0) {
    sizes.prompt_scores = request.prompt.size() - 1;
    sizes.prompt_num_top = sampling.prompt_logprobs;
  }
  return sizes;
}

}  // namespace

GenerationOutputs::GenerationOutputs(const GenerationPlan& plan, ServingCore* core, TextTask* generation,
                                     SubmittedRequests* requests, const std::atomic<bool>* writing)
    : model_name_(plan.model->name),
      profile_(plan.request.profile),
      observer_(core->observer()),
      requests_(requests),
      max_tokens_per_chunk_(MaxTokensPerChunk(plan.request.sampling, core->limits())),
      max_echo_bytes_per_chunk_(static_cast<size_t>(std::max<int64_t>(core->limits().max_message_bytes / 2, 4))),
      token_bytes_(plan.model->tokenizer.get()),
      no_output_(plan.no_output) {
  const OutputQueue::Links links = {plan.model->engine.get(),
                                    core->text_pool(),
                                    generation,
                                    writing,
                                    core->overload(),
                                    core->limits().busy_message_interval_ms * kTimeNsPerMs,
                                    core->clock()};
  for (size_t i = 0; i < static_cast<size_t>(plan.num_outputs); ++i) {
    outputs_.push_back(std::make_unique<Output>(QueueSizes(plan.request, i, core->limits()), links));
  }
}

namespace {

// A bound on the prompt's text that each output keeps for an echo.
size_t EchoBytes(const GenerationPlan& plan) {
  if (!plan.output_text.echo) return 0;
  const size_t most = plan.output_text.tokenizer->max_bytes_per_token();
  return most == 0 ? text::kMaxTextBytes : plan.request.prompt.size() * most;
}

}  // namespace

size_t GenerationOutputs::QueueBytes(const GenerationPlan& plan, const Limits& limits) {
  size_t bytes = static_cast<size_t>(plan.num_outputs) * EchoBytes(plan);
  for (size_t i = 0; i < static_cast<size_t>(plan.num_outputs); ++i) {
    const OutputQueue::Sizes sizes = QueueSizes(plan.request, i, limits);
    bytes += TokenRing::Bytes(sizes.max_unsent_tokens, sizes.num_top);
    bytes += TokenRing::Bytes(sizes.prompt_scores, sizes.prompt_num_top);
  }
  return bytes;
}

std::shared_ptr<const engine::TokenConstraint> GenerationOutputs::Constrain(
    size_t index, std::shared_ptr<const engine::TokenConstraint> constraint) {
  outputs_[index]->constraint = std::make_shared<const ConstraintErrors>(std::move(constraint));
  return outputs_[index]->constraint;
}

absl::Status GenerationOutputs::SetUpTexts(const OutputText::Options& options) {
  for (const auto& output : outputs_) {
    absl::StatusOr<OutputText> text = OutputText::Create(options);
    if (!text.ok()) return text.status();
    output->text = *std::move(text);
  }
  return absl::OkStatus();
}

absl::StatusOr<GenerationOutputs::Next> GenerationOutputs::Fill(OutputChunk* chunk) {
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const size_t index = (turn_ + k) % outputs_.size();
    const absl::StatusOr<bool> filled = FillFrom(index, chunk);
    if (!filled.ok()) return filled.status();
    if (!*filled) continue;
    chunk->index = static_cast<int32_t>(index);
    turn_ = index + 1;
    return num_closed_ == outputs_.size() ? Next::kLastChunk : Next::kChunk;
  }
  return Next::kNothing;
}

absl::StatusOr<bool> GenerationOutputs::FillFrom(size_t index, OutputChunk* chunk) {
  Output& output = *outputs_[index];
  if (output.closed) return false;
  const engine::FinishInfo* finish = output.queue.finish();  // must be read before the rings are drained
  if (output.queue.prompt_scores().Front() != nullptr) {
    FillPromptScores(&output, chunk);
    return true;
  }
  if (absl::Status s = FillTokens(index, chunk); !s.ok()) return s;
  if (finish == nullptr || output.text.has_echo() || output.queue.tokens().Front() != nullptr) {
    return !chunk->token_ids.empty() || !chunk->text.empty();
  }
  if (absl::Status s = FillFinish(*finish, &output, chunk); !s.ok()) return s;
  output.closed = true;
  ++num_closed_;
  return true;
}

void GenerationOutputs::FillPromptScores(Output* output, OutputChunk* chunk) const {
  TokenRing& scores = output->queue.prompt_scores();
  for (int32_t i = 0; i < max_tokens_per_chunk_; ++i) {
    const TokenRing::Token* token = scores.Front();
    if (token == nullptr) return;
    chunk->prompt_logprobs.Add(*token, scores.FrontTop(), token_bytes_);
    scores.PopFront();
  }
}

absl::Status GenerationOutputs::FillTokens(size_t index, OutputChunk* chunk) {
  Output& output = *outputs_[index];
  if (output.text.TakeEcho(max_echo_bytes_per_chunk_, chunk)) return absl::OkStatus();
  TokenRing& tokens = output.queue.tokens();
  while (const TokenRing::Token* token = tokens.Front()) {
    if (!no_output_ && !output.text.stopped()) {
      if (std::ssize(chunk->token_ids) >= max_tokens_per_chunk_) return absl::OkStatus();
      ObserveInterval(&output, token->time);
      if (absl::Status s = output.text.Add(*token, tokens.FrontTop(), chunk); !s.ok()) return s;
      if (output.text.stopped()) requests_->Cancel(index, engine::FinishReason::kStop);
    }
    tokens.PopFront();
  }
  return absl::OkStatus();
}

absl::Status GenerationOutputs::FillFinish(const engine::FinishInfo& info, Output* output, OutputChunk* chunk) const {
  if (absl::Status s = output->text.Finish(chunk); !s.ok()) return s;
  chunk->finish = FinishOf(info, output->text, no_output_);
  if (chunk->finish->reason == engine::FinishReason::kConstraint && output->constraint != nullptr) {
    chunk->finish->constraint_error = output->constraint->error();
  }
  return absl::OkStatus();
}

void GenerationOutputs::ObserveInterval(Output* output, engine::TimeNs now) const {
  if (output->last_token != 0 && observer_ != nullptr)
    observer_->OnTokenInterval(model_name_, profile_, now - output->last_token);
  output->last_token = now;
}

bool GenerationOutputs::empty() const {
  return std::all_of(outputs_.begin(), outputs_.end(), [](const auto& output) {
    OutputQueue& queue = output->queue;
    return queue.finish() == nullptr && queue.tokens().Front() == nullptr && queue.prompt_scores().Front() == nullptr;
  });
}

std::optional<engine::FinishReason> GenerationOutputs::failure() const {
  for (const auto& output : outputs_) {
    const engine::FinishInfo* info = output->queue.finish();
    if (info == nullptr || output->text.stopped()) continue;
    if (!EndsWell(info->reason)) return info->reason;
  }
  return std::nullopt;
}

bool GenerationOutputs::dropped_for(engine::TimeNs deadline) const {
  return std::any_of(outputs_.begin(), outputs_.end(), [deadline](const auto& output) {
    const engine::FinishInfo* info = output->queue.finish();
    return info != nullptr && info->reason == engine::FinishReason::kDeadline && info->first_scheduled == 0 &&
           info->finished < deadline;
  });
}

bool GenerationOutputs::delivery_behind() const {
  return std::any_of(outputs_.begin(), outputs_.end(),
                     [](const auto& output) { return output->queue.delivery_behind(); });
}

bool GenerationOutputs::all_finished() const {
  for (size_t i = 0; i < num_submitted_; ++i) {
    if (outputs_[i]->queue.finish() == nullptr) return false;
  }
  return true;
}

void GenerationOutputs::FillRecord(RequestRecord* record) const {
  for (size_t i = 0; i < num_submitted_; ++i) {
    const Output& output = *outputs_[i];
    const engine::FinishInfo& info = *output.queue.finish();
    record->completion_tokens += output.text.num_tokens();
    record->preemptions += info.preemptions;
    record->finished = std::max(record->finished, info.finished);
    if (i != 0) continue;
    if (record->finish_reason.empty()) {
      const bool cut = no_output_ && EndsWell(info.reason);
      const engine::FinishReason reason = cut ? engine::FinishReason::kLength : info.reason;
      record->finish_reason = output.text.stopped() ? "stop" : FinishReasonName(reason);
    }
    record->prompt_tokens = info.prompt_tokens;
    record->cached_tokens = info.cached_tokens;
    record->first_scheduled = info.first_scheduled;
    record->first_token = info.first_token;
  }
}

}  // namespace dunlin::server
