// SPDX-License-Identifier: Apache-2.0
// Capture with cudaStreamCaptureModeThreadLocal: calls of this thread that a capture cannot contain end it, those of
// other threads do not. Executable graphs keep their parameters; one that is destroyed while it runs is freed after it.
// Source: CUDA runtime API, "Graph Management" and "Stream Management".
#include "kernels/cuda/device/graph_recorder.h"

#include "kernels/cuda/device/launchers.h"

namespace dunlin::kernels::cuda {

void GraphRecorder::Destroy() {
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  stream_ = nullptr;
}

bool GraphRecorder::Begin() {
  std::thread::id nobody;
  if (!can_record() || !owner_.compare_exchange_strong(nobody, std::this_thread::get_id())) return false;
  if (cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal) == cudaSuccess) return true;
  (void)cudaGetLastError();
  owner_ = std::thread::id();
  return false;
}

cudaGraphExec_t GraphRecorder::End() {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaError_t result = cudaStreamEndCapture(stream_, &graph);
  if (result == cudaSuccess) result = cudaGraphInstantiate(&executable, graph, 0);
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();  // a graph that cannot be made is no device failure
  owner_ = std::thread::id();
  return result == cudaSuccess ? executable : nullptr;
}

bool SupportsGraphs(const DeviceContext* context) {
  return context->stream.recorder.can_record();
}

bool BeginGraph(DeviceContext* context) {
  return !context->failed && context->stream.recorder.Begin();
}

DeviceGraph* EndGraph(DeviceContext* context) {
  return reinterpret_cast<DeviceGraph*>(context->stream.recorder.End());
}

KernelStatus LaunchGraph(DeviceContext* context, DeviceGraph* graph) {
  if (context->failed) return KernelStatus::kDeviceError;
  const std::lock_guard<std::mutex> lock(context->turn);  // a graph may use the memory that `turn` guards
  return Checked(context, cudaGraphLaunch(reinterpret_cast<cudaGraphExec_t>(graph), context->stream));
}

void DestroyGraph(DeviceContext* context, DeviceGraph* graph) {
  if (graph != nullptr && !context->failed) {
    (void)Checked(context, cudaGraphExecDestroy(reinterpret_cast<cudaGraphExec_t>(graph)));
  }
}

}  // namespace dunlin::kernels::cuda
