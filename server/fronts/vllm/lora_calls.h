// SPDX-License-Identifier: Apache-2.0
// LoRA adapters in vllm.Control, and GenerateRequest.lora_name. LoadLora and UnloadLora are answered when they are
// done, on the loader's thread. Any thread.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/fronts/vllm/control_call.h"
#include "server/serving/core/serving_core.h"
#include "vllm/control.pb.h"

namespace dunlin::server {

// Makes the model's name of a request with lora_name the adapter's; a profile that followed it stays. Errors:
// INVALID_ARGUMENT for a name of no adapter, or of one of another model.
absl::Status NameAdapter(const ServingCore& core, const Principal& caller, std::string_view lora_name,
                         std::string* model);

grpc::ServerUnaryReactor* StartLoadLora(const VllmControlCall& call, const grpc::ByteBuffer& message,
                                        grpc::ByteBuffer* response);
grpc::ServerUnaryReactor* StartUnloadLora(const VllmControlCall& call, const grpc::ByteBuffer& message,
                                          grpc::ByteBuffer* response);
// Of every model that the caller may use the adapters of; those that are loaded.
absl::Status ListLoras(const VllmControlCall& call, const ::vllm::ListLorasRequest& request,
                       ::vllm::ListLorasResponse* wire);

}  // namespace dunlin::server
