// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/vllm/generate_request.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/fronts/vllm/field_names.h"
#include "server/grpc_calls/draw_param_fields.h"
#include "server/grpc_calls/unsigned_fields.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using engine::TokenId;

constexpr int32_t kDefaultMaxNewTokens = 20;  // vLLM's own, where max_new_tokens is 0
constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();

// Of fields that CheckUnsignedFields has passed.
int32_t ToInt(uint32_t value) {
  return static_cast<int32_t>(value);
}

template <typename Ids>
std::vector<TokenId> ToTokenIds(const Ids& ids) {
  std::vector<TokenId> out;
  out.reserve(static_cast<size_t>(ids.size()));
  for (const uint32_t id : ids) out.push_back(ToInt(id));
  return out;
}

absl::Status NotSupported(std::string_view field, std::string_view limit) {
  return InvalidField(field, "is not supported", limit);
}

// The fields of vLLM that this server has nothing for.
absl::Status CheckUnsupported(const ::vllm::GenerateRequest& wire) {
  if (!wire.media().empty()) return NotSupported("media", "none: images come in chats, by the other APIs");
  if (!wire.kv_hints().actions().empty()) return NotSupported("kv_hints.actions", "none");
  if (wire.kv().has_kv_transfer_params()) return NotSupported("kv.kv_transfer_params", "absent: KV is not transferred");
  if (wire.kv().has_ec_transfer_params()) return NotSupported("kv.ec_transfer_params", "absent: there is no encoder");
  const ::vllm::EngineReasoningGate& gate = wire.engine_reasoning_gate();
  if (gate.has_reasoning_ended() && !gate.reasoning_ended()) {
    return NotSupported("engine_reasoning_gate.reasoning_ended",
                        "absent or true: a constraint covers the whole output");
  }
  const ::vllm::StoppingCriteria& stopping = wire.stopping();
  if (stopping.has_thinking_token_budget() && stopping.thinking_token_budget() != -1) {
    return NotSupported("stopping.thinking_token_budget", "absent or -1");
  }
  if (wire.decoding().has_structural_tag()) {
    return NotSupported("decoding.structural_tag", "one of json, regex, choice, grammar, json_object");
  }
  return absl::OkStatus();
}

