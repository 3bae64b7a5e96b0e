// SPDX-License-Identifier: Apache-2.0
// The keys that offer an attention backend, a row of the key table for each backend.
#pragma once

#include <array>
#include <cstddef>

#include "engine/request/options.h"
#include "kernels/api/attention_backend.h"
#include "server/config/static_text.h"

namespace dunlin::server {

// attention.enable_<name> of every backend, in the order in which AUTO tries them.
struct BackendKey {
  StaticText path;
  StaticText description;
};
inline constexpr auto kBackendKeys = [] {
  std::array<BackendKey, kernels::kAutoOrder.size()> keys{};
  for (size_t i = 0; i < keys.size(); ++i) {
    const kernels::AttentionBackendTraits& row = kernels::Traits(kernels::kAutoOrder[i]);
    keys[i].path.Append(engine::kEnableBackendKey);
    keys[i].path.Append(row.name);
    keys[i].description.Append("Offer the ");
    keys[i].description.Append(row.label);
    keys[i].description.Append(" backend");
  }
  return keys;
}();

}  // namespace dunlin::server
