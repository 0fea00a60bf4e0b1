// The kernels of compare.cc, compiled once for each instruction set: see widths.h.

using numbers::block;
using numbers::is_finite;
using numbers::lanes;
using numbers::load;

// A block of both arrays, and what is calculated with.
struct Pairs {
  double left[block];
  double right[block];
  double distance[block];
  bool same[block];  // as they are, NaN and NaN too
};

template <typename Element>
void widen(const typename Element::Stored* stored, double* into) noexcept {
  for (std::size_t i = 0; i < block; ++i) into[i] = Element::template widen<double>(stored[i]);
}

template <typename Element>
void measure(const typename Element::Stored* left, const typename Element::Stored* right,
             Pairs& pairs) noexcept {
  using Stored = typename Element::Stored;
  widen<Element>(left, pairs.left);
  widen<Element>(right, pairs.right);
  if constexpr (!Element::is_float && sizeof(Stored) == 8) {
    for (std::size_t i = 0; i < block; ++i) {
      const auto one = static_cast<std::uint64_t>(left[i]), two = static_cast<std::uint64_t>(right[i]);
      pairs.distance[i] = static_cast<double>(left[i] > right[i] ? one - two : two - one);
      pairs.same[i] = one == two;
    }
  } else {
    for (std::size_t i = 0; i < block; ++i) {
      const double one = pairs.left[i], two = pairs.right[i];
      pairs.distance[i] = std::fabs(one - two);
      pairs.same[i] = one == two || (one != one && two != two);
    }
  }
}

// Adds up the pairs whose distance is finite. Pairs behind the end are zeros.
void add_distances(const Pairs& pairs, std::size_t count, Found& found) noexcept {
  double largest[lanes] = {}, sum[lanes] = {}, squares[lanes] = {};
  double dot[lanes] = {}, left[lanes] = {}, right[lanes] = {};
  std::uint32_t finite = 0;
  for (std::size_t i = 0; i < block; ++i) finite += is_finite(pairs.distance[i]);
  for (std::size_t i = 0; i < block; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const bool counts = is_finite(pairs.distance[i + lane]);
      const double distance = counts ? pairs.distance[i + lane] : 0.0;
      const double one = counts ? pairs.left[i + lane] : 0.0;
      const double two = counts ? pairs.right[i + lane] : 0.0;
      largest[lane] = distance > largest[lane] ? distance : largest[lane];
      sum[lane] += distance;
      squares[lane] += distance * distance;
      dot[lane] += one * two;
      left[lane] += one * one;
      right[lane] += two * two;
    }
  }
  found.finite += finite - (block - count);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    found.largest = std::max(found.largest, largest[lane]);
    found.sum += sum[lane];
    found.squares += squares[lane];
    found.products[0] += dot[lane];
    found.products[1] += left[lane];
    found.products[2] += right[lane];
  }
}

// The same for numbers that are the same in both, bit by bit.
void add_equal(const double* numbers, std::size_t count, Found& found) noexcept {
  double sums[lanes] = {};
  std::uint32_t finite = 0;
  for (std::size_t i = 0; i < block; ++i) finite += is_finite(numbers[i]);
  for (std::size_t i = 0; i < block; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const double number = is_finite(numbers[i + lane]) ? numbers[i + lane] : 0.0;
      sums[lane] += number * number;
    }
  }
  found.finite += finite - (block - count);
  double total = 0;
  for (const double sum : sums) total += sum;
  for (double& product : found.products) product += total;
}

void count_differing(const Pairs& pairs, std::size_t start, double rtol, double atol,
                     Found& found) noexcept {
  std::uint32_t differing = 0, nonfinite = 0;
  bool differs[block];
  for (std::size_t i = 0; i < block; ++i) {
    const double distance = pairs.distance[i];
    const bool near = pairs.same[i] || distance <= atol + rtol * std::fabs(pairs.right[i]);
    differs[i] = !near;
    differing += !near;
    nonfinite += !near && !is_finite(distance);
  }
  if (differing == 0) return;
  if (found.first == nowhere) {
    found.first = start + static_cast<std::uint64_t>(std::find(differs, differs + block, true) - differs);
  }
  found.differing += differing;
  found.nonfinite += nonfinite;
}

template <typename Element>
Found compare(const std::uint8_t* left, const std::uint8_t* right, std::size_t count, double rtol,
              double atol) {
  using Stored = typename Element::Stored;
  std::vector<Found> parts(parts_of(count));
  for_parts(count, 2 * count * sizeof(Stored), [&](std::size_t part, std::size_t first, std::size_t size) {
    Found found;
    Pairs pairs;
    Stored one[block], two[block];
    for (std::size_t start = first; start < first + size; start += block) {
      const std::size_t here = std::min(block, first + size - start);
      load(left + start * sizeof(Stored), here, one);
      load(right + start * sizeof(Stored), here, two);
      if (std::memcmp(one, two, sizeof(one)) == 0) {
        widen<Element>(one, pairs.left);
        add_equal(pairs.left, here, found);
        continue;
      }
      measure<Element>(one, two, pairs);
      add_distances(pairs, here, found);
      count_differing(pairs, start, rtol, atol, found);
    }
    parts[part] = found;
  });
  Found total;
  for (const Found& found : parts) {
    total.differing += found.differing;
    total.nonfinite += found.nonfinite;
    total.first = std::min(total.first, found.first);
    total.finite += found.finite;
    total.largest = std::max(total.largest, found.largest);
    total.sum += found.sum;
    total.squares += found.squares;
    for (std::size_t i = 0; i < 3; ++i) total.products[i] += found.products[i];
  }
  return total;
}

Found compare(Type type, const std::uint8_t* left, const std::uint8_t* right, std::size_t count,
              double rtol, double atol) {
  return numbers::with_number(type, [&](auto element) {
    return compare<decltype(element)>(left, right, count, rtol, atol);
  });
}
