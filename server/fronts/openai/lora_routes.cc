// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/lora_routes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/http_calls/caller.h"
#include "server/http_calls/document_call.h"
#include "server/http_calls/http_status.h"
#include "server/json/field_table.h"
#include "server/json/json_text.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using V = JsonValue;

constexpr char kName[] = "lora_name";
constexpr char kPlainText[] = "text/plain; charset=utf-8";

constexpr FieldRow<AdapterLoad> kLoad[] = {
    Honoured<AdapterLoad>("lora_name", [](const V& v, AdapterLoad* load) { load->name = v.Text(); }),
    Honoured<AdapterLoad>("lora_path", [](const V& v, AdapterLoad* load) { load->path = v.Text(); }),
    Honoured<AdapterLoad>("load_inplace", [](const V& v, AdapterLoad* load) { load->in_place = v.Bool(); }),
    Honoured<AdapterLoad>("base_model_name", [](const V& v, AdapterLoad* load) { load->model = v.Text(); }),
    Refused<AdapterLoad>("is_3d_lora_weight", "matrices of experts have no adapters", "false"),
};
constexpr FieldRow<std::string> kUnload[] = {
    Honoured<std::string>("lora_name", [](const V& v, std::string* name) { *name = v.Text(); }),
    Ignored<std::string>("lora_int_id"),
};

template <class Target>
absl::Status ReadMembers(std::string_view body, bool strict, FieldTable<Target> table, Target* target) {
  const absl::StatusOr<Json> json = ParseBody(body);
  if (!json.ok()) return json.status();
  absl::Status status;
  IgnoredNames ignored;
  ReadFields(JsonValue(*json, &status, strict ? nullptr : &ignored), table, target);
  return status;
}

bool HasReason(const absl::Status& status, Reason reason) {
  return ReasonName(status) == Traits(reason).name;
}

// What becomes of a call that is done.
HttpReply Done(const absl::Status& status, std::string_view name, const char* what, const std::string& request_id) {
  if (!status.ok()) return LoraError(status, request_id);
  HttpReply reply = OkReply(kPlainText, request_id);
  reply.body = absl::StrCat("Success: LoRA adapter '", engine::AbslView(name), "' ", what, " successfully.");
  return reply;
}

void Load(const ServingCore& core, bool strict, const HttpRequest& request, const std::string& body, Respond respond) {
  AdapterLoad load;
  load.model_field = "base_model_name";
  absl::Status read = ReadLoraLoad(body, strict, &load);
  const std::string request_id = EchoedRequestIdOf(request);
  if (!read.ok()) return respond(LoraError(read, request_id));
  LoadAdapter(core, request.caller, load,
              [name = load.name, request_id, respond = std::move(respond)](const absl::Status& status) {
                respond(Done(status, name, "added", request_id));
              });
}

void Unload(const ServingCore& core, bool strict, const HttpRequest& request, const std::string& body,
            Respond respond) {
  std::string name;
  absl::Status read = ReadLoraUnload(body, strict, &name);
  const std::string request_id = EchoedRequestIdOf(request);
  if (!read.ok()) return respond(LoraError(read, request_id));
  ChangeAdapter(core, request.caller, name, &ModelLifecycle::UnloadAdapter,
                [name, request_id, respond = std::move(respond)](const absl::Status& status) {
                  respond(Done(status, name, "removed", request_id));
                });
}

}  // namespace

absl::Status ReadLoraLoad(std::string_view body, bool strict, AdapterLoad* load) {
  absl::Status read = ReadMembers(body, strict, FieldTable<AdapterLoad>(kLoad), load);
  if (!read.ok()) return read;
  if (load->name.empty()) return InvalidField(kName, "is missing", "the name that requests will use");
  if (load->path.empty()) return InvalidField("lora_path", "is missing", "a PEFT directory or a GGUF file");
  return absl::OkStatus();
}

absl::Status ReadLoraUnload(std::string_view body, bool strict, std::string* name) {
  absl::Status read = ReadMembers(body, strict, FieldTable<std::string>(kUnload), name);
  if (!read.ok() || !name->empty()) return read;
  return InvalidField(kName, "is missing", "the name of an adapter");
}

HttpReply LoraError(const absl::Status& status, std::string_view request_id) {
  HttpReply reply = ErrorReply(status, "", request_id);
  if (HasReason(status, Reason::kModelMemory)) reply.status = 400;  // no retry helps
  const char* type = "InternalServerError";
  if (reply.status < 500) type = "BadRequestError";
  if (reply.status == 404) type = "NotFoundError";
  if (HasReason(status, Reason::kInvalidField) || HasReason(status, Reason::kAdapterExists)) type = "InvalidUserInput";
  reply.body = "{\"error\":{";
  AppendJsonMember("message", Utf8OrReplaced(engine::StdView(status.message())), &reply.body);
  absl::StrAppend(&reply.body, ",\"type\":\"", type, "\",\"param\":null,\"code\":", reply.status, "}}");
  return reply;
}

std::vector<HttpRoute> LoraRoutes(const ServingCore* core, bool strict) {
  return {DeferredDocumentRoute("/v1/load_lora_adapter",
                                [core, strict](const HttpRequest& request, const std::string& body, Respond respond) {
                                  Load(*core, strict, request, body, std::move(respond));
                                }),
          DeferredDocumentRoute("/v1/unload_lora_adapter",
                                [core, strict](const HttpRequest& request, const std::string& body, Respond respond) {
                                  Unload(*core, strict, request, body, std::move(respond));
                                })};
}

}  // namespace dunlin::server
