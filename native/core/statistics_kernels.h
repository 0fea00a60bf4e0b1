// The kernels of statistics.cc, compiled once for each instruction set: see widths.h.

using numbers::block;
using numbers::is_finite;
using numbers::lanes;
using numbers::load;
using numbers::load_widened;
using numbers::widen_range;

// What was found of one part of an array, with its own type for the range.
template <typename Work>
struct Part {
  std::uint64_t zeros = 0;
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;
  std::uint64_t finite = 0;
  Work low{};
  Work high{};
  double mean = 0;
  double squares = 0;

  // Takes in numbers by their mean and the squares of their distances from it (Chan's formula).
  void join(std::uint64_t count, Work least, Work most, double other, double others) noexcept {
    if (count == 0) return;
    low = finite == 0 || least < low ? least : low;
    high = finite == 0 || most > high ? most : high;
    const auto before = static_cast<double>(finite), added = static_cast<double>(count);
    const double total = before + added;
    const double apart = other - mean;
    squares += others + apart * apart * before * added / total;
    mean += apart * added / total;
    finite += count;
  }
};

// Sums what `term` makes of each number.
template <typename Work, typename Term>
double sum_of(const Work* numbers, std::size_t count, Term term) noexcept {
  double sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      sums[lane] += term(static_cast<double>(numbers[i + lane]));
    }
  }
  for (; i < count; ++i) sums[0] += term(static_cast<double>(numbers[i]));
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

// Moves the finite numbers of a block to its front, and counts the others.
template <typename Work>
std::size_t keep_finite(Work* numbers, std::size_t count, Part<Work>& part) noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Work number = numbers[i];
    if (number != number) {
      ++part.nans;
    } else if (!is_finite(number)) {
      ++part.infinities;
    } else {
      numbers[kept++] = number;
    }
  }
  return kept;
}

template <typename Work>
void add_block(Work* numbers, std::size_t count, Part<Work>& part) noexcept {
  std::uint32_t zeros = 0, others = 0;
  for (std::size_t i = 0; i < block; ++i) zeros += numbers[i] == Work(0);
  part.zeros += zeros - (block - count);  // the block is filled with zeros behind its end
  if constexpr (std::is_floating_point_v<Work>) {
    for (std::size_t i = 0; i < block; ++i) others += !is_finite(numbers[i]);
    if (others != 0) count = keep_finite(numbers, count, part);
  }
  if (count == 0) return;
  Work low = numbers[0], high = numbers[0];
  widen_range(numbers, count, low, high);
  const double mean = sum_of(numbers, count, [](double x) { return x; }) / static_cast<double>(count);
  const double squares = sum_of(numbers, count, [=](double x) { return (x - mean) * (x - mean); });
  part.join(count, low, high, mean, squares);
}

// Small floats are widened; integers stay what they are.
template <typename Element>
using WorkOf = std::conditional_t<Element::is_float, typename Element::Work, typename Element::Stored>;

template <typename Element>
Moments moments_of(const std::uint8_t* source, std::size_t count) {
  using Work = WorkOf<Element>;
  constexpr std::size_t width = sizeof(typename Element::Stored);
  std::vector<Part<Work>> parts(parts_of(count));
  for_parts(count, count * width, [&](std::size_t number, std::size_t first, std::size_t size) {
    Part<Work> part;
    Work numbers[block];
    for (std::size_t start = first; start < first + size; start += block) {
      const std::size_t here = std::min(block, first + size - start);
      load_widened<Element>(source + start * width, here, numbers);
      add_block(numbers, here, part);
    }
    parts[number] = part;
  });
  Part<Work> total;
  for (const Part<Work>& part : parts) {
    total.zeros += part.zeros;
    total.nans += part.nans;
    total.infinities += part.infinities;
    total.join(part.finite, part.low, part.high, part.mean, part.squares);
  }
  using Told = std::conditional_t<Element::is_float, double,
                                  std::conditional_t<std::is_signed_v<Work>, std::int64_t, std::uint64_t>>;
  return {total.zeros, total.nans, total.infinities, total.finite,
          Number(static_cast<Told>(total.low)), Number(static_cast<Told>(total.high)),
          total.mean, total.squares};
}

// Counts what `bin_of` makes of each finite number, in as many threads as it is worth.
template <typename Element, typename BinOf>
void count_by(const std::uint8_t* source, std::size_t count, std::vector<std::uint64_t>& bins,
              BinOf bin_of) {
  constexpr std::size_t width = sizeof(typename Element::Stored);
  const std::size_t threads = threads_for(count * width);
  std::vector<std::vector<std::uint64_t>> found(threads, std::vector<std::uint64_t>(bins.size()));
  std::atomic<std::size_t> next{0};
  in_parallel(threads, threads, [&](std::size_t thread) {
    std::vector<std::uint64_t>& own = found[thread];
    double numbers[block];
    const std::size_t parts = parts_of(count);
    for (std::size_t part = next++; part < parts; part = next++) {
      const std::size_t end = std::min(count, (part + 1) * part_size);
      for (std::size_t start = part * part_size; start < end; start += block) {
        const std::size_t here = std::min(block, end - start);
        load_widened<Element>(source + start * width, here, numbers);
        for (std::size_t i = 0; i < here; ++i) {
          if (!is_finite(numbers[i])) continue;
          // Compared as a double: what lies far outside is no integer.
          const double bin = bin_of(numbers[i]);
          if (bin >= 0 && bin < static_cast<double>(own.size())) ++own[static_cast<std::size_t>(bin)];
        }
      }
    }
  });
  for (const std::vector<std::uint64_t>& own : found) {
    for (std::size_t bin = 0; bin < bins.size(); ++bin) bins[bin] += own[bin];
  }
}

Moments moments_of(Type type, const std::uint8_t* source, std::size_t count) {
  return numbers::with_number(
      type, [&](auto element) { return moments_of<decltype(element)>(source, count); });
}

void count_bins(Type type, const std::uint8_t* source, std::size_t count, int exponent, double first,
                std::vector<std::uint64_t>& bins) {
  numbers::with_number(type, [&](auto element) {
    count_by<decltype(element)>(source, count, bins, [=](double number) {
      return std::floor(std::ldexp(number, -exponent)) - first;
    });
  });
}

std::vector<std::uint64_t> count_magnitudes(Type type, const std::uint8_t* source, std::size_t count) {
  constexpr std::size_t side = std::size_t{decades} * decade_bins;
  std::vector<std::uint64_t> bins(2 * side);
  numbers::with_number(type, [&](auto element) {
    count_by<decltype(element)>(source, count, bins, [](double number) {
      if (number == 0) return -1.0;
      const double bin = std::floor(std::log10(std::fabs(number)) * decade_bins);
      return bin - lowest_decade * decade_bins + (number < 0 ? static_cast<double>(side) : 0.0);
    });
  });
  return bins;
}
