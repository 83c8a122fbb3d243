// consumer MODEL_DIRECTORY: embeds three sentences with an installed Sprat and compares them.
#include <sprat/engine.h>

#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

namespace {

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: consumer MODEL_DIRECTORY\n");
    return 2;
  }
  const sprat::Result<sprat::Engine> engine = sprat::Engine::Open(argv[1]);
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.error().message().c_str());
    return 1;
  }
  const std::vector<std::string_view> texts = {"A cat sleeps in the sun.",
                                               "A kitten naps on the windowsill.",
                                               "The central bank raised interest rates."};
  const sprat::Result<sprat::Embeddings> vectors = engine.value().Embed(texts);
  if (!vectors.ok()) {
    std::fprintf(stderr, "%s\n", vectors.error().message().c_str());
    return 1;
  }
  const sprat::Embeddings& rows = vectors.value();
  const double alike = Dot(rows.Row(0), rows.Row(1));
  const double unlike = Dot(rows.Row(0), rows.Row(2));
  std::printf("alike %.3f, unlike %.3f\n", alike, unlike);
  return alike > unlike + 0.3 ? 0 : 1;
}
