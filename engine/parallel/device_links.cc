// SPDX-License-Identifier: Apache-2.0
#include "engine/parallel/device_links.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

absl::StatusOr<std::unique_ptr<DeviceLinks>> DeviceLinks::Link(const std::vector<kernels::Device*>& ranks) {
  const kernels::DeviceOps* ops = ranks.front()->ops;
  if (ops->link_ranks == nullptr) return nullptr;
  std::vector<kernels::DeviceContext*> contexts;
  contexts.reserve(ranks.size());
  for (const kernels::Device* rank : ranks) contexts.push_back(rank->context);
  std::string reason;
  kernels::RankLinks* links = ops->link_ranks(contexts.data(), static_cast<int32_t>(contexts.size()), &reason);
  if (links != nullptr) {
    if (!reason.empty()) reason = absl::StrCat("its ranks exchange rows through memory of the host: ", reason);
    return std::unique_ptr<DeviceLinks>(new DeviceLinks(ops, links, std::move(reason)));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("models[].parallel.tensor is ", ranks.size(), ", but its ranks cannot be linked: ", reason));
}

}  // namespace dunlin::engine
