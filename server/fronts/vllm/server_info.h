// SPDX-License-Identifier: Apache-2.0
// What Control says of the server and of the model that it serves: the first one that generates, of those that the
// caller may use. Any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/models/repository.h"
#include "server/serving/core/serving_core.h"
#include "server/transport/zmq/event_publisher.h"
#include "vllm/control.pb.h"

namespace dunlin::server {

// Every model that generates and that the caller may use, in the order in which they were loaded.
std::vector<ModelLease> GeneratingModels(const ServingCore& core, const Principal& caller);
// The first of them. Without one UNAVAILABLE while models load, else FAILED_PRECONDITION.
absl::StatusOr<ModelLease> ControlledModel(const ServingCore& core, const Principal& caller);

void DescribeServer(const ServedModel& model, const std::string& version, const std::string& instance_id,
                    ::vllm::ServerInfo* wire);
void DescribeModel(const ServedModel& model, ::vllm::ModelInfo* wire);
// batches: how many the model's log keeps.
void DescribeKvEventSource(const EventPublisherOptions& source, int32_t batches, ::vllm::KvEventSource* wire);

}  // namespace dunlin::server
