// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/model/test_model.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/load/inspect.h"
#include "engine/model/load/load_model.h"
#include "engine/model/spec/model_traits.h"
#include "tests/kernels/loader/open_module.h"

namespace dunlin::engine {
namespace {

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

TestModel Load(const ModelSource& source, std::unique_ptr<kernels::Device> device) {
  TestModel test;
  test.device = std::move(device);
  absl::StatusOr<std::unique_ptr<Model>> model = LoadModel(source, test.device.get());
  if (!model.ok()) Die(model.status().ToString());
  test.model = *std::move(model);
  return test;
}

std::unique_ptr<kernels::Device> OpenCpu(const std::string& variant, int num_threads) {
  std::string error;
  auto device = kernels::OpenDevice(kernels::DeviceKind::kCpu, {num_threads, variant}, &error);
  if (device == nullptr) Die(error);
  return device;
}

}  // namespace

std::string SourcePath(const std::string& path) {
  const char* root = std::getenv("DUNLIN_TEST_ROOT");
  return std::string(root == nullptr ? DUNLIN_SOURCE_DIR : root) + "/" + path;
}

std::vector<Place> CpuPlaces() {
  std::vector<Place> places;
  for (const std::string& variant : kernels::AvailableCpuVariants()) places.push_back({variant, variant, ""});
  return places;
}

std::vector<Place> BestCpuPlace() {
  return {CpuPlaces().front()};
}

std::vector<Place> FakePlaces() {
  return {{"fake", "", DUNLIN_MODULE_DIR "/libfake_cuda.so"}};
}

std::vector<Place> CudaPlaces() {
#ifdef DUNLIN_CUDA_MODULE
  return {{"cuda", "", DUNLIN_CUDA_MODULE}};
#else
  return {};
#endif
}

std::unique_ptr<kernels::Device> OpenPlace(const Place& place, int num_threads, std::string* reason) {
  if (place.module.empty()) return OpenCpu(place.cpu_variant, num_threads);
  auto device = kernels::OpenModule(place.module, reason);
  if (device == nullptr) *reason = "no device behind " + place.module + ": " + *reason;
  return device;
}

bool Serves(const kernels::Device& device, const std::string& path, std::string* reason) {
  ModelSource source;
  source.path = path;
  const absl::StatusOr<ModelSummary> summary = InspectModel(source, *device.ops);
  if (!summary.ok()) Die(summary.status().ToString());
  std::vector<std::string> missing;
  const bool serves = device.ops->supports_model(ModelTraitsOf(summary->config), &missing);
  *reason = absl::StrCat(summary->config.architecture, " has ", absl::StrJoin(missing, " and "), ", which ",
                         kernels::Name(device.ops->kind), " does not serve");
  return serves;
}

namespace {

// Another folder is the environment's, with models that a script has drawn.
std::string GoldenModels() {
  const char* drawn = std::getenv("DUNLIN_GOLDEN_MODELS");
  return drawn != nullptr ? drawn : SourcePath("tests/golden/models");
}

}  // namespace

std::string GoldenModelPath(const std::string& name) {
  return absl::StrCat(GoldenModels(), "/", name);
}

std::vector<std::string> GoldenModelNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenModels())) {
    if (std::filesystem::exists(entry.path() / "goldens.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TestModel LoadTestModel(const std::string& path, const std::string& cpu_variant, int num_threads,
                        const std::vector<Precision>& precisions, bool int8_inputs) {
  ModelSource source;
  source.path = path;
  source.precisions = precisions;
  source.int8_inputs = int8_inputs;
  return Load(source, OpenCpu(cpu_variant, num_threads));
}

TestModel LoadTestModel(const std::string& path, std::unique_ptr<kernels::Device> device,
                        const std::vector<Precision>& precisions) {
  ModelSource source;
  source.path = path;
  source.precisions = precisions;
  return Load(source, std::move(device));
}

TestModel LoadRandomModel(const std::string& shape, int num_threads, const std::vector<Precision>& precisions) {
  ModelSource source;
  source.random_shape = shape;
  source.precisions = precisions;
  return Load(source, OpenCpu("", num_threads));
}

}  // namespace dunlin::engine
