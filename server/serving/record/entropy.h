// SPDX-License-Identifier: Apache-2.0
// Random request ids, ids of tool calls, and seeds for requests that set none. One system call each: constructing a
// std::random_device queries the CPU's features, which traps under a hypervisor. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dunlin::server {

std::string DrawRequestId();  // 32 hexadecimal digits
uint64_t DrawSeed();
std::string DrawLetters(size_t count);  // random letters and digits, for the id of a tool call

}  // namespace dunlin::server
