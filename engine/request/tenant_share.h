// SPDX-License-Identifier: Apache-2.0
// How much of a bounded resource one tenant may take: at most seven times what it leaves, and the last of it only if it
// has none. So a tenant that comes finds room beside any flood, and with more of them the parts shrink by themselves.
// Requests without a name have everything while no tenant with one is there. Pure, any thread.
// Source: Choudhury and Hahne 1998, dynamic queue length thresholds.
#pragma once

#include <cstdint>

#include "engine/request/types.h"

namespace dunlin::engine {

inline constexpr int64_t kShareOfRest = 7;

// Whether a tenant that holds `held` of `limit` may take `wanted` more, while all tenants together hold `used`. Whether
// there is as much is not asked.
constexpr bool WithinShareOfRest(int64_t held, int64_t wanted, int64_t used, int64_t limit) {
  return held == 0 || (limit - used > wanted && held + wanted <= kShareOfRest * (limit - used));
}

// The same of a tenant by its id; alone: no other one holds any.
constexpr bool WithinTenantShare(TenantId tenant, bool alone, int64_t held, int64_t wanted, int64_t used,
                                 int64_t limit) {
  return (tenant == kSharedTenant && alone) || WithinShareOfRest(held, wanted, used, limit);
}

}  // namespace dunlin::engine
