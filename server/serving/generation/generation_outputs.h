// SPDX-License-Identifier: Apache-2.0
// The n outputs of one generation: collects what the engine delivers for each and builds the chunks.
// Thread rule: one thread at a time; the sink side of the queues belongs to the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/generation/constraint_errors.h"
#include "server/serving/generation/generation_plan.h"
#include "server/serving/output/output_chunk.h"
#include "server/serving/output/output_queue.h"
#include "server/serving/output/output_text.h"
#include "server/serving/output/submitted_requests.h"
#include "server/serving/record/request_record.h"

namespace dunlin::server {

class GenerationOutputs {
 public:
  enum class Next : uint8_t { kNothing, kChunk, kLastChunk };

  // Allocates all memory that the queues need. The pointers outlive this; *writing: a write is outstanding.
  GenerationOutputs(const GenerationPlan& plan, ServingCore* core, TextTask* generation, SubmittedRequests* requests,
                    const std::atomic<bool>* writing);
  // The size of that memory.
  static size_t QueueBytes(const GenerationPlan& plan, const Limits& limits);
  // Called after Submit, so that the engine need not wait for it, and before everything below except all_finished and
  // FillRecord. Errors: the tokenizer's.
  absl::Status SetUpTexts(const OutputText::Options& options);

  size_t size() const { return outputs_.size(); }
  OutputQueue* queue(size_t index) { return &outputs_[index]->queue; }
  // What the engine gets instead of `constraint` for this output, so that its finish says which bound was exceeded.
  std::shared_ptr<const engine::TokenConstraint> Constrain(size_t index,
                                                           std::shared_ptr<const engine::TokenConstraint> constraint);
  // The engine has accepted the next output. all_finished waits only for accepted outputs.
  void MarkSubmitted() { ++num_submitted_; }
  size_t num_submitted() const { return num_submitted_; }

  // Fills *chunk with the tokens, text and finish of the next output since its last chunk; the outputs take turns. An
  // output whose stop string matches is cancelled in the engine, and its later tokens are dropped.
  // kLastChunk: with this chunk, every output has sent its finish. Errors: INTERNAL.
  absl::StatusOr<Next> Fill(OutputChunk* chunk);
  // Everything that the engine has delivered is in a chunk.
  bool empty() const;

  // The finish reason of a failed output, if any: it ends the call.
  std::optional<engine::FinishReason> failure() const;
  // The failure is that the engine ended an output before it began and before its deadline, which it would have missed.
  bool dropped_for(engine::TimeNs deadline) const;
  // An output was full while no write was outstanding: tokens waited for the text pool, not for the client.
  bool delivery_behind() const;
  // The engine is done with every submitted output and makes no more sink calls.
  bool all_finished() const;
  // Counts, times and, unless it is set, the finish reason of output 0. REQUIRES: all_finished().
  void FillRecord(RequestRecord* record) const;

 private:
  struct Output {
    Output(const OutputQueue::Sizes& sizes, const OutputQueue::Links& links) : queue(sizes, links) {}
    OutputQueue queue;
    OutputText text;
    std::shared_ptr<const ConstraintErrors> constraint;  // null: without one
    bool closed = false;                                 // its finish is in a chunk
    engine::TimeNs last_token = 0;                       // 0 before the first
  };

  // False if this output has nothing to send yet.
  absl::StatusOr<bool> FillFrom(size_t index, OutputChunk* chunk);
  void FillPromptScores(Output* output, OutputChunk* chunk) const;
  absl::Status FillTokens(size_t index, OutputChunk* chunk);
  absl::Status FillFinish(const engine::FinishInfo& info, Output* output, OutputChunk* chunk) const;
  void ObserveInterval(Output* output, engine::TimeNs now) const;

  const std::string model_name_;
  const engine::ExecutionProfile profile_;
  RequestObserver* const observer_;
  SubmittedRequests* const requests_;
  const int32_t max_tokens_per_chunk_;
  const size_t max_echo_bytes_per_chunk_;
  const text::Tokenizer* const token_bytes_;      // for log-probabilities; may be null
  const bool no_output_;                          // tokens are dropped
  std::vector<std::unique_ptr<Output>> outputs_;  // [n]
  size_t num_submitted_ = 0;
  size_t num_closed_ = 0;
  size_t turn_ = 0;  // the output whose chunk is next
};

}  // namespace dunlin::server
