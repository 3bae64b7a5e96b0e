// The n outputs of one Generate call: what the engine has delivered of each, and the messages made of it.
// Thread rule: the text pool, one thread at a time; the queues' sink side is the engine's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dunlin/v1/generation.pb.h"
#include "server/grpc/edge.h"
#include "server/grpc/generate_plan.h"
#include "server/grpc/output_queue.h"
#include "server/grpc/output_text.h"
#include "server/grpc/submitted_requests.h"
#include "server/request_record.h"

namespace dunlin::server {

class GenerateOutputs {
 public:
  enum class Next : uint8_t { kNothing, kMessage, kLastMessage };

  // Takes all memory the queues need. stream and requests own or outlive this.
  GenerateOutputs(const GeneratePlan& plan, const Edge& edge, TextTask* stream, SubmittedRequests* requests);
  // How much that is.
  static size_t QueueBytes(const GeneratePlan& plan, const Limits& limits);
  // After Submit, because the engine need not wait for it; before anything below but all_finished and FillRecord.
  // Errors: the tokenizer's.
  absl::Status SetUpTexts(const OutputText::Options& options);

  size_t size() const { return outputs_.size(); }
  OutputQueue* queue(size_t index) { return &outputs_[index]->queue; }
  // The engine has taken the next one, in order; only those are waited for.
  void MarkSubmitted() { ++num_submitted_; }
  size_t num_submitted() const { return num_submitted_; }

  // What the next output, in turn, has to say since its last message: tokens, text, its end. An output whose stop
  // string matches is cancelled in the engine, and what the engine made of it after that is dropped. kLastMessage: with
  // it every output has sent its `finish`. Errors: INTERNAL.
  absl::StatusOr<Next> Fill(v1::GenerateResponse* response);
  // The engine has delivered nothing that is not in a message yet.
  bool empty() const;

  // Why the engine gave up on an output, if on any: that ends the call.
  std::optional<engine::FinishReason> failure() const;
  // The engine is done with every submitted output: no sink call comes any more.
  bool all_finished() const;
  // Counts, times and, unless it is set, the finish reason of output 0. REQUIRES: all_finished().
  void FillRecord(RequestRecord* record) const;

 private:
  struct Output {
    Output(const OutputQueue::Sizes& sizes, const engine::Engine& engine, const Edge& edge, TextTask* stream)
        : queue(sizes, {edge.pressure, edge.limits.busy_message_interval_ms * engine::TimeNs{1'000'000}}, engine,
                edge.text_pool, stream, edge.clock) {}
    OutputQueue queue;
    OutputText text;
    bool closed = false;            // its `finish` is in a message
    engine::TimeNs last_token = 0;  // 0 before the first
  };

  // False when this output has nothing to say yet.
  absl::StatusOr<bool> FillFrom(size_t index, v1::GenerateResponse* response);
  void FillPromptScores(Output* output, v1::GenerateResponse* response) const;
  absl::Status FillTokens(size_t index, v1::GenerateResponse* response);
  absl::Status FillFinish(const engine::FinishInfo& info, Output* output, v1::GenerateResponse* response) const;
  void ObserveInterval(Output* output, engine::TimeNs now) const;

  const std::string model_name_;
  RequestObserver* const observer_;
  SubmittedRequests* const requests_;
  const int32_t max_tokens_per_message_;
  std::vector<std::unique_ptr<Output>> outputs_;  // [n]
  size_t num_submitted_ = 0;
  size_t num_closed_ = 0;
  size_t turn_ = 0;  // whose message is next
};

}  // namespace dunlin::server
