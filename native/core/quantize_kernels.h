// The kernels of quantize.cc, compiled once for each instruction set: see widths.h.

using numbers::block;
using numbers::is_finite;
using numbers::lanes;
using numbers::load;
using numbers::load_widened;
using numbers::many_lanes;
using numbers::store;
using numbers::widen_range;

// The largest finite number of an element, as what is calculated with.
template <typename Element, typename Work>
Work limit_of() {
  if constexpr (sizeof(typename Element::Stored) >= 4) {
    return static_cast<Work>(Element::largest);
  } else {
    return Element::template widen<Work>(static_cast<typename Element::Stored>(Element::beyond - 1));
  }
}

template <typename Element, typename Work>
constexpr bool is_work = std::is_same_v<typename Element::Stored, Work>;

// A number as it is after it was an element.
template <typename Element, typename Work>
FERRY_INLINE Work round_to(Work number) noexcept {
  if constexpr (is_work<Element, Work>) return number;
  return Element::template widen<Work>(Element::template narrow<Work>(number));
}

// Rounding may have gone half a step beyond the largest number.
template <typename Element, typename Work>
FERRY_INLINE Work within_limit(Work number) noexcept {
  const Work limit = limit_of<Element, Work>();
  number = number < limit ? number : limit;
  return number > -limit ? number : -limit;
}

template <typename Element, typename Work>
FERRY_INLINE void load_lanes(const std::uint8_t* source, Work* numbers) noexcept {
  for (std::size_t lane = 0; lane < many_lanes; ++lane) {
    typename Element::Stored stored;
    std::memcpy(&stored, source + lane * sizeof(stored), sizeof(stored));
    numbers[lane] = Element::template widen<Work>(stored);
  }
}

// Adds zero for each number that is finite, and NaN for every other.
template <typename Work>
FERRY_INLINE void add_nothing(const Work* numbers, Work* sums) noexcept {
  for (std::size_t lane = 0; lane < many_lanes; ++lane) sums[lane] += numbers[lane] * Work(0);
}

template <typename Work>
bool is_nothing(const Work* sums) noexcept {
  Work sum = 0;
  for (std::size_t lane = 0; lane < many_lanes; ++lane) sum += sums[lane];
  return sum == 0;
}

template <typename Work>
bool are_finite(const Work* numbers) noexcept {
  Work sums[many_lanes] = {};
  for (std::size_t i = 0; i < block; i += many_lanes) add_nothing(numbers + i, sums);
  return is_nothing(sums);
}

// The largest magnitude in a block.
template <typename Work>
Work largest_of(const Work* numbers) noexcept {
  Work most[many_lanes] = {};
  for (std::size_t i = 0; i < block; i += many_lanes) {
    for (std::size_t lane = 0; lane < many_lanes; ++lane) {
      const Work number = std::fabs(numbers[i + lane]);
      most[lane] = number > most[lane] ? number : most[lane];
    }
  }
  return *std::max_element(most, most + many_lanes);
}

// Adds what differs between a block of numbers and what is left of them.
template <typename Work>
void compare(const Work* numbers, const Work* others, double part, Totals& totals) noexcept {
  Work finite[block], kept[block];
  double errors[block];
  if (!are_finite(numbers)) {
    for (std::size_t i = 0; i < block; ++i) {
      const Work number = numbers[i], other = others[i];
      finite[i] = is_finite(number) ? number : Work(0);
      kept[i] = is_finite(number) ? other : Work(0);
    }
    numbers = finite;
    others = kept;
  }
  for (std::size_t i = 0; i < block; ++i) {
    errors[i] = std::fabs(static_cast<double>(numbers[i]) - static_cast<double>(others[i]));
  }
  totals.largest = std::max(totals.largest, static_cast<double>(largest_of(numbers)));
  totals.largest_error = std::max(totals.largest_error, largest_of(errors));
  double share[lanes] = {};
  for (std::size_t i = 0; i < block; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      share[lane] += errors[i + lane] * part;  // before they are added: their sum may overflow
    }
  }
  for (const double each : share) totals.error_share += each;
}

