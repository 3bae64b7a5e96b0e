// SPDX-License-Identifier: Apache-2.0
// Models of the goldens, loaded on a variant of the CPU or on the device of a module.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "engine/model/model.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

inline const std::vector<Precision> kAllPrecisions = {Precision::kFp32, Precision::kBf16, Precision::kFp16,
                                                      Precision::kFp8,  Precision::kInt8, Precision::kInt4};

// Every model of tests/golden/models, in order of name.
std::vector<std::string> GoldenModelNames();
// tests/golden/models/<name>
std::string GoldenModelPath(const std::string& name);
// <repository>/<path>; where the tests were carried to another machine, DUNLIN_TEST_ROOT is the repository.
std::string SourcePath(const std::string& path);

// Where a test's model runs.
struct Place {
  std::string name;         // of the variant, "fake" or "cuda"
  std::string cpu_variant;  // "" with a module
  std::string module;       // the shared library of a device; "" is the CPU
};
inline void PrintTo(const Place& place, std::ostream* out) {
  *out << place.name;
}
// What the test of a model at a place is called: the model, since the suite's name says where.
inline std::string PlacedModelName(const ::testing::TestParamInfo<std::tuple<Place, std::string>>& info) {
  return std::get<1>(info.param);
}
// The variants of this processor; the best of them alone; the fake module; the CUDA module, where it was built.
std::vector<Place> CpuPlaces();
std::vector<Place> BestCpuPlace();
std::vector<Place> FakePlaces();
std::vector<Place> CudaPlaces();
// Null, with the reason, where the place has no device. num_threads: of the CPU.
std::unique_ptr<kernels::Device> OpenPlace(const Place& place, int num_threads, std::string* reason);

// Whether a device serves a model; false: *reason says why not.
bool Serves(const kernels::Device& device, const std::string& path, std::string* reason);

// A model with its device; the device outlives it.
struct TestModel {
  std::unique_ptr<kernels::Device> device;
  std::unique_ptr<Model> model;
};

// Dies with the reason when the model cannot be loaded. int8_inputs: ModelSource's.
TestModel LoadTestModel(const std::string& path, const std::string& cpu_variant, int num_threads,
                        const std::vector<Precision>& precisions, bool int8_inputs = false);

// The same on a device that is open.
TestModel LoadTestModel(const std::string& path, std::unique_ptr<kernels::Device> device,
                        const std::vector<Precision>& precisions);

// The same for random weights of a named shape, in the best variant.
TestModel LoadRandomModel(const std::string& shape, int num_threads, const std::vector<Precision>& precisions);

}  // namespace dunlin::engine
