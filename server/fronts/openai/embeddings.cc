// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/embeddings.h"

#include <bit>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/fronts/openai/error_body.h"
#include "server/fronts/openai/field_names.h"
#include "server/fronts/openai/generation_body.h"
#include "server/json/execution_fields.h"
#include "server/json/json_text.h"

namespace dunlin::server {
namespace {

using V = JsonValue;
using E = EmbeddingsBody;

static_assert(std::endian::native == std::endian::little, "vectors are sent as they are in memory");

// A text, token ids, or an array of these.
void ReadInput(const V& value, E* body) {
  std::vector<ClientEmbedInput>& inputs = body->request->inputs;
  if (value.is_string()) {
    inputs.emplace_back(value.Text());
    return;
  }
  if (!value.ExpectArray()) return;
  if (value.size() > 0 && value.At(size_t{0}).json().is_number()) {
    inputs.emplace_back(value.TokenIds());
    return;
  }
  for (size_t i = 0; i < value.size() && value.ok(); ++i) {
    const V input = value.At(i);
    if (input.is_array()) {
      inputs.emplace_back(input.TokenIds());
    } else {
      inputs.emplace_back(input.Text());
    }
  }
}

void ReadEncoding(const V& value, E* body) {
  const std::string name = value.Text();
  body->base64 = name == "base64";
  if (!body->base64 && name != "float") value.FailName("format", "\"float\" or \"base64\"");
}

void ReadPooling(const V& value, E* body) {
  const std::string name = value.Text();
  std::string names;
  for (const engine::Pooling pooling : engine::kPoolings) {
    if (name == Name(pooling)) body->request->pooling = pooling;
    absl::StrAppend(&names, names.empty() ? "" : ", ", Name(pooling));
  }
  if (!body->request->pooling.has_value()) value.FailName("pooling", names);
}

constexpr FieldRow<E> kEmbeddingsFields[] = {
    Honoured<E>("model", [](const V& v, E* b) { b->request->model = v.Text(); }),
    Honoured<E>("input", ReadInput),
    Honoured<E>("encoding_format", ReadEncoding),
    Honoured<E>("dimensions", [](const V& v, E* b) { b->request->dimensions = v.Int(); }),
    Honoured<E>("pooling", ReadPooling),
    Honoured<E>("normalize", [](const V& v, E* b) { b->request->normalize = v.Bool(); }),
    Honoured<E>("truncate", [](const V& v, E* b) { b->request->truncate = v.Bool(); }),
    Honoured<E>("prompt_name", [](const V& v, E* b) { b->request->prompt_name = v.Text(); }),
    Honoured<E>("request_id", [](const V& v, E* b) { b->request->request_id = v.Text(); }),
    Honoured<E>("device", [](const V& v, E* b) { ReadDevice(v, &b->request->execution); }),
    Honoured<E>("attention_backend", [](const V& v, E* b) { ReadAttentionBackend(v, &b->request->execution); }),
    Honoured<E>("precision", [](const V& v, E* b) { ReadPrecision(v, &b->request->execution); }),
    Honoured<E>("allow_fallback", [](const V& v, E* b) { b->request->execution.allow_fallback = v.Bool(); }),
    Ignored<E>("user"),
    Refused<E>("truncate_prompt_tokens", "truncate cuts inputs to the context"),
    Refused<E>("add_special_tokens", "the tokenizer decides; send token ids instead", "true"),
};

void AppendVector(std::span<const float> vector, bool base64, std::string* out) {
  if (base64) {
    const absl::string_view bytes(reinterpret_cast<const char*>(vector.data()), vector.size_bytes());
    absl::StrAppend(out, "\"", absl::Base64Escape(bytes), "\"");
    return;
  }
  AppendJsonNumbers(vector, out);
}

}  // namespace

FieldTable<EmbeddingsBody> EmbeddingsFields() {
  return kEmbeddingsFields;
}

absl::Status EmbeddingsTranslator::Read(std::string_view text, ClientEmbedRequest* request) {
  request->field_names = &kEmbeddingFieldNames;
  const absl::StatusOr<Json> json = ParseBody(text);
  if (!json.ok()) return json.status();
  absl::Status status;
  EmbeddingsBody body{.request = request, .base64 = false};
  ReadFields(JsonValue(*json, &status, facts_.strict ? nullptr : &request->ignored), EmbeddingsFields(), &body);
  model_ = request->model;
  base64_ = body.base64;
  return status;
}

std::string EmbeddingsTranslator::Document(const EmbedResult& result) const {
  const engine::EncodeRequest& request = result.call.request;
  const auto dimensions = static_cast<size_t>(request.dimensions);
  const std::span<const float> vectors(result.call.vectors);
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (size_t i = 0; i < request.lengths.size(); ++i) {
    absl::StrAppend(&out, i == 0 ? "" : ",", "{\"object\":\"embedding\",\"index\":", i, ",\"embedding\":");
    AppendVector(vectors.subspan(i * dimensions, dimensions), base64_, &out);
    if (result.truncated[i]) out.append(",\"truncated\":true");
    out.push_back('}');
  }
  out.append("],");
  AppendJsonMember("model", model_, &out);
  absl::StrAppend(&out, ",\"usage\":{\"prompt_tokens\":", result.usage.prompt_tokens,
                  ",\"total_tokens\":", result.usage.prompt_tokens, "},\"dunlin\":{\"execution\":");
  AppendExecution(request.profile, &out, {}, result.num_ranks);
  absl::StrAppend(&out, ",\"pooling\":\"", Name(request.pooling),
                  "\",\"normalized\":", request.normalize ? "true" : "false", ",\"system_fingerprint\":\"",
                  Fingerprint(facts_, request.profile), "\",\"timings\":");
  AppendTimings(result.timings, &out);
  out.append("}}");
  return out;
}

std::string EmbeddingsTranslator::ErrorBody(const absl::Status& status) const {
  return OpenAiError(status);
}

}  // namespace dunlin::server
