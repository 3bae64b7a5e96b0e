// SPDX-License-Identifier: Apache-2.0
// The demo server, which most tests of this folder start: its files, and two series of its /metrics.
#pragma once

#include <chrono>
#include <string>

namespace dunlin::integration {

inline const std::string kDemo = DUNLIN_SOURCE_DIR "/configs/demo.json";
inline const std::string kDemoModel = DUNLIN_SOURCE_DIR "/models/demo";
// A text that the model was not trained on.
inline const std::string kHeldOutText = DUNLIN_SOURCE_DIR "/tests/golden/models/demo_heldout.txt";

inline const std::string kRunning = R"(vllm:num_requests_running{model_name="demo"})";
inline const std::string kPagesUsed = R"(dunlin_kv_pages_used{model_name="demo"})";

inline double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace dunlin::integration
