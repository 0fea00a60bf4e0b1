// Runs a fuzz target without libFuzzer, on the files it is given and on changed copies of them:
// for compilers and processors that have no fuzzer.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "core/checksum.h"
#include "core/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int count, char** names) {
  constexpr int copies = 2000;
  std::mt19937 random;  // the same numbers each time
  for (int i = 1; i < count; ++i) {
    std::ifstream file(names[i], std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    const std::vector<std::uint8_t> seed(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(seed.data(), seed.size());
    for (int copy = 0; copy < copies; ++copy) {
      std::vector<std::uint8_t> data(seed);
      // Longer than words, blocks and their ends.
      if (copy % 2 == 0) data.resize(random() % (copy % 8 == 0 ? 8000 : 300));
      for (auto changes = 1 + random() % 4; changes > 0 && !data.empty(); --changes) {
        data[random() % data.size()] = static_cast<std::uint8_t>(random());
      }
      if (copy % 4 == 0) {
        for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(random());
      }
      LLVMFuzzerTestOneInput(data.data(), data.size());
    }
  }
  std::printf("%d runs; crc32c by %s, varints by %s\n", (count - 1) * (copies + 1),
              ferry::has_crc32c_instruction() ? "instruction" : "tables",
              ferry::has_fast_groups() ? "instruction" : "steps");
}
