// Models of the goldens, loaded on a CPU device of a chosen variant.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

inline const std::vector<Precision> kAllPrecisions = {Precision::kFp32, Precision::kBf16, Precision::kFp16,
                                                      Precision::kFp8};

// Every model of tests/golden/models, in order of name.
std::vector<std::string> GoldenModelNames();
// tests/golden/models/<name>
std::string GoldenModelPath(const std::string& name);
// <repository>/<path>
std::string SourcePath(const std::string& path);

// A model with its device; the device outlives it.
struct TestModel {
  std::unique_ptr<kernels::Device> device;
  std::unique_ptr<Model> model;
};

// Dies with the reason when the model cannot be loaded.
TestModel LoadTestModel(const std::string& path, const std::string& cpu_variant, int num_threads,
                        const std::vector<Precision>& precisions);

// The same for random weights of a named shape, in the best variant.
TestModel LoadRandomModel(const std::string& shape, int num_threads, const std::vector<Precision>& precisions);

}  // namespace dunlin::engine
