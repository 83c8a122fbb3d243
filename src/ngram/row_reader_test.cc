#include "ngram/row_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <thread>

#include "model/model_writer_for_test.h"
#include "ngram/faulty_queue_for_test.h"

namespace sprat {
namespace {

using testing::HasSubstr;

constexpr size_t kRowBytes{512};
constexpr uint64_t kFirstRow{1000};  // rows are not aligned to anything
constexpr size_t kRows{300};

// Byte k of row i.
std::byte ByteOf(size_t i, size_t k) { return static_cast<std::byte>((i * 131 + k * 7) & 255); }

// A file of kRows rows behind kFirstRow other bytes.
std::filesystem::path WriteRows(size_t rows = kRows) {
  std::string content(kFirstRow, '?');
  for (size_t i = 0; i < rows; ++i) {
    for (size_t k = 0; k < kRowBytes; ++k) content.push_back(static_cast<char>(ByteOf(i, k)));
  }
  const std::filesystem::path path = NewTestDirectory("row_reader") / "rows";
  WriteTestFile(path, content);
  return path;
}

std::unique_ptr<RowReader> OpenReader(const std::filesystem::path& path, RowReaderOptions options) {
  options.row_bytes = kRowBytes;
  Result<std::unique_ptr<RowReader>> reader = RowReader::Open({path}, options);
  EXPECT_TRUE(reader.ok()) << reader.error().message();
  return std::move(reader).value();
}

std::unique_ptr<RowReader> OpenFaulty(const std::filesystem::path& path,
                                      const std::shared_ptr<Faults>& faults) {
  RowReaderOptions options;
  options.queue_depth = 8;
  options.open_queue = [faults](size_t) -> Result<std::unique_ptr<ReadQueue>> {
    return std::unique_ptr<ReadQueue>(std::make_unique<FaultyQueue>(faults));
  };
  return OpenReader(path, options);
}

// Reads rows 0, stride, 2 stride, ... below kRows and compares every byte.
void ExpectReads(RowReader& reader, size_t stride = 1) {
  std::vector<std::byte> found(kRows * kRowBytes);
  std::vector<RowRead> reads;
  for (size_t i = 0; i < kRows; i += stride) {
    reads.push_back({.file = 0,
                     .offset = kFirstRow + i * kRowBytes,
                     .destination = found.data() + i * kRowBytes});
  }
  Result<void> read = reader.Read(reads);
  ASSERT_TRUE(read.ok()) << read.error().message();
  for (size_t i = 0; i < kRows; i += stride) {
    for (size_t k = 0; k < kRowBytes; ++k) {
      ASSERT_EQ(found[i * kRowBytes + k], ByteOf(i, k)) << "row " << i << " byte " << k;
    }
  }
}

void ExpectFails(RowReader& reader, std::string_view message) {
  std::vector<std::byte> found(kRows * kRowBytes);
  std::vector<RowRead> reads;
  for (size_t i = 0; i < kRows; ++i) {
    reads.push_back({.file = 0,
                     .offset = kFirstRow + i * kRowBytes,
                     .destination = found.data() + i * kRowBytes});
  }
  Result<void> read = reader.Read(reads);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code(), ErrorCode::kIo);
  EXPECT_THAT(read.error().message(), HasSubstr(message));
}

TEST(RowReader, ReadsUnalignedRowsEitherWay) {
  const std::filesystem::path path = WriteRows();
  for (const bool io_uring : {true, false}) {
    for (const size_t depth : {1, 7, 64}) {
      const auto reader = OpenReader(path, {.queue_depth = depth, .io_uring = io_uring});
      EXPECT_TRUE(io_uring || reader->name() == "pread");
      ExpectReads(*reader);
      ExpectReads(*reader, 7);
      // One read a row, though every eighth takes two blocks.
      EXPECT_EQ(reader->counters().reads, kRows + (kRows + 6) / 7);
      EXPECT_LE(reader->counters().queue_depth, depth);
      EXPECT_EQ(reader->counters().retries, 0u);
    }
  }
}

TEST(RowReader, ReadsFromManyThreads) {
  const auto reader = OpenReader(WriteRows(), {.queue_depth = 16, .lanes = 2});
  std::vector<std::thread> threads;
  for (size_t i = 1; i <= 4; ++i) threads.emplace_back([&, i] { ExpectReads(*reader, i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(RowReader, AMissingFileIsNamed) {
  Result<std::unique_ptr<RowReader>> reader =
      RowReader::Open({"/no/such/file"}, {.row_bytes = kRowBytes});
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(reader.error().message(), HasSubstr("/no/such/file"));
}

TEST(RowReader, ShortReadsAreContinued) {
  const auto faults = std::make_shared<Faults>();
  // Cut at 100 bytes, inside the first block; then at 4096 + 1.
  faults->alter = [](const ReadRequest&, size_t n, int32_t result) {
    return n % 3 == 0 ? std::min(result, 100) : n % 3 == 1 ? std::min(result, 4097) : result;
  };
  const auto reader = OpenFaulty(WriteRows(), faults);
  ExpectReads(*reader);
  EXPECT_GT(reader->counters().retries, 50u);
}

TEST(RowReader, InterruptedReadsAreRepeated) {
  const auto faults = std::make_shared<Faults>();
  faults->alter = [](const ReadRequest& request, size_t n, int32_t result) {
    if (n % 2 == 1) return result;
    std::memset(request.destination, 0xee,
                request.size_bytes);  // what was there counts for nothing
    return n % 4 == 0 ? -EAGAIN : -EINTR;
  };
  const auto reader = OpenFaulty(WriteRows(), faults);
  ExpectReads(*reader);
  EXPECT_GT(reader->counters().retries, 100u);
}

TEST(RowReader, GivesUpOnAReadThatNeverComes) {
  const auto faults = std::make_shared<Faults>();
  faults->alter = [](const ReadRequest&, size_t, int32_t) { return -EAGAIN; };
  const auto reader = OpenFaulty(WriteRows(), faults);
  ExpectFails(*reader, "given up after 64 retries");
  faults->alter = nullptr;
  ExpectReads(*reader);
}

TEST(RowReader, AFailedReadNamesFileAndOffsetAndLeavesTheReaderUsable) {
  const std::filesystem::path path = WriteRows();
  const auto faults = std::make_shared<Faults>();
  faults->alter = [](const ReadRequest&, size_t n, int32_t result) {
    return n == 20 ? -EIO : result;
  };
  const auto reader = OpenFaulty(path, faults);
  ExpectFails(*reader, path.string() + ": reading 512 bytes at ");
  ExpectReads(*reader);  // n is past 20
}

TEST(RowReader, AFullQueueIsEmptiedFirst) {
  const auto faults = std::make_shared<Faults>();
  faults->capacity = 3;  // fewer than the 8 rows in flight that the reader would like
  const auto reader = OpenFaulty(WriteRows(), faults);
  ExpectReads(*reader);
  EXPECT_EQ(reader->counters().queue_depth, 3u);
  faults->capacity = 0;
  ExpectFails(*reader, "takes no read");
}

// Each kind of queue by itself: four reads fit, the fifth once one has been reaped.
TEST(ReadQueue, AFullQueueTakesReadsAgainOnceItIsReaped) {
  const std::filesystem::path path = WriteRows();
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  for (const auto open_queue : {OpenRingQueue, OpenPreadQueue}) {
    Result<std::unique_ptr<ReadQueue>> queue = open_queue(4);
    if (!queue.ok()) continue;  // a sandbox without io_uring
    std::vector<std::byte> found(5 * kRowBytes);
    const auto push = [&](size_t i) {
      return queue.value()->Push({.fd = file,
                                  .offset = kFirstRow + i * kRowBytes,
                                  .size_bytes = kRowBytes,
                                  .destination = found.data() + i * kRowBytes},
                                 i);
    };
    for (size_t i = 0; i < 4; ++i) ASSERT_TRUE(push(i)) << queue.value()->name();
    EXPECT_FALSE(push(4)) << queue.value()->name();
    std::vector<ReadCompletion> completions;
    ASSERT_TRUE(queue.value()->Reap(completions).ok());
    ASSERT_TRUE(push(4)) << queue.value()->name();
    while (completions.size() < 5) ASSERT_TRUE(queue.value()->Reap(completions).ok());
    std::set<size_t> tags;
    for (const ReadCompletion& completion : completions) {
      EXPECT_EQ(completion.result, static_cast<int32_t>(kRowBytes));
      tags.insert(completion.tag);
    }
    EXPECT_EQ(tags.size(), 5u);
    for (size_t i = 0; i < 5 * kRowBytes; ++i) {
      ASSERT_EQ(found[i], ByteOf(i / kRowBytes, i % kRowBytes)) << queue.value()->name();
    }
  }
  close(file);
}

TEST(RowReader, ABrokenQueueIsReplaced) {
  const auto faults = std::make_shared<Faults>();
  faults->breaks = true;
  const auto reader = OpenFaulty(WriteRows(), faults);
  ExpectFails(*reader, "the queue broke");
  faults->breaks = false;
  ExpectReads(*reader);
}

TEST(RowReader, AFileCutUnderUsIsAnErrorAndNoMoreThanThat) {
  const std::filesystem::path path = WriteRows();
  for (const bool io_uring : {true, false}) {
    const auto reader = OpenReader(path, {.queue_depth = 16, .io_uring = io_uring});
    std::filesystem::resize_file(path, kFirstRow + 200 * kRowBytes + 1);
    ExpectFails(*reader, "the file has no byte at");
    // What is left can be read.
    std::vector<std::byte> row(kRowBytes);
    const RowRead read{.file = 0, .offset = kFirstRow, .destination = row.data()};
    ASSERT_TRUE(reader->Read({&read, 1}).ok());
    EXPECT_EQ(row[5], ByteOf(0, 5));
    std::filesystem::remove(path);
    WriteTestFile(path, "");
    const std::filesystem::path whole = WriteRows();
    std::filesystem::rename(whole, path);
  }
}

}  // namespace
}  // namespace sprat
