// SPDX-License-Identifier: Apache-2.0
// Resource usage of this process, read from the operating system at each call; 0 if it cannot be read. Any thread.
#pragma once

namespace dunlin::server {

double ResidentBytes();
double CpuSeconds();  // user and system time of all threads since the start
double NumThreads();
double NumOpenDescriptors();
double MaxOpenDescriptors();

}  // namespace dunlin::server
