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

TEST(Tenant, AnAddressIsNoName) {
  EXPECT_EQ(TenantOfAddress("192.0.2.1"), TenantOfAddress("192.0.2.1"));
  EXPECT_NE(TenantOfAddress("192.0.2.1"), TenantOfAddress("192.0.2.2"));
  EXPECT_NE(TenantOfAddress("192.0.2.1"), TenantOf("192.0.2.1")) << "a key may have that name";
  EXPECT_NE(TenantOfAddress(""), engine::kSharedTenant);
}

TEST(Tenant, OfIpv6TheNetworkCounts) {
  EXPECT_EQ(TenantOfAddress("2001:db8:1:2::1"), TenantOfAddress("2001:db8:1:2:ffff::9"));
  EXPECT_NE(TenantOfAddress("2001:db8:1:2::1"), TenantOfAddress("2001:db8:1:3::1"));
}

}  // namespace
}  // namespace dunlin::server
