// SPDX-License-Identifier: Apache-2.0
// The output tensors of a generation as one table: those of Triton's vLLM backend and of TensorRT-LLM's ensemble.
// Const data and pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kserve/grpc_service.pb.h"
#include "server/serving/output/output_chunk.h"

namespace dunlin::server::kserve {

// Bits, one per row of OutputRows.
using OutputSet = uint32_t;
inline constexpr OutputSet kTextOutput = 1U << 0;
inline constexpr OutputSet kFinishReason = 1U << 1;
inline constexpr OutputSet kCumulativeLogprob = 1U << 2;
inline constexpr OutputSet kLogprobs = 1U << 3;
inline constexpr OutputSet kNumInputTokens = 1U << 4;
inline constexpr OutputSet kNumOutputTokens = 1U << 5;
inline constexpr OutputSet kCumLogProbs = 1U << 6;
inline constexpr OutputSet kOutputLogProbs = 1U << 7;
inline constexpr OutputSet kSequenceIndex = 1U << 8;
// Those for which the request's tokens must be scored.
inline constexpr OutputSet kScoredOutputs = kCumulativeLogprob | kLogprobs | kCumLogProbs | kOutputLogProbs;

// One completion of the prompt, or what a streamed response tells of it.
struct OutputPart {
  int32_t index = 0;
  std::string text;
  std::string finish_reason;     // "" unless it has finished
  std::string constraint_error;  // the bound of its grammar that ended it; "": none
  std::string logprobs;          // members of a JSON array, one per token, with commas between them
  std::vector<float> token_logprobs;
  double cumulative_logprob = 0.0;  // of all its tokens, also those of earlier responses
  int32_t num_tokens = 0;
  int32_t num_input_tokens = 0;  // 0 until it has finished, as those below
  int32_t drafted_tokens = 0;
  int32_t accepted_tokens = 0;  // of these
};

// Parameters of a response that say something of its outputs, as text.
inline constexpr char kDraftedTokens[] = "drafted_tokens";
inline constexpr char kAcceptedTokens[] = "accepted_tokens";
inline constexpr char kConstraintError[] = "constraint_error";

// Adds what the chunk tells of its output.
void Accumulate(const OutputChunk& chunk, OutputPart* part);
// Forgets what has been sent; the index and the cumulative log-probability stay.
void ClearSent(OutputPart* part);

struct OutputRow {
  const char* name;
  OutputSet output;
  const char* datatype;
  bool listed;  // in a model's metadata: those of the vLLM backend
  void (*add)(std::string_view name, std::span<const OutputPart> parts, inference::ModelInferResponse* response);
};
std::span<const OutputRow> OutputRows();
// 0 if there is no output of that name.
OutputSet OutputNamed(std::string_view name);

// Appends these outputs, in the order of the table.
void AddOutputs(OutputSet outputs, std::span<const OutputPart> parts, inference::ModelInferResponse* response);

// The one output of an embedding model: FP32 [inputs, dimensions].
inline constexpr char kEmbeddingOutput[] = "embedding";

}  // namespace dunlin::server::kserve