ClientPrompt PromptFromWire(::vllm::GenerateRequest* wire) {
  switch (wire->prompt_case()) {
    case ::vllm::GenerateRequest::kText:
      return std::move(*wire->mutable_text());
    case ::vllm::GenerateRequest::kTokenIds:
      return ToTokenIds(wire->token_ids().ids());
    case ::vllm::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return std::monostate();
}

void SamplingFromWire(const ::vllm::GenerateRequest& wire, ClientSampling* out) {
  static const DrawParamFields kDrawParams(*::vllm::GenerateRequest::descriptor(), kVllmFieldNames);
  kDrawParams.Read(wire, out);
  out->greedy_by_default = true;
  if (wire.sampling().has_seed()) out->seed = static_cast<uint64_t>(wire.sampling().seed());
  const ::vllm::DecodingParameters& decoding = wire.decoding();
  for (const auto& [id, bias] : decoding.logit_bias()) out->logit_bias.emplace_back(ToInt(id), bias);
  out->allowed_token_ids = ToTokenIds(decoding.allowed_token_ids());
  for (const ::vllm::TokenIds& word : decoding.bad_words_token_ids()) {
    out->bad_words_ids.push_back(ToTokenIds(word.ids()));
  }
}

void StoppingFromWire(::vllm::StoppingCriteria* wire, ClientStopping* out) {
  out->max_tokens = wire->max_new_tokens() == 0 ? kDefaultMaxNewTokens : ToInt(wire->max_new_tokens());
  out->clamp_max_tokens = wire->max_new_tokens() == 0;  // nobody asked for the default
  out->min_tokens = ToInt(wire->min_new_tokens());
  for (std::string& stop : *wire->mutable_stop_strings()) out->stop.push_back(std::move(stop));
  out->stop_token_ids = ToTokenIds(wire->stop_token_ids());
  out->include_stop = wire->include_stop_strings();
  out->ignore_eos = wire->ignore_eos();
}

std::optional<text::GrammarSource> StructuredOutputFromWire(::vllm::DecodingParameters* wire) {
  using text::GrammarKind;
  switch (wire->structured_output_case()) {
    case ::vllm::DecodingParameters::kJson:
      return text::GrammarSource{GrammarKind::kJsonSchema, std::move(*wire->mutable_json()), {}};
    case ::vllm::DecodingParameters::kRegex:
      return text::GrammarSource{GrammarKind::kRegex, std::move(*wire->mutable_regex()), {}};
    case ::vllm::DecodingParameters::kChoice: {
      const auto& choices = wire->choice().choices();
      return text::GrammarSource{GrammarKind::kChoice, {}, {choices.begin(), choices.end()}};
    }
    case ::vllm::DecodingParameters::kGrammar:
      return text::GrammarSource{GrammarKind::kGrammar, std::move(*wire->mutable_grammar()), {}};
    case ::vllm::DecodingParameters::kJsonObject:
      if (wire->json_object()) return text::GrammarSource{GrammarKind::kJsonObject, {}, {}};
      break;
    default:
      break;
  }
  return std::nullopt;
}

// How many candidates are asked for beside each token.
absl::StatusOr<int32_t> CandidatesFromWire(const ::vllm::CandidateTokens& wire, const std::string& field) {
  const std::string limit = absl::StrCat(field, ".top_n");
  if (wire.has_all() && wire.all()) return NotSupported(absl::StrCat(field, ".all"), limit);
  if (wire.has_token_ids() && !wire.token_ids().ids().empty()) {
    return NotSupported(absl::StrCat(field, ".token_ids"), limit);
  }
  return wire.has_top_n() ? ToInt(wire.top_n()) : 0;
}

// Candidates stand beside log-probabilities; alone they have no effect, as in vLLM.
absl::Status ResponseFromWire(const ::vllm::ResponseOptions& wire, ClientOutput* out, VllmResponseFields* fields) {
  const absl::StatusOr<int32_t> of_prompt = CandidatesFromWire(wire.prompt_candidates(), "response.prompt_candidates");
  if (!of_prompt.ok()) return of_prompt.status();
  const absl::StatusOr<int32_t> of_output = CandidatesFromWire(wire.output_candidates(), "response.output_candidates");
  if (!of_output.ok()) return of_output.status();
  if (wire.prompt_logprobs()) out->prompt_logprobs = *of_prompt;
  if (wire.output_logprobs()) out->logprobs = *of_output;
  out->prompt_token_ids = wire.prompt_token_ids();
  out->keep_special_tokens = wire.has_skip_special_tokens() && !wire.skip_special_tokens();
  fields->prompt_logprobs = wire.prompt_logprobs();
  fields->output_text = !wire.has_output_text() || wire.output_text();
  fields->output_token_ids = wire.output_token_ids();
  return absl::OkStatus();
}

absl::Status CheckSequences(const ::vllm::GenerateRequest& wire, bool streams) {
  const uint32_t count = wire.sampling().num_sequences();
  if (count <= 1) return absl::OkStatus();
  const std::string problem = absl::StrCat("is ", count);
  if (!streams) return InvalidField("sampling.num_sequences", problem, "1 for Generate; GenerateStream has more");
  if (!wire.response().prompt_logprobs()) return absl::OkStatus();
  return InvalidField("sampling.num_sequences", problem, "1 with response.prompt_logprobs");
}

}  // namespace

absl::Status VllmRequestFromWire(::vllm::GenerateRequest* wire, bool streams, ClientRequest* request,
                                 VllmResponseFields* fields) {
  request->field_names = &kVllmFieldNames;
  request->request_id = std::move(*wire->mutable_request_id());
  request->model = std::move(*wire->mutable_model());
  if (absl::Status s = CheckUnsupported(*wire); !s.ok()) return s;
  if (absl::Status s = CheckUnsignedFields(*wire, {"top_k"}); !s.ok()) return s;
  if (absl::Status s = CheckSequences(*wire, streams); !s.ok()) return s;
  if (absl::Status s = ResponseFromWire(wire->response(), &request->output, fields); !s.ok()) return s;
  request->prompt = PromptFromWire(wire);
  if (wire->truncate_prompt_tokens() > 0) request->truncate_prompt_tokens = ToInt(wire->truncate_prompt_tokens());
  SamplingFromWire(*wire, &request->sampling);
  if (wire->sampling().num_sequences() > 0) request->num_outputs = ToInt(wire->sampling().num_sequences());
  StoppingFromWire(wire->mutable_stopping(), &request->stopping);
  fields->stop_token_ids = request->stopping.stop_token_ids;
  // Stop strings are found in the text, also where it is not sent.
  request->output.omit_text = !fields->output_text && request->stopping.stop.empty();
  request->structured_output = StructuredOutputFromWire(wire->mutable_decoding());
  request->priority = -std::max(wire->priority(), -kMaxInt);  // vLLM's lower priorities run first
  request->cache_salt = std::move(*wire->mutable_kv()->mutable_cache_salt());
  request->bypass_prefix_cache = wire->kv().bypass_prefix_cache();
  return absl::OkStatus();
}

}  // namespace dunlin::server
