#include "engine/validate.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/scheduler/sequence.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxCacheSaltBytes = 128;

template <typename Name, typename Value>
absl::Status Refuse(const Name& name, const Value& value, const std::string& limit) {
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; limit is ", limit));
}

// One number with its bounds. The lower one may be excluded; NaN and infinities are outside of every interval.
struct FloatRule {
  const char* name;
  float value;
  float low;
  bool low_allowed;
  float high;
};

absl::Status Check(const FloatRule& rule) {
  const bool above = rule.low_allowed ? rule.value >= rule.low : rule.value > rule.low;
  if (std::isfinite(rule.value) && above && rule.value <= rule.high) return absl::OkStatus();
  return Refuse(rule.name, rule.value, absl::StrCat(rule.low_allowed ? "[" : "(", rule.low, ", ", rule.high, "]"));
}

struct IntRule {
  const char* name;
  int32_t value;
  int32_t low;
  int32_t high;
};

absl::Status Check(const IntRule& rule) {
  if (rule.value >= rule.low && rule.value <= rule.high) return absl::OkStatus();
  if (rule.high == kMaxInt) return Refuse(rule.name, rule.value, absl::StrCat(">= ", rule.low));
  return Refuse(rule.name, rule.value, absl::StrCat("[", rule.low, ", ", rule.high, "]"));
}

absl::Status CheckCount(const char* name, const char* unit, size_t count, size_t limit) {
  if (count <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " has ", count, " ", unit, "; limit is ", limit));
}

bool IsToken(TokenId token, const RequestLimits& limits) {
  return token >= 0 && token < limits.vocab_size;
}

std::string TokenRange(const RequestLimits& limits) {
  return absl::StrCat("[0, ", limits.vocab_size - 1, "]");
}

absl::Status CheckTokens(const char* name, const std::vector<TokenId>& tokens, const RequestLimits& limits) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!IsToken(tokens[i], limits)) return Refuse(absl::StrCat(name, "[", i, "]"), tokens[i], TokenRange(limits));
  }
  return absl::OkStatus();
}

absl::Status CheckPrompt(const Request& request, const RequestLimits& limits) {
  const size_t prompt_tokens = request.prompt.size();
  if (prompt_tokens == 0) return absl::InvalidArgumentError("prompt has 0 tokens; at least 1 is needed");
  if (prompt_tokens > static_cast<size_t>(limits.max_context_tokens)) {
    return absl::InvalidArgumentError(absl::StrCat("prompt has ", prompt_tokens, " tokens; limit is ",
                                                   limits.max_context_tokens, " (models[].max_context_tokens)"));
  }
  if (static_cast<int64_t>(prompt_tokens) > limits.max_queued_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("prompt has ", prompt_tokens, " tokens; limit is ",
                                                   limits.max_queued_tokens, " (scheduler.max_queued_tokens)"));
  }
  return CheckTokens("prompt.token_ids", request.prompt, limits);
}

absl::Status CheckStopping(const Request& request, const RequestLimits& limits) {
  const StoppingParams& stopping = request.stopping;
  const auto prompt_tokens = static_cast<int32_t>(request.prompt.size());
  const int32_t room = limits.max_context_tokens - prompt_tokens;
  if (stopping.max_tokens >= 1 && stopping.max_tokens > room) {
    return absl::InvalidArgumentError(
        absl::StrCat("stopping.max_tokens is ", stopping.max_tokens, " after a prompt of ", prompt_tokens,
                     " tokens; limit is ", room, " (models[].max_context_tokens is ", limits.max_context_tokens, ")"));
  }
  const IntRule rules[] = {{"stopping.max_tokens", stopping.max_tokens, 1, kMaxInt},
                           {"stopping.min_tokens", stopping.min_tokens, 0, stopping.max_tokens}};
  for (const IntRule& rule : rules) {
    if (absl::Status status = Check(rule); !status.ok()) return status;
  }
  if (absl::Status status =
          CheckCount("stopping.stop_token_ids", "entries", stopping.stop_token_ids.size(), kMaxStopTokenIds);
      !status.ok()) {
    return status;
  }
  return CheckTokens("stopping.stop_token_ids", stopping.stop_token_ids, limits);
}

