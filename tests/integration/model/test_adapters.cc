// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/model/test_adapters.h"

#include "engine/base/check.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {

std::string GoldenAdapterPath(const std::string& name) {
  return SourcePath("tests/golden/adapters/" + name);
}

AdapterLimits TestAdapterLimits() {
  return {.max_adapters = 8, .max_rank = 32, .max_bytes = size_t{1} << 24};
}

std::unique_ptr<AdapterSet> LoadTestAdapters(const Model* model, const std::vector<std::string>& names) {
  auto set = AdapterSet::Create(model, TestAdapterLimits());
  DUNLIN_CHECK(set.ok(), std::string(set.status().message()).c_str());
  for (const std::string& name : names) {
    const auto loaded = (*set)->Load(name, GoldenAdapterPath(name));
    DUNLIN_CHECK(loaded.ok(), std::string(loaded.status().message()).c_str());
  }
  return *std::move(set);
}

}  // namespace dunlin::engine
