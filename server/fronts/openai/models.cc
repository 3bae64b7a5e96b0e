// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/models.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/json/json_text.h"

namespace dunlin::server {

std::string ModelBody(const ModelFacts& model, ModelsApi api) {
  std::string out = "{";
  if (api == ModelsApi::kAnthropic) {
    AppendJsonMember("display_name", model.name, &out);
    const absl::Time created = absl::FromUnixSeconds(model.created);
    absl::StrAppend(&out, ",\"type\":\"model\",\"lifecycle\":\"active\",\"created_at\":\"",
                    absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", created, absl::UTCTimeZone()),
                    "\",\"max_input_tokens\":", model.max_context_tokens, ",");
  }
  AppendJsonMember("id", model.name, &out);
  absl::StrAppend(&out, ",\"object\":\"model\",\"created\":", model.created, ",\"owned_by\":\"dunlin\",");
  AppendJsonMember("root", model.root.empty() ? model.name : model.root, &out);
  if (!model.parent.empty()) {
    out.push_back(',');
    AppendJsonMember("parent", model.parent, &out);
  }
  absl::StrAppend(&out, ",\"max_model_len\":", model.max_context_tokens, "}");
  return out;
}

std::string ModelListBody(std::span<const ModelFacts> models, ModelsApi api) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (const ModelFacts& model : models) {
    if (&model != models.data()) out.push_back(',');
    out.append(ModelBody(model, api));
  }
  out.push_back(']');
  if (api == ModelsApi::kAnthropic) {
    out.append(",\"has_more\":false");
    if (!models.empty()) {
      out.push_back(',');
      AppendJsonMember("first_id", models.front().name, &out);
      out.push_back(',');
      AppendJsonMember("last_id", models.back().name, &out);
    }
  }
  out.push_back('}');
  return out;
}

}  // namespace dunlin::server