Totals sum_of(const std::vector<Totals>& parts) {
  Totals total;
  for (const Totals& part : parts) {
    total.nans += part.nans;
    total.infinities += part.infinities;
    total.lost += part.lost;
    total.largest = std::max(total.largest, part.largest);
    total.largest_error = std::max(total.largest_error, part.largest_error);
    total.error_share += part.error_share;
  }
  return total;
}

// The scales and zero points of a block of elements, one for each.
template <typename Work>
class Spread {
 public:
  explicit Spread(const Steps& steps) : steps_(steps) {
    if (steps.channels.count == 1) fill(0, 0, block);
  }

  // Fills them in for elements from `first` on.
  void move_to(std::size_t first) noexcept {
    const auto [count, inner] = steps_.channels;
    if (count == 1) return;
    std::size_t channel = first / inner % count;
    std::size_t within = first % inner;
    for (std::size_t i = 0; i < block;) {
      if (inner == 1) {
        const std::size_t run = std::min(block - i, count - channel);
        std::memcpy(scale + i, steps_.scale + channel * sizeof(Work), run * sizeof(Work));
        std::memcpy(zero + i, steps_.zero_point + channel * sizeof(Work), run * sizeof(Work));
        i += run;
        channel = 0;
        continue;
      }
      const std::size_t run = std::min(block - i, inner - within);
      fill(channel, i, run);
      i += run;
      within = 0;
      channel = channel + 1 == count ? 0 : channel + 1;
    }
  }

  Work scale[block];
  Work zero[block];

 private:
  void fill(std::size_t channel, std::size_t start, std::size_t count) noexcept {
    Work step, middle;
    std::memcpy(&step, steps_.scale + channel * sizeof(Work), sizeof(Work));
    std::memcpy(&middle, steps_.zero_point + channel * sizeof(Work), sizeof(Work));
    std::fill_n(scale + start, count, step);
    std::fill_n(zero + start, count, middle);
  }

  const Steps& steps_;
};

// What is found of elements, in lanes that are put together once.
template <typename Work>
struct Lanes {
  Work largest[many_lanes] = {};
  Work largest_error[many_lanes] = {};
  Work nothing[many_lanes] = {};
  double errors[many_lanes] = {};

  // A sum of doubles may overflow, which are divided before; of floats it may not.
  static constexpr bool is_divided = std::is_same_v<Work, double>;

  Totals totals(double part) const noexcept {
    Totals found;
    found.largest = static_cast<double>(*std::max_element(largest, largest + many_lanes));
    found.largest_error =
        static_cast<double>(*std::max_element(largest_error, largest_error + many_lanes));
    for (const double each : errors) found.error_share += is_divided ? each : each * part;
    return found;
  }
};