absl::Status CheckLogitBias(const SamplingParams& sampling, const RequestLimits& limits) {
  constexpr float kMaxBias = 100.0F;
  if (absl::Status status = CheckCount("sampling.logit_bias", "entries", sampling.logit_bias.size(), kMaxLogitBias);
      !status.ok()) {
    return status;
  }
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (!IsToken(token, limits)) {
      return absl::InvalidArgumentError(
          absl::StrCat("sampling.logit_bias has token id ", token, "; limit is ", TokenRange(limits)));
    }
    const std::string name = absl::StrCat("sampling.logit_bias[", token, "]");
    if (absl::Status status = Check(FloatRule{name.c_str(), bias, -kMaxBias, true, kMaxBias}); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSampling(const SamplingParams& sampling, const RequestLimits& limits) {
  const FloatRule floats[] = {
      {"sampling.temperature", sampling.temperature, 0, true, 100},
      {"sampling.top_p", sampling.top_p, 0, false, 1},
      {"sampling.min_p", sampling.min_p, 0, true, 1},
      {"sampling.repetition_penalty", sampling.repetition_penalty, 0, false, 10},
      {"sampling.presence_penalty", sampling.presence_penalty, -2, true, 2},
      {"sampling.frequency_penalty", sampling.frequency_penalty, -2, true, 2},
  };
  for (const FloatRule& rule : floats) {
    if (absl::Status status = Check(rule); !status.ok()) return status;
  }
  // -1 stands for "not asked for", which the wire says by leaving the field out.
  const int32_t logprobs_low = sampling.logprobs == -1 ? -1 : 0;
  const int32_t prompt_logprobs_low = sampling.prompt_logprobs == -1 ? -1 : 0;
  const IntRule ints[] = {
      {"sampling.top_k", sampling.top_k, 0, kMaxInt},
      {"output.logprobs", sampling.logprobs, logprobs_low, kMaxTopLogprobs},
      {"output.prompt_logprobs", sampling.prompt_logprobs, prompt_logprobs_low, kMaxTopLogprobs},
  };
  for (const IntRule& rule : ints) {
    if (absl::Status status = Check(rule); !status.ok()) return status;
  }
  return CheckLogitBias(sampling, limits);
}

absl::Status CheckPages(const Request& request, const RequestLimits& limits) {
  const int32_t page_tokens = limits.tokens_per_page[static_cast<size_t>(request.profile.precision)];
  if (page_tokens <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("execution.precision is ", Name(request.profile.precision),
                                                   "; the model is not served in it (models[].precisions)"));
  }
  const int32_t tokens = static_cast<int32_t>(request.prompt.size()) + request.stopping.max_tokens - 1;
  const int32_t pages = PagesFor(tokens, page_tokens);
  if (pages <= limits.num_pages) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "prompt and stopping.max_tokens need ", pages, " KV pages (", request.prompt.size(), " + ",
      request.stopping.max_tokens, " tokens); limit is ", limits.num_pages, " (models[].kv_cache.memory_bytes)"));
}

}  // namespace

absl::Status ValidateRequest(const Request& request, const RequestLimits& limits) {
  if (absl::Status status = CheckPrompt(request, limits); !status.ok()) return status;
  if (absl::Status status = CheckStopping(request, limits); !status.ok()) return status;
  if (absl::Status status = CheckSampling(request.sampling, limits); !status.ok()) return status;
  if (absl::Status status = CheckCount("cache_salt", "bytes", request.cache_salt.size(), kMaxCacheSaltBytes);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = Check(IntRule{"output_index", request.output_index, 0, kMaxOutputsPerRequest - 1});
      !status.ok()) {
    return status;
  }
  return CheckPages(request, limits);
}

}  // namespace dunlin::engine
