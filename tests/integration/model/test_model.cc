#include "tests/integration/model/test_model.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

namespace dunlin::engine {
namespace {

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

TestModel Load(const ModelSource& source, const kernels::DeviceOptions& options) {
  TestModel test;
  std::string error;
  test.device = kernels::OpenDevice(kernels::DeviceKind::kCpu, options, &error);
  if (test.device == nullptr) Die(error);
  absl::StatusOr<std::unique_ptr<Model>> model = Model::Load(source, test.device.get());
  if (!model.ok()) Die(model.status().ToString());
  test.model = *std::move(model);
  return test;
}

}  // namespace

std::string SourcePath(const std::string& path) {
  return std::string(DUNLIN_SOURCE_DIR) + "/" + path;
}

std::string GoldenModelPath(const std::string& name) {
  return SourcePath("tests/golden/models/" + name);
}

std::vector<std::string> GoldenModelNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("tests/golden/models"))) {
    if (std::filesystem::exists(entry.path() / "goldens.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TestModel LoadTestModel(const std::string& path, const std::string& cpu_variant, int num_threads,
                        const std::vector<Precision>& precisions) {
  ModelSource source;
  source.path = path;
  source.precisions = precisions;
  return Load(source, {num_threads, cpu_variant});
}

TestModel LoadRandomModel(const std::string& shape, int num_threads, const std::vector<Precision>& precisions) {
  ModelSource source;
  source.random_shape = shape;
  source.precisions = precisions;
  return Load(source, {num_threads, ""});
}

}  // namespace dunlin::engine
