// SPDX-License-Identifier: Apache-2.0
// Reads a file's bytes past the page cache (O_DIRECT), and tells whether the cache has them. Past the cache, data is
// copied once less, and the cache keeps what other processes use. Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dunlin::engine {

// Whether the page cache has [offset, offset + bytes) of the regular file that is open as `fd`, judged by non-blocking
// reads of a random sample of its pages. (mincore works only for a file's owner and those who may write it.) A miss may
// bring in its page. False where the file system has no non-blocking reads.
// Where the kernel does not count disk reads per thread, a disk that answers at once may pass for the cache.
bool IsCached(int fd, uint64_t offset, size_t bytes);

// Fills the front of `out` from `offset` of that file and returns how many bytes: fewer than out.size() at the end of
// the file, on an error, and where direct reads are impossible: the file system has none, its blocks are larger than
// kPageBytes, or /proc is missing. REQUIRES: offset, out.data() and out.size() are multiples of kPageBytes
// (page_buffer.h).
size_t ReadDirect(int fd, uint64_t offset, std::span<std::byte> out);

}  // namespace dunlin::engine
