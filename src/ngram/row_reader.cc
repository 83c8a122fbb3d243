#include "ngram/row_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace sprat {
namespace {

constexpr size_t kMostRetries{64};

uint64_t RoundDown(uint64_t n) { return n / RowReader::kBlockBytes * RowReader::kBlockBytes; }
uint64_t RoundUp(uint64_t n) { return RoundDown(n + RowReader::kBlockBytes - 1); }

std::string Reason(int error_number) { return std::generic_category().message(error_number); }

}  // namespace

// One call of Read: keeps up to queue_depth rows in flight until all have ended.
class RowReader::Pass {
 public:
  Pass(RowReader& reader, Lane& lane, std::span<const RowRead> rows)
      : reader_(reader), lane_(lane), rows_(rows), flights_(reader.options_.queue_depth) {
    for (size_t i = flights_.size(); i > 0; --i) idle_.push_back(i - 1);
  }

  Result<void> Run() {
    std::vector<ReadCompletion> completions;
    while (Start(), in_flight_ > 0) {
      completions.clear();
      Result<void> reaped = lane_.queue->Reap(completions);
      if (!reaped.ok()) {
        queue_works_ = false;
        return reaped;
      }
      in_flight_ -= completions.size();
      for (const ReadCompletion& completion : completions) End(completion);
    }
    if (error_) return std::move(*error_);
    if (next_ == rows_.size() && again_.empty()) return {};
    return Error(ErrorCode::kIo, "the read queue takes no read though none is in flight");
  }

  bool queue_works() const { return queue_works_; }

 private:
  // A row on its way: which, and what of its blocks has arrived.
  struct Flight {
    size_t row = 0;
    uint64_t first = 0;    // of its blocks, in the file
    uint64_t arrived = 0;  // bytes
    uint64_t wanted = 0;   // bytes from `first` to the end of the row
    size_t retries = 0;
  };

  std::byte* Blocks(size_t flight) const {
    return lane_.first_block + flight * reader_.blocks_bytes_;
  }

  // Queues as many reads as fit; none after an error.
  void Start() {
    if (error_) return;
    while (!again_.empty()) {
      if (!Push(again_.back())) return;
      again_.pop_back();
    }
    while (next_ < rows_.size() && !idle_.empty()) {
      const RowRead& row = rows_[next_];
      Flight& flight = flights_[idle_.back()];
      flight = {.row = next_, .first = RoundDown(row.offset)};
      flight.wanted = row.offset + reader_.options_.row_bytes - flight.first;
      if (!Push(idle_.back())) return;
      idle_.pop_back();
      ++next_;
    }
  }

  bool Push(size_t index) {
    const Flight& flight = flights_[index];
    // O_DIRECT wants block addresses: what arrived of a cut block is read again.
    const uint64_t done = RoundDown(flight.arrived);
    const auto size_bytes = static_cast<uint32_t>(RoundUp(flight.wanted) - done);
    const ReadRequest request{.fd = reader_.files_[rows_[flight.row].file],
                              .offset = flight.first + done,
                              .size_bytes = size_bytes,
                              .destination = Blocks(index) + done};
    if (!lane_.queue->Push(request, index)) return false;
    ++in_flight_;
    reader_.reads_.fetch_add(1, std::memory_order_relaxed);
    reader_.read_bytes_.fetch_add(size_bytes, std::memory_order_relaxed);
    size_t deepest = reader_.deepest_.load(std::memory_order_relaxed);
    while (in_flight_ > deepest && !reader_.deepest_.compare_exchange_weak(deepest, in_flight_)) {
    }
    return true;
  }

  void End(const ReadCompletion& completion) {
    CHECK(completion.tag < flights_.size());
    Flight& flight = flights_[completion.tag];
    const RowRead& row = rows_[flight.row];
    const int32_t result = completion.result;
    if (result < 0 && result != -EAGAIN && result != -EINTR) return Fail(row, Reason(-result));
    if (result == 0) {
      return Fail(row, fmt::format("the file has no byte at {}, {} before the end of the row",
                                   flight.first + flight.arrived, flight.wanted - flight.arrived));
    }
    if (result > 0) {
      flight.arrived = RoundDown(flight.arrived) + static_cast<uint64_t>(result);
      if (flight.arrived >= flight.wanted) {
        std::memcpy(row.destination, Blocks(completion.tag) + (row.offset - flight.first),
                    reader_.options_.row_bytes);
        idle_.push_back(completion.tag);
        return;
      }
    }
    reader_.retries_.fetch_add(1, std::memory_order_relaxed);
    if (++flight.retries > kMostRetries) {
      return Fail(row, fmt::format("given up after {} retries, the last answered {}", kMostRetries,
                                   result < 0 ? Reason(-result) : "too few bytes"));
    }
    again_.push_back(completion.tag);
  }