// Makes integers of a block. Only with `Careful` may there be numbers that are not finite: NaN
// becomes zero then, and neither NaN nor infinity has an error. An element is a `part` of all.
template <bool Careful, typename Element, typename Work>
void round_block(const std::uint8_t* source, const Spread<Work>& spread, const Steps& all,
                 double part, std::uint8_t* target, Lanes<Work>& lanes) noexcept {
  // Adding it leaves an integer in the last bits, rounded by the processor.
  constexpr Work rounding = std::is_same_v<Work, float> ? Work(0x1.8p23) : Work(0x1.8p52);
  const auto low = static_cast<Work>(all.low), high = static_cast<Work>(all.high);
  for (std::size_t i = 0; i < block; i += many_lanes) {
    const Work* const zero = spread.zero + i;
    const Work* const scale = spread.scale + i;
    Work numbers[many_lanes], steps[many_lanes], errors[many_lanes];
    load_lanes<Element>(source + i * sizeof(typename Element::Stored), numbers);
    for (std::size_t lane = 0; lane < many_lanes; ++lane) {
      const Work least = low - zero[lane], most = high - zero[lane];
      Work step = numbers[lane] / scale[lane];
      if (Careful) step = step == step ? step : Work(0);
      step = step < most ? step : most;  // as is NaN
      step = step > least ? step : least;
      steps[lane] = step + rounding - rounding;
    }
    for (std::size_t lane = 0; lane < many_lanes; ++lane) {
      target[i + lane] = static_cast<std::uint8_t>(static_cast<std::int32_t>(steps[lane] + zero[lane]));
    }
    for (std::size_t lane = 0; lane < many_lanes; ++lane) {
      const Work number = numbers[lane];
      const bool finite = !Careful || is_finite(number);
      // Of numbers as close as these the difference is exact, also as a float.
      const Work error = number - round_to<Element>(within_limit<Element>(steps[lane] * scale[lane]));
      numbers[lane] = finite ? std::fabs(number) : Work(0);
      errors[lane] = finite ? std::fabs(error) : Work(0);
    }
    for (std::size_t lane = 0; lane < many_lanes; ++lane) {
      lanes.largest[lane] = numbers[lane] > lanes.largest[lane] ? numbers[lane] : lanes.largest[lane];
    }
    for (std::size_t lane = 0; lane < many_lanes; ++lane) {
      const Work most = lanes.largest_error[lane];
      lanes.largest_error[lane] = errors[lane] > most ? errors[lane] : most;
    }
    for (std::size_t lane = 0; lane < many_lanes; ++lane) {
      const auto error = static_cast<double>(errors[lane]);
      lanes.errors[lane] += Lanes<Work>::is_divided ? error * part : error;
    }
    add_nothing(numbers, lanes.nothing);
  }
}

// Makes integers of a part of an array; without `Careful`, this says whether all numbers were finite.
template <bool Careful, typename Element>
bool round_part(const std::uint8_t* source, std::size_t first, std::size_t size, const Steps& steps,
                double part, std::uint8_t* target, Totals& totals) {
  using Work = typename Element::Work;
  using Stored = typename Element::Stored;
  Spread<Work> spread(steps);
  Lanes<Work> lanes;
  for (std::size_t start = first; start < first + size; start += block) {
    const std::size_t here = std::min(block, first + size - start);
    const std::uint8_t* const from = source + start * sizeof(Stored);
    spread.move_to(start);
    if (here == block) {
      round_block<Careful, Element>(from, spread, steps, part, target + start, lanes);
      continue;
    }
    std::uint8_t padded[block * sizeof(Stored)] = {}, values[block];  // zeros become zeros
    std::memcpy(padded, from, here * sizeof(Stored));
    round_block<Careful, Element>(padded, spread, steps, part, values, lanes);
    std::memcpy(target + start, values, here);
  }
  totals = lanes.totals(part);
  return Careful || is_nothing(lanes.nothing);
}

template <typename Element>
Totals to_integers(const std::uint8_t* source, std::size_t count, const Steps& steps,
                   std::uint8_t* target) {
  const double each = 1.0 / static_cast<double>(count);
  std::vector<Totals> found(parts_of(count));
  const std::size_t bytes = count * sizeof(typename Element::Stored);
  for_parts(count, bytes, [&](std::size_t part, std::size_t first, std::size_t size) {
    if (!round_part<false, Element>(source, first, size, steps, each, target, found[part])) {
      round_part<true, Element>(source, first, size, steps, each, target, found[part]);
    }
  });
  return sum_of(found);
}

template <typename Element, typename Value>
void from_integers(const std::uint8_t* source, std::size_t count, const Steps& steps,
                   std::uint8_t* target) {
  using Work = typename Element::Work;
  using Stored = typename Element::Stored;
  for_parts(count, count * sizeof(Stored), [&](std::size_t, std::size_t first, std::size_t size) {
    Spread<Work> spread(steps);
    Value values[block];
    Stored stored[block];
    for (std::size_t start = first; start < first + size; start += block) {
      const std::size_t here = std::min(block, first + size - start);
      load(source + start, here, values);
      spread.move_to(start);
      for (std::size_t i = 0; i < block; ++i) {
        const Work number = (static_cast<Work>(values[i]) - spread.zero[i]) * spread.scale[i];
        stored[i] = Element::template narrow<Work>(within_limit<Element>(number));
      }
      store(stored, here, target + start * sizeof(Stored));
    }
  });
}

