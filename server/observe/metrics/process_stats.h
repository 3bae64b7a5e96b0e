// SPDX-License-Identifier: Apache-2.0
// Resource usage of this process, read from the operating system at each call; 0 if it cannot be read. Any thread.
#pragma once

namespace dunlin::server {

double ResidentBytes();
// Of malloc: what is allocated and not yet freed; what is freed and kept for later. Walks the lists of what is free, 15
// ms for 100,000 pieces, and holds up an arena's threads as long. 0 under sanitizers, whose malloc does not tell.
struct HeapSize {
  double used_bytes = 0;
  double free_bytes = 0;
};
HeapSize SizeOfHeap();
double CpuSeconds();  // user and system time of all threads since the start
double NumThreads();
double NumOpenDescriptors();
double MaxOpenDescriptors();

}  // namespace dunlin::server
