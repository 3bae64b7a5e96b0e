// SPDX-License-Identifier: Apache-2.0
// TraceSetting and LogSettings: what the server's config says, in Triton's words. Nothing can be set: a request with a
// setting is refused by its name. Any thread.
#pragma once

#include "absl/status/status.h"
#include "kserve/grpc_service.pb.h"

namespace dunlin::server::kserve {

// traces: spans of requests are exported. Errors: UNIMPLEMENTED, naming a setting of the request.
absl::Status AnswerTraceSetting(bool traces, const inference::TraceSettingRequest& request,
                                inference::TraceSettingResponse* response);
absl::Status AnswerLogSettings(const inference::LogSettingsRequest& request, inference::LogSettingsResponse* response);

}  // namespace dunlin::server::kserve
