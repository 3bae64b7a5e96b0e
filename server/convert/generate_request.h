// GenerateRequest -> what the engine and the stream need. Every field is checked before anything is allocated for it.
// Pure functions, any thread (the text pool, in the server).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dunlin/v1/generation.pb.h"
#include "engine/types.h"
#include "server/limits.h"

namespace dunlin::server {

inline constexpr size_t kMaxRequestIdBytes = 128;
inline constexpr size_t kMaxCacheSaltBytes = 128;
inline constexpr int32_t kMaxPriority = 100;  // [-100, 100]

// What the checks must know of a model.
struct ModelFacts {
  int32_t vocab_size = 0;          // embedding rows
  int32_t max_context_tokens = 0;  // prompt + output
  bool has_tokenizer = false;
  engine::SamplingParams sampling_defaults;  // of generation_config.json
};

struct CheckedRequest {
  engine::Request engine;  // prompt (unless `text` is to be tokenised), sampling, stopping, priority, salt
  engine::ExecutionChoice choice;
  bool prompt_is_text = false;
  int32_t num_outputs = 1;
  std::vector<std::string> stop_strings;
  bool include_stop = false;
  bool keep_special_tokens = false;
  bool omit_text = false;  // also when the model has no tokenizer
};

// Errors: INVALID_ARGUMENT (a field), UNIMPLEMENTED (chat), FAILED_PRECONDITION (text without a tokenizer).
// request_id and model are not looked at: the caller did.
absl::StatusOr<CheckedRequest> CheckGenerateRequest(const v1::GenerateRequest& wire, const ModelFacts& facts);

// The prompt is known now: that it fits, and what max_tokens is when none was named:
// min(limits.default_max_tokens, context - prompt). Errors: INVALID_ARGUMENT.
absl::Status FitToContext(const ModelFacts& facts, const Limits& limits, CheckedRequest* request);

}  // namespace dunlin::server
