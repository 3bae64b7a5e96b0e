// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/validate_encode.h"

#include <numeric>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/request/field_checks.h"

namespace dunlin::engine {
namespace {

using F = RequestField;

std::optional<Violation> CheckTokens(const EncodeRequest& request, int32_t vocab_size) {
  std::span<const TokenId> rest(request.tokens);
  for (size_t input = 0; input < request.lengths.size(); ++input) {
    const auto length = static_cast<size_t>(request.lengths[input]);
    if (auto v = CheckTokenIds(F::kInputToken, rest.first(length), vocab_size, static_cast<int64_t>(input))) return v;
    rest = rest.subspan(length);
  }
  return std::nullopt;
}

Violation WrongLength(size_t input, const std::string& problem, const EncodeLimits& limits) {
  return Violation::Of(F::kInput, problem,
                       absl::StrCat("1 to ", limits.max_input_tokens, " (models[].max_context_tokens)"),
                       {static_cast<int64_t>(input)});
}

}  // namespace

std::optional<Violation> CheckInputLength(size_t input, int64_t num_tokens, const EncodeLimits& limits) {
  if (num_tokens >= 1 && num_tokens <= limits.max_input_tokens) return std::nullopt;
  return WrongLength(input, absl::StrCat("has ", num_tokens, " tokens"), limits);
}

int64_t MaxCountedInputTokens(const EncodeLimits& limits) {
  return int64_t{2} * limits.max_input_tokens;
}

Violation InputTooLong(size_t input, const EncodeLimits& limits) {
  return WrongLength(input, absl::StrCat("has more than ", MaxCountedInputTokens(limits), " tokens"), limits);
}

std::optional<Violation> CheckDimensions(int32_t dimensions, const EncodeLimits& limits) {
  return CheckInt(F::kDimensions, dimensions, 1, limits.hidden_dim);
}

std::optional<Violation> CheckEncode(const EncodeRequest& request, const EncodeLimits& limits) {
  if (request.lengths.empty()) return Violation::Of(F::kInputs, "has 0 entries", "1 or more");
  for (size_t input = 0; input < request.lengths.size(); ++input) {
    if (auto v = CheckInputLength(input, request.lengths[input], limits)) return v;
  }
  const int64_t total = std::accumulate(request.lengths.begin(), request.lengths.end(), int64_t{0});
  DUNLIN_CHECK(static_cast<size_t>(total) == request.tokens.size(),
               "the lengths of a call are not those of its tokens");
  if (total > limits.max_queued_tokens) {
    return Violation::Of(F::kInputs, absl::StrCat("has ", total, " tokens"),
                         absl::StrCat(limits.max_queued_tokens, " (scheduler.max_queued_tokens)"));
  }
  DUNLIN_CHECK(request.first_lengths.empty() || request.first_lengths.size() == request.lengths.size(),
               "a call has pairs and single texts");
  if (request.classify) {
    DUNLIN_CHECK(request.dimensions == limits.num_labels, "a classifier's vectors are not its labels");
  } else if (auto v = CheckDimensions(request.dimensions, limits)) {
    return v;
  }
  return CheckTokens(request, limits.vocab_size);
}

absl::Status ValidateEncode(const EncodeRequest& request, const EncodeLimits& limits) {
  const std::optional<Violation> violation = CheckEncode(request, limits);
  if (!violation.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(Describe(*violation, kPlainFieldNames));
}

}  // namespace dunlin::engine
