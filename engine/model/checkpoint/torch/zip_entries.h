// SPDX-License-Identifier: Apache-2.0
// The entries of a zip archive, as torch.save writes it: stored, not compressed. Reads the directory at the end of the
// file and nothing else; memory is bounded by kMaxZipDirectoryBytes.
// Source: PKWARE APPNOTE 6.3, sections 4.3 and 4.5.3 (zip64).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/file.h"

namespace dunlin::engine {

inline constexpr uint64_t kMaxZipDirectoryBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxZipEntries = 1'000'000;

struct ZipEntry {
  uint64_t header_offset = 0;  // of the entry's own header, in the file
  uint64_t bytes = 0;
  bool stored = false;
};

// By name. INVALID_ARGUMENT, without the file's name: no zip archive, a directory that is cut short, larger than its
// limits or outside the file, an entry that appears twice. DATA_LOSS when the file cannot be read.
absl::StatusOr<std::map<std::string, ZipEntry, std::less<>>> ListZipEntries(const File& file);

// Where the data of an entry begins. INVALID_ARGUMENT: it is compressed, or its header or its data lie outside the
// file.
absl::StatusOr<uint64_t> ZipDataOffset(const File& file, const std::string& name, const ZipEntry& entry);

}  // namespace dunlin::engine
