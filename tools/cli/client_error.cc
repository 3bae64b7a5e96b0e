// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/client_error.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_name.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace dunlin::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kHttp1Server[] = "Trying to connect an http1.x server";  // gRPC's words

std::string CodeName(const grpc::Status& status) {
  return engine::StatusName(static_cast<absl::StatusCode>(status.error_code()));
}

Json Details(const grpc::Status& status) {
  google::rpc::Status proto;
  std::string text;
  google::protobuf::LinkMessageReflection<google::rpc::BadRequest>();  // keeps the detail types for the Any resolver
  if (!proto.ParseFromString(status.error_details()) ||
      !google::protobuf::util::MessageToJsonString(proto, &text).ok()) {
    return Json::array();
  }
  const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() && parsed.contains("details") ? parsed["details"] : Json::array();
}

}  // namespace

Json ErrorJson(const grpc::Status& status) {
  return {{"error", {{"code", CodeName(status)}, {"message", status.error_message()}, {"details", Details(status)}}}};
}

std::string ErrorLine(const grpc::Status& status) {
  const bool is_http_port = absl::StrContains(status.error_message(), kHttp1Server);
  return absl::StrCat(CodeName(status), ": ", status.error_message(),
                      is_http_port ? "; --address is the server's gRPC port, not its HTTP port" : "");
}

}  // namespace dunlin::cli
