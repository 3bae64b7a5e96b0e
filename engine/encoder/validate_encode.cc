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

std::optional<Violation> CheckGrid(size_t input, const ImageGrid& grid, const EncodeLimits& limits) {
  const auto violation = [&](const std::string& problem, const std::string& limit) {
    return Violation::Of(F::kInput, problem, limit, {static_cast<int64_t>(input)});
  };
  const int32_t merge = limits.image.merge;
  const auto merges = [merge](int32_t side) { return side > 0 && side % merge == 0; };
  if (!merges(grid.rows) || !merges(grid.columns)) {
    return violation(absl::StrCat("has ", grid.rows, " x ", grid.columns, " patches"),
                     absl::StrCat("multiples of ", merge, " above 0"));
  }
  if (grid.num_patches() <= limits.max_input_tokens) return std::nullopt;
  return violation(absl::StrCat("has ", grid.num_patches(), " patches"), absl::StrCat(limits.max_input_tokens));
}

std::optional<Violation> CheckTotal(int64_t total, const char* unit, const EncodeLimits& limits) {
  if (total <= limits.max_queued_tokens) return std::nullopt;
  return Violation::Of(F::kInputs, absl::StrCat("has ", total, " ", unit),
                       absl::StrCat(limits.max_queued_tokens, " (scheduler.max_queued_tokens)"));
}

std::optional<Violation> CheckImages(const EncodeRequest& request, const EncodeLimits& limits) {
  DUNLIN_CHECK(request.tokens.empty() && !request.classify, "an encoder of images has been given texts");
  if (request.grids.empty()) return Violation::Of(F::kInputs, "has 0 images", "1 or more");
  DUNLIN_CHECK(request.grids.size() == request.lengths.size(), "a call has not a grid for each image");
  int64_t total = 0;
  for (size_t input = 0; input < request.grids.size(); ++input) {
    if (auto v = CheckGrid(input, request.grids[input], limits)) return v;
    DUNLIN_CHECK(request.lengths[input] == request.grids[input].num_patches(), "an image's length is not its patches");
    total += request.lengths[input];
  }
  DUNLIN_CHECK(
      request.patches.size() == static_cast<size_t>(total) * static_cast<size_t>(limits.image.patch_features()),
      "the patches of a call are not those of its images");
  DUNLIN_CHECK(request.dimensions == limits.image.out_dim, "an image's rows are not those of the decoder");
  return CheckTotal(total, "patches", limits);
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
  if (limits.image.patch_size > 0) return CheckImages(request, limits);
  DUNLIN_CHECK(request.grids.empty() && request.patches.empty(), "an encoder of texts has been given images");
  if (request.lengths.empty()) return Violation::Of(F::kInputs, "has 0 entries", "1 or more");
  for (size_t input = 0; input < request.lengths.size(); ++input) {
    if (auto v = CheckInputLength(input, request.lengths[input], limits)) return v;
  }
  const int64_t total = std::accumulate(request.lengths.begin(), request.lengths.end(), int64_t{0});
  DUNLIN_CHECK(static_cast<size_t>(total) == request.tokens.size(),
               "the lengths of a call are not those of its tokens");
  if (auto v = CheckTotal(total, "tokens", limits)) return v;
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
