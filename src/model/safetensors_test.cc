#include "model/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "base/mapped_file.h"
#include "model/model_writer_for_test.h"

namespace sprat {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int kRepeats{50};  // of every load that must fail, so that a leak would be seen

std::filesystem::path WriteFile(std::string_view content) {
  const std::filesystem::path path = NewTestDirectory("sprat-tensors") / "model.safetensors";
  WriteTestFile(path, content);
  return path;
}

// The error of opening a file of these bytes, its path removed: ": fault".
std::string FaultOf(std::string_view content) {
  const std::filesystem::path path = WriteFile(content);
  std::string message;
  for (int i = 0; i < kRepeats; ++i) {
    Result<TensorFile> file = TensorFile::OpenFile(path);
    if (file.ok()) return "no error";
    EXPECT_EQ(file.error().code(), ErrorCode::kCorrupt);
    message = file.error().message();
  }
  EXPECT_THAT(message, StartsWith(path.string()));
  return message.substr(path.string().size());
}

std::string Entry(std::string_view name, std::string_view dtype, std::string_view shape,
                  std::string_view offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}

std::string HeaderOf(std::string_view entries, std::string_view data = "") {
  return RawSafetensors(fmt::format("{{{}}}", entries), data);
}

// ---- what is read ------------------------------------------------------------------------------

TEST(TensorFile, FindsTensorsByNameWithTypeShapeAndBytes) {
  const std::filesystem::path path = WriteFile(
      HeaderOf(R"("__metadata__":{"format":"pt"},)" + Entry("b", "F32", "[1,2]", "[2,10]") + "," +
                   Entry("a", "F16", "[]", "[0,2]"),
               std::string("\x00\x3c\x00\x00\x80\x3f\x00\x00\x00\x40", 10)));
  Result<TensorFile> file = TensorFile::OpenFile(path);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file.value().path(), path);
  EXPECT_EQ(file.value().tensors().size(), 2u);
  EXPECT_EQ(file.value().Find("c"), nullptr);
  const Tensor* a = file.value().Find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, DType::kF16);
  EXPECT_TRUE(a->shape.empty());
  EXPECT_EQ(a->elements(), 1u);  // a scalar: the empty product
  const Tensor* b = file.value().Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->shape, (std::vector<uint64_t>{1, 2}));
  std::vector<float> values(2);
  ASSERT_TRUE(CopyAsF32(*b, values).ok());  // its bytes start at an odd multiple of two
  EXPECT_EQ(values, (std::vector<float>{1.0f, 2.0f}));
  file.value().Release(*b);
  ASSERT_TRUE(CopyAsF32(*b, values).ok());  // still there
  EXPECT_EQ(values[1], 2.0f);
}

TEST(TensorFile, AcceptsTensorsWithoutElementsAndNoTensorsAtAll) {
  EXPECT_TRUE(TensorFile::OpenFile(WriteFile(HeaderOf(""))).ok());
  Result<TensorFile> file = TensorFile::OpenFile(WriteFile(HeaderOf(
      Entry("none", "F32", "[0,7]", "[4,4]") + "," + Entry("one", "I32", "[1]", "[0,4]"), "abcd")));
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file.value().Find("none")->elements(), 0u);
  EXPECT_TRUE(CopyAsF32(Tensor{.dtype = DType::kF32, .shape = {0}, .bytes = {}}, {}).ok());
}

TEST(DTypes, HaveTheFormatsNamesAndSizes) {
  EXPECT_EQ(Name(DType::kF8E4M3), "F8_E4M3");
  EXPECT_EQ(Name(DType::kBF16), "BF16");
  EXPECT_EQ(ElementBytes(DType::kBool), 1u);
  EXPECT_EQ(ElementBytes(DType::kBF16), 2u);
  EXPECT_EQ(ElementBytes(DType::kF32), 4u);
  EXPECT_EQ(ElementBytes(DType::kI64), 8u);
}

// ---- CopyAsF32 ---------------------------------------------------------------------------------

Tensor Vector16(DType dtype, const std::vector<uint16_t>& bits) {
  return {.dtype = dtype, .shape = {bits.size()}, .bytes = std::as_bytes(std::span(bits))};
}