// Counts, and puts the largest number of the kind where it has no place for a number.
template <typename Kind, typename Work>
void settle(const Work* numbers, typename Kind::Stored* values, bool clip, Totals& totals) noexcept {
  using Stored = typename Kind::Stored;
  std::uint32_t nans = 0, infinities = 0, lost = 0;
  for (std::size_t i = 0; i < block; ++i) {
    const bool nan = numbers[i] != numbers[i];
    const bool infinite = std::fabs(numbers[i]) > std::numeric_limits<Work>::max();
    const bool out = (values[i] & (Kind::sign_bit - 1)) >= Kind::beyond;
    const bool missing = out && !nan && !(Kind::has_infinity && infinite);
    nans += nan;
    infinities += infinite;
    lost += missing;
    const auto edge = static_cast<Stored>((values[i] & Kind::sign_bit) | (Kind::beyond - 1));
    values[i] = missing && clip ? edge : values[i];
  }
  totals.nans += nans;
  totals.infinities += infinities;
  totals.lost += lost;
}

// Of smaller floats, the numbers they stand for.
template <typename Element, typename Kind, typename Work>
void restore_floats(const typename Kind::Stored* values, Work* restored) noexcept {
  for (std::size_t i = 0; i < block; ++i) restored[i] = Kind::template widen<Work>(values[i]);
  const Work limit = limit_of<Element, Work>();
  if (limit_of<Kind, Work>() > limit) {  // 65504 becomes 65536 in bfloat16
    for (std::size_t i = 0; i < block; ++i) {
      const Work number = restored[i];
      const bool over = std::fabs(number) > limit && is_finite(number);
      restored[i] = over ? std::copysign(limit, number) : number;
    }
  }
}

template <typename Element, typename Kind>
Totals to_floats(const std::uint8_t* source, std::size_t count, bool clip, std::uint8_t* target) {
  using Work = typename Element::Work;
  using Stored = typename Kind::Stored;
  constexpr std::size_t width = sizeof(typename Element::Stored);
  std::vector<Totals> found(parts_of(count));
  for_parts(count, count * width, [&](std::size_t part, std::size_t first, std::size_t size) {
    Totals totals;
    Work numbers[block], restored[block];
    Stored values[block];
    for (std::size_t start = first; start < first + size; start += block) {
      const std::size_t here = std::min(block, first + size - start);
      load_widened<Element>(source + start * width, here, numbers);
      for (std::size_t i = 0; i < block; ++i) values[i] = Kind::template narrow<Work>(numbers[i]);
      settle<Kind>(numbers, values, clip, totals);
      store(values, here, target + start * sizeof(Stored));
      restore_floats<Element, Kind>(values, restored);
      for (std::size_t i = 0; i < block; ++i) restored[i] = round_to<Element>(restored[i]);
      compare(numbers, restored, 1.0 / static_cast<double>(count), totals);
    }
    found[part] = totals;
  });
  return sum_of(found);
}

template <typename Element, typename Kind>
void from_floats(const std::uint8_t* source, std::size_t count, std::uint8_t* target) {
  using Work = typename Element::Work;
  using Stored = typename Element::Stored;
  using Value = typename Kind::Stored;
  for_parts(count, count * sizeof(Stored), [&](std::size_t, std::size_t first, std::size_t size) {
    Value values[block];
    Work restored[block];
    Stored stored[block];
    for (std::size_t start = first; start < first + size; start += block) {
      const std::size_t here = std::min(block, first + size - start);
      load(source + start * sizeof(Value), here, values);
      restore_floats<Element, Kind>(values, restored);
      if constexpr (is_work<Element, Work>) {
        store(restored, here, target + start * sizeof(Stored));
      } else {
        for (std::size_t i = 0; i < block; ++i) stored[i] = Element::template narrow<Work>(restored[i]);
        store(stored, here, target + start * sizeof(Stored));
      }
    }
  });
}

