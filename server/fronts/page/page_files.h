// SPDX-License-Identifier: Apache-2.0
// The files of the page, embedded in the binary by embed.cmake. Const data, any thread.
#pragma once

#include <span>
#include <string_view>

namespace dunlin::server::page {

struct PageFile {
  std::string_view name;  // "index.html", in the folder web
  std::string_view content_type;
  std::string_view digest;  // the first 32 hexadecimal digits of the SHA-256 of bytes
  std::string_view bytes;
  std::string_view gzip;  // the same, compressed
};

std::span<const PageFile> PageFiles();

}  // namespace dunlin::server::page
