// SPDX-License-Identifier: Apache-2.0
// What the protocol tells of the server and of its models: metadata, configuration. Pure functions, any thread.
#pragma once

#include <string>

#include "kserve/grpc_service.pb.h"
#include "server/serving/resolve/profile_alias.h"

namespace dunlin::server::kserve {

// The names of Triton's extensions that are there.
void DescribeServer(const std::string& version, inference::ServerMetadataResponse* out);

// The tensors of Triton's vLLM backend for a model that generates; text_input and FP32 vectors for one that embeds.
// Tensors have no batch dimension. An adapter has its own name, and all else of its model.
void DescribeModel(const NamedModel& named, inference::ModelMetadataResponse* out);
void DescribeConfig(const NamedModel& named, inference::ModelConfig* out);

}  // namespace dunlin::server::kserve
