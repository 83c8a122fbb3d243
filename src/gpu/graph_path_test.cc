// Tests on a GPU: one plain program, one line a case, exit status 1 if one failed and 77 if there
// is no GPU to test on.
//
//   gpu_tests                                     cases that need no files
//   gpu_tests --model DIR --golden minilm.jsonl   and parity on real weights
//   gpu_tests --model DIR --bench all|query|bulk  times only, as docs/gpu-spike.md reports them
//   gpu_tests --model DIR --batch BxS             one batch, for a profiler
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>

#include "gpu/cases_for_test.h"
#include "gpu/golden_for_test.h"
#include "gpu/graph_path.h"
#include "gpu/model_file_for_test.h"
#include "gpu/random_model_for_test.h"
#include "gpu/twin_for_test.h"

namespace sprat::gpu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint32_t kVocabulary{1000};
constexpr uint32_t kLongest{512};

using Vectors = std::vector<float>;

Vectors Embed(Model& model, const TokenBatch& batch) {
  Vectors out(batch.sequences() * kHidden, std::numeric_limits<float>::quiet_NaN());
  const Result<void> done =
      model.Embed(batch, {}, MatrixView<float>(out.data(), batch.sequences(), kHidden));
  if (!done.ok()) throw Failure{done.error().message()};
  return out;
}

bool SameBits(const float* a, const float* b) {
  return std::memcmp(a, b, kHidden * sizeof(float)) == 0;
}

const RandomModel& Small() {
  static const RandomModel kModel = MakeRandomModel(2, kVocabulary, 1);
  return kModel;
}
std::unique_ptr<GraphPath> OpenSmall(Pooling pooling = Pooling::kMean) {
  return Value(GraphPath::Open(Small().config, Small().Reader(),
                               {.device = 0, .pooling = pooling, .max_sequence = kLongest}));
}
const std::vector<Path> kPaths = {Path::kRow, Path::kTile};
const char* Name(Path path) { return path == Path::kRow ? "row" : "tile"; }

std::unique_ptr<GraphPath> OpenModel(const std::string& directory) {
  const ModelFile file = Value(ModelFile::Open(directory));
  return Value(GraphPath::Open(file.config(), file.Reader(),
                               {.device = 0, .pooling = Pooling::kMean, .max_sequence = 512}));
}

// --- Cases ---------------------------------------------------------------------------------------

std::string AgreesWithTheTwin() {
  const ByteBuffer packed = Value(PackWeights(Small().config, Small().Reader()));
  double cosine = 1, difference = 0;
  for (const Pooling pooling : {Pooling::kMean, Pooling::kCls, Pooling::kMax, Pooling::kMeanSqrtLen,
                                Pooling::kWeightedMean, Pooling::kLastToken}) {
    const bool all = pooling == Pooling::kMean;
    const TokenBatch batch = RandomBatch(
        all ? std::vector<size_t>{1, 2, 16, 17, 64, 65, 130} : std::vector<size_t>{1, 17},
        kVocabulary, 2);
    Twin twin(Small().config, pooling, {packed.begin(), packed.size_bytes()});
    const Vectors expected = twin.Embed(batch, Path::kRow, {kHidden, true});
    const std::unique_ptr<GraphPath> model = OpenSmall(pooling);
    for (const Path path : kPaths) {
      model->ForcePath(path);
      const Vectors vectors = Embed(*model, batch);
      for (size_t i = 0; i < batch.sequences(); ++i) {
        const float *got = &vectors[i * kHidden], *want = &expected[i * kHidden];
        const double c = Cosine(got, want, kHidden), d = LargestDifference(got, want, kHidden);
        Expect(c >= 0.999999 && d <= 3e-4,
               fmt::format("{} path, pooling {}, sequence {}: cosine {}, difference {}", Name(path),
                           Name(pooling), i, c, d));
        cosine = std::min(cosine, c);
        difference = std::max(difference, d);
      }
    }
  }
  return fmt::format("least cosine {:.8f}, largest difference {:.2e}", cosine, difference);
}

