// SPDX-License-Identifier: Apache-2.0
// How much of a bounded resource one tenant may hold, by a dynamic threshold: held + wanted <= alpha * free. With n
// tenants that want everything each settles at alpha / (1 + alpha * n) of the limit, and 1 / (1 + alpha * n) stays
// free, so a tenant that arrives during a flood finds room. Requests without a name have everything while no tenant
// with one is there. Pure, any thread.
// Source: Choudhury and Hahne 1998, dynamic queue length thresholds.
#pragma once

#include <cstdint>

#include "engine/request/types.h"

namespace dunlin::engine {

// 7: a single tenant leaves an eighth of the resource free.
inline constexpr int64_t kDynamicThresholdAlpha = 7;

// Whether a tenant that holds `held` of `limit` may take `wanted` more, while all tenants together hold `used`. A
// tenant that holds nothing always may: the caller checks that `wanted` is free. Others may not take the last of it.
constexpr bool WithinDynamicThreshold(int64_t held, int64_t wanted, int64_t used, int64_t limit) {
  const int64_t free = limit - used;
  return held == 0 || (wanted < free && held + wanted <= kDynamicThresholdAlpha * free);
}

// The same for a tenant by its id. alone: no other tenant holds any of the resource.
constexpr bool WithinTenantShare(TenantId tenant, bool alone, int64_t held, int64_t wanted, int64_t used,
                                 int64_t limit) {
  return (tenant == kSharedTenant && alone) || WithinDynamicThreshold(held, wanted, used, limit);
}

}  // namespace dunlin::engine
