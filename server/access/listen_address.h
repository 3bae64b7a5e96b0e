// SPDX-License-Identifier: Apache-2.0
// Which addresses other machines can reach. Pure functions of the text of an address.
#pragma once

#include <string>

namespace dunlin::server {

// "unix:/run/dunlin/socket".
bool IsUnixSocket(const std::string& address);

// True for "localhost", 127.0.0.0/8, ::1 and Unix sockets; false for other names and addresses. address: with its port.
bool IsLoopback(const std::string& address);

}  // namespace dunlin::server