// The ranges of some channels, which several threads add to.
template <typename Work>
class Ranges {
 public:
  Ranges(std::size_t channels, std::uint8_t* low, std::uint8_t* high)
      : channels_(channels), low_(low), high_(high) {}

  void add(const std::vector<Work>& low, const std::vector<Work>& high) noexcept {
    const std::lock_guard lock(mutex_);
    for (std::size_t channel = 0; channel < channels_; ++channel) {
      Work least, most;
      std::memcpy(&least, low_ + channel * sizeof(Work), sizeof(Work));
      std::memcpy(&most, high_ + channel * sizeof(Work), sizeof(Work));
      least = std::min(least, low[channel]);
      most = std::max(most, high[channel]);
      std::memcpy(low_ + channel * sizeof(Work), &least, sizeof(Work));
      std::memcpy(high_ + channel * sizeof(Work), &most, sizeof(Work));
    }
  }

 private:
  std::mutex mutex_;
  std::size_t channels_;
  std::uint8_t* low_;
  std::uint8_t* high_;
};

template <typename Work>
void add_block(const Work* numbers, std::size_t first, std::size_t count, Channels channels,
               std::vector<Work>& low, std::vector<Work>& high) noexcept {
  if (channels.count == 1) return widen_range(numbers, count, low[0], high[0]);
  std::size_t channel = first / channels.inner % channels.count;
  std::size_t within = first % channels.inner;
  for (std::size_t i = 0; i < count;) {
    if (channels.inner == 1) {
      const std::size_t run = std::min(count - i, channels.count - channel);
      for (std::size_t n = 0; n < run; ++n) {
        Work& least = low[channel + n];
        Work& most = high[channel + n];
        least = numbers[i + n] < least ? numbers[i + n] : least;
        most = numbers[i + n] > most ? numbers[i + n] : most;
      }
      i += run;
      channel = 0;
      continue;
    }
    const std::size_t run = std::min(count - i, channels.inner - within);
    widen_range(numbers + i, run, low[channel], high[channel]);
    i += run;
    within = 0;
    channel = channel + 1 == channels.count ? 0 : channel + 1;
  }
}

// Makes zeros of numbers that are not finite, and counts those.
template <typename Work>
void keep_finite(Work* numbers, Totals& totals) noexcept {
  std::uint32_t nans = 0, others = 0;
  for (std::size_t i = 0; i < block; ++i) {
    const Work number = numbers[i];
    nans += number != number;
    others += !is_finite(number);
    numbers[i] = is_finite(number) ? number : Work(0);
  }
  totals.nans += nans;
  totals.infinities += others - nans;
}

// Widens a range by whole blocks, unless there are numbers in them that are not finite.
template <typename Element, typename Work>
bool widen_by_blocks(const std::uint8_t* source, std::size_t count, Work& low, Work& high) noexcept {
  Work least[many_lanes], most[many_lanes], nothing[many_lanes] = {};
  std::fill_n(least, many_lanes, low);
  std::fill_n(most, many_lanes, high);
  for (std::size_t i = 0; i < count; i += many_lanes) {
    Work numbers[many_lanes];
    load_lanes<Element>(source + i * sizeof(typename Element::Stored), numbers);
    for (std::size_t lane = 0; lane < many_lanes; ++lane) {
      least[lane] = numbers[lane] < least[lane] ? numbers[lane] : least[lane];
    }
    for (std::size_t lane = 0; lane < many_lanes; ++lane) {
      most[lane] = numbers[lane] > most[lane] ? numbers[lane] : most[lane];
    }
    add_nothing(numbers, nothing);
  }
  if (!is_nothing(nothing)) return false;
  low = *std::min_element(least, least + many_lanes);
  high = *std::max_element(most, most + many_lanes);
  return true;
}

// A run of parts that one thread goes through with ranges of its own: there may be many channels.
constexpr std::size_t run_size = 2 * part_size;