void ExpectSameBitsAloneTogetherShuffled(GraphPath& model, const std::vector<size_t>& lengths) {
  const TokenBatch batch = RandomBatch(lengths, kVocabulary, 3);
  const Vectors together = Embed(model, batch);
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  TokenBatch shuffled;
  for (const size_t i : order) shuffled.Append(batch.Sequence(i));
  const Vectors other = Embed(model, shuffled);
  for (size_t i = 0; i < order.size(); ++i) {
    TokenBatch alone;
    alone.Append(batch.Sequence(order[i]));
    const Vectors vector = Embed(model, alone);
    Expect(SameBits(vector.data(), &together[order[i] * kHidden]),
           fmt::format("sequence {} alone", order[i]));
    Expect(SameBits(&other[i * kHidden], vector.data()),
           fmt::format("sequence {} shuffled", order[i]));
  }
}

// B36: alone, together, shuffled; and whatever kernel the number of tokens chooses.
std::string TheBatchDoesNotChangeTheBits() {
  const std::unique_ptr<GraphPath> model = OpenSmall();
  std::vector<size_t> lengths, short_lengths;
  for (size_t i = 0; i < 40; ++i) lengths.push_back(1 + (i * 97) % 250);
  for (size_t i = 0; i < 200; ++i) short_lengths.push_back(1 + (i * 7) % 32);
  ExpectSameBitsAloneTogetherShuffled(*model, lengths);
  ExpectSameBitsAloneTogetherShuffled(*model, short_lengths);
  return "40 sequences of 1 to 250 tokens, 200 of 1 to 32: alone, together, shuffled";
}

std::string EveryLengthHasTheSameBitsOnBothPaths() {
  const std::unique_ptr<GraphPath> model = OpenSmall();
  for (size_t length = 1; length <= 256; ++length) {
    const TokenBatch alone = RandomBatch({length}, kVocabulary, length);
    TokenBatch company = RandomBatch({13}, kVocabulary, 7);
    company.Append(alone.Sequence(0));
    model->ForcePath(Path::kRow);
    const Vectors row = Embed(*model, alone), row_company = Embed(*model, company);
    model->ForcePath(Path::kTile);
    const Vectors tile = Embed(*model, alone), tile_company = Embed(*model, company);
    Expect(SameBits(row.data(), tile.data()), fmt::format("{} tokens: tile path", length));
    Expect(SameBits(row.data(), &row_company[kHidden]), fmt::format("{} tokens: company", length));
    Expect(SameBits(row.data(), &tile_company[kHidden]),
           fmt::format("{} tokens: company, tile path", length));
  }
  return "T = 1..256: query graph, row launches, tile launches";
}

std::string RepeatsHaveTheSameBits() {
  const std::unique_ptr<GraphPath> model = OpenSmall();
  std::vector<size_t> lengths(300, 0);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = 1 + (i * 31) % 256;
  const TokenBatch query = RandomBatch({16}, kVocabulary, 8),
                   bulk = RandomBatch(lengths, kVocabulary, 9);
  const Vectors first = Embed(*model, query), first_bulk = Embed(*model, bulk);
  for (int i = 0; i < 200; ++i) Expect(Embed(*model, query) == first, fmt::format("run {}", i));
  for (int i = 0; i < 50; ++i) Expect(Embed(*model, bulk) == first_bulk, fmt::format("bulk {}", i));
  return fmt::format("200 queries, 50 batches of {} tokens", bulk.tokens.size());
}

