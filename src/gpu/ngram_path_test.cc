// Tests of the n-gram embedding on a GPU: one plain program, one line a case, exit status 1 if one
// failed and 77 if there is no GPU to test on.
//
//   gpu_ngram_tests           all cases
//   gpu_ngram_tests --quick   every kernel on small models, for compute-sanitizer
//   gpu_ngram_tests --bench   times at Flash-Lite's dimensions, as docs/ngram.md reports them
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "gpu/cases_for_test.h"
#include "gpu/large_ngram_for_test.h"
#include "gpu/ngram_bench_for_test.h"
#include "gpu/ngram_cached.h"
#include "gpu/ngram_path.h"
#include "gpu/ngram_random_for_test.h"
#include "ngram/dispatch.h"
#include "ngram/ngram_hash.h"
#include "ngram/number_formats.h"
#include "ngram/tiny_ngram_for_test.h"

namespace sprat::gpu {
namespace {

using Tokens = std::vector<uint32_t>;
using Values = std::vector<float>;

// --- Models --------------------------------------------------------------------------------------

NgramConfig ReadConfig(const std::filesystem::path& directory) {
  const std::string text = Value(ReadFile(directory / "config.json", 1 << 20));
  return *Value(ParseNgramConfig("config.json", text, {}));
}

struct Opened {
  NgramConfig config;
  std::unique_ptr<NgramPath> gpu;
  NgramEmbedding cpu;
};
Opened Open(TinyNgram& model, NgramTables form = NgramTables::kMapped) {
  const std::filesystem::path directory = model.Write();
  const NgramConfig config = ReadConfig(directory);
  const TensorFile file = Value(TensorFile::OpenDirectory(directory));
  const NgramTensors tensors = Value(FindNgramTensors(file, config, model.write_word));
  const std::unique_ptr<ThreadPool> threads = Value(ThreadPool::Create(2));
  NgramOptions options;
  options.tables = form;
  options.word_table = model.write_word;
  const RowTables tables = Value(RowTables::Load(config, tensors, options, *threads));
  return {config, Value(NgramPath::Open(Value(NgramWeights::Load(config, tensors, tables)))),
          Value(NgramEmbedding::Open(directory, options))};
}

TinyNgram Tiny(uint32_t hidden, uint32_t neighbours, uint32_t splits) {
  TinyNgram model;
  model.vocabulary = 97;
  model.hidden = hidden;
  model.ratio = 20.5;
  model.neighbours = neighbours;
  model.splits = splits;
  model.seed = hidden + neighbours;
  return model;
}

Values Embed(NgramPath& path, const std::vector<NgramPiece>& pieces, const Values& hidden = {}) {
  size_t tokens = 0;
  for (const NgramPiece& piece : pieces) tokens += piece.tokens.size();
  Values out(tokens * path.plan().hidden, std::numeric_limits<float>::quiet_NaN());
  Done(path.Embed(pieces, hidden, out));
  return out;
}

bool Same(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The largest |found - exact| / |exact| of a row.
template <typename Exact>
double WorstRow(const Values& found, const Exact& exact, size_t hidden) {
  Expect(found.size() == exact.size(), "sizes differ");
  double worst = 0;
  for (size_t row = 0; row < found.size(); row += hidden) {
    double error = 0, norm = 0;
    for (size_t i = row; i < row + hidden; ++i) {
      error += std::pow(double{found[i]} - double{exact[i]}, 2);
      norm += std::pow(double{exact[i]}, 2);
    }
    const double relative = std::sqrt(error / norm);
    worst = relative <= worst ? worst : relative;  // a NaN stays
  }
  return worst;
}

// --- Cases ---------------------------------------------------------------------------------------

std::string IdsOfTheSpecification() {
  NgramConfig config;
  config.vocabulary = 131072;
  config.hidden = 768;
  config.max_order = 4;
  config.splits = 4;
  config.base_rows = 78 * 131072;
  config.eos = 2;
  const std::unique_ptr<NgramPath> path =
      Value(NgramPath::Open(Value(NgramWeights::Allocate(config, true, true))));
  const auto check = [&](const Tokens& tokens, const Tokens& first, const Tokens& last) {
    Tokens ids(tokens.size() * 12);
    Done(path->Ids(std::vector<NgramPiece>{{{}, tokens}}, ids));
    for (size_t t = 0; t < tokens.size(); ++t) {
      Expect(ids[t * 12] == first[t] && ids[t * 12 + 11] == last[t],
             fmt::format("token {}: {} and {}", t, ids[t * 12], ids[t * 12 + 11]));
    }
  };
  check({11, 523, 9001, 44, 130000, 7, 88, 4},
        {11, 1442315, 7217955, 4063161, 5897168, 6814085, 917592, 1310723},
        {11, 1442315, 1811932, 8640817, 4896432, 7713606, 4246721, 611117});
  check({11, 523, 2, 44, 130000, 7, 88, 4},
        {11, 1442315, 7208956, 44, 5897168, 6814085, 917592, 1310723},
        {11, 1442315, 1802933, 44, 5897168, 5601147, 4246721, 611117});
  const NgramHash hash(config, ScalarNgramKernels());
  const Tokens tokens = RandomTokens(4000, config.vocabulary, 3);
  Tokens found(tokens.size() * 12), expected(found.size());
  Done(path->Ids(std::vector<NgramPiece>{{{}, tokens}}, found));
  hash.Ids({}, tokens, expected);
  Expect(found == expected, "ids differ from the CPU's");
  return "two sequences by hand, 4000 tokens as on the CPU";
}

std::string IdsOfPackedBatches() {
  size_t tested = 0;
  for (const char* ignored : {"[]", "[5, 6, 7, 30]"}) {
    for (const uint32_t order : {2, 3, 6}) {
      TinyNgram model = Tiny(64 * (order - 1), order, 1);
      model.newer_names = true;
      model.config_json["oe_ignored_token_ids"] = ignored;
      const Opened opened = Open(model);
      const Tokens all = RandomTokens(300, 40, order);  // stops are frequent
      const std::span<const uint32_t> s(all);
      const std::vector<NgramPiece> pieces = {{{}, s.first(1)},
                                              {s.first(1), s.subspan(1, 60)},
                                              {s.first(2), s.subspan(2, 0)},
                                              {{}, s.subspan(61, 100)},
                                              {s.first(161), s.subspan(161)}};
      Tokens found(300 * opened.config.tables()), expected(found.size());
      Done(opened.gpu->Ids(pieces, found));
      Done(opened.cpu.Ids(pieces, expected));
      Expect(found == expected, fmt::format("order {}, ignored {}", order, ignored));
      tested += found.size();
    }
  }
  return fmt::format("{} ids as on the CPU", tested);
}

const std::vector<size_t> kCounts = {1,  2,  7,  8,   15,  16,  17,  31,  32,  33,  48,
                                     63, 64, 65, 127, 128, 129, 255, 256, 257, 300, 520};

std::string VectorsOfTheReference() {
  double worst = 0, from_cpu = 0;
  for (const auto& [hidden, order, splits] :
       {std::tuple{256u, 3u, 2u}, {768u, 4u, 4u}, {64u, 2u, 1u}, {384u, 3u, 3u}, {1280u, 6u, 1u}}) {
    for (const auto scale : {ReferenceScale::kAverage, ReferenceScale::kFixed}) {
      TinyNgram model = Tiny(hidden, order, splits);
      if (scale == ReferenceScale::kFixed) {
        model.config_json["ngram_fix_normalize_factor"] = "true";
      }
      const Opened opened = Open(model);
      const Tokens tokens = RandomTokens(300, model.vocabulary, hidden);
      const std::vector<double> exact = ReferenceVectors(model, tokens, {model.eos}, scale);
      Values cpu(tokens.size() * hidden);
      Done(opened.cpu.Embed({}, tokens, cpu));
      for (const size_t count : {size_t{1}, size_t{16}, size_t{30}, size_t{64}, size_t{300}}) {
        const std::span<const uint32_t> first = std::span(tokens).first(count);
        const Values out = Embed(*opened.gpu, {{{}, first}});
        const double error =
            WorstRow(out, std::vector<double>(exact.begin(), exact.begin() + out.size()), hidden);
        Expect(error < 0.005, fmt::format("H {}, G {}, {} tokens: error {}", hidden,
                                          opened.config.tables(), count, error));
        worst = std::max(worst, error);
        from_cpu = std::max(from_cpu,
                            WorstRow(out, Values(cpu.begin(), cpu.begin() + out.size()), hidden));
      }
    }
  }
  Expect(from_cpu < 0.005, fmt::format("{} from the CPU's", from_cpu));
  return fmt::format("worst row {:.3f} %, {:.3f} % from the CPU's", 100 * worst, 100 * from_cpu);
}

// Every number of tokens, every kernel, any cut: the same bits.
void ExpectSameBits(NgramPath& path, uint32_t vocabulary,
                    const std::vector<size_t>& counts = kCounts) {
  const Tokens tokens = RandomTokens(counts.back(), vocabulary, 11);
  const std::span<const uint32_t> all(tokens);
  path.ForceKernel(NgramKernel::kBatch);
  const Values whole = Embed(path, {{{}, all}});
  const size_t hidden = path.plan().hidden;
  for (const std::optional<NgramKernel> kernel : {std::optional<NgramKernel>{},
                                                  {NgramKernel::kQuery},
                                                  {NgramKernel::kSplit},
                                                  {NgramKernel::kBatch}}) {
    path.ForceKernel(kernel);
    for (const size_t count : counts) {
      const size_t from = count % 3 * 37 % (all.size() - count + 1);
      const Values part = Embed(path, {{all.first(from), all.subspan(from, count)}});
      Expect(std::memcmp(part.data(), &whole[from * hidden], part.size() * sizeof(float)) == 0,
             fmt::format("{} tokens, {} kernel", count,
                         NameOf(path.KernelOf(static_cast<uint32_t>(count)))));
    }
    const Values packed = Embed(path, {{all.first(40), all.subspan(40, 10)},
                                       {{}, all.first(3)},
                                       {all.first(3), all.subspan(3, 37)}});
    Expect(std::memcmp(&packed[0], &whole[40 * hidden], 10 * hidden * sizeof(float)) == 0 &&
               std::memcmp(&packed[10 * hidden], &whole[0], 40 * hidden * sizeof(float)) == 0,
           "a packed batch");
  }
  path.ForceKernel({});
}

std::string SameBitsHoweverCut() {
  // The last: one table as wide as the vector, in more stages than the split kernel's rings hold.
  for (const auto& [hidden, order, splits] :
       {std::tuple{256u, 3u, 2u}, {768u, 4u, 4u}, {1024u, 2u, 1u}}) {
    for (const NgramTables form : {NgramTables::kMapped, NgramTables::kFp8}) {
      TinyNgram model = Tiny(hidden, order, splits);
      const Opened opened = Open(model, form);
      ExpectSameBits(*opened.gpu, model.vocabulary);
    }
  }
  return fmt::format("{} counts of tokens, all kernels, BF16 and FP8", kCounts.size());
}

// The kernels' instructions do not depend on the model's size: small ones for the sanitizers.
std::string EveryKernelQuickly() {
  for (const NgramTables form : {NgramTables::kMapped, NgramTables::kFp8}) {
    TinyNgram model = Tiny(256, 3, 2);
    const Opened opened = Open(model, form);
    ExpectSameBits(*opened.gpu, model.vocabulary, {16, 40, 70, 130});
    TinyNgram wide = Tiny(1024, 2, 1);  // the rings of the split kernel turn
    const Opened opened_wide = Open(wide, form);
    ExpectSameBits(*opened_wide.gpu, wide.vocabulary, {40, 70, 130});
  }
  return "every kernel, BF16 and FP8";
}

std::string Fp8AsOnTheCpu() {
  double worst = 0, from_cpu = 0;
  for (const auto& [hidden, order, splits] : {std::tuple{768u, 4u, 4u}, {512u, 3u, 2u}}) {
    TinyNgram model = Tiny(hidden, order, splits);
    const Opened opened = Open(model, NgramTables::kFp8);
    const Tokens tokens = RandomTokens(200, model.vocabulary, 4);
    const std::vector<double> exact =
        ReferenceVectors(model, tokens, {model.eos}, ReferenceScale::kAverage);
    Values cpu(tokens.size() * hidden);
    Done(opened.cpu.Embed({}, tokens, cpu));
    Values out = Embed(*opened.gpu, {{{}, tokens}});
    worst = std::max(worst, WorstRow(out, exact, hidden));
    from_cpu = std::max(from_cpu, WorstRow(out, cpu, hidden));
  }
  Expect(from_cpu < 0.004, fmt::format("{} from the CPU's", from_cpu));
  Expect(worst < 0.04, fmt::format("error {}", worst));
  return fmt::format("worst row {:.2f} %, {:.3f} % from the CPU's", 100 * worst, 100 * from_cpu);
}

// Tables behind a cache whose arena holds 40 tokens' rows: every batch evicts those of the last.
std::string CachedTablesGiveTheSameBits() {
  size_t misses = 0;
  TinyNgram model = Tiny(256, 3, 2);
  const Opened resident = Open(model);
  const std::filesystem::path directory = model.Write();
  const TensorFile file = Value(TensorFile::OpenDirectory(directory));
  const NgramTensors tensors = Value(FindNgramTensors(file, resident.config, true));
  const std::unique_ptr<ThreadPool> threads = Value(ThreadPool::Create(2));
  NgramOptions options;
  options.tables = NgramTables::kCached;
  options.cache_bytes = 40 * 4 * 128;
  options.io_uring = false;
  const RowTables tables = Value(RowTables::Load(resident.config, tensors, options, *threads));
  const std::unique_ptr<NgramCached> cached =
      Value(NgramCached::Open(resident.config, tensors, tables));
  for (const size_t count : {size_t{1}, size_t{39}, size_t{300}, size_t{300}}) {
    const Tokens tokens = RandomTokens(count, model.vocabulary, 5);
    Values found(count * 256);
    Done(cached->Embed(std::vector<NgramPiece>{{{}, tokens}}, {}, found));
    Expect(Same(found, Embed(*resident.gpu, {{{}, tokens}})), fmt::format("{} tokens", count));
    Expect(tables.cache()->pinned_slots() == 0, "slots stay pinned");
  }
  misses = tables.cache()->counters().misses;
  Expect(misses > 1000, fmt::format("{} misses", misses));
  return fmt::format("{} rows read, {} evicted", misses, tables.cache()->counters().evictions);
}

std::string HiddenRowsInPlaceOfWords() {
  TinyNgram model = Tiny(768, 4, 4);
  Opened with = Open(model);
  model.write_word = false;
  Opened without = Open(model);
  for (const size_t count : {size_t{5}, size_t{64}, size_t{200}}) {
    const Tokens tokens = RandomTokens(count, model.vocabulary, 4);
    Values hidden;
    for (const uint32_t token : tokens) {
      hidden.insert(hidden.end(), model.word.begin() + token * 768,
                    model.word.begin() + (token + 1) * 768);
    }
    Expect(Same(Embed(*without.gpu, {{{}, tokens}}, hidden), Embed(*with.gpu, {{{}, tokens}})),
           fmt::format("{} tokens", count));
  }
  return "the bits of a model with a word table";
}

std::string ErrorsNameTheValue() {
  TinyNgram model = Tiny(256, 3, 2);
  const Opened opened = Open(model);
  Values out(2 * 256);
  const auto message = [&](const Tokens& tokens, const Values& hidden) {
    const Result<void> done = opened.gpu->Embed(std::vector<NgramPiece>{{{}, tokens}}, hidden, out);
    Expect(!done.ok() && done.error().code() == ErrorCode::kInvalidArgument, "no error");
    return done.error().message();
  };
  Expect(message({1, 97}, {}) == "token 97: expected less than the 97 of the vocabulary", "token");
  Expect(message({1}, {}) == "512 elements of vectors: expected 256", "vectors");
  Expect(message({1, 2}, Values(7)) == "7 elements of hidden rows: expected 512", "hidden");
  NgramRequest request;
  request.tokens = 600;
  const Result<void> bare = opened.gpu->Enqueue(request, nullptr, nullptr);
  Expect(
      !bare.ok() && bare.error().message() == "no workspace for 600 tokens: expected 393232 bytes",
      "no workspace");
  model.write_word = false;
  const Opened without = Open(model);
  const Result<void> done =
      without.gpu->Embed(std::vector<NgramPiece>{{{}, Tokens{1, 2}}}, {}, out);
  Expect(!done.ok() && done.error().message().find("without a word table") != std::string::npos,
         "no word table");
  return "token, sizes, no workspace, no word rows";
}

std::string FlashLite(bool fp8) {
  const Large large = MakeLarge(fp8);
  ExpectSameBits(*large.path, large.config.vocabulary);
  const Tokens tokens = RandomTokens(3000, large.config.vocabulary, 8);
  const Values out = Embed(*large.path, {{{}, tokens}});
  double worst = 0;
  for (const size_t t : {size_t{0}, size_t{1}, size_t{200}, size_t{1999}, size_t{2999}}) {
    const std::vector<double> exact =
        ExactVector(large, Tokens(tokens.begin(), tokens.begin() + t + 1));
    worst = std::max(
        worst, WorstRow(Values(out.begin() + t * 3072, out.begin() + (t + 1) * 3072), exact, 3072));
  }
  Expect(worst < 0.005, fmt::format("error {}", worst));
  const Values again = Embed(*large.path, {{{}, tokens}});
  Expect(Same(out, again), "a second run gives other bits");
  return fmt::format("worst of 5 rows {:.3f} %", 100 * worst);
}

// --- Times ---------------------------------------------------------------------------------------

int RunCases(bool quick) {
  const std::vector<Case> few = {{"every kernel, quickly", EveryKernelQuickly}};
  const std::vector<Case> all = {
      {"ids of the specification", IdsOfTheSpecification},
      {"ids of packed batches", IdsOfPackedBatches},
      {"vectors of the reference", VectorsOfTheReference},
      {"the same bits however cut", SameBitsHoweverCut},
      {"fp8 as on the CPU", Fp8AsOnTheCpu},
      {"cached tables give the same bits", CachedTablesGiveTheSameBits},
      {"hidden rows in place of words", HiddenRowsInPlaceOfWords},
      {"errors name the value", ErrorsNameTheValue},
      {"Flash-Lite, bf16", [] { return FlashLite(false); }},
      {"Flash-Lite, fp8", [] { return FlashLite(true); }},
  };
  return RunAll(quick ? few : all);
}

}  // namespace
}  // namespace sprat::gpu

int main(int argc, char** argv) {
  using namespace sprat::gpu;
  const sprat::Result<void> device = UseDevice(0);
  if (!device.ok()) {
    fmt::print("skipped: {}\n", device.error().message());
    return 77;
  }
  try {
    const std::string mode = argc > 1 ? argv[1] : "";
    return mode == "--bench" ? BenchNgram() : RunCases(mode == "--quick");
  } catch (const Failure& failure) {
    fmt::print("FAILED {}\n", failure.why);
    return 1;
  }
}
