// Reads by io_uring.
#include <liburing.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "ngram/read_queue.h"

namespace sprat {
namespace {

Error RingError(const char* what, int error_number) {
  return Error(ErrorCode::kIo, std::string("io_uring ") + what + ": " +
                                   std::generic_category().message(error_number));
}

class RingQueue final : public ReadQueue {
 public:
  RingQueue() = default;
  RingQueue(const RingQueue&) = delete;
  RingQueue& operator=(const RingQueue&) = delete;
  ~RingQueue() override {
    if (open_) io_uring_queue_exit(&ring_);
  }

  Result<void> Open(size_t depth) {
    const int result = io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0);
    if (result < 0) return RingError("setup", -result);
    open_ = true;
    // Before Linux 5.6 there are rings, but this operation is not.
    io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
    const bool reads = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
    io_uring_free_probe(probe);
    return reads ? Result<void>() : RingError("read", EINVAL);
  }

  bool Push(const ReadRequest& request, size_t tag) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return false;
    io_uring_prep_read(entry, request.fd, request.destination, request.size_bytes, request.offset);
    io_uring_sqe_set_data64(entry, tag);
    ++in_flight_;
    return true;
  }

  Result<void> Reap(std::vector<ReadCompletion>& completions) override {
    for (;;) {
      const int result = io_uring_submit_and_wait(&ring_, 1);
      // EAGAIN and EBUSY: the kernel has no room for more until something is taken out.
      const bool again = result == -EINTR || result == -EAGAIN || result == -EBUSY;
      if (result < 0 && !again) {
        Drain();
        return RingError("submit", -result);
      }
      if (TakeOut(completions) > 0) return {};
    }
  }

  std::string_view name() const override { return "io_uring"; }

 private:
  size_t TakeOut(std::vector<ReadCompletion>& completions) {
    size_t taken = 0;
    io_uring_cqe* completion = nullptr;
    while (io_uring_peek_cqe(&ring_, &completion) == 0) {
      completions.push_back({io_uring_cqe_get_data64(completion), completion->res});
      io_uring_cqe_seen(&ring_, completion);
      ++taken;
    }
    in_flight_ -= taken;
    return taken;
  }

  // Waits for what the kernel has accepted, so that nobody's memory is written later.
  void Drain() {
    in_flight_ -= io_uring_sq_ready(&ring_);  // never started
    std::vector<ReadCompletion> dropped;
    while (in_flight_ > 0) {
      io_uring_cqe* completion = nullptr;
      const int result = io_uring_wait_cqe(&ring_, &completion);
      if (result < 0 && result != -EINTR && result != -EAGAIN) break;
      TakeOut(dropped);
    }
    in_flight_ = 0;
  }

  io_uring ring_{};
  bool open_ = false;
  size_t in_flight_ = 0;  // pushed and not taken out
};

}  // namespace

Result<std::unique_ptr<ReadQueue>> OpenRingQueue(size_t depth) {
  auto queue = std::make_unique<RingQueue>();
  Result<void> opened = queue->Open(depth);
  if (!opened.ok()) return std::move(opened.error());
  return std::unique_ptr<ReadQueue>(std::move(queue));
}

}  // namespace sprat
