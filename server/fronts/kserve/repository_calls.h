// SPDX-License-Identifier: Apache-2.0
// The repository of Triton's extension: its index, and calls that load and unload. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "kserve/grpc_service.pb.h"
#include "server/access/principal.h"
#include "server/models/model_lifecycle.h"
#include "server/serving/core/serving_core.h"

namespace dunlin::server::kserve {

// Whether the model's next request would load it: routers hear that it is ready.
bool IsLoadedByRequest(const ServingCore& core, const Principal& caller, const std::string& model,
                       std::string_view version);

// Every model that the caller may use, in its state; one that its next request would load is READY, too. Adapters
// follow, as models of their own. only_ready: without those that take no requests.
void DescribeIndex(const ServingCore& core, const Principal& caller, bool only_ready,
                   inference::RepositoryIndexResponse* out);

// Loads a model, or reads the files of a served one again; of an adapter's name, that adapter's files. Where callers
// may not change models, a load of a served one has no effect and is OK. Errors: as ChangeModel's; UNIMPLEMENTED with
// parameters, which would override its files and its config.
void LoadModel(const ServingCore& core, const Principal& caller, const std::string& model, bool has_parameters,
               ModelLifecycle::Done done);
// Errors: as ChangeModel's. There are no dependents to unload with it.
void UnloadModel(const ServingCore& core, const Principal& caller, const std::string& model, ModelLifecycle::Done done);

}  // namespace dunlin::server::kserve
