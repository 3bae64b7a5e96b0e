#include "server/convert/sampling.h"

#include <algorithm>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "engine/text/stop_matcher.h"
#include "server/convert/field_checks.h"

namespace dunlin::server {
namespace {

using engine::SamplingParams;

// The float fields of Sampling as data: path, presence, value, where it goes, what it may be.
struct FloatField {
  const char* path;
  bool (v1::Sampling::*has)() const;
  float (v1::Sampling::*get)() const;
  float SamplingParams::*out;
  FloatRange range;
};
using Wire = v1::Sampling;
using Params = SamplingParams;
constexpr FloatField kFloatFields[] = {
    {"sampling.temperature", &Wire::has_temperature, &Wire::temperature, &Params::temperature, {0, kMaxTemperature}},
    {"sampling.top_p", &Wire::has_top_p, &Wire::top_p, &Params::top_p, {0, 1, true}},
    {"sampling.min_p", &Wire::has_min_p, &Wire::min_p, &Params::min_p, {0, 1}},
    {"sampling.repetition_penalty",
     &Wire::has_repetition_penalty,
     &Wire::repetition_penalty,
     &Params::repetition_penalty,
     {0, kMaxRepetitionPenalty, true}},
    {"sampling.presence_penalty",
     &Wire::has_presence_penalty,
     &Wire::presence_penalty,
     &Params::presence_penalty,
     {-kMaxPenalty, kMaxPenalty}},
    {"sampling.frequency_penalty",
     &Wire::has_frequency_penalty,
     &Wire::frequency_penalty,
     &Params::frequency_penalty,
     {-kMaxPenalty, kMaxPenalty}},
};

absl::Status LogitBiasFromWire(const v1::Sampling& wire, int32_t vocab_size, SamplingParams* out) {
  if (wire.logit_bias().empty()) return absl::OkStatus();
  if (absl::Status s = CheckCount("sampling.logit_bias", wire.logit_bias().size(), engine::kMaxLogitBias); !s.ok()) {
    return s;
  }
  for (const auto& [id, bias] : wire.logit_bias()) {
    if (absl::Status s = CheckTokenId("sampling.logit_bias key", id, vocab_size); !s.ok()) return s;
    const std::string field = absl::StrCat("sampling.logit_bias[", id, "]");
    if (absl::Status s = CheckFloat(field, bias, {-kMaxLogitBiasValue, kMaxLogitBiasValue}); !s.ok()) return s;
  }
  out->logit_bias.assign(wire.logit_bias().begin(), wire.logit_bias().end());
  std::sort(out->logit_bias.begin(), out->logit_bias.end());  // a map's order is random
  return absl::OkStatus();
}

uint64_t DrawSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

absl::Status SamplingFromWire(const v1::Sampling& wire, int32_t vocab_size, SamplingParams* out) {
  for (const FloatField& field : kFloatFields) {
    if (!(wire.*field.has)()) continue;
    const float value = (wire.*field.get)();
    if (absl::Status s = CheckFloat(field.path, value, field.range); !s.ok()) return s;
    out->*field.out = value;
  }
  if (wire.has_top_k()) {
    if (absl::Status s = CheckInt("sampling.top_k", wire.top_k(), 0, std::numeric_limits<int32_t>::max()); !s.ok()) {
      return s;
    }
    out->top_k = wire.top_k();
  }
  out->seed = wire.has_seed() ? wire.seed() : DrawSeed();
  return LogitBiasFromWire(wire, vocab_size, out);
}

absl::Status CheckOutputs(const v1::Sampling& wire, int32_t* num_outputs) {
  *num_outputs = wire.has_n() ? wire.n() : 1;
  return CheckInt("sampling.n", *num_outputs, 1, engine::kMaxOutputsPerRequest);
}

absl::Status StoppingFromWire(const v1::Stopping& wire, int32_t vocab_size, int32_t max_context_tokens,
                              engine::StoppingParams* out) {
  out->max_tokens = 0;
  if (wire.has_max_tokens()) {
    if (absl::Status s = CheckInt("stopping.max_tokens", wire.max_tokens(), 1, max_context_tokens); !s.ok()) return s;
    out->max_tokens = wire.max_tokens();
  }
  if (wire.has_min_tokens()) {
    const int32_t most = wire.has_max_tokens() ? wire.max_tokens() : max_context_tokens;
    if (absl::Status s = CheckInt("stopping.min_tokens", wire.min_tokens(), 0, most); !s.ok()) return s;
    out->min_tokens = wire.min_tokens();
  }
  const auto& ids = wire.stop_token_ids();
  const auto count = static_cast<size_t>(ids.size());
  if (absl::Status s = CheckCount("stopping.stop_token_ids", count, engine::kMaxStopTokenIds); !s.ok()) return s;
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return CheckTokenId(absl::StrCat("stopping.stop_token_ids[", i, "]"), ids[i], vocab_size);
  }
  out->stop_token_ids.assign(ids.begin(), ids.end());
  out->ignore_eos = wire.ignore_eos();
  return absl::OkStatus();
}

absl::Status CheckStopStrings(const v1::Stopping& wire) {
  const auto count = static_cast<size_t>(wire.stop_size());
  if (absl::Status s = CheckCount("stopping.stop", count, engine::kMaxStopStrings); !s.ok()) return s;
  for (int i = 0; i < wire.stop_size(); ++i) {
    const std::string field = absl::StrCat("stopping.stop[", i, "]");
    if (absl::Status s = CheckBytes(field, wire.stop(i).size(), 1, engine::kMaxStopStringBytes); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status LogprobsFromWire(const v1::OutputOptions& wire, SamplingParams* out) {
  if (wire.has_logprobs()) {
    if (absl::Status s = CheckInt("output.logprobs", wire.logprobs(), 0, engine::kMaxTopLogprobs); !s.ok()) return s;
    out->logprobs = wire.logprobs();
  }
  if (wire.has_prompt_logprobs()) {
    if (absl::Status s = CheckInt("output.prompt_logprobs", wire.prompt_logprobs(), 0, engine::kMaxTopLogprobs);
        !s.ok()) {
      return s;
    }
    out->prompt_logprobs = wire.prompt_logprobs();
  }
  return absl::OkStatus();
}

}  // namespace dunlin::server