TEST(CopyAsF32, HalvesAreExact) {
  const std::vector<uint16_t> bits = {0x3c00, 0xc000, 0x7bff, 0x0400,
                                      0x0001, 0x83ff, 0x8000, 0x7c00};
  std::vector<float> values(bits.size());
  ASSERT_TRUE(CopyAsF32(Vector16(DType::kF16, bits), values).ok());
  EXPECT_EQ(values, (std::vector<float>{1.0f, -2.0f, 65504.0f, 0x1p-14f, 0x1p-24f, -1023 * 0x1p-24f,
                                        -0.0f, std::numeric_limits<float>::infinity()}));
  EXPECT_TRUE(std::signbit(values[6]));
}

// Every half, against the definition (IEEE 754-2019, section 3.4) in double precision.
TEST(CopyAsF32, EveryHalfIsExact) {
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  std::vector<float> values(bits.size());
  ASSERT_TRUE(CopyAsF32(Vector16(DType::kF16, bits), values).ok());
  for (size_t i = 0; i < bits.size(); ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31);
    const auto mantissa = static_cast<double>(i & 1023);
    double exact =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31 && mantissa == 0) exact = std::numeric_limits<double>::infinity();
    if (i & 0x8000) exact = -exact;
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(values[i])) << i;
    } else {
      EXPECT_EQ(static_cast<double>(values[i]), exact) << i;
    }
  }
}

TEST(CopyAsF32, BFloatsAreTheUpperHalfOfAFloat) {
  std::vector<float> values(3);
  ASSERT_TRUE(CopyAsF32(Vector16(DType::kBF16, {0x3f80, 0xc049, 0x0001}), values).ok());
  EXPECT_EQ(values, (std::vector<float>{1.0f, -3.140625f, 0x1p-133f}));
}

TEST(CopyAsF32, RefusesOtherTypesByName) {
  const std::vector<uint16_t> bits = {0, 0, 0, 0};
  Tensor tensor = Vector16(DType::kI64, bits);
  std::vector<float> values(1);
  Result<void> copied = CopyAsF32(tensor, values);
  ASSERT_FALSE(copied.ok());
  EXPECT_EQ(copied.error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(copied.error().message(),
            "dtype I64 is not supported for weights; supported: F32, F16, BF16");
}

// ---- hostile headers ---------------------------------------------------------------------------

std::string LengthOf(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(length >> (8 * i) & 255));
  return bytes;
}

