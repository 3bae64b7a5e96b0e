// SPDX-License-Identifier: Apache-2.0
#include "engine/loop/validate.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/cache/page.h"
#include "engine/request/draw_params.h"
#include "engine/request/field_checks.h"

namespace dunlin::engine {
namespace {

using F = RequestField;

constexpr FloatRange kLogitBiasRange = {-100, 100};

std::optional<Violation> CheckLogitBias(const SamplingParams& sampling, int32_t vocab_size) {
  if (auto v = CheckCount(F::kLogitBias, sampling.logit_bias.size(), kMaxLogitBias)) return v;
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (auto v = CheckTokenIds(F::kLogitBiasToken, std::span(&token, 1), vocab_size)) return v;
    if (auto v = CheckFloat(F::kLogitBiasValue, bias, kLogitBiasRange, {token})) return v;
  }
  return std::nullopt;
}

std::optional<Violation> CheckBadWords(const SamplingParams& sampling, int32_t vocab_size) {
  if (auto v = CheckCount(F::kBadWordsIds, sampling.bad_words.size(), kMaxBadWords)) return v;
  for (size_t i = 0; i < sampling.bad_words.size(); ++i) {
    const std::vector<TokenId>& word = sampling.bad_words[i];
    const auto index = static_cast<int64_t>(i);
    if (word.empty() || word.size() > kMaxBadWordTokens) {
      return Violation::Of(F::kBadWordIds, absl::StrCat("has ", word.size(), " tokens"),
                           absl::StrCat("1 to ", kMaxBadWordTokens), {index});
    }
    if (auto v = CheckTokenIds(F::kBadWordId, word, vocab_size, index)) return v;
  }
  return std::nullopt;
}

// A bad word of one token is never drawn, and neither is a suppressed token.
bool IsAlwaysBanned(const SamplingParams& sampling, TokenId id) {
  const std::vector<TokenId>& suppressed = sampling.suppressed_token_ids;
  if (std::find(suppressed.begin(), suppressed.end(), id) != suppressed.end()) return true;
  return std::any_of(sampling.bad_words.begin(), sampling.bad_words.end(),
                     [id](const std::vector<TokenId>& word) { return word.size() == 1 && word[0] == id; });
}

std::optional<Violation> CheckAllowed(const SamplingParams& sampling, int32_t vocab_size) {
  const std::vector<TokenId>& allowed = sampling.allowed_token_ids;
  if (auto v = CheckCount(F::kAllowedTokenIds, allowed.size(), kMaxAllowedTokenIds)) return v;
  if (auto v = CheckTokenIds(F::kAllowedTokenId, allowed, vocab_size)) return v;
  const bool none_left = !allowed.empty() && std::all_of(allowed.begin(), allowed.end(), [&sampling](TokenId id) {
    return IsAlwaysBanned(sampling, id);
  });
  if (!none_left) return std::nullopt;
  return Violation::Against(F::kBadWordsIds, F::kAllowedTokenIds,
                            "has only tokens that * or the model's suppress_tokens ban", "one that may be drawn");
}

// The bound of every model, then the model's own.
std::optional<Violation> CheckPriority(int32_t priority, const RequestLimits& limits) {
  if (auto v = CheckInt(F::kPriority, priority, -kMaxPriority, kMaxPriority)) return v;
  if (priority >= limits.min_priority && priority <= limits.max_priority) return std::nullopt;
  return Violation::Of(F::kPriority, absl::StrCat("is ", priority),
                       absl::StrCat("[", limits.min_priority, ", ", limits.max_priority,
                                    "] (models[].allowed.min_priority, models[].allowed.max_priority)"));
}

std::optional<Violation> CheckStopping(const StoppingParams& stopping, const RequestLimits& limits) {
  if (auto v = CheckInt(F::kMaxTokens, stopping.max_tokens, 1, limits.max_context_tokens)) return v;
  if (auto v = CheckInt(F::kMinTokens, stopping.min_tokens, 0, stopping.max_tokens)) return v;
  if (auto v = CheckCount(F::kStopTokenIds, stopping.stop_token_ids.size(), kMaxStopTokenIds)) return v;
  return CheckTokenIds(F::kStopTokenId, stopping.stop_token_ids, limits.vocab_size);
}

// The limit that a prompt of so many tokens breaks; "" if it breaks none.
std::string PromptLengthLimit(size_t prompt_tokens, const RequestLimits& limits) {
  if (prompt_tokens == 0) return "1 or more";
  if (prompt_tokens >= static_cast<size_t>(limits.max_context_tokens)) {
    return absl::StrCat(limits.max_context_tokens - 1, ", one less than the context (models[].max_context_tokens)");
  }
  if (static_cast<int64_t>(prompt_tokens) <= limits.max_queued_tokens) return "";
  return absl::StrCat(limits.max_queued_tokens, " (scheduler.max_queued_tokens)");
}

std::optional<Violation> CheckPromptLength(size_t prompt_tokens, const RequestLimits& limits) {
  const std::string limit = PromptLengthLimit(prompt_tokens, limits);
  if (limit.empty()) return std::nullopt;
  return Violation::Of(F::kPromptTokens, absl::StrCat("has ", prompt_tokens, " tokens"), limit);
}

Violation BadRows(std::string problem, std::string limit) {
  return Violation::Of(F::kPromptTokens, std::move(problem), std::move(limit));
}

// Whether the tokens of an image rotate by row and column is the model's to say.
std::optional<Violation> CheckImageColumns(const PromptRows::Span& span, const RequestLimits& limits) {
  const int32_t columns = span.image_columns;
  if (!limits.image_columns) {
    if (columns == 0) return std::nullopt;
    return BadRows(absl::StrCat("has an image of ", columns, " columns at ", span.first),
                   "0 columns: the model has no positions by row and column");
  }
  if (columns >= 1 && span.count % columns == 0) return std::nullopt;
  return BadRows(absl::StrCat("has an image of ", columns, " columns at ", span.first),
                 absl::StrCat("a divisor of its ", span.count, " rows"));
}

// The rows themselves: whether the model takes such, and as many as the spans say.
std::optional<Violation> CheckRows(const Request& request, const RequestLimits& limits) {
  const PromptRows& rows = *request.rows;
  if (limits.row_columns == 0) return BadRows("has images, which the model does not take", "");
  if (request.sampling.prompt_logprobs >= 0) {
    return Violation::Of(F::kPromptLogprobs, "cannot be given for a prompt with images", "");
  }
  if (rows.columns != limits.row_columns) {
    return BadRows(absl::StrCat("has rows of ", rows.columns, " columns"),
                   absl::StrCat(limits.row_columns, ", the model's hidden_dim"));
  }
  const auto prompt_tokens = static_cast<int32_t>(request.prompt.size());
  int64_t num_rows = 0;
  int32_t end = 0;
  for (const PromptRows::Span& span : rows.spans) {
    if (span.first < end || span.count < 1 || span.count > prompt_tokens - span.first) {
      return BadRows(absl::StrCat("has ", span.count, " rows at ", span.first),
                     absl::StrCat("1 or more at each place, in order, within [", end, ", ", prompt_tokens, ")"));
    }
    if (auto v = CheckImageColumns(span, limits)) return v;
    num_rows += span.count;
    end = span.first + span.count;
  }
  if (std::ssize(rows.values) == num_rows * rows.columns) return std::nullopt;
  return BadRows(absl::StrCat("has ", rows.values.size(), " values of rows"),
                 absl::StrCat(num_rows, " rows of ", rows.columns));
}

// Tokens [first, end) of the prompt, which are no row tokens.
std::optional<Violation> CheckTokensBetween(const Request& request, int32_t first, int32_t end, int32_t vocab_size) {
  const auto tokens = std::span(request.prompt).subspan(static_cast<size_t>(first), static_cast<size_t>(end - first));
  std::optional<Violation> violation = CheckTokenIds(F::kPromptToken, tokens, vocab_size);
  if (violation.has_value()) violation->index[0] += first;
  return violation;
}

// Row tokens where the rows are, tokens of the vocabulary elsewhere.
std::optional<Violation> CheckPromptTokens(const Request& request, const RequestLimits& limits) {
  int32_t end = 0;
  if (request.rows != nullptr) {
    if (auto v = CheckRows(request, limits)) return v;
    for (const PromptRows::Span& span : request.rows->spans) {
      if (auto v = CheckTokensBetween(request, end, span.first, limits.vocab_size)) return v;
      end = span.first + span.count;
      for (int32_t i = span.first; i < end; ++i) {
        const TokenId id = request.prompt[static_cast<size_t>(i)];
        if (IsRowToken(id)) continue;
        return Violation::Of(F::kPromptToken, absl::StrCat("is ", id, " where the prompt has a row"), "", {i});
      }
    }
  }
  return CheckTokensBetween(request, end, static_cast<int32_t>(request.prompt.size()), limits.vocab_size);
}

// REQUIRES: the prompt's length has been checked.
std::optional<Violation> CheckRoom(const Request& request, const RequestLimits& limits) {
  const StoppingParams& stopping = request.stopping;
  const auto prompt_tokens = static_cast<int32_t>(request.prompt.size());
  const int32_t room = limits.max_context_tokens - prompt_tokens;
  if (stopping.max_tokens > room) {
    return Violation::Of(F::kMaxTokens, absl::StrCat("is ", stopping.max_tokens, " after a prompt of ", prompt_tokens),
                         absl::StrCat(room, " (models[].max_context_tokens is ", limits.max_context_tokens, ")"));
  }
  return CheckInt(F::kMinTokens, stopping.min_tokens, 0, stopping.max_tokens);
}

// The last token drawn is never computed, so it needs no room in a page. Where not even one token of output fits, the
// prompt is at fault.
std::optional<Violation> CheckPages(const Request& request, const RequestLimits& limits) {
  const int32_t page_tokens = limits.tokens_per_page[static_cast<size_t>(request.profile.precision)];
  if (page_tokens <= 0) {
    return Violation::Of(F::kPrecision, absl::StrCat("is ", Name(request.profile.precision)),
                         "the precisions of the model (models[].precisions)");
  }
  const auto pages_of = [&limits, page_tokens](int64_t tokens) {
    return limits.kv_groups.MostPages(tokens, page_tokens, limits.max_tokens_per_step);
  };
  const int64_t prompt_tokens = std::ssize(request.prompt);
  const int64_t pages = pages_of(prompt_tokens + request.stopping.max_tokens - 1);
  if (pages <= limits.num_pages) return std::nullopt;
  const std::string limit = absl::StrCat(limits.num_pages, " (models[].kv_cache.memory_bytes)");
  const int64_t prompt_pages = pages_of(prompt_tokens);
  if (prompt_pages > limits.num_pages) {
    return Violation::Of(F::kPromptTokens,
                         absl::StrCat("has ", prompt_tokens, " tokens: that takes ", prompt_pages, " KV pages"), limit);
  }
  return Violation::Of(F::kMaxTokens,
                       absl::StrCat("is ", request.stopping.max_tokens, " after a prompt of ", prompt_tokens,
                                    ": that takes ", pages, " KV pages"),
                       limit);
}

}  // namespace

