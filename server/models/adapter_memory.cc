// SPDX-License-Identifier: Apache-2.0
#include "server/models/adapter_memory.h"

#include <cstdint>

#include "server/config/config.h"

namespace dunlin::server {

AdapterMemory AdapterMemoryOf(const engine::ModelSummary& summary, const engine::AdapterLimits& limits) {
  if (limits.max_adapters == 0) return {};
  if (limits.max_bytes != kAutoBytes) return {.bytes = limits.max_bytes, .experts = {}};
  const auto bytes_of = [&](int64_t features) {
    return static_cast<size_t>(limits.max_adapters) * static_cast<size_t>(limits.max_rank) *
           static_cast<size_t>(features) * sizeof(float);
  };
  constexpr size_t kMiB = size_t{1} << 20;
  const size_t experts = (bytes_of(summary.expert_features) + kMiB - 1) / kMiB;
  return {.bytes = bytes_of(summary.adaptable_features),
          .experts = {.least = 0, .most = static_cast<int64_t>(experts), .bytes_per_page = kMiB}};
}

}  // namespace dunlin::server
