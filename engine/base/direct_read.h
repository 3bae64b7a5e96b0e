// Reading a file's bytes past the page cache (O_DIRECT), and the question whether the cache has them. Past it, memory
// is filled once, by the disk itself, and the cache keeps what others use. Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dunlin::engine {

// Whether the page cache has [offset, offset + bytes) of the regular file that is open as `fd`: a sample of its pages,
// drawn anew each time, by reads that do not wait. (The kernel's list of a file's pages, mincore, is for its owner and
// who may write it alone.) A miss may bring in its page. False where the file system has no such reads.
// Where the kernel does not count what disks read for a thread, one that answers at once may pass for the cache.
bool IsCached(int fd, uint64_t offset, size_t bytes);

// Fills the front of `out` from `offset` of that file and returns how far: less than all of it at the file's end, on an
// error, and where there is no such way: its file system has none, its blocks are larger than kPageBytes, or /proc is
// missing. REQUIRES: offset, out.data() and out.size() are multiples of kPageBytes (page_buffer.h).
size_t ReadDirect(int fd, uint64_t offset, std::span<std::byte> out);

}  // namespace dunlin::engine
