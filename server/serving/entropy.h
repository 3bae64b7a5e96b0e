// SPDX-License-Identifier: Apache-2.0
// What the core draws for requests that leave it open. One system call each: std::random_device queries the processor's
// features whenever one is made, which traps under a hypervisor. Any thread.
#pragma once

#include <cstdint>
#include <string>

namespace dunlin::server {

std::string DrawRequestId();  // 32 hexadecimal digits
uint64_t DrawSeed();

}  // namespace dunlin::server