TEST(B50, AHostileHeaderLengthIsAnErrorAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const std::string rest(192, 'x');
  EXPECT_EQ(FaultOf(""), ": the file is 0 bytes, expected at least 8 for the header's length");
  EXPECT_EQ(FaultOf("1234567"),
            ": the file is 7 bytes, expected at least 8 for the header's length");
  EXPECT_EQ(FaultOf(LengthOf(0) + rest),
            ": the header is 0 bytes and does not start with '{': not safetensors");
  EXPECT_EQ(FaultOf(LengthOf(0)),
            ": the header is 0 bytes and does not start with '{': not safetensors");
  for (const uint64_t length : {uint64_t{200}, uint64_t{193}, uint64_t{1} << 63, ~uint64_t{0},
                                ~uint64_t{0} - 2, uint64_t{100000001}}) {
    EXPECT_EQ(FaultOf(LengthOf(length) + rest),
              fmt::format(": the file is 200 bytes, but its header alone says {} more than the "
                          "first 8: cut off, or not safetensors",
                          length));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST(B50, AHeaderThatIsNotAJsonObjectIsAnError) {
  EXPECT_EQ(FaultOf(RawSafetensors("[1, 2]")),
            ": the header is 6 bytes and does not start with '{': not safetensors");
  EXPECT_THAT(FaultOf(RawSafetensors("{not JSON")), StartsWith(": header: not valid JSON: "));
  EXPECT_THAT(FaultOf(RawSafetensors("{\"a\": 1} trailing")),
              StartsWith(": header: not valid JSON: "));
  EXPECT_THAT(FaultOf(RawSafetensors("{\"\xff\xfe\": 1}")),
              StartsWith(": header: not valid JSON: "));  // not UTF-8
  EXPECT_THAT(FaultOf(RawSafetensors("{\"a\":" + std::string(100000, '['))),
              StartsWith(": header: not valid JSON: "));
}

// Resident memory at its highest so far.
size_t PeakBytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

TEST(B50, NoHeaderMakesReadingCostMoreThanTheFile) {
  // 8 MB of brackets would make a parser's index eight times that.
  const std::string brackets = RawSafetensors("{\"a\":" + std::string(8 << 20, '['));
  const std::filesystem::path path = WriteFile(brackets);
  const size_t before = PeakBytes();
  Result<TensorFile> file = TensorFile::OpenFile(path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().message(),
            path.string() +
                ": the header is 8388613 bytes of a file of 8388621, expected at most "
                "1/20 of the file");
  EXPECT_LE(PeakBytes() - before, brackets.size());
}

TEST(B52, ADuplicateKeyIsRefusedByName) {
  const std::string a = Entry("a", "F32", "[1]", "[0,4]");
  EXPECT_EQ(FaultOf(HeaderOf(a + "," + Entry("a", "F32", "[1]", "[4,8]"), "12345678")),
            ": header: duplicate key \"a\"");
  EXPECT_EQ(FaultOf(HeaderOf(a + "," + a, "1234")), ": header: duplicate key \"a\"");
  EXPECT_EQ(FaultOf(HeaderOf("\"__metadata__\":{},\"__metadata__\":{}")),
            ": header: duplicate key \"__metadata__\"");
  EXPECT_EQ(FaultOf(HeaderOf(R"("__metadata__":{"x":"1","x":"2"})")),
            ": header: duplicate key \"x\"");
  EXPECT_EQ(FaultOf(HeaderOf(R"("a":{"dtype":"F32","dtype":"F32"})")),
            ": header: duplicate key \"dtype\"");
  // The same key, once written with an escape.
  EXPECT_EQ(FaultOf(HeaderOf(a + "," + Entry("\\u0061", "F32", "[1]", "[4,8]"), "12345678")),
            ": header: duplicate key \"a\"");
}

TEST(B54, AFileThatIsSomethingElseIsNamedAsWhatItIs) {
  EXPECT_EQ(
      FaultOf("version https://git-lfs.github.com/spec/v1\noid sha256:53aa51172d142c89d9012cce"
              "15ae4d6cc0ca6895895114379cacb4fab128d9db\nsize 90868376\n"),
      ": looks like a Git LFS pointer (the file itself was never fetched: run `git lfs "
      "pull`), not safetensors");
  for (const std::string_view page :
       {"<!DOCTYPE html><html><head>", "\n  <HTML>\n<body>", "<?xml version=\"1.0\"?><Error>"}) {
    EXPECT_EQ(FaultOf(page), ": looks like a web page (the download failed), not safetensors");
  }
  EXPECT_EQ(FaultOf("PK\x03\x04 and more of a zip archive"),
            ": looks like a zip archive (a PyTorch checkpoint?), not safetensors");
}

TEST(B54, ACutFileSaysHowLongItIsAndHowLongItShouldBe) {
  const std::string good =
      HeaderOf(Entry("a", "F32", "[4,4]", "[0,64]"), std::string(64, 'x'));  // 8 + 57 + 64
  ASSERT_EQ(good.size(), 129u);
  EXPECT_EQ(FaultOf(good), "no error");
  EXPECT_EQ(FaultOf(good.substr(0, 128)),
            ": the file is 128 bytes, but its header says 129: cut off (an interrupted download?)");
  EXPECT_EQ(FaultOf(good.substr(0, 65)),
            ": the file is 65 bytes, but its header says 129: cut off (an interrupted download?)");
  EXPECT_EQ(FaultOf(good.substr(0, 64)),
            ": the file is 64 bytes, but its header alone says 57 more than the first 8: cut off, "
            "or not safetensors");
  EXPECT_EQ(FaultOf(good.substr(0, 8)),
            ": the file is 8 bytes, but its header alone says 57 more than the first 8: cut off, "
            "or not safetensors");
  EXPECT_EQ(FaultOf(good + "x"),
            ": the file is 130 bytes, but its header says 129: something follows it");
}

TEST(TensorFile, RefusesOffsetsThatDoNotTileTheData) {
  const std::string data(16, 'x');
  EXPECT_EQ(
      FaultOf(HeaderOf(Entry("a", "F32", "[2]", "[0,8]") + "," + Entry("b", "F32", "[2]", "[4,12]"),
                       data)),
      ": tensor \"b\": data_offsets begin at 4, expected 8: it overlaps another tensor");
  EXPECT_EQ(
      FaultOf(HeaderOf(Entry("a", "F32", "[1]", "[0,4]") + "," + Entry("b", "F32", "[2]", "[8,16]"),
                       data)),
      ": tensor \"b\": data_offsets begin at 8, expected 4: there is a hole before it");
  EXPECT_EQ(FaultOf(HeaderOf(Entry("a", "F32", "[2]", "[8,16]"), data)),
            ": tensor \"a\": data_offsets begin at 8, expected 0: there is a hole before it");
}

TEST(TensorFile, RefusesEntriesThatContradictThemselves) {
  EXPECT_EQ(FaultOf(HeaderOf(Entry("a", "F32", "[3]", "[0,8]"), "12345678")),
            ": tensor \"a\": F32 of shape [3] does not fill the 8 bytes of data_offsets [0,8]");
  // 2^62 * 4 elements of 4 bytes: the product wraps to 0.
  EXPECT_EQ(FaultOf(HeaderOf(Entry("a", "F32", "[4611686018427387904,4]", "[0,0]"))),
            ": tensor \"a\": F32 of shape [4611686018427387904,4] does not fill the 0 bytes of "
            "data_offsets [0,0]");
  EXPECT_EQ(FaultOf(HeaderOf(Entry("a", "F32", "[1]", "[4,0]"))),
            ": tensor \"a\": data_offsets: expected [begin, end] with begin <= end, got [4,0]");
  EXPECT_EQ(FaultOf(HeaderOf(Entry("a", "F32", "[1]", "[-4,0]"))),
            ": tensor \"a\": data_offsets: expected [begin, end] with begin <= end, got [-4,0]");
  EXPECT_EQ(FaultOf(HeaderOf(Entry("a", "F32", "[1]", "[0,4,8]"))),
            ": tensor \"a\": data_offsets: expected [begin, end] with begin <= end, got [0,4,8]");
  EXPECT_EQ(FaultOf(HeaderOf(Entry("a", "F32", "[-1]", "[0,4]"))),
            ": tensor \"a\": shape: expected at most 8 whole numbers, got [-1]");
  EXPECT_EQ(FaultOf(HeaderOf(Entry("a", "F32", "[1.0]", "[0,4]"))),
            ": tensor \"a\": shape: expected at most 8 whole numbers, got [1.0]");
  EXPECT_EQ(FaultOf(HeaderOf(Entry("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "1234")),
            ": tensor \"a\": shape: expected at most 8 whole numbers, got [1,1,1,1,1,1,1,1,1]");
  EXPECT_EQ(FaultOf(HeaderOf("\"a\":7")), ": tensor \"a\": expected an object, got 7");
  EXPECT_EQ(FaultOf(HeaderOf(R"("a":{"shape":[1],"data_offsets":[0,4]})", "1234")),
            ": tensor \"a\": dtype is missing, expected a string");
  EXPECT_EQ(FaultOf(HeaderOf(R"("a":{"dtype":"F32","data_offsets":[0,4]})", "1234")),
            ": tensor \"a\": shape is missing, expected an array");
  EXPECT_EQ(FaultOf(HeaderOf(R"("a":{"dtype":"F32","shape":[1]})", "1234")),
            ": tensor \"a\": data_offsets is missing, expected [begin, end]");
  EXPECT_EQ(FaultOf(HeaderOf(R"("__metadata__":"x")")),
            ": __metadata__: expected an object, got \"x\"");
}

TEST(TensorFile, AnUnknownTypeIsNotSupported) {
  const std::filesystem::path path = WriteFile(HeaderOf(Entry("a", "F4", "[1]", "[0,1]"), "1"));
  Result<TensorFile> file = TensorFile::OpenFile(path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(file.error().message(), path.string() +
                                        ": tensor \"a\": dtype 'F4' is not supported; supported: "
                                        "F32, F16, BF16, F64, integers, F8");
}

// ---- directories and shards --------------------------------------------------------------------

TEST(B48, ShardsHoldTheSameTensorsAsOneFile) {
  TinyModel model;
  Result<TensorFile> whole = TensorFile::OpenDirectory(model.Write());
  model.shards = 2;
  Result<TensorFile> sharded = TensorFile::OpenDirectory(model.Write());
  ASSERT_TRUE(whole.ok()) << whole.error().message();
  ASSERT_TRUE(sharded.ok()) << sharded.error().message();
  EXPECT_EQ(sharded.value().path().filename(), "model.safetensors.index.json");
  ASSERT_EQ(sharded.value().tensors().size(), whole.value().tensors().size());
  for (const auto& [name, tensor] : whole.value().tensors()) {
    const Tensor* found = sharded.value().Find(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_TRUE(std::ranges::equal(found->bytes, tensor.bytes)) << name;
    const TensorFile::Place place = sharded.value().Locate(*found);
    Result<std::string> content = ReadFile(place.file, size_t{1} << 30);
    ASSERT_TRUE(content.ok());
    EXPECT_EQ(std::memcmp(content.value().data() + place.offset, tensor.bytes.data(),
                          tensor.bytes.size()),
              0)
        << name;
    sharded.value().Release(*found);
  }
}

// The error of opening a directory of two shards whose index is replaced by `index_json`.
std::string ShardFault(std::string_view weight_map, bool delete_second = false) {
  TinyModel model;
  model.shards = 2;
  const std::filesystem::path directory = model.Write();
  if (!weight_map.empty()) {
    WriteTestFile(directory / "model.safetensors.index.json",
                  fmt::format("{{\"weight_map\": {}}}", weight_map));
  }
  if (delete_second) std::filesystem::remove(directory / "model-00002-of-00002.safetensors");
  std::string message = "no error";
  for (int i = 0; i < kRepeats; ++i) {
    Result<TensorFile> file = TensorFile::OpenDirectory(directory);
    if (!file.ok()) message = file.error().message();
  }
  for (size_t at = message.find(directory.string()); at != message.npos;
       at = message.find(directory.string())) {
    message.replace(at, directory.string().size(), "DIR");
  }
  return message;
}

TEST(B48, AMissingShardIsNamed) {
  EXPECT_EQ(ShardFault("", true),
            "DIR/model.safetensors.index.json: DIR/model-00002-of-00002.safetensors: No such file "
            "or directory");
}

TEST(B48, NoShardLiesOutsideTheDirectory) {
  for (const std::string_view name :
       {"../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", ".", "", "a\\\\b"}) {
    EXPECT_EQ(ShardFault(fmt::format(R"({{"a": "{}"}})", name)),
              fmt::format("DIR/model.safetensors.index.json: weight_map[\"a\"]: expected the name "
                          "of a file beside the index, got \"{}\"",
                          name));
  }
}

TEST(B48, TheWeightMapIsTheAuthority) {
  EXPECT_EQ(ShardFault(R"({"embeddings.nothing": "model-00001-of-00002.safetensors"})"),
            "DIR/model.safetensors.index.json: tensor \"embeddings.nothing\" is not in "
            "model-00001-of-00002.safetensors, where weight_map puts it");
  EXPECT_EQ(ShardFault(R"({"a": 7})"),
            "DIR/model.safetensors.index.json: weight_map[\"a\"]: expected a file name, got 7");
  EXPECT_EQ(ShardFault("[]"),
            "DIR/model.safetensors.index.json: weight_map: expected an object, got []");
  EXPECT_EQ(ShardFault("null"),
            "DIR/model.safetensors.index.json: weight_map is missing, expected an object");
  EXPECT_EQ(ShardFault(R"({"a": "x", "a": "y"})"),
            "DIR/model.safetensors.index.json: duplicate key \"a\"");
}

TEST(TensorFile, ADirectoryWithOnlyAPyTorchFileSaysSo) {
  const std::filesystem::path directory = NewTestDirectory("sprat-pytorch");
  Result<TensorFile> none = TensorFile::OpenDirectory(directory);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(none.error().message(),
            (directory / "model.safetensors").string() + ": No such file or directory");
  WriteTestFile(directory / "pytorch_model.bin", "x");
  Result<TensorFile> pytorch = TensorFile::OpenDirectory(directory);
  ASSERT_FALSE(pytorch.ok());
  EXPECT_EQ(pytorch.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(pytorch.error().message(),
            (directory / "model.safetensors").string() +
                ": no such file; pytorch_model.bin is there, but only safetensors is read");
}

}  // namespace
}  // namespace sprat
