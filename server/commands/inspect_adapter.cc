// SPDX-License-Identifier: Apache-2.0
#include "server/commands/inspect_adapter.h"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/load_adapter.h"
#include "engine/base/status_name.h"
#include "engine/model/load/gguf_model.h"
#include "engine/model/load/load_model.h"
#include "kernels/api/device.h"
#include "server/commands/command.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

// "layers.0.self_attn.q_proj" -> "q_proj"
std::string LastComponent(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

// PEFT's config says it; of a GGUF file the first matrix has as many rows, or each expert's has.
int64_t RankOf(const engine::AdapterModule& module) {
  const std::vector<int64_t>& shape = module.down.shape;
  return module.rank > 0 || shape.size() < 2 ? module.rank : shape[shape.size() - 2];
}

absl::StatusOr<Json> FilesJson(const std::string& path) {
  const auto modules = engine::IsGgufPath(path) ? engine::OpenGgufAdapter(path) : engine::OpenPeftAdapter(path);
  if (!modules.ok()) return modules.status();
  int64_t rank = 0;
  int64_t parameters = 0;
  std::set<std::string> targets;
  std::set<std::string> dtypes;
  for (const engine::AdapterModule& module : *modules) {
    targets.insert(LastComponent(module.name));
    rank = std::max(rank, RankOf(module));
    for (const engine::AdapterMatrix* matrix : {&module.down, &module.up}) {
      int64_t values = 1;
      for (const int64_t size : matrix->shape) values *= size;
      parameters += values;
      dtypes.insert(kernels::Name(matrix->dtype));
    }
  }
  return Json{{"modules", modules->size()},
              {"targets", targets},
              {"rank", rank},
              {"parameters", parameters},
              {"dtypes", dtypes}};
}

// What the adapter takes in memory, and whether the model has its modules.
absl::StatusOr<Json> FitJson(const std::string& path, const std::string& base) {
  std::string error;
  const auto cpu = kernels::OpenDevice(kernels::DeviceKind::kCpu, {}, &error);
  if (cpu == nullptr) return absl::UnavailableError(absl::StrCat("cpu: ", error));
  engine::ModelSource source;
  source.path = base;
  source.precisions = {engine::Precision::kBf16};
  const absl::StatusOr<std::unique_ptr<engine::Model>> model = engine::LoadModel(source, cpu.get());
  if (!model.ok()) return model.status();
  const engine::AdapterRoom room{.max_rank = engine::kMaxAdapterRank, .max_bytes = std::numeric_limits<size_t>::max()};
  const absl::StatusOr<engine::PackedAdapter> adapter = engine::ReadAdapter(**model, path, room);
  if (!adapter.ok()) return adapter.status();
  return Json{{"model", base}, {"architecture", (*model)->config().architecture}, {"bytes", adapter->layout->bytes}};
}

}  // namespace

int InspectAdapter(const std::string& adapter, const std::string& base, bool json) {
  absl::StatusOr<Json> document = FilesJson(adapter);
  if (document.ok() && !base.empty()) {
    const absl::StatusOr<Json> fit = FitJson(adapter, base);
    if (fit.ok()) {
      document->update(*fit);
    } else {
      document = fit.status();
    }
  }
  if (!document.ok()) {
    const std::string message(document.status().message());
    const std::string code = engine::StatusName(document.status().code());
    if (json) {
      std::cout << Json{{"error", {{"code", code}, {"message", message}, {"details", Json::array()}}}}.dump() << "\n";
    } else {
      std::cerr << code << ": " << message << "\n";
    }
    return kExitFailed;
  }
  if (json) {
    std::cout << document->dump() << "\n";
    return kExitOk;
  }
  for (const auto& [key, value] : document->items()) {
    std::cout << absl::StreamFormat("%-20s %s\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return kExitOk;
}

}  // namespace dunlin::server
