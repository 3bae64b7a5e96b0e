// SPDX-License-Identifier: Apache-2.0
#include "server/access/listen_address.h"

#include <arpa/inet.h>

namespace dunlin::server {
namespace {

// A number in 127.0.0.0/8: a name may begin like one.
bool IsLoopbackIpv4(const std::string& host) {
  in_addr number{};
  return host.starts_with("127.") && inet_pton(AF_INET, host.c_str(), &number) == 1;
}

}  // namespace

bool IsUnixSocket(const std::string& address) {
  return address.starts_with("unix:");
}

bool IsLoopback(const std::string& address) {
  return IsLoopbackIpv4(address.substr(0, address.rfind(':'))) || address.starts_with("localhost:") ||
         address.starts_with("[::1]:") || IsUnixSocket(address);
}

}  // namespace dunlin::server
