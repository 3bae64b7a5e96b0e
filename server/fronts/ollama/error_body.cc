// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/ollama/error_body.h"

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/json/json_text.h"
#include "server/serving/record/errors.h"

namespace dunlin::server::ollama {

std::string ErrorBody(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  const bool unknown = details.reason == Traits(Reason::kUnknownModel).name;
  std::string out = "{";
  // A message may quote a chat template's words, which need not be UTF-8.
  AppendJsonMember("error",
                   unknown ? absl::StrCat("model '", details.model, "' not found")
                           : Utf8OrReplaced(engine::StdView(status.message())),
                   &out);
  const auto append = [&out](const char* name, const std::string& text) {
    if (text.empty()) return;
    out.push_back(',');
    AppendJsonMember(name, text, &out);
  };
  append("reason", details.reason);
  append("field", details.field);
  append("limit", details.limit);
  out.push_back('}');
  return out;
}

}  // namespace dunlin::server::ollama