std::optional<Violation> CheckTopLogprobs(RequestField field, int32_t value) {
  return CheckInt(field, value, 0, kMaxTopLogprobs);
}

std::optional<Violation> CheckSampling(const SamplingParams& sampling, int32_t vocab_size) {
  if (auto v = CheckDrawParams(sampling)) return v;
  if (sampling.logprobs != -1) {
    if (auto v = CheckTopLogprobs(F::kLogprobs, sampling.logprobs)) return v;
  }
  if (sampling.prompt_logprobs != -1) {
    if (auto v = CheckTopLogprobs(F::kPromptLogprobs, sampling.prompt_logprobs)) return v;
  }
  if (auto v = CheckBadWords(sampling, vocab_size)) return v;
  if (auto v = CheckAllowed(sampling, vocab_size)) return v;
  return CheckLogitBias(sampling, vocab_size);
}

std::optional<Violation> CheckParams(const Request& request, const RequestLimits& limits) {
  if (auto v = CheckBytes(F::kCacheSalt, request.cache_salt.size(), 0, kMaxCacheSaltBytes)) return v;
  if (auto v = CheckPriority(request.priority, limits)) return v;
  if (auto v = CheckSampling(request.sampling, limits.vocab_size)) return v;
  return CheckStopping(request.stopping, limits);
}

