// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/ollama/vectors_translator.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/fronts/ollama/error_body.h"
#include "server/fronts/ollama/field_names.h"
#include "server/fronts/ollama/shared_rows.h"
#include "server/json/json_text.h"

namespace dunlin::server::ollama {
namespace {

using V = JsonValue;
using E = VectorsBody;

constexpr double kNsPerMillisecond = 1e6;

void ReadDimensions(const V& value, E* body) {
  if (const int32_t dimensions = value.Int(); dimensions != 0) body->request->dimensions = dimensions;
}

// No text is no input; an empty one of a list is.
void AddText(std::string text, E* body) {
  if (!text.empty()) body->request->inputs.emplace_back(std::move(text));
}

void ReadInput(const V& value, E* body) {
  if (value.is_string()) return AddText(value.Text(), body);
  for (std::string& text : value.TextOrTexts()) body->request->inputs.emplace_back(std::move(text));
}

const FieldTable<E> kVectorOptions[] = {kRunnerRows<E>, kExecutionRows<E>};

void ReadVectorOptions(const V& value, E* body) {
  ReadFields(value, std::span<const FieldTable<E>>(kVectorOptions), body);
}

constexpr FieldRow<E> kEmbed[] = {
    Honoured<E>("input", ReadInput),
    Honoured<E>("truncate", [](const V& v, E* b) { b->request->truncate = v.Bool(); }),
    Honoured<E>("dimensions", ReadDimensions),
    Honoured<E>("options", ReadVectorOptions),
};

constexpr FieldRow<E> kEmbeddings[] = {
    Honoured<E>("prompt", [](const V& v, E* b) { AddText(v.Text(), b); }),
    Honoured<E>("options", ReadVectorOptions),
};

}  // namespace

std::span<const FieldTable<VectorsBody>> FieldsOf(VectorsApi api) {
  static const FieldTable<E> kEmbedTables[] = {kEmbed, kCallRows<E>, kExecutionRows<E>};
  static const FieldTable<E> kEmbeddingsTables[] = {kEmbeddings, kCallRows<E>, kExecutionRows<E>};
  return api == VectorsApi::kEmbed ? kEmbedTables : kEmbeddingsTables;
}

// Vectors of /api/embed have the length 1, those of /api/embeddings the model's.
absl::Status VectorsTranslator::Read(std::string_view text, ClientEmbedRequest* request) {
  const bool embed = api_ == VectorsApi::kEmbed;
  request->field_names = embed ? &kEmbedFieldNames : &kEmbeddingsFieldNames;
  request->truncate = true;
  if (embed) request->normalize = true;
  const absl::StatusOr<Json> json = ParseBody(text);
  if (!json.ok()) return json.status();
  absl::Status status;
  VectorsBody body{.request = request};
  ReadFields(JsonValue(*json, &status, facts_.response.strict ? nullptr : &request->ignored), FieldsOf(api_), &body);
  request->loads_only = request->inputs.empty();
  model_ = request->model;
  return status;
}

std::string VectorsTranslator::Document(const EmbedResult& result) const {
  const engine::EncodeRequest& request = result.call.request;
  const auto dimensions = static_cast<size_t>(request.dimensions);
  const std::span<const float> vectors(result.call.vectors);
  std::string out = "{";
  if (api_ == VectorsApi::kEmbeddings) {
    out.append("\"embedding\":");
    AppendJsonNumbers(vectors.first(dimensions), &out);
  } else {
    AppendJsonMember("model", model_, &out);
    out.append(",\"embeddings\":[");
    for (size_t i = 0; i < request.lengths.size(); ++i) {
      if (i > 0) out.push_back(',');
      AppendJsonNumbers(vectors.subspan(i * dimensions, dimensions), &out);
    }
    absl::StrAppend(&out, "],\"total_duration\":", static_cast<int64_t>(result.timings.total_ms * kNsPerMillisecond),
                    ",\"load_duration\":", static_cast<int64_t>(result.timings.queue_ms * kNsPerMillisecond),
                    ",\"prompt_eval_count\":", result.usage.prompt_tokens);
  }
  out.append(",\"dunlin\":{\"execution\":");
  AppendExecution(request.profile, &out, {}, result.num_ranks);
  absl::StrAppend(&out, ",\"system_fingerprint\":\"", Fingerprint(facts_.response, request.profile), "\"}}");
  return out;
}

std::string VectorsTranslator::LoadedDocument() const {
  if (api_ == VectorsApi::kEmbeddings) return R"({"embedding":[]})";
  std::string out = "{";
  AppendJsonMember("model", model_, &out);
  out.append(R"(,"embeddings":[]})");
  return out;
}

std::string VectorsTranslator::ErrorBody(const absl::Status& status) const {
  return ollama::ErrorBody(status);
}

}  // namespace dunlin::server::ollama
