// SPDX-License-Identifier: Apache-2.0
// Chunks of PNG files with their checksums. Source: PNG (W3C, third edition) 5.3 and annex D.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dunlin::text {

inline std::string BigEndian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  return bytes;
}

// Of a chunk's kind and its data.
inline uint32_t PngChecksum(std::string_view bytes) {
  uint32_t sum = 0xFFFFFFFF;
  for (const char byte : bytes) {
    sum ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = (sum & 1) != 0 ? sum >> 1 ^ 0xEDB88320 : sum >> 1;
  }
  return ~sum;
}

inline std::string PngChunk(const std::string& kind, const std::string& data) {
  return BigEndian(static_cast<uint32_t>(data.size())) + kind + data + BigEndian(PngChecksum(kind + data));
}

}  // namespace dunlin::text
