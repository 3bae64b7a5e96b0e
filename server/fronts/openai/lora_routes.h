// SPDX-License-Identifier: Apache-2.0
// POST /v1/load_lora_adapter and /v1/unload_lora_adapter, with vLLM's members, statuses and bodies. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/resolve/adapter_changes.h"
#include "server/transport/http/http_route.h"

namespace dunlin::server {

// Members: lora_name, lora_path, load_inplace (false), base_model_name (needed where several models take adapters), and
// is_3d_lora_weight, which has to be false. strict: members without effect are refused. Errors: INVALID_FIELD.
absl::Status ReadLoraLoad(std::string_view body, bool strict, AdapterLoad* load);
// Members: lora_name, and lora_int_id without effect.
absl::Status ReadLoraUnload(std::string_view body, bool strict, std::string* name);

// {"error":{"message","type","param":null,"code"}}: vLLM's words for the type, the HTTP status as the code, which is
// 404 where nothing has the name or the path, and 400 for all else that is wrong with a request or an adapter.
HttpReply LoraError(const absl::Status& status, std::string_view request_id);

std::vector<HttpRoute> LoraRoutes(const ServingCore* core, bool strict);

}  // namespace dunlin::server
