// SPDX-License-Identifier: Apache-2.0
// Records what one thread enqueues as a CUDA graph: its operations go to a stream of the recorder's own that is being
// captured, while other threads' go on to the device's stream. Thread rule: any thread; one records at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <thread>

namespace dunlin::kernels::cuda {

class GraphRecorder {
 public:
  // The stream; without one Begin returns false.
  cudaError_t Create() { return cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
  void Destroy();

  bool can_record() const { return stream_ != nullptr; }
  // From here on the calling thread records. False while another one does, and where the runtime refuses.
  bool Begin();
  // Null where something was refused meanwhile; the device goes on as if nothing of it had been enqueued.
  cudaGraphExec_t End();
  // Whether the calling thread is between Begin and End.
  bool recording() const { return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
  cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  std::atomic<std::thread::id> owner_{};  // no thread: nobody records
};

// The stream that an operation is enqueued on: the device's or, of a thread that records, the recorder's. Launches take
// it as a cudaStream_t, so that every operation can be recorded.
struct OperationStream {
  cudaStream_t device = nullptr;
  GraphRecorder recorder;

  operator cudaStream_t() const { return recorder.recording() ? recorder.stream() : device; }
};

}  // namespace dunlin::kernels::cuda
