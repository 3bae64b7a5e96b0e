// SPDX-License-Identifier: Apache-2.0
// What a response says of the server and of the run, in the same words on every route. Plain data, pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/request/types.h"
#include "server/serving/output/output_chunk.h"

namespace dunlin::server {

// What the caller of a translator knows; a translator reads no clock and no configuration.
struct ResponseFacts {
  int64_t created = 0;      // Unix time of the call, seconds
  std::string version;      // of the server
  std::string cpu_variant;  // of its kernels: "avx512"
  bool strict = false;      // members, tools and blocks without effect are refused (protocols.openai.strict)
};

// "dunlin-<version>-<CPU variant>-<device>-<attention backend>-<precision>": equal fingerprints and seeds give equal
// outputs.
std::string Fingerprint(const ResponseFacts& facts, const engine::ExecutionProfile& profile);

// {"device":"cpu","attention_backend":"flash","precision":"bf16","kv_dtype":"bf16"}, with "recipe" for FP8 and
// "checkpoint_quantization":true where the weights are the integer codes of the model's checkpoint, "int8_inputs":true
// where products round their inputs to 8 bits, "adapter" where one runs, "ranks" where the model has several.
void AppendExecution(const engine::ExecutionProfile& profile, std::string* out, std::string_view adapter = {},
                     int32_t num_ranks = 1);
// {"queue_ms":...,"ttft_ms":...,"total_ms":...}
void AppendTimings(const Timings& timings, std::string* out);

// Of all outputs of a call.
class CallTotals {
 public:
  int32_t outputs_per_prompt = 1;
  // Prompt and cached tokens once for each prompt, however many outputs: those of the prompt from its first chunk on,
  // which of them the cache held from its first finish on.
  Usage usage;
  Timings timings;
  int32_t reasoning_tokens = 0;  // of chunks that held reasoning alone
  bool any_finish = false;
  std::optional<std::string> constraint_error = std::nullopt;  // of the last output, if its constraint ended it

  void Count(const OutputChunk& chunk);

 private:
  struct Prompt {
    int32_t tokens = 0;                    // 0: not counted
    std::optional<int32_t> cached_tokens;  // the fewest of any output
  };
  void CountPrompt(const OutputChunk& chunk);

  std::map<int32_t, Prompt> prompts_;
};

// ,"completion_tokens_details":{...} of a usage object: "reasoning_tokens", and of drafts "accepted_prediction_tokens"
// and "rejected_prediction_tokens", which are no part of completion_tokens; nothing where there were none.
void AppendCompletionDetails(const CallTotals& totals, std::string* out);

// "finish_reason":"constraint", and where a bound ended the output its "message": members of an object "dunlin".
void AppendConstraintEnd(const std::string& constraint_error, std::string* out);

// ,"dunlin":{...} of an answer: what executes it ("execution", in JSON; null if "") and its fingerprint; once an output
// has ended its timings, what was guessed of it, and what its constraint did.
void AppendRun(std::string_view execution, std::string_view fingerprint, const CallTotals& totals, std::string* out);

// ,"speculation":{"drafted_tokens":...,"accepted_tokens":...} of the member "dunlin", in answers whose usage has no
// place for them; nothing where no token was guessed.
void AppendSpeculation(const Usage& usage, std::string* out);

}  // namespace dunlin::server