std::string BadInputIsAnErrorAndTheModelStaysUsable() {
  const std::unique_ptr<GraphPath> model = OpenSmall();
  const TokenBatch good = RandomBatch({9}, kVocabulary, 10);
  const Vectors before = Embed(*model, good);
  TokenBatch unknown = good;
  unknown.tokens[3] = kVocabulary;
  Vectors out(2 * kHidden);
  const MatrixView<float> view(out.data(), 2, kHidden);
  Result<void> done = model->Embed(unknown, {}, view);
  Expect(!done.ok() && done.error().code() == ErrorCode::kInvalidArgument,
         "id past the vocabulary");
  done = model->Embed(RandomBatch({kLongest + 1}, kVocabulary, 11), {}, view);
  Expect(!done.ok() && done.error().code() == ErrorCode::kInvalidArgument, "too long");
  done = model->Embed(RandomBatch({0}, kVocabulary, 11), {}, view);
  Expect(!done.ok() && done.error().code() == ErrorCode::kInvalidArgument, "empty sequence");
  Embed(*model, RandomBatch({kLongest - 1}, kVocabulary, 12));  // B26: up to the limit
  Embed(*model, RandomBatch({kLongest}, kVocabulary, 12));
  Expect(Embed(*model, good) == before, "other bits after errors");
  Expect(
      !GraphPath::Open(Small().config, Small().Reader(), {.device = 99, .max_sequence = 16}).ok(),
      "device 99 was opened");
  return "unknown id, 0 and 513 tokens, device 99; 511 and 512 tokens work";
}

// B38: scores around +-40 neither overflow nor vanish.
std::string LargeScoresStayFinite() {
  RandomModel model = Small();
  for (auto& [name, values] : model.tensors) {
    const bool sharp = name.ends_with("query.weight") || name.ends_with("key.weight");
    for (float& value : values) value *= sharp ? 4.0f : 1.0f;
  }
  const std::unique_ptr<GraphPath> opened =
      Value(GraphPath::Open(model.config, model.Reader(), {.max_sequence = kLongest}));
  const ByteBuffer packed = Value(PackWeights(model.config, model.Reader()));
  Twin twin(model.config, Pooling::kMean, {packed.begin(), packed.size_bytes()});
  const TokenBatch batch = RandomBatch({1, 120}, kVocabulary, 13);
  const Vectors expected = twin.Embed(batch, Path::kRow, {kHidden, true});
  const Vectors vectors = Embed(*opened, batch);
  double cosine = 1;
  for (size_t i = 0; i < 2; ++i) {
    const double c = Cosine(&vectors[i * kHidden], &expected[i * kHidden], kHidden);
    Expect(c >= 0.9999, fmt::format("sequence {}: cosine {}", i, c));
    cosine = std::min(cosine, c);
  }
  return fmt::format("least cosine {:.7f}", cosine);
}

size_t FreeBytes() {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return free;
}

std::string MemoryStaysFlat() {  // B105
  const size_t at_start = FreeBytes();
  size_t after_open = 0, after_use = 0;
  {
    const std::unique_ptr<GraphPath> model = OpenSmall();
    after_open = FreeBytes();
    std::mt19937 random(14);
    for (int i = 0; i < 2000; ++i) {
      std::vector<size_t> lengths(1 + random() % 32);
      for (size_t& length : lengths) length = 1 + random() % 256;
      Embed(*model, RandomBatch(lengths, kVocabulary, random()));
    }
    after_use = FreeBytes();
  }
  Expect(after_use == after_open, fmt::format("{} bytes more", after_open - after_use));
  Expect(FreeBytes() == at_start, fmt::format("{} bytes not given back", at_start - FreeBytes()));
  return fmt::format("2000 batches; {} MB while open", (at_start - after_open) >> 20);
}

std::string OutOfMemoryIsAnErrorAndLeavesNothing() {
  const size_t at_start = FreeBytes();
  void* hog = nullptr;
  Expect(cudaMalloc(&hog, at_start - (size_t{100} << 20)) == cudaSuccess, "cannot take the memory");
  const size_t before = FreeBytes();
  const Result<std::unique_ptr<GraphPath>> opened =
      GraphPath::Open(Small().config, Small().Reader(), {.max_sequence = kLongest});
  const size_t after = FreeBytes();
  cudaFree(hog);
  Expect(!opened.ok() && opened.error().code() == ErrorCode::kOutOfMemory, "no kOutOfMemory");
  Expect(after >= before, fmt::format("{} bytes not given back", before - after));
  OpenSmall();
  return opened.error().message();
}

