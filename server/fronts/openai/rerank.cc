// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/rerank.h"

#include "absl/strings/str_cat.h"
#include "server/fronts/openai/error_body.h"
#include "server/fronts/openai/field_names.h"
#include "server/fronts/openai/generation_body.h"
#include "server/json/execution_fields.h"
#include "server/json/json_text.h"
#include "server/serving/embed/rerank.h"

namespace dunlin::server {
namespace {

using V = JsonValue;
using R = RerankBody;

// Texts, or objects with one ({"text": "..."}).
void ReadDocuments(const V& value, R* body) {
  if (!value.ExpectArray()) return;
  for (size_t i = 0; i < value.size() && value.ok(); ++i) {
    const V document = value.At(i);
    if (document.json().is_object()) {
      document.IgnoreAllBut("text");
      body->request->inputs.emplace_back(document.At("text").Text());
    } else {
      body->request->inputs.emplace_back(document.Text());
    }
  }
}

constexpr int32_t kCohereTokensPerDocument = 4096;  // Source: Cohere's API reference, POST /v2/rerank
constexpr int64_t kDocumentsPerSearchUnit = 100;    // Source: Cohere's pricing of Rerank

constexpr FieldRow<R> kRerankFields[] = {
    Honoured<R>("model", [](const V& v, R* b) { b->request->model = v.Text(); }),
    Honoured<R>("query", [](const V& v, R* b) { b->request->rerank->query = v.Text(); }),
    Honoured<R>("documents", ReadDocuments),
    Honoured<R>("top_n", [](const V& v, R* b) { b->request->rerank->top_n = v.Int(); }),
    Honoured<R>("max_tokens_per_doc", [](const V& v, R* b) { b->request->rerank->max_tokens_per_doc = v.AtLeast(1); }),
    Honoured<R>("return_documents", [](const V& v, R* b) { b->return_documents = v.Bool(); }),
    Honoured<R>("raw_scores", [](const V& v, R* b) { b->request->rerank->raw_scores = v.Bool(); }),
    Honoured<R>("truncate", [](const V& v, R* b) { b->request->truncate = v.Bool(); }),
    Honoured<R>("request_id", [](const V& v, R* b) { b->request->request_id = v.Text(); }),
    Honoured<R>("device", [](const V& v, R* b) { ReadDevice(v, &b->request->execution); }),
    Honoured<R>("attention_backend", [](const V& v, R* b) { ReadAttentionBackend(v, &b->request->execution); }),
    Honoured<R>("precision", [](const V& v, R* b) { ReadPrecision(v, &b->request->execution); }),
    Honoured<R>("allow_fallback", [](const V& v, R* b) { b->request->execution.allow_fallback = v.Bool(); }),
    Ignored<R>("user"),
    Ignored<R>("priority"),
    Refused<R>("truncate_prompt_tokens", "truncate cuts documents to the context"),
    Refused<R>("max_chunks_per_doc", "a document is one text; truncate cuts it to the context"),
    Refused<R>("rank_fields", "a document is its member text"),
    Refused<R>("relevant_spans", "a score is of a whole document"),
};

}  // namespace

FieldTable<RerankBody> RerankFields() {
  return kRerankFields;
}

absl::Status RerankTranslator::Read(std::string_view text, ClientEmbedRequest* request) {
  request->field_names = &kRerankRouteFieldNames;
  request->rerank.emplace();
  if (api_ == RerankApi::kCohereV2) {
    request->truncate = true;
    request->rerank->max_tokens_per_doc = kCohereTokensPerDocument;
  }
  const absl::StatusOr<Json> json = ParseBody(text);
  if (!json.ok()) return json.status();
  absl::Status status;
  RerankBody body{.request = request, .return_documents = false};
  ReadFields(JsonValue(*json, &status, facts_.strict ? nullptr : &request->ignored), RerankFields(), &body);
  model_ = request->model;
  request->rerank->keeps_texts = body.return_documents;
  for (const ClientEmbedInput& input : request->inputs) {
    if (body.return_documents) documents_.push_back(std::get<std::string>(input));
  }
  return status;
}

void RerankTranslator::AppendResults(const EmbedResult& result, std::string* out) const {
  out->append("\"results\":[");
  bool first = true;
  for (const RankedDocument& document : RankDocuments(result)) {
    absl::StrAppend(out, first ? "" : ",", "{\"index\":", document.index, ",\"relevance_score\":");
    first = false;
    AppendJsonNumber(document.score, out);
    const auto index = static_cast<size_t>(document.index);
    if (!documents_.empty()) {
      out->append(",\"document\":{");
      AppendJsonMember("text", documents_[index], out);
      out->push_back('}');
    }
    if (result.truncated[index]) out->append(",\"truncated\":true");
    out->push_back('}');
  }
  out->push_back(']');
}

std::string RerankTranslator::Document(const EmbedResult& result) const {
  const engine::EncodeRequest& request = result.call.request;
  const int32_t tokens = result.usage.prompt_tokens;
  std::string out = "{";
  if (api_ == RerankApi::kCohereV2) {
    AppendJsonMember("id", result.request_id, &out);
    out.push_back(',');
    AppendResults(result, &out);
    const int64_t units = (std::ssize(request.lengths) + kDocumentsPerSearchUnit - 1) / kDocumentsPerSearchUnit;
    absl::StrAppend(&out, ",\"meta\":{\"api_version\":{\"version\":\"2\"},\"billed_units\":{\"search_units\":", units,
                    "},\"tokens\":{\"input_tokens\":", tokens, "}}");
  } else {
    AppendJsonMember("model", model_, &out);
    out.push_back(',');
    AppendResults(result, &out);
    absl::StrAppend(&out, ",\"usage\":{\"prompt_tokens\":", tokens, ",\"total_tokens\":", tokens, "}");
  }
  out.append(",\"dunlin\":{\"execution\":");
  AppendExecution(request.profile, &out, {}, result.num_ranks);
  absl::StrAppend(&out, ",\"raw_scores\":", result.rerank->sigmoid ? "false" : "true", ",\"system_fingerprint\":\"",
                  Fingerprint(facts_, request.profile), "\",\"timings\":");
  AppendTimings(result.timings, &out);
  out.append("}}");
  return out;
}

std::string RerankTranslator::ErrorBody(const absl::Status& status) const {
  return api_ == RerankApi::kCohereV2 ? CohereError(status) : OpenAiError(status);
}

}  // namespace dunlin::server
