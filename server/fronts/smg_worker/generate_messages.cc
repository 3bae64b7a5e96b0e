// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/smg_worker/generate_messages.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/fronts/smg_worker/field_names.h"
#include "server/grpc_calls/draw_param_fields.h"
#include "server/grpc_calls/unsigned_fields.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

// Of a field that routers set only for other kinds of workers.
absl::Status RefuseUnsupported(const vllm_engine::GenerateRequest& wire) {
  constexpr char kNone[] = "none: this server does not support it";
  constexpr char kNoMedia[] = "none: images come in chats, by the other APIs";
  const struct {
    bool given;
    const char* name;
    const char* limit;
  } fields[] = {
      {wire.has_kv_transfer_params(), "kv_transfer_params", kNone},
      {wire.has_kv_transfer_params_json(), "kv_transfer_params_json", kNone},
      {wire.has_mm_inputs(), "mm_inputs", kNoMedia},
      {wire.extra_mm_inputs_size() > 0, "extra_mm_inputs", kNoMedia},
      {wire.has_media_refs(), "media_refs", kNoMedia},
      {wire.sampling_params().has_structural_tag(), "sampling_params.structural_tag", kNone},
  };
  for (const auto& field : fields) {
    if (field.given) return InvalidField(field.name, "is given", field.limit);
  }
  if (wire.data_parallel_rank() != 0) {
    return InvalidField("data_parallel_rank", absl::StrCat("is ", wire.data_parallel_rank()), "0");
  }
  return absl::OkStatus();
}

ClientPrompt PromptFromWire(vllm_engine::GenerateRequest* wire) {
  switch (wire->input_case()) {
    case vllm_engine::GenerateRequest::kText:
      return std::move(*wire->mutable_text());
    case vllm_engine::GenerateRequest::kTokenized:
      return TokenIdsFromWire(wire->tokenized().input_ids());
    case vllm_engine::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return std::monostate();
}

void SamplingFromWire(const vllm_engine::GenerateRequest& request, ClientSampling* out) {
  static const DrawParamFields kDrawParams(*vllm_engine::GenerateRequest::descriptor(), kVllmEngineFieldNames);
  kDrawParams.Read(request, out);
  const vllm_engine::SamplingParams& wire = request.sampling_params();
  if (wire.has_seed()) out->seed = static_cast<uint64_t>(int64_t{wire.seed()});
  out->logit_bias.assign(wire.logit_bias().begin(), wire.logit_bias().end());
}

void StoppingFromWire(vllm_engine::SamplingParams* wire, ClientStopping* out) {
  if (wire->has_max_tokens()) out->max_tokens = Signed(wire->max_tokens());
  out->min_tokens = Signed(wire->min_tokens());
  for (std::string& stop : *wire->mutable_stop()) out->stop.push_back(std::move(stop));
  out->stop_token_ids = TokenIdsFromWire(wire->stop_token_ids());
  out->ignore_eos = wire->ignore_eos();
  out->include_stop = wire->include_stop_str_in_output();
}

std::optional<text::GrammarSource> ConstraintFromWire(vllm_engine::SamplingParams* wire) {
  using text::GrammarKind;
  using Wire = vllm_engine::SamplingParams;
  switch (wire->constraint_case()) {
    case Wire::kJsonSchema:
      return text::GrammarSource{GrammarKind::kJsonSchema, std::move(*wire->mutable_json_schema()), {}};
    case Wire::kRegex:
      return text::GrammarSource{GrammarKind::kRegex, std::move(*wire->mutable_regex()), {}};
    case Wire::kGrammar:
      return text::GrammarSource{GrammarKind::kGrammar, std::move(*wire->mutable_grammar()), {}};
    case Wire::kJsonObject:
      if (!wire->json_object()) return std::nullopt;
      return text::GrammarSource{GrammarKind::kJsonObject, {}, {}};
    case Wire::kChoice: {
      const auto& choices = wire->choice().choices();
      return text::GrammarSource{GrammarKind::kChoice, {}, {choices.begin(), choices.end()}};
    }
    case Wire::kStructuralTag:  // refused
    case Wire::CONSTRAINT_NOT_SET:
      break;
  }
  return std::nullopt;
}

// The token itself is its only alternative where none was asked for, so that every entry has one.
void AppendTop(const TokenLogprobs::Entry& entry, vllm_engine::TopLogProbs* wire) {
  for (const TokenLogprobs::Scored& top : entry.top) {
    wire->add_values(top.logprob);
    wire->add_token_ids(static_cast<uint32_t>(top.token_id));
  }
  if (!entry.top.empty()) return;
  wire->add_values(entry.logprob);
  wire->add_token_ids(static_cast<uint32_t>(entry.token_id));
}

}  // namespace

int32_t Signed(uint32_t value) {
  constexpr uint32_t kLargest = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(value < kLargest ? value : kLargest);
}

std::vector<engine::TokenId> TokenIdsFromWire(const google::protobuf::RepeatedField<uint32_t>& wire) {
  std::vector<engine::TokenId> ids;
  ids.reserve(static_cast<size_t>(wire.size()));
  for (const uint32_t id : wire) ids.push_back(Signed(id));
  return ids;
}

absl::Status GenerateRequestFromWire(vllm_engine::GenerateRequest* wire, ClientRequest* request) {
  request->field_names = &kVllmEngineFieldNames;
  request->request_id = std::move(*wire->mutable_request_id());
  absl::Status readable = RefuseUnsupported(*wire);
  if (readable.ok()) readable = CheckUnsignedFields(*wire, {"top_k", "max_tokens"});
  request->prompt = PromptFromWire(wire);
  vllm_engine::SamplingParams* params = wire->mutable_sampling_params();
  if (params->has_truncate_prompt_tokens()) request->truncate_prompt_tokens = params->truncate_prompt_tokens();
  SamplingFromWire(*wire, &request->sampling);
  StoppingFromWire(params, &request->stopping);
  request->structured_output = ConstraintFromWire(params);
  if (params->n() != 0) request->num_outputs = Signed(params->n());
  if (params->has_logprobs()) request->output.logprobs = params->logprobs();
  if (params->has_prompt_logprobs()) request->output.prompt_logprobs = params->prompt_logprobs();
  request->output.keep_special_tokens = !params->skip_special_tokens();
  // The caller makes the text; the core needs it only to find stop strings.
  request->output.omit_text = request->stopping.stop.empty();
  return readable;
}

void AppendLogprobs(const TokenLogprobs& logprobs, vllm_engine::OutputLogProbs* wire) {
  for (size_t i = 0; i < logprobs.size(); ++i) {
    const TokenLogprobs::Entry entry = logprobs[i];
    wire->add_token_logprobs(entry.logprob);
    wire->add_token_ids(static_cast<uint32_t>(entry.token_id));
    AppendTop(entry, wire->add_top_logprobs());
  }
}

void AppendPromptLogprobs(const TokenLogprobs& logprobs, engine::TokenId first_token,
                          vllm_engine::InputLogProbs* wire) {
  if (!logprobs.empty() && wire->token_ids_size() == 0) {
    wire->add_token_logprobs();
    wire->add_token_ids(static_cast<uint32_t>(first_token));
    wire->add_top_logprobs();
  }
  for (size_t i = 0; i < logprobs.size(); ++i) {
    const TokenLogprobs::Entry entry = logprobs[i];
    wire->add_token_logprobs()->set_value(entry.logprob);
    wire->add_token_ids(static_cast<uint32_t>(entry.token_id));
    AppendTop(entry, wire->add_top_logprobs());
  }
}

}  // namespace dunlin::server
