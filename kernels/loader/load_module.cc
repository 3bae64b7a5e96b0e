// SPDX-License-Identifier: Apache-2.0
#include "kernels/loader/load_module.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include "kernels/api/device_module.h"

namespace dunlin::kernels {
namespace {

const DeviceModule* FindModule(const std::string& path, std::string* error) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *error = std::string("the CUDA module cannot be loaded: ") + dlerror();
    return nullptr;
  }
  const auto entry = reinterpret_cast<DeviceModuleEntry>(dlsym(library, kDeviceModuleEntry));
  if (entry == nullptr) {
    *error = path + " is not a device module: it exports no " + kDeviceModuleEntry;
    return nullptr;
  }
  return entry();
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Empty when the module can be used.
std::string ReasonAgainst(const DeviceModule& module, const std::string& path) {
  if (module.abi_version != kDeviceModuleAbi) {
    return path + " has module ABI " + std::to_string(module.abi_version) + "; this binary has " +
           std::to_string(kDeviceModuleAbi);
  }
  if (std::strcmp(module.api_digest, DUNLIN_API_DIGEST) != 0) {
    return path + " belongs to another build of dunlin: its kernel contract differs from this binary's";
  }
  const std::vector<std::string> missing = MissingEntries(*module.ops);
  if (!missing.empty()) return path + " is not complete: it lacks " + Joined(missing);
  if (module.ops->kind != DeviceKind::kCuda) return path + " is not a module of a cuda device";
  return "";
}

struct TableEntry {
  const char* name;
  bool present;
};

std::vector<std::string> NamesOfMissing(std::span<const TableEntry> entries) {
  std::vector<std::string> missing;
  for (const TableEntry& entry : entries) {
    if (!entry.present) missing.emplace_back(entry.name);
  }
  return missing;
}

// Of entries of groups of tokens, and of residual streams.
constexpr size_t kStreamEntries = 6;
std::array<TableEntry, kStreamEntries> EntriesOfStreams(const DeviceOps& ops) {
  return {{{"rotate_heads", ops.rotate_heads != nullptr},
           {"compress_keys", ops.compress_keys != nullptr},
           {"select_entries", ops.select_entries != nullptr},
           {"compressed_attention", ops.compressed_attention != nullptr},
           {"read_streams", ops.read_streams != nullptr},
           {"write_streams", ops.write_streams != nullptr}}};
}

constexpr size_t kSamplingEntries = 3;
std::array<TableEntry, kSamplingEntries> EntriesOfSampling(const DeviceOps& ops) {
  return {{{"sample_workspace", ops.sample_workspace != nullptr},
           {"sample", ops.sample != nullptr},
           {"take_drawn", ops.take_drawn != nullptr}}};
}

}  // namespace

