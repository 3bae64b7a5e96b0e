// SPDX-License-Identifier: Apache-2.0
// Accesses to shared memory that nothing puts in order: a race detector of the host's machine, by vector clocks.
// Sources of writes are warps, whose lanes count as one thread, and mbarriers, at whose phases copies by TMA complete.
// An access is over for a warp once it has met the other's at a barrier; a product's read, after the reader has waited
// for it. Source: Flanagan, Freund 2009 (FastTrack).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dunlin::kernels::cuda {

class SharedAccesses {
 public:
  // Of each source, up to which of its releases, or phases, what it did is known to be over.
  using Clock = std::vector<uint32_t>;

  SharedAccesses(size_t bytes, size_t warps);

  // "" or the race.
  std::string Read(size_t warp, uint32_t address, uint32_t bytes);
  std::string Write(size_t warp, uint32_t address, uint32_t bytes);
  // A copy that `warp` starts, which completes when the barrier has completed `phase` phases.
  std::string Copy(size_t warp, uint32_t address, uint32_t bytes, size_t barrier, int64_t phase);
  // A product of these warps, begun at the moment `begun`, reads 16 bytes. For each warp the read goes on until its
  // EndRead.
  std::string ReadByProduct(size_t first_warp, size_t warps, uint32_t address, uint64_t begun);
  void EndRead(size_t warp, uint32_t address) { ReadOf(address / kPiece, warp) = releases_[warp]; }
  uint64_t Now() const { return now_; }
  // Whether a copy brought the 16 bytes at `first`, and not those at `address`.
  bool OutsideOfCopy(uint32_t first, uint32_t address) const {
    const Written& copied = written_[first / kPiece];
    return copied.source >= releases_.size() && written_[address / kPiece].moment != copied.moment;
  }

  size_t AddBarrier();
  // At barriers: what `warp` knows and has done so far goes to whoever acquires it; a phase's end goes to who waits.
  void Release(size_t warp, Clock* to);
  void Complete(size_t barrier, int64_t phases, Clock* to);
  void Acquire(size_t warp, const Clock& from);

 private:
  static constexpr uint32_t kPiece = 16;  // bytes, which are told apart
  static constexpr uint32_t kInFlight = UINT32_MAX;
  static constexpr size_t kMostBarriers = 64;
  struct Written {
    uint32_t source = 0;
    uint32_t at = 0;  // of the source's clock
    uint64_t moment = 0;
  };

  uint32_t& ReadOf(uint32_t piece, size_t warp) { return reads_[piece * releases_.size() + warp]; }
  bool Knows(size_t warp, const Written& written) const {
    return written.source == warp || written.at <= known_[warp][written.source];
  }
  std::string Overwrite(size_t warp, uint32_t address, uint32_t bytes, uint32_t source, uint32_t at);
  std::string NameOf(uint32_t source) const;

  std::vector<uint32_t> releases_;  // of each warp, so far, and one
  std::vector<Clock> known_;        // by each warp
  std::vector<uint32_t> reads_;     // of each piece by each warp: `releases_` at the last one
  std::vector<Written> written_;    // each piece, the last time
  uint64_t now_ = 0;                // writes and copies so far
  size_t barriers_ = 0;
};

}  // namespace dunlin::kernels::cuda