size_t MaxPromptTokens(const RequestLimits& limits) {
  return static_cast<size_t>(std::min(int64_t{limits.max_context_tokens} - 1, limits.max_queued_tokens));
}

size_t MaxCountedPromptTokens(const RequestLimits& limits) {
  return 2 * MaxPromptTokens(limits);
}

Violation PromptTooLong(const RequestLimits& limits) {
  const size_t counted = MaxCountedPromptTokens(limits);
  return Violation::Of(F::kPromptTokens, absl::StrCat("has more than ", counted, " tokens"),
                       PromptLengthLimit(MaxPromptTokens(limits) + 1, limits));
}

int64_t OutputRoom(size_t prompt_tokens, kernels::Precision precision, const RequestLimits& limits) {
  const int32_t page_tokens = limits.tokens_per_page[static_cast<size_t>(precision)];
  const int64_t pool_tokens = 1 + limits.kv_groups.TokensThatFit(limits.num_pages, limits.max_context_tokens,
                                                                 page_tokens, limits.max_tokens_per_step);
  return std::min<int64_t>(limits.max_context_tokens, pool_tokens) - static_cast<int64_t>(prompt_tokens);
}

std::optional<Violation> CheckPrompt(const Request& request, const RequestLimits& limits) {
  if (auto v = CheckPromptLength(request.prompt.size(), limits)) return v;
  if (auto v = CheckPromptTokens(request, limits)) return v;
  if (auto v = CheckRoom(request, limits)) return v;
  return CheckPages(request, limits);
}

int64_t KvBlocks(const RequestLimits& limits, kernels::Precision precision) {
  const KvGroups& groups = limits.kv_groups;
  const int32_t page_tokens = limits.tokens_per_page[static_cast<size_t>(precision)];
  const int64_t longest =
      groups.TokensThatFit(limits.num_pages, limits.max_context_tokens, page_tokens, limits.max_tokens_per_step);
  return std::max(int64_t{limits.num_pages} / groups.count(), (longest + page_tokens - 1) / page_tokens);
}

absl::Status ValidateRequest(const Request& request, const RequestLimits& limits) {
  std::optional<Violation> violation = CheckParams(request, limits);
  if (!violation.has_value()) violation = CheckPrompt(request, limits);
  if (!violation.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(Describe(*violation, kPlainFieldNames));
}

}  // namespace dunlin::engine