// Of all entries but the kind, and reserve and back, which a device with memory of its own has not.
std::vector<std::string> MissingEntries(const DeviceOps& ops) {
  const TableEntry entries[] = {
      {"allocate", ops.allocate != nullptr},
      {"release", ops.release != nullptr},
      {"copy_to_device", ops.copy_to_device != nullptr},
      {"copy_to_host", ops.copy_to_host != nullptr},
      {"allocate_host", ops.allocate_host != nullptr},
      {"release_host", ops.release_host != nullptr},
      {"synchronize", ops.synchronize != nullptr},
      {"memory", ops.memory != nullptr},
      {"create_event", ops.create_event != nullptr},
      {"destroy_event", ops.destroy_event != nullptr},
      {"record_event", ops.record_event != nullptr},
      {"wait_event", ops.wait_event != nullptr},
      {"supports_graphs", ops.supports_graphs != nullptr},
      {"begin_graph", ops.begin_graph != nullptr},
      {"end_graph", ops.end_graph != nullptr},
      {"launch_graph", ops.launch_graph != nullptr},
      {"destroy_graph", ops.destroy_graph != nullptr},
      {"prefill_matches_decode", ops.prefill_matches_decode != nullptr},
      {"supports_model", ops.supports_model != nullptr},
      {"packed_weight_bytes", ops.packed_weight_bytes != nullptr},
      {"pack_weight", ops.pack_weight != nullptr},
      {"activation_bytes", ops.activation_bytes != nullptr},
      {"gemm", ops.gemm != nullptr},
      {"gemm_fuses", ops.gemm_fuses != nullptr},
      {"grouped_gemm", ops.grouped_gemm != nullptr},
      {"batched_gemm", ops.batched_gemm != nullptr},
      {"add_low_rank", ops.add_low_rank != nullptr},
      {"set_tuning", ops.set_tuning != nullptr},
      {"gather_rows", ops.gather_rows != nullptr},
      {"norm", ops.norm != nullptr},
      {"softcap", ops.softcap != nullptr},
      {"quantize", ops.quantize != nullptr},
      {"activate", ops.activate != nullptr},
      {"add", ops.add != nullptr},
      {"copy_rows", ops.copy_rows != nullptr},
      {"copy_columns", ops.copy_columns != nullptr},
      {"route_experts", ops.route_experts != nullptr},
      {"add_weighted_rows", ops.add_weighted_rows != nullptr},
      {"update_delayed_scaling", ops.update_delayed_scaling != nullptr},
      {"rotary_table", ops.rotary_table != nullptr},
      {"rotate_and_store_kv", ops.rotate_and_store_kv != nullptr},
      {"causal_conv", ops.causal_conv != nullptr},
      {"delta_scan", ops.delta_scan != nullptr},
      {"ssm_scan", ops.ssm_scan != nullptr},
      {"gated_group_norm", ops.gated_group_norm != nullptr},
      {"row_gate", ops.row_gate != nullptr},
      {"store_index_keys", ops.store_index_keys != nullptr},
      {"select_keys", ops.select_keys != nullptr},
      {"supports_attention", ops.supports_attention != nullptr},
      {"paged_attention_workspace", ops.paged_attention_workspace != nullptr},
      {"paged_attention", ops.paged_attention != nullptr},
      {"attention_fuses", ops.attention_fuses != nullptr},
      {"dense_attention_workspace", ops.dense_attention_workspace != nullptr},
      {"dense_attention", ops.dense_attention != nullptr},
      {"measure_roofs", ops.measure_roofs != nullptr},
      {"probe_roof", ops.probe_roof != nullptr},
      {"link_ranks", ops.link_ranks != nullptr},
      {"unlink_ranks", ops.unlink_ranks != nullptr},
      {"stop_ranks", ops.stop_ranks != nullptr},
      {"share_columns", ops.share_columns != nullptr},
  };
  constexpr size_t kElsewhere = 3 + kStreamEntries + kSamplingEntries;
  static_assert(sizeof(DeviceOps) == (kElsewhere + std::size(entries)) * sizeof(void*), "one row per entry");
  std::vector<std::string> missing = NamesOfMissing(entries);
  for (std::string& name : NamesOfMissing(EntriesOfStreams(ops))) missing.push_back(std::move(name));
  for (std::string& name : NamesOfMissing(EntriesOfSampling(ops))) missing.push_back(std::move(name));
  return missing;
}

std::unique_ptr<Device> OpenDeviceModule(const DeviceOptions& options, std::string* error) {
  if (options.cuda_module.empty()) {
    *error = "no CUDA module is given";
    return nullptr;
  }
  const DeviceModule* module = FindModule(options.cuda_module, error);
  if (module == nullptr) return nullptr;
  *error = ReasonAgainst(*module, options.cuda_module);
  if (!error->empty()) return nullptr;
  const DeviceModuleOptions module_options{.device = options.cuda_device,
                                           .cublas_library = options.cublas_library.c_str(),
                                           .cublas_algorithm_cache = options.cublas_algorithm_cache.c_str(),
                                           .sm90_kernels = options.sm90_kernels,
                                           .cuda_graphs = options.cuda_graphs};
  DeviceModuleReply reply{};
  DeviceContext* context = module->open(&module_options, &reply);
  if (context == nullptr) {
    *error = reply.error;
    return nullptr;
  }
  auto device = std::make_unique<Device>();
  device->ops = module->ops;
  device->context = context;
  device->close = module->close;
  device->description = reply.description;
  device->facts = reply.facts;
  device->warning = reply.warning;
  return device;
}

}  // namespace dunlin::kernels
