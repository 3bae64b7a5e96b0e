// SPDX-License-Identifier: Apache-2.0
// What the operating system knows of this process, read at each call; 0 where it cannot be read. Any thread.
#pragma once

namespace dunlin::server {

double ResidentBytes();
double CpuSeconds();  // user and system time of all threads since the start
double NumThreads();
double NumOpenDescriptors();
double MaxOpenDescriptors();

}  // namespace dunlin::server
