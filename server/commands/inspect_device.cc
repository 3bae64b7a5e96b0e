// SPDX-License-Identifier: Apache-2.0
#include "server/commands/inspect_device.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/commands/command.h"
#include "server/models/devices.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr int32_t kHeadDim = 128;  // of the attention whose support is printed

// The lines of Device::facts as an object.
Json FactsJson(std::string_view facts) {
  Json json = Json::object();
  while (!facts.empty()) {
    const std::string_view line = facts.substr(0, facts.find('\n'));
    facts.remove_prefix(line.size() < facts.size() ? line.size() + 1 : line.size());
    const size_t colon = line.find(": ");
    if (colon != std::string_view::npos) json[std::string(line.substr(0, colon))] = line.substr(colon + 2);
  }
  return json;
}

Json AttentionJson(const kernels::Device& device) {
  Json rows = Json::array();
  for (const kernels::AttentionBackendTraits& backend : kernels::kAttentionBackendTable) {
    for (const kernels::DType dtype :
         {kernels::DType::kF32, kernels::DType::kF16, kernels::DType::kBF16, kernels::DType::kF8E4M3}) {
      const kernels::AttentionTraits traits{.dtype = dtype, .head_dim = kHeadDim, .num_heads = 32, .num_kv_heads = 8};
      std::vector<std::string> reasons;
      const bool supported = device.ops->supports_attention(device.context, backend.backend, traits, &reasons);
      rows.push_back(
          {{"backend", backend.name}, {"kv_dtype", Name(dtype)}, {"supported", supported}, {"reasons", reasons}});
    }
  }
  return rows;
}

void PrintDeviceTable(const Json& json) {
  std::cout << json["description"].get<std::string>() << "\n";
  if (!json["facts"].empty()) std::cout << "\n";
  for (const auto& [name, value] : json["facts"].items()) {
    std::cout << absl::StreamFormat("%-24s %s\n", name, value.get<std::string>());
  }
  std::cout << absl::StreamFormat("\n%-10s %-8s supported, heads of %d\n", "backend", "keys", kHeadDim);
  for (const Json& row : json["attention"]) {
    const auto reasons = row["reasons"].get<std::vector<std::string>>();
    std::cout << absl::StreamFormat("%-10s %-8s %s\n", row["backend"].get<std::string>(),
                                    row["kv_dtype"].get<std::string>(),
                                    reasons.empty() ? "yes" : "no: " + absl::StrJoin(reasons, "; "));
  }
}

}  // namespace

int InspectDevice(kernels::DeviceKind kind, const kernels::DeviceOptions& options, bool json) {
  std::string error;
  const auto device = kernels::OpenDevice(kind, ResolveDeviceOptions(options), &error);
  if (device == nullptr) {
    std::cerr << "device " << Name(kind) << " cannot be opened: " << error << "\n";
    return kExitFailed;
  }
  const Json found = {{"device", Name(kind)},
                      {"description", device->description},
                      {"facts", FactsJson(device->facts)},
                      {"attention", AttentionJson(*device)}};
  if (json) {
    std::cout << found.dump() << "\n";
  } else {
    PrintDeviceTable(found);
  }
  return kExitOk;
}

}  // namespace dunlin::server
