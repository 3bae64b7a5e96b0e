// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/models.h"

#include "absl/strings/str_cat.h"
#include "server/json/json_text.h"

namespace dunlin::server {

std::string ModelBody(const ModelFacts& model) {
  std::string out = "{";
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

std::string ModelListBody(std::span<const ModelFacts> models) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (const ModelFacts& model : models) {
    if (&model != models.data()) out.push_back(',');
    out.append(ModelBody(model));
  }
  out.append("]}");
  return out;
}

}  // namespace dunlin::server
