#include "server/grpc/generate_outputs.h"

#include <algorithm>
#include <utility>

#include "server/convert/finish.h"

namespace dunlin::server {
namespace {

constexpr int64_t kMaxTokensPerMessage = 1024;

// How many tokens fit a message: 64 bytes each for id, log-probability and text, 20 for each of the most likely ones.
int32_t MaxTokensPerMessage(const engine::SamplingParams& sampling, const Limits& limits) {
  const int64_t num_top = std::max({sampling.logprobs, sampling.prompt_logprobs, 0});
  return static_cast<int32_t>(
      std::clamp(limits.max_message_bytes / (64 + 20 * num_top), int64_t{1}, kMaxTokensPerMessage));
}

OutputQueue::Sizes QueueSizes(const engine::Request& request, size_t index, const Limits& limits) {
  const engine::SamplingParams& sampling = request.sampling;
  OutputQueue::Sizes sizes;
  // A ring larger than the output could ever be would be wasted.
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

GenerateOutputs::GenerateOutputs(const GeneratePlan& plan, const Edge& edge, TextTask* stream,
                                 SubmittedRequests* requests)
    : model_name_(plan.model->name),
      observer_(edge.observer),
      requests_(requests),
      max_tokens_per_message_(MaxTokensPerMessage(plan.request.engine.sampling, edge.limits)) {
  for (size_t i = 0; i < static_cast<size_t>(plan.request.num_outputs); ++i) {
    const OutputQueue::Sizes sizes = QueueSizes(plan.request.engine, i, edge.limits);
    outputs_.push_back(std::make_unique<Output>(sizes, *plan.model->engine, edge, stream));
  }
}

size_t GenerateOutputs::QueueBytes(const GeneratePlan& plan, const Limits& limits) {
  size_t bytes = 0;
  for (size_t i = 0; i < static_cast<size_t>(plan.request.num_outputs); ++i) {
    const OutputQueue::Sizes sizes = QueueSizes(plan.request.engine, i, limits);
    bytes += TokenRing::Bytes(sizes.max_unsent_tokens, sizes.num_top);
    bytes += TokenRing::Bytes(sizes.prompt_scores, sizes.prompt_num_top);
  }
  return bytes;
}

absl::Status GenerateOutputs::SetUpTexts(const OutputText::Options& options) {
  for (const auto& output : outputs_) {
    absl::StatusOr<OutputText> text = OutputText::Create(options);
    if (!text.ok()) return text.status();
    output->text = *std::move(text);
  }
  return absl::OkStatus();
}

absl::StatusOr<GenerateOutputs::Next> GenerateOutputs::Fill(v1::GenerateResponse* response) {
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const size_t index = (turn_ + k) % outputs_.size();
    const absl::StatusOr<bool> filled = FillFrom(index, response);
    if (!filled.ok()) return filled.status();
    if (!*filled) continue;
    response->set_index(static_cast<int32_t>(index));
    turn_ = index + 1;
    return num_closed_ == outputs_.size() ? Next::kLastMessage : Next::kMessage;
  }
  return Next::kNothing;
}

absl::StatusOr<bool> GenerateOutputs::FillFrom(size_t index, v1::GenerateResponse* response) {
  Output& output = *outputs_[index];
  if (output.closed) return false;
  const engine::FinishInfo* finish = output.queue.finish();  // before the rings are drained
  if (output.queue.prompt_scores().Front() != nullptr) {
    FillPromptScores(&output, response);
    return true;
  }
  if (absl::Status s = FillTokens(index, response); !s.ok()) return s;
  if (finish == nullptr || output.queue.tokens().Front() != nullptr) {
    return response->token_ids_size() > 0 || !response->text_delta().empty();
  }
  if (absl::Status s = FillFinish(*finish, &output, response); !s.ok()) return s;
  output.closed = true;
  ++num_closed_;
  return true;
}

void GenerateOutputs::FillPromptScores(Output* output, v1::GenerateResponse* response) const {
  TokenRing& scores = output->queue.prompt_scores();
  for (int32_t i = 0; i < max_tokens_per_message_; ++i) {
    const TokenRing::Token* token = scores.Front();
    if (token == nullptr) return;
    LogprobToWire(*token, scores.FrontTop(), response->add_prompt_logprobs());
    scores.PopFront();
  }
}

absl::Status GenerateOutputs::FillTokens(size_t index, v1::GenerateResponse* response) {
  Output& output = *outputs_[index];
  TokenRing& tokens = output.queue.tokens();
  while (const TokenRing::Token* token = tokens.Front()) {
    if (!output.text.stopped()) {
      if (response->token_ids_size() >= max_tokens_per_message_) return absl::OkStatus();
      ObserveInterval(&output, token->time);
      if (absl::Status s = output.text.Add(*token, tokens.FrontTop(), response); !s.ok()) return s;
      if (output.text.stopped()) requests_->Cancel(index, engine::FinishReason::kStop);
    }
    tokens.PopFront();
  }
  return absl::OkStatus();
}

absl::Status GenerateOutputs::FillFinish(const engine::FinishInfo& info, Output* output,
                                         v1::GenerateResponse* response) const {
  if (absl::Status s = output->text.Finish(response); !s.ok()) return s;
  const int32_t sent = output->text.num_tokens();
  *response->mutable_finish() =
      output->text.stopped() ? FinishOfStopString(info, sent, output->text.matched_stop()) : FinishToWire(info, sent);
  return absl::OkStatus();
}

void GenerateOutputs::ObserveInterval(Output* output, engine::TimeNs now) const {
  if (output->last_token != 0 && observer_ != nullptr)
    observer_->OnTokenInterval(model_name_, now - output->last_token);
  output->last_token = now;
}

bool GenerateOutputs::empty() const {
  return std::all_of(outputs_.begin(), outputs_.end(), [](const auto& output) {
    OutputQueue& queue = output->queue;
    return queue.finish() == nullptr && queue.tokens().Front() == nullptr && queue.prompt_scores().Front() == nullptr;
  });
}

std::optional<engine::FinishReason> GenerateOutputs::failure() const {
  for (const auto& output : outputs_) {
    const engine::FinishInfo* info = output->queue.finish();
    if (info == nullptr || output->text.stopped()) continue;
    if (!StatusOf(info->reason).ok()) return info->reason;
  }
  return std::nullopt;
}

bool GenerateOutputs::all_finished() const {
  for (size_t i = 0; i < num_submitted_; ++i) {
    if (outputs_[i]->queue.finish() == nullptr) return false;
  }
  return true;
}

void GenerateOutputs::FillRecord(RequestRecord* record) const {
  for (size_t i = 0; i < num_submitted_; ++i) {
    const Output& output = *outputs_[i];
    const engine::FinishInfo& info = *output.queue.finish();
    record->completion_tokens += output.text.num_tokens();
    record->preemptions += info.preemptions;
    record->finished = std::max(record->finished, info.finished);
    if (i != 0) continue;
    if (record->finish_reason.empty()) {
      record->finish_reason = output.text.stopped() ? "stop" : FinishReasonName(info.reason);
    }
    record->prompt_tokens = info.prompt_tokens;
    record->cached_tokens = info.cached_tokens;
    record->first_scheduled = info.first_scheduled;
    record->first_token = info.first_token;
  }
}

}  // namespace dunlin::server
