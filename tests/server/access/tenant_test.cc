// SPDX-License-Identifier: Apache-2.0
#include "server/access/tenant.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace dunlin::server {
namespace {

TEST(Tenant, EveryNameIsOneOfItsOwn) {
  EXPECT_EQ(TenantOf(""), engine::kSharedTenant);
  EXPECT_EQ(TenantOf("team-a"), TenantOf(std::string("team-") + "a"));
  std::set<engine::TenantId> tenants = {engine::kSharedTenant};
  for (int i = 0; i < 1000; ++i) tenants.insert(TenantOf("team-" + std::to_string(i)));
  EXPECT_EQ(tenants.size(), 1001U);
}

}  // namespace
}  // namespace dunlin::server
