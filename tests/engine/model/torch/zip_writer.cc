// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/model/torch/zip_writer.h"

namespace dunlin::engine {
namespace {

std::string Little(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xFF);
  return text;
}

}  // namespace

std::string ZipBytes(const ZipContents& contents, uint16_t method) {
  std::string bytes;
  std::string directory;
  for (const auto& [name, data] : contents) {
    // Of local header and directory: flags, method, time, date, checksum, both sizes, length of the name.
    const std::string fields = Little(0, 2) + Little(method, 2) + Little(0, 4) + Little(0, 4) + Little(data.size(), 4) +
                               Little(data.size(), 4) + Little(name.size(), 2);
    directory += "PK\1\2" + Little(20, 4) + fields + Little(0, 12) + Little(bytes.size(), 4) + name;
    bytes += "PK\3\4" + Little(20, 2) + fields + Little(0, 2) + name + data;
  }
  const uint64_t count = contents.size();
  return bytes + directory + "PK\5\6" + Little(0, 4) + Little(count, 2) + Little(count, 2) +
         Little(directory.size(), 4) + Little(bytes.size(), 4) + Little(0, 2);
}

std::string TorchBytes(const std::string& pickle, const std::string& storage) {
  return ZipBytes({{"archive/data.pkl", pickle}, {"archive/data/0", storage}, {"archive/byteorder", "little"}});
}

}  // namespace dunlin::engine
