// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda/sm90/shared_accesses.h"

#include <algorithm>

namespace dunlin::kernels::cuda {

SharedAccesses::SharedAccesses(size_t bytes, size_t warps)
    : releases_(warps, 1),
      known_(warps, Clock(warps + kMostBarriers)),
      reads_((bytes / kPiece + 1) * warps),
      written_(bytes / kPiece + 1) {}

std::string SharedAccesses::NameOf(uint32_t source) const {
  const auto warps = static_cast<uint32_t>(releases_.size());
  return source < warps ? "warp " + std::to_string(source) : "a copy to barrier " + std::to_string(source - warps);
}

std::string SharedAccesses::Read(size_t warp, uint32_t address, uint32_t bytes) {
  for (uint32_t piece = address / kPiece; piece <= (address + bytes - 1) / kPiece; ++piece) {
    ReadOf(piece, warp) = releases_[warp];
    if (Knows(warp, written_[piece])) continue;
    return "reads at " + std::to_string(address) + " what " + NameOf(written_[piece].source) +
           " may not have written yet";
  }
  return "";
}

std::string SharedAccesses::ReadByProduct(size_t first_warp, size_t warps, uint32_t address, uint64_t begun) {
  const uint32_t piece = address / kPiece;
  std::fill_n(&ReadOf(piece, first_warp), warps, kInFlight);
  const Written& written = written_[piece];
  if (written.moment > begun) {
    return "a product reads at " + std::to_string(address) + " what " + NameOf(written.source) +
           " overwrote after it began";
  }
  for (size_t warp = first_warp; warp < first_warp + warps; ++warp) {
    if (Knows(warp, written)) continue;
    return "a product of warp " + std::to_string(warp) + " reads at " + std::to_string(address) + " what " +
           NameOf(written.source) + " may not have written yet";
  }
  return "";
}

std::string SharedAccesses::Write(size_t warp, uint32_t address, uint32_t bytes) {
  return Overwrite(warp, address, bytes, static_cast<uint32_t>(warp), releases_[warp]);
}

std::string SharedAccesses::Copy(size_t warp, uint32_t address, uint32_t bytes, size_t barrier, int64_t phase) {
  return Overwrite(warp, address, bytes, static_cast<uint32_t>(releases_.size() + barrier),
                   static_cast<uint32_t>(phase));
}

// Warps that write beside each other into one piece are no race.
std::string SharedAccesses::Overwrite(size_t warp, uint32_t address, uint32_t bytes, uint32_t source, uint32_t at) {
  ++now_;
  const Clock& known = known_[warp];
  const bool copies = source >= releases_.size();
  for (uint32_t piece = address / kPiece; piece <= (address + bytes - 1) / kPiece; ++piece) {
    Written& written = written_[piece];
    const bool wrote = written.source < releases_.size() && !copies;
    if (!wrote && !Knows(warp, written)) {
      return "overwrites at " + std::to_string(address) + " what " + NameOf(written.source) +
             " may not have written yet";
    }
    written = {source, at, now_};
    for (size_t reader = 0; reader < releases_.size(); ++reader) {
      const uint32_t read = ReadOf(piece, reader);
      if (read != kInFlight && (reader == warp || read <= known[reader])) continue;
      return "overwrites at " + std::to_string(address) + " what warp " + std::to_string(reader) + " may still read";
    }
  }
  return "";
}

size_t SharedAccesses::AddBarrier() {
  return std::min(barriers_++, kMostBarriers - 1);
}

void SharedAccesses::Release(size_t warp, Clock* to) {
  Clock& known = known_[warp];
  known[warp] = releases_[warp]++;
  to->resize(known.size());
  for (size_t i = 0; i < known.size(); ++i) (*to)[i] = std::max((*to)[i], known[i]);
}

void SharedAccesses::Complete(size_t barrier, int64_t phases, Clock* to) {
  to->resize(known_[0].size());
  (*to)[releases_.size() + barrier] = static_cast<uint32_t>(phases);
}

void SharedAccesses::Acquire(size_t warp, const Clock& from) {
  Clock& known = known_[warp];
  for (size_t i = 0; i < from.size(); ++i) known[i] = std::max(known[i], from[i]);
}

}  // namespace dunlin::kernels::cuda
