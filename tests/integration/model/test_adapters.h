// SPDX-License-Identifier: Apache-2.0
// The adapters of tests/golden/adapters, loaded for a model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/adapters/adapter_set.h"

namespace dunlin::engine {

// tests/golden/adapters/<name>
std::string GoldenAdapterPath(const std::string& name);
// Limits that hold each of them.
AdapterLimits TestAdapterLimits();
// The adapters of these names. Dies with the reason when one cannot be loaded. model outlives the set.
std::unique_ptr<AdapterSet> LoadTestAdapters(const Model* model, const std::vector<std::string>& names);

}  // namespace dunlin::engine