double MedianMicroseconds(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

std::string TheFirstQueryIsNotSlow() {  // B109
  const TokenBatch query = RandomBatch({16}, kVocabulary, 15);
  const std::unique_ptr<GraphPath> model = OpenSmall();
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) {
    const Clock::time_point start = Clock::now();
    Embed(*model, query);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  const double median = MedianMicroseconds({times.begin() + 1, times.end()});
  Expect(times[0] <= 3 * median + 50, fmt::format("{} us, then {} us", times[0], median));
  return fmt::format("{:.0f} us, then {:.0f} us", times[0], median);
}

std::string AgreesWithTheGoldenVectors(const std::string& directory, const std::string& golden) {
  const std::vector<GoldenVector> all = Value(ReadGolden(golden));
  const std::unique_ptr<GraphPath> model = OpenModel(directory);
  TokenBatch batch;
  for (const GoldenVector& one : all) batch.Append(one.ids);
  const Vectors together = Embed(*model, batch);
  double cosine = 1, difference = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    TokenBatch alone;
    alone.Append(all[i].ids);
    const Vectors vector = Embed(*model, alone);
    Expect(SameBits(vector.data(), &together[i * kHidden]), fmt::format("text {} alone", i));
    const double c = Cosine(vector.data(), all[i].vector.data(), kHidden);
    const double d = LargestDifference(vector.data(), all[i].vector.data(), kHidden);
    Expect(c >= 0.99999 && d <= 2e-3, fmt::format("text {}: cosine {}, difference {}", i, c, d));
    cosine = std::min(cosine, c);
    difference = std::max(difference, d);
  }
  return fmt::format("{} texts: least cosine {:.8f}, largest difference {:.2e}", all.size(), cosine,
                     difference);
}

// --- Times ---------------------------------------------------------------------------------------

double Percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(p * static_cast<double>(values.size())))];
}

void BenchQueries(GraphPath& model) {
  fmt::print(
      "query: tokens, device us (median of 7 x 200 in a row), ids to vector p50 / p99 us; "
      "stages p50: prepare, enqueue, wait, finish\n");
  for (const size_t tokens : {8, 16, 32, 64, 128, 256}) {
    const TokenBatch query = RandomBatch({tokens}, kVocabulary, tokens);
    std::vector<double> device, wall, stages[4];
    for (int i = 0; i < 7; ++i) device.push_back(1e6 * Value(model.TimeDevice(query, 200)));
    for (int i = 0; i < 2000; ++i) {
      const Clock::time_point start = Clock::now();
      Embed(model, query);
      wall.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
      const QueryTimes times = Value(model.TimeQuery(query, 0));
      stages[0].push_back(times.prepare);
      stages[1].push_back(times.enqueue);
      stages[2].push_back(times.wait);
      stages[3].push_back(times.finish);
    }
    fmt::print("  {:4}  {:7.1f}  {:7.1f} / {:7.1f}   {:.1f} {:.1f} {:.1f} {:.1f}\n", tokens,
               MedianMicroseconds(device), Percentile(wall, 0.5), Percentile(wall, 0.99),
               Percentile(stages[0], 0.5), Percentile(stages[1], 0.5), Percentile(stages[2], 0.5),
               Percentile(stages[3], 0.5));
    std::fflush(stdout);
  }
}

void BenchPathsOfBatches(GraphPath& model) {
  fmt::print("batches of 32-token texts, device us: B, row path, tile path\n");
  for (const size_t b : {2, 4, 8, 16, 32, 64, 128}) {
    const TokenBatch batch = RandomBatch(std::vector<size_t>(b, 32), kVocabulary, b);
    double us[2];
    for (const Path path : kPaths) {
      model.ForcePath(path);
      us[path == Path::kTile] = 1e6 * Value(model.TimeDevice(batch, 50));
    }
    fmt::print("  {:4}  {:8.1f}  {:8.1f}\n", b, us[0], us[1]);
  }
}

