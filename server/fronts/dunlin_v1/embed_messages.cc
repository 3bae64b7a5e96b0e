// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/dunlin_v1/embed_messages.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/request/field_checks.h"
#include "server/fronts/dunlin_v1/execution.h"
#include "server/fronts/dunlin_v1/field_names.h"
#include "server/serving/embed/rerank.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

struct PoolingRow {
  engine::Pooling engine;
  v1::Pooling wire;
};
constexpr PoolingRow kPoolingRows[] = {
    {engine::Pooling::kMean, v1::POOLING_MEAN},
    {engine::Pooling::kCls, v1::POOLING_CLS},
    {engine::Pooling::kLast, v1::POOLING_LAST},
};

ClientEmbedInput InputFromWire(v1::EmbedInput* wire) {
  switch (wire->input_case()) {
    case v1::EmbedInput::kText:
      return std::move(*wire->mutable_text());
    case v1::EmbedInput::kTokenIds: {
      const auto& ids = wire->token_ids().ids();
      return std::vector<engine::TokenId>(ids.begin(), ids.end());
    }
    case v1::EmbedInput::INPUT_NOT_SET:
      break;
  }
  return std::monostate();
}

template <typename Response>
void SetUsage(const EmbedResult& result, Response* wire) {
  wire->mutable_usage()->set_prompt_tokens(result.usage.prompt_tokens);
  wire->mutable_timings()->set_queue_ms(result.timings.queue_ms);
  wire->mutable_timings()->set_total_ms(result.timings.total_ms);
}

}  // namespace

absl::Status EmbedRequestFromWire(v1::EmbedRequest* wire, ClientEmbedRequest* request) {
  request->field_names = &kEmbedFieldNames;
  request->request_id = std::move(*wire->mutable_request_id());
  request->model = std::move(*wire->mutable_model());
  request->inputs.reserve(static_cast<size_t>(wire->inputs_size()));
  for (v1::EmbedInput& input : *wire->mutable_inputs()) request->inputs.push_back(InputFromWire(&input));
  for (const PoolingRow& row : kPoolingRows) {
    if (row.wire == wire->pooling()) request->pooling = row.engine;
  }
  if (wire->has_normalize()) request->normalize = wire->normalize();
  if (wire->has_dimensions()) request->dimensions = wire->dimensions();
  request->truncate = wire->truncate();
  request->prompt_name = std::move(*wire->mutable_prompt_name());
  if (const auto v = engine::CheckInt(ClientField::kPooling, wire->pooling(), 0, v1::Pooling_MAX)) {
    return InvalidField(*v, kEmbedFieldNames);
  }
  const absl::StatusOr<engine::ExecutionChoice> choice = ChoiceFromWire(wire->execution(), kEmbedFieldNames);
  if (!choice.ok()) return choice.status();
  request->execution = *choice;
  return absl::OkStatus();
}

v1::Pooling ToWire(engine::Pooling pooling) {
  for (const PoolingRow& row : kPoolingRows) {
    if (row.engine == pooling) return row.wire;
  }
  return v1::POOLING_UNSPECIFIED;
}

v1::EmbedResponse EmbedResultToWire(const EmbedResult& result) {
  const engine::EncodeRequest& request = result.call.request;
  v1::EmbedResponse wire;
  const float* vector = result.call.vectors.data();
  for (size_t i = 0; i < request.lengths.size(); ++i, vector += request.dimensions) {
    v1::Embedding* embedding = wire.add_embeddings();
    embedding->mutable_values()->Add(vector, vector + request.dimensions);
    embedding->set_tokens(request.lengths[i]);
    embedding->set_truncated(result.truncated[i]);
  }
  *wire.mutable_execution() = ToWire(request.profile);
  wire.mutable_execution()->set_ranks(result.num_ranks);
  wire.set_pooling(ToWire(request.pooling));
  wire.set_normalized(request.normalize);
  SetUsage(result, &wire);
  return wire;
}

absl::Status RerankRequestFromWire(v1::RerankRequest* wire, ClientEmbedRequest* request) {
  request->field_names = &kRerankFieldNames;
  request->request_id = std::move(*wire->mutable_request_id());
  request->model = std::move(*wire->mutable_model());
  request->inputs.reserve(static_cast<size_t>(wire->documents_size()));
  for (std::string& document : *wire->mutable_documents()) request->inputs.emplace_back(std::move(document));
  ClientRerank& rerank = request->rerank.emplace();
  rerank.query = std::move(*wire->mutable_query());
  if (wire->has_top_n()) rerank.top_n = wire->top_n();
  rerank.raw_scores = wire->raw_scores();
  request->truncate = wire->truncate();
  const absl::StatusOr<engine::ExecutionChoice> choice = ChoiceFromWire(wire->execution(), kRerankFieldNames);
  if (!choice.ok()) return choice.status();
  request->execution = *choice;
  return absl::OkStatus();
}

v1::RerankResponse RerankResultToWire(const EmbedResult& result, bool request_order) {
  const engine::EncodeRequest& request = result.call.request;
  v1::RerankResponse wire;
  for (const RankedDocument& document : RankDocuments(result, request_order)) {
    v1::RerankResult* row = wire.add_results();
    row->set_index(document.index);
    row->set_score(document.score);
    row->set_tokens(request.lengths[static_cast<size_t>(document.index)]);
    row->set_truncated(result.truncated[static_cast<size_t>(document.index)]);
  }
  *wire.mutable_execution() = ToWire(request.profile);
  wire.mutable_execution()->set_ranks(result.num_ranks);
  wire.set_raw_scores(!result.rerank->sigmoid);
  SetUsage(result, &wire);
  return wire;
}

}  // namespace dunlin::server
