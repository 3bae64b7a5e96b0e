// SPDX-License-Identifier: Apache-2.0
#include "server/models/kv_share.h"

namespace dunlin::server {

bool DivideKv(size_t bytes, std::vector<KvShare>* shares) {
  double least = 0;
  double beyond = 0;
  for (KvShare& share : *shares) {
    share.pages = share.least;
    least += static_cast<double>(share.least) * static_cast<double>(share.bytes_per_page);
    beyond += static_cast<double>(share.most - share.least) * static_cast<double>(share.bytes_per_page);
  }
  const double left = static_cast<double>(bytes) - least;
  if (left < 0) return false;
  const double fraction = beyond <= left ? 1.0 : left / beyond;
  for (KvShare& share : *shares) {
    share.pages += static_cast<int64_t>(fraction * static_cast<double>(share.most - share.least));
  }
  return true;
}

}  // namespace dunlin::server