void BenchBulk(GraphPath& model, const std::vector<size_t>& lengths) {
  for (const size_t tokens : lengths) {
    const TokenBatch batch = RandomBatch(std::vector<size_t>(1024, tokens), kVocabulary, tokens);
    for (const Path path : {Path::kTile, Path::kRow}) {
      model.ForcePath(path);
      std::vector<double> seconds, wall;
      for (int i = 0; i < 5; ++i) {
        seconds.push_back(Value(model.TimeDevice(batch, path == Path::kTile ? 20 : 2)));
        const Clock::time_point start = Clock::now();
        Embed(model, batch);
        wall.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      }
      fmt::print(
          "bulk 1024 x {} ({} path): device {:.3f} ms, {:.0f} texts/s; host to host {:.3f} ms\n",
          tokens, Name(path), 1e3 * MedianMicroseconds(seconds), 1024 / MedianMicroseconds(seconds),
          1e3 * MedianMicroseconds(wall));
    }
  }
}

int Bench(const std::string& directory, const std::string& what) {
  const std::unique_ptr<GraphPath> model = OpenModel(directory);
  if (what != "bulk") BenchQueries(*model);
  if (what != "query") BenchBulk(*model, {32, 128, 256});
  if (what == "all") BenchPathsOfBatches(*model);
  return 0;
}

// One batch of B texts of S tokens, a few times: for a profiler.
int RunBatch(const std::string& directory, size_t sequences, size_t tokens) {
  const std::unique_ptr<GraphPath> model = OpenModel(directory);
  const TokenBatch batch = RandomBatch(std::vector<size_t>(sequences, tokens), kVocabulary, 1);
  for (int i = 0; i < 3; ++i) Embed(*model, batch);
  return 0;
}

int RunCases(const std::string& model, const std::string& golden) {
  std::vector<Case> cases = {
      {"agrees with the twin", AgreesWithTheTwin},
      {"the batch does not change the bits", TheBatchDoesNotChangeTheBits},
      {"every length has the same bits on both paths", EveryLengthHasTheSameBitsOnBothPaths},
      {"repeats have the same bits", RepeatsHaveTheSameBits},
      {"bad input is an error", BadInputIsAnErrorAndTheModelStaysUsable},
      {"large scores stay finite", LargeScoresStayFinite},
      {"memory stays flat", MemoryStaysFlat},
      {"out of memory is an error", OutOfMemoryIsAnErrorAndLeavesNothing},
      {"the first query is not slow", TheFirstQueryIsNotSlow}};
  if (!golden.empty()) {
    cases.emplace_back("agrees with the golden vectors",
                       [&] { return AgreesWithTheGoldenVectors(model, golden); });
  }
  return RunAll(cases);
}

}  // namespace
}  // namespace sprat::gpu

int main(int argc, char** argv) {
  using namespace sprat::gpu;
  std::string model, golden;
  std::string bench, batch;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--bench" && i + 1 < argc) bench = argv[++i];
    if (argument == "--batch" && i + 1 < argc) batch = argv[++i];
    if (argument == "--model" && i + 1 < argc) model = argv[++i];
    if (argument == "--golden" && i + 1 < argc) golden = argv[++i];
  }
  const sprat::Result<std::string> device = DescribeDevice(0);
  if (!device.ok()) {
    fmt::print("skipped: {}\n", device.error().message());
    return 77;
  }
  fmt::print("# {}\n", device.value());
  try {
    if (!batch.empty()) {
      const size_t cut = batch.find('x');
      return RunBatch(model, std::stoul(batch), std::stoul(batch.substr(cut + 1)));
    }
    return bench.empty() ? RunCases(model, golden) : Bench(model, bench);
  } catch (const Failure& failure) {
    fmt::print("FAILED {}\n", failure.why);
    return 1;
  }
}
