// SPDX-License-Identifier: Apache-2.0
// One entry of the key file: a holder, the digests of its keys, and what they may do. Constant once it is read; plain
// data, any thread.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/dtype.h"
#include "server/access/key_digest.h"
#include "server/access/permissions.h"
#include "server/access/quota.h"

namespace dunlin::server {

struct KeyRecord {
  std::string name;                // letters, digits, '.', '_', '-'; in logs and metrics
  std::vector<KeyDigest> digests;  // of its keys: two while one is being replaced
  std::bitset<kNumPermissions> permissions;
  std::vector<std::string> models;  // by name; meaningless if all_models
  bool all_models = false;          // "*"
  int32_t max_priority = 0;         // the highest that its requests may ask for
  QuotaLimits quota;
  std::bitset<kernels::kNumAttentionBackends> attention_backends;
  std::bitset<kernels::kNumPrecisions> precisions;
  absl::Time not_after = absl::InfiniteFuture();  // later, its keys are unknown

  bool Has(Permission permission) const { return permissions[static_cast<size_t>(permission)]; }
  bool MayUse(std::string_view model) const {
    return all_models || std::find(models.begin(), models.end(), model) != models.end();
  }
  bool MayUse(kernels::AttentionBackend backend) const { return attention_backends[static_cast<size_t>(backend)]; }
  bool MayUse(kernels::Precision precision) const { return precisions[static_cast<size_t>(precision)]; }
};

}  // namespace dunlin::server