  void Fail(const RowRead& row, const std::string& reason) {
    if (error_) return;
    error_ = Error(ErrorCode::kIo,
                   fmt::format("{}: reading {} bytes at {}: {}", reader_.paths_[row.file].string(),
                               reader_.options_.row_bytes, row.offset, reason));
  }

  RowReader& reader_;
  Lane& lane_;
  std::span<const RowRead> rows_;
  std::vector<Flight> flights_;
  std::vector<size_t> idle_;   // flights without a row
  std::vector<size_t> again_;  // flights whose read must be repeated
  size_t next_ = 0;            // the next row without a flight
  size_t in_flight_ = 0;
  bool queue_works_ = true;
  std::optional<Error> error_;  // the first
};

RowReader::RowReader(const RowReaderOptions& options)
    : options_(options), blocks_bytes_(RoundUp(options.row_bytes) + kBlockBytes) {}

RowReader::~RowReader() {
  for (const int file : files_) close(file);
}

Result<std::unique_ptr<RowReader>> RowReader::Open(const std::vector<std::filesystem::path>& files,
                                                   const RowReaderOptions& options) {
  CHECK(options.row_bytes > 0 && options.queue_depth > 0 && options.lanes > 0);
  std::unique_ptr<RowReader> reader(new RowReader(options));
  Result<void> opened = reader->OpenFiles(files);
  if (!opened.ok()) return std::move(opened.error());
  Result<Lane> lane = reader->TakeLane();
  if (!lane.ok()) return std::move(lane.error());
  reader->name_ = lane.value().queue->name();
  reader->PutLane(std::move(lane).value());
  return reader;
}

Result<void> RowReader::OpenFiles(const std::vector<std::filesystem::path>& files) {
  for (const std::filesystem::path& path : files) {
    int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (file < 0 && errno == EINVAL) file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
      return Error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                   path.string() + ": " + Reason(errno));
    }
    files_.push_back(file);
    paths_.push_back(path);
  }
  return {};
}

Result<RowReader::Lane> RowReader::OpenLane() {
  const size_t depth = options_.queue_depth;
  Result<Buffer<std::byte>> blocks =
      Buffer<std::byte>::Allocate(depth * blocks_bytes_ + kBlockBytes);
  if (!blocks.ok()) return std::move(blocks.error());
  Result<std::unique_ptr<ReadQueue>> queue =
      options_.open_queue ? options_.open_queue(depth) : OpenReadQueue(depth, options_.io_uring);
  if (!queue.ok()) return std::move(queue.error());
  const uint64_t first = RoundUp(reinterpret_cast<uintptr_t>(blocks.value().begin()));
  return Lane{.blocks = std::move(blocks).value(),
              .first_block = reinterpret_cast<std::byte*>(first),
              .queue = std::move(queue).value()};
}

Result<RowReader::Lane> RowReader::TakeLane() {
  {
    std::unique_lock lock(mutex_);
    lane_free_.wait(lock, [this] { return !idle_.empty() || lanes_ < options_.lanes; });
    if (!idle_.empty()) {
      Lane lane = std::move(idle_.back());
      idle_.pop_back();
      return lane;
    }
    ++lanes_;
  }
  Result<Lane> lane = OpenLane();
  if (!lane.ok()) DropLane();
  return lane;
}

void RowReader::DropLane() {
  {
    std::lock_guard lock(mutex_);
    --lanes_;
  }
  lane_free_.notify_one();
}

void RowReader::PutLane(Lane lane) {
  {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(lane));
  }
  lane_free_.notify_one();
}

Result<void> RowReader::Read(std::span<const RowRead> rows) {
  if (rows.empty()) return {};
  Result<Lane> lane = TakeLane();
  if (!lane.ok()) return std::move(lane.error());
  Pass pass(*this, lane.value(), rows);
  Result<void> read = pass.Run();
  if (pass.queue_works()) {
    PutLane(std::move(lane).value());
  } else {
    DropLane();
  }
  return read;
}

RowReader::Counters RowReader::counters() const {
  return {.reads = reads_.load(),
          .read_bytes = read_bytes_.load(),
          .retries = retries_.load(),
          .queue_depth = deepest_.load()};
}

}  // namespace sprat
