// SPDX-License-Identifier: Apache-2.0
#include "server/access/permissions.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace dunlin::server {

EndpointTable::EndpointTable(std::vector<Endpoint> rows) : rows_(std::move(rows)) {
  const auto name = [](const Endpoint& row) { return std::string_view(row.name); };
  std::ranges::sort(rows_, {}, name);
  DUNLIN_CHECK(std::ranges::adjacent_find(rows_, {}, name) == rows_.end(), "an endpoint has one row");
}

const Endpoint* EndpointTable::Find(std::string_view name) const {
  const auto found =
      std::ranges::lower_bound(rows_, name, {}, [](const Endpoint& row) { return std::string_view(row.name); });
  return found == rows_.end() || found->name != name ? nullptr : &*found;
}

}  // namespace dunlin::server
