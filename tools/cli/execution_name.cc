// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/execution_name.h"

#include "absl/strings/ascii.h"

namespace dunlin::cli {
namespace {

// "PRECISION_FP8" -> "fp8"
std::string Word(const std::string& enumerator, size_t prefix_bytes) {
  return enumerator.size() <= prefix_bytes ? "?" : absl::AsciiStrToLower(enumerator.substr(prefix_bytes));
}

}  // namespace

std::string BackendWord(v1::AttentionBackend backend) {
  return Word(v1::AttentionBackend_Name(backend), sizeof("ATTENTION_BACKEND_") - 1);
}

std::string PrecisionWord(v1::Precision precision) {
  return Word(v1::Precision_Name(precision), sizeof("PRECISION_") - 1);
}

std::string DeviceWord(v1::Device device) {
  return Word(v1::Device_Name(device), sizeof("DEVICE_") - 1);
}

nlohmann::ordered_json ExecutionJson(const v1::Execution& execution) {
  nlohmann::ordered_json json = {{"device", DeviceWord(execution.device())},
                                 {"attention_backend", BackendWord(execution.attention_backend())},
                                 {"precision", PrecisionWord(execution.precision())},
                                 {"recipe", execution.recipe()},
                                 {"kv_dtype", execution.kv_dtype()},
                                 {"checkpoint_quantization", execution.checkpoint_quantization()},
                                 {"int8_inputs", execution.int8_inputs()}};
  if (!execution.adapter().empty()) json["adapter"] = execution.adapter();
  if (execution.ranks() > 1) json["ranks"] = execution.ranks();
  return json;
}

}  // namespace dunlin::cli
