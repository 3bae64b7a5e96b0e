// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/infer_responses.h"

#include <iterator>
#include <string>
#include <utility>

#include "kernels/api/attention_backend.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"
#include "server/fronts/kserve/tensor_codec.h"

namespace dunlin::server::kserve {
namespace {

void Identify(const ResponseForm& form, inference::ModelInferResponse* response) {
  response->set_model_name(form.model);
  response->set_model_version(kModelVersion);
  response->set_id(form.id);
}

void SetText(const char* name, std::string text, inference::ModelInferResponse* response) {
  (*response->mutable_parameters())[name].set_string_param(std::move(text));
}

void DescribeProfile(const engine::ExecutionProfile& profile, inference::ModelInferResponse* response) {
  SetText("device", kernels::Traits(profile.device).name, response);
  SetText("attention_backend", kernels::Traits(profile.attention_backend).name, response);
  SetText("precision", kernels::Traits(profile.precision).name, response);
}

// Of all outputs together, where tokens were guessed.
void DescribeSpeculation(std::span<const OutputPart> parts, inference::ModelInferResponse* response) {
  int32_t drafted = 0;
  int32_t accepted = 0;
  for (const OutputPart& part : parts) {
    drafted += part.drafted_tokens;
    accepted += part.accepted_tokens;
  }
  if (drafted == 0) return;
  SetText(kDraftedTokens, std::to_string(drafted), response);
  SetText(kAcceptedTokens, std::to_string(accepted), response);
}

// Of the first output that a bound of its grammar ended.
void DescribeConstraint(std::span<const OutputPart> parts, inference::ModelInferResponse* response) {
  for (const OutputPart& part : parts) {
    if (!part.constraint_error.empty()) return SetText(kConstraintError, part.constraint_error, response);
  }
}

}  // namespace

void InferResponses::OnChunk(const OutputChunk& chunk, Sink sink) {
  if (chunk.profile.has_value()) {
    profile_ = chunk.profile;
    adapter_ = chunk.adapter;
  }
  const auto index = static_cast<size_t>(chunk.index);
  if (parts_.size() <= index) parts_.resize(index + 1);
  OutputPart& part = parts_[index];
  Accumulate(chunk, &part);
  if (!form_.stream) return;
  // The serving core's first chunk may hold no token yet.
  if (chunk.token_ids.empty() && chunk.text.empty() && !chunk.finish.has_value()) return;
  if (chunk.finish.has_value()) ++num_finished_;
  Make({&part, 1}, chunk.finish.has_value() && num_finished_ == form_.num_outputs, sink);
  ClearSent(&part);
}

void InferResponses::OnEnd(Sink sink) {
  if (!form_.stream) Make(parts_, true, sink);
}

void InferResponses::Make(std::span<const OutputPart> parts, bool last, Sink sink) {
  inference::ModelInferResponse response;
  Identify(form_, &response);
  if (profile_.has_value()) {
    DescribeProfile(*std::exchange(profile_, std::nullopt), &response);
    if (!adapter_.empty()) SetText("adapter", adapter_.c_str(), &response);
  }
  DescribeSpeculation(parts, &response);
  DescribeConstraint(parts, &response);
  const bool tells_nothing = form_.outputs == kTextOutput && parts.front().text.empty();
  if (!(last && form_.stream && form_.empty_final_response && tells_nothing)) {
    AddOutputs(form_.outputs, parts, &response);
  }
  sink(&response, last);
}

void FillEmbedding(const ResponseForm& form, const EmbedResult& result, inference::ModelInferResponse* response) {
  const engine::EncodeRequest& request = result.call.request;
  Identify(form, response);
  DescribeProfile(request.profile, response);
  AddFp32Matrix(kEmbeddingOutput, std::ssize(request.lengths), request.dimensions, result.call.vectors.data(),
                response);
}

}  // namespace dunlin::server::kserve
