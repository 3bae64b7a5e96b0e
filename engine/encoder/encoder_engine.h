// SPDX-License-Identifier: Apache-2.0
// The engine of one encoder: a bounded mailbox, and one thread that makes batches of its calls and runs them.
// Thread rule: all public functions may be called from any thread; none blocks on a batch.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/encoder/encode_call.h"
#include "engine/encoder/encoder_runtime.h"
#include "engine/encoder/validate_encode.h"
#include "engine/model/spec/model_config.h"
#include "engine/request/model_engine.h"
#include "engine/request/options.h"
#include "engine/request/types.h"

namespace dunlin::engine {

class EncoderEngine final : public ModelEngine {
 public:
  // Of the options: max_tokens_per_step bounds a batch (with room for one input of full length), max_sequences its
  // inputs, max_queued_requests and max_queued_tokens the calls that have not ended. clock: called on the engine thread
  // around each batch. observer may be null and outlives the engine. Starts the engine thread.
  EncoderEngine(const EngineOptions& options, const ModelConfig& config, std::unique_ptr<EncoderRuntime> runtime,
                Clock clock, StepObserver* observer);
  // Stop(now) if still running.
  ~EncoderEngine() override;
  EncoderEngine(const EncoderEngine&) = delete;
  EncoderEngine& operator=(const EncoderEngine&) = delete;

  const EncodeLimits& limits() const;
  // Checks token ids, lengths and dimensions against this model; INVALID_ARGUMENT names field, value and limit. Pure.
  absl::Status Validate(const EncodeRequest& request) const;

  // Queues a validated call whose vectors have their size. RESOURCE_EXHAUSTED when the queue is full, UNAVAILABLE when
  // draining, INTERNAL when the device failed; the sink is then never called. Otherwise its OnFinish is called exactly
  // once; the engine may hold the sink until a later Submit or until it goes idle.
  absl::StatusOr<RequestId> Submit(std::unique_ptr<EncodeCall> call, std::shared_ptr<EncodeSink> sink);

  // Ends a call with `reason` after the current batch. Unknown and finished ids are ignored.
  void Cancel(RequestId id, FinishReason reason);

  void StartDraining() override;
  void Stop() override;
  // steps counts batches, prompt_tokens computed tokens; there are no pages and no generated tokens.
  EngineStats stats() const override;
  int32_t max_context_tokens() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::engine
