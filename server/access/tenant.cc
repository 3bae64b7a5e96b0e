// SPDX-License-Identifier: Apache-2.0
#include "server/access/tenant.h"

#include <arpa/inet.h>

#include <string>

namespace dunlin::server {
namespace {

// No name of a key has one (key_set.h), so that no address is the tenant of a key.
constexpr char kAddressPrefix[] = "@";
constexpr size_t kNetworkBytes = 8;  // of an IPv6 address

}  // namespace

engine::TenantId TenantOfAddress(std::string_view address) {
  std::string key = kAddressPrefix;
  in6_addr number{};
  if (inet_pton(AF_INET6, std::string(address).c_str(), &number) == 1) {
    address = {reinterpret_cast<const char*>(number.s6_addr), kNetworkBytes};
  }
  return TenantOf(key.append(address));
}

}  // namespace dunlin::server
