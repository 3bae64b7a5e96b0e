#include "engine/encoder/validate_encode.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace dunlin::engine {
namespace {

absl::Status CheckTokens(const EncodeRequest& request, int32_t vocab_size) {
  size_t token = 0;
  for (size_t input = 0; input < request.lengths.size(); ++input) {
    for (int32_t i = 0; i < request.lengths[input]; ++i, ++token) {
      const TokenId id = request.tokens[token];
      if (id >= 0 && id < vocab_size) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("inputs[", input, "].token_ids.ids[", i, "] is ", id, "; limit is [0, ", vocab_size, ")"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckInputLength(size_t input, int64_t num_tokens, const EncodeLimits& limits) {
  if (num_tokens >= 1 && num_tokens <= limits.max_input_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("inputs[", input, "] has ", num_tokens, " tokens; limit is 1 to ",
                                                 limits.max_input_tokens, " (models[].max_context_tokens)"));
}

absl::Status ValidateEncode(const EncodeRequest& request, const EncodeLimits& limits) {
  if (request.lengths.empty()) return absl::InvalidArgumentError("inputs has 0 entries; limit is 1 or more");
  for (size_t input = 0; input < request.lengths.size(); ++input) {
    if (absl::Status status = CheckInputLength(input, request.lengths[input], limits); !status.ok()) return status;
  }
  const int64_t total = std::accumulate(request.lengths.begin(), request.lengths.end(), int64_t{0});
  DUNLIN_CHECK(static_cast<size_t>(total) == request.tokens.size(),
               "the lengths of a call are not those of its tokens");
  if (total > limits.max_queued_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("inputs has ", total, " tokens; limit is ", limits.max_queued_tokens,
                                                   " (scheduler.max_queued_tokens)"));
  }
  if (request.dimensions < 1 || request.dimensions > limits.hidden_dim) {
    return absl::InvalidArgumentError(
        absl::StrCat("dimensions is ", request.dimensions, "; limit is [1, ", limits.hidden_dim, "]"));
  }
  return CheckTokens(request, limits.vocab_size);
}

}  // namespace dunlin::engine
