// SPDX-License-Identifier: Apache-2.0
// What the protocol tells of the server and of its models: metadata, configuration, index. Pure functions, any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "kserve/grpc_service.pb.h"
#include "server/models/served_model.h"

namespace dunlin::server::kserve {

// The names of Triton's extensions that are there.
void DescribeServer(const std::string& version, inference::ServerMetadataResponse* out);

// The tensors of Triton's vLLM backend for a model that generates; text_input and FP32 vectors for one that embeds.
// Tensors have no batch dimension.
void DescribeModel(const ServedModel& model, inference::ModelMetadataResponse* out);
void DescribeConfig(const ServedModel& model, inference::ModelConfig* out);
void DescribeIndex(const ServedModel& model, inference::RepositoryIndexResponse::ModelIndex* out);

// The outcome of a request to load a model, which is OK where it is served already and nothing about it is to change.
absl::Status LoadModel(bool served, bool has_parameters);
// UNIMPLEMENTED.
absl::Status UnloadModel();

}  // namespace dunlin::server::kserve