template <typename Element>
Totals find_ranges(const std::uint8_t* source, std::size_t count, Channels channels,
                   std::uint8_t* low, std::uint8_t* high) {
  using Work = typename Element::Work;
  constexpr std::size_t width = sizeof(typename Element::Stored);
  Ranges<Work> ranges(channels.count, low, high);
  const std::size_t runs = (count + run_size - 1) / run_size;
  // With more channels than elements in a run, the ranges would be more work than the numbers.
  const std::size_t threads = channels.count > run_size ? 1 : threads_for(count * width);
  std::vector<std::vector<Work>> lows(threads, std::vector<Work>(channels.count)), highs = lows;
  std::vector<Totals> found(threads);
  std::atomic<std::size_t> next{0};
  in_parallel(threads, threads, [&](std::size_t thread) {
    Totals totals;
    Work numbers[block];
    for (std::size_t run = next++; run < runs; run = next++) {
      const std::size_t end = std::min(count, (run + 1) * run_size);
      std::size_t start = run * run_size;
      const std::size_t whole = (end - start) / block * block;
      if (channels.count == 1 &&
          widen_by_blocks<Element>(source + start * width, whole, lows[thread][0], highs[thread][0])) {
        start += whole;
      }
      for (; start < end; start += block) {
        const std::size_t here = std::min(block, end - start);
        load_widened<Element>(source + start * width, here, numbers);
        if (!are_finite(numbers)) keep_finite(numbers, totals);
        add_block(numbers, start, here, channels, lows[thread], highs[thread]);
      }
    }
    ranges.add(lows[thread], highs[thread]);
    found[thread] = totals;
  });
  return sum_of(found);
}

// Calls `visit` with an object of the type of the smaller floats.
template <typename Visit>
auto with_kind(Type kind, Visit visit) {
  switch (kind) {
    case Type::bfloat16: return visit(numbers::BFloat16{});
    case Type::float8_e4m3fn: return visit(numbers::Float8E4M3FN{});
    case Type::float8_e5m2: return visit(numbers::Float8E5M2{});
    default: return visit(numbers::Float16{});
  }
}

// The originals: those of quantization.py.
template <typename Visit>
auto with_original(Type type, Visit visit) {
  switch (type) {
    case Type::float64: return visit(numbers::Float64{});
    case Type::float16: return visit(numbers::Float16{});
    case Type::bfloat16: return visit(numbers::BFloat16{});
    default: return visit(numbers::Float32{});
  }
}

Totals find_ranges(Type type, const std::uint8_t* source, std::size_t count, Channels channels,
                   std::uint8_t* low, std::uint8_t* high) {
  return with_original(type, [&](auto element) {
    return find_ranges<decltype(element)>(source, count, channels, low, high);
  });
}

Totals to_integers(Type type, const std::uint8_t* source, std::size_t count, const Steps& steps,
                   std::uint8_t* target) {
  return with_original(type, [&](auto element) {
    return to_integers<decltype(element)>(source, count, steps, target);
  });
}

void from_integers(Type kind, const std::uint8_t* source, std::size_t count, const Steps& steps,
                   Type type, std::uint8_t* target) {
  with_original(type, [&](auto element) {
    using Element = decltype(element);
    kind == Type::int8 ? from_integers<Element, std::int8_t>(source, count, steps, target)
                       : from_integers<Element, std::uint8_t>(source, count, steps, target);
  });
}

Totals to_floats(Type type, const std::uint8_t* source, std::size_t count, bool clip, Type kind,
                 std::uint8_t* target) {
  return with_original(type, [&](auto element) {
    return with_kind(kind, [&](auto smaller) {
      return to_floats<decltype(element), decltype(smaller)>(source, count, clip, target);
    });
  });
}

void from_floats(Type kind, const std::uint8_t* source, std::size_t count, Type type,
                 std::uint8_t* target) {
  with_original(type, [&](auto element) {
    with_kind(kind, [&](auto smaller) {
      from_floats<decltype(element), decltype(smaller)>(source, count, target);
    });
  });
}
