// Loops over all numbers of an array: quantization, statistics, comparison.
//
// Arrays come as contiguous bytes with the name of their type: not all of NumPy's types have a
// buffer. Results are written into arrays that the caller made.
#include <array>
#include <string_view>

#include "core/compare.h"
#include "core/highwayhash.h"
#include "core/quantize.h"
#include "core/statistics.h"
#include "python.h"

namespace ferry::python {

namespace {

using numbers::Type;

Type type_of(nb::str name) {
  using namespace std::literals;
  static constexpr std::array<std::pair<std::string_view, Type>, 14> names = {{
      {"float64"sv, Type::float64}, {"float32"sv, Type::float32}, {"float16"sv, Type::float16},
      {"bfloat16"sv, Type::bfloat16}, {"float8_e4m3fn"sv, Type::float8_e4m3fn},
      {"float8_e5m2"sv, Type::float8_e5m2}, {"int8"sv, Type::int8}, {"int16"sv, Type::int16},
      {"int32"sv, Type::int32}, {"int64"sv, Type::int64}, {"uint8"sv, Type::uint8},
      {"uint16"sv, Type::uint16}, {"uint32"sv, Type::uint32}, {"uint64"sv, Type::uint64},
  }};
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(name.ptr(), &size);
  if (text == nullptr) throw nb::python_error();  // half of a surrogate pair
  const std::string_view wanted(text, static_cast<std::size_t>(size));
  for (const auto& [known, type] : names) {
    if (known == wanted) return type;
  }
  throw nb::value_error("no kernel is made for this type");
}

bool is_original(Type type) {
  return type == Type::float64 || type == Type::float32 || type == Type::float16 ||
         type == Type::bfloat16;
}

bool is_integer(Type type) { return type == Type::int8 || type == Type::uint8; }

// An array: its bytes, and how many elements they are.
struct Numbers {
  Numbers(nb::handle object, nb::str name, int flags = PyBUF_SIMPLE)
      : buffer(object, flags), type(type_of(name)), count(buffer.size() / numbers::size_of(type)) {
    if (buffer.size() % numbers::size_of(type) != 0) {
      throw nb::value_error("the bytes are no whole number of elements");
    }
  }
  void check_count(std::size_t wanted) const {
    if (count != wanted) throw nb::value_error("the arrays are of different sizes");
  }

  Buffer buffer;
  Type type;
  std::size_t count;
};

void check_original(Type type) {
  if (!is_original(type)) throw nb::value_error("this type is not quantized");
}

void check_kind(Type type, bool integers) {
  const bool fits = integers ? is_integer(type)
                             : type == Type::float16 || type == Type::bfloat16 ||
                                   type == Type::float8_e4m3fn || type == Type::float8_e5m2;
  if (!fits) throw nb::value_error("nothing is quantized to this type");
}

quantize::Channels channels_of(std::size_t count, std::size_t channels, std::size_t inner) {
  if (channels == 0 || inner == 0 || (count != 0 && (count / channels < inner || count % (channels * inner) != 0))) {
    throw nb::value_error("the channels do not fit the array");
  }
  return {channels, inner};
}

// Of each channel a number of the type that is calculated with.
void check_channels(const Buffer& numbers, Type type, std::size_t channels) {
  const std::size_t width = type == Type::float64 ? sizeof(double) : sizeof(float);
  if (numbers.size() / width != channels || numbers.size() % width != 0) {
    throw nb::value_error("the scales do not fit the channels");
  }
}

nb::tuple totals_of(const quantize::Totals& totals) {
  return nb::make_tuple(totals.nans, totals.infinities, totals.lost, totals.largest,
                        totals.largest_error, totals.error_share);
}

nb::tuple find_ranges(nb::handle source, nb::str type, std::size_t channels, std::size_t inner,
                      nb::handle low, nb::handle high) {
  const Numbers array(source, type);
  check_original(array.type);
  const Buffer least(low, PyBUF_WRITABLE), most(high, PyBUF_WRITABLE);
  const quantize::Channels layout = channels_of(array.count, channels, inner);
  check_channels(least, array.type, channels);
  check_channels(most, array.type, channels);
  quantize::Totals totals;
  {
    const Unlocked unlocked;
    totals = quantize::find_ranges(array.type, array.buffer.data(), array.count, layout, least.data(),
                                   most.data());
  }
  return totals_of(totals);
}

void find_steps(nb::handle low, nb::handle high, nb::str type, nb::str kind, bool affine,
                nb::handle scale, nb::handle zero_point) {
  const Type original = type_of(type), integers = type_of(kind);
  check_original(original);
  check_kind(integers, true);
  const Buffer least(low), most(high), steps(scale, PyBUF_WRITABLE), zeros(zero_point, PyBUF_WRITABLE);
  const std::size_t channels = least.size() / (original == Type::float64 ? sizeof(double) : sizeof(float));
  for (const Buffer* each : {&least, &most, &steps, &zeros}) check_channels(*each, original, channels);
  quantize::find_steps(original, least.data(), most.data(), channels, integers == Type::int8 ? -128 : 0,
                       affine, steps.data(), zeros.data());
}

// The scales of integers. Their bounds hold for any zero point of a byte.
struct Scales {
  Scales(const Numbers& array, Type kind, bool whole, std::size_t channels, std::size_t inner,
         nb::handle scale, nb::handle zero_point, Type type)
      : scale(scale), zero_point(zero_point) {
    const bool is_signed = kind == Type::int8;
    steps.high = is_signed ? 127 : 255;
    steps.low = (is_signed ? -128 : 0) + (whole ? 0 : 1);
    steps.channels = channels_of(array.count, channels, inner);
    check_channels(this->scale, type, channels);
    check_channels(this->zero_point, type, channels);
    steps.scale = this->scale.data();
    steps.zero_point = this->zero_point.data();
  }

  Buffer scale;
  Buffer zero_point;
  quantize::Steps steps;
};

nb::tuple to_integers(nb::handle source, nb::str type, nb::handle target, nb::str kind, bool whole,
                      std::size_t channels, std::size_t inner, nb::handle scale,
                      nb::handle zero_point) {
  const Numbers array(source, type), values(target, kind, PyBUF_WRITABLE);
  check_original(array.type);
  check_kind(values.type, true);
  values.check_count(array.count);
  const Scales scales(array, values.type, whole, channels, inner, scale, zero_point, array.type);
  quantize::Totals totals;
  {
    const Unlocked unlocked;
    totals = quantize::to_integers(array.type, array.buffer.data(), array.count, scales.steps,
                                   values.buffer.data());
  }
  return totals_of(totals);
}

void from_integers(nb::handle source, nb::str kind, nb::handle target, nb::str type,
                   std::size_t channels, std::size_t inner, nb::handle scale, nb::handle zero_point) {
  const Numbers values(source, kind), array(target, type, PyBUF_WRITABLE);
  check_original(array.type);
  check_kind(values.type, true);
  values.check_count(array.count);
  const Scales scales(array, values.type, true, channels, inner, scale, zero_point, array.type);
  const Unlocked unlocked;
  quantize::from_integers(values.type, values.buffer.data(), values.count, scales.steps, array.type,
                          array.buffer.data());
}

nb::tuple to_floats(nb::handle source, nb::str type, nb::handle target, nb::str kind, bool clip) {
  const Numbers array(source, type), values(target, kind, PyBUF_WRITABLE);
  check_original(array.type);
  check_kind(values.type, false);
  values.check_count(array.count);
  quantize::Totals totals;
  {
    const Unlocked unlocked;
    totals = quantize::to_floats(array.type, array.buffer.data(), array.count, clip, values.type,
                                 values.buffer.data());
  }
  return totals_of(totals);
}

void from_floats(nb::handle source, nb::str kind, nb::handle target, nb::str type) {
  const Numbers values(source, kind), array(target, type, PyBUF_WRITABLE);
  check_original(array.type);
  check_kind(values.type, false);
  values.check_count(array.count);
  const Unlocked unlocked;
  quantize::from_floats(values.type, values.buffer.data(), values.count, array.type,
                        array.buffer.data());
}

nb::object number_of(const statistics::Number& number) {
  if (const double* real = std::get_if<double>(&number)) return nb::float_(*real);
  if (const std::int64_t* whole = std::get_if<std::int64_t>(&number)) return nb::int_(*whole);
  return nb::int_(std::get<std::uint64_t>(number));
}

nb::tuple moments_of(nb::handle source, nb::str type) {
  const Numbers array(source, type);
  statistics::Moments found;
  {
    const Unlocked unlocked;
    found = statistics::moments_of(array.type, array.buffer.data(), array.count);
  }
  return nb::make_tuple(found.zeros, found.nans, found.infinities, found.finite, number_of(found.low),
                        number_of(found.high), found.mean, found.squares);
}

constexpr int widest = 4096;  // beyond the exponents of all floats

// Adds to bins: uint64.
void count_bins(nb::handle source, nb::str type, int exponent, double first, nb::handle target) {
  const Numbers array(source, type), bins(target, nb::str("uint64"), PyBUF_WRITABLE);
  if (exponent < -widest || exponent > widest) throw nb::value_error("no float is as wide as the bins");
  if (bins.count == 0) return;
  const Unlocked unlocked;
  std::vector<std::uint64_t> counts(bins.count);
  std::memcpy(counts.data(), bins.buffer.data(), bins.buffer.size());
  statistics::count_bins(array.type, array.buffer.data(), array.count, exponent, first, counts);
  std::memcpy(bins.buffer.data(), counts.data(), bins.buffer.size());
}

nb::bytes count_magnitudes(nb::handle source, nb::str type) {
  const Numbers array(source, type);
  std::vector<std::uint64_t> counts;
  {
    const Unlocked unlocked;
    counts = statistics::count_magnitudes(array.type, array.buffer.data(), array.count);
  }
  return nb::bytes(reinterpret_cast<const char*>(counts.data()), counts.size() * sizeof(counts[0]));
}

nb::tuple tuple_of(const compare::Found& found) {
  nb::object first = nb::none();
  if (found.first != compare::nowhere) first = nb::int_(found.first);
  return nb::make_tuple(found.differing, found.nonfinite, first, found.finite, found.largest, found.sum,
                        found.squares,
                        nb::make_tuple(found.products[0], found.products[1], found.products[2]));
}

nb::tuple compare_numbers(nb::handle left, nb::handle right, nb::str type, double rtol, double atol) {
  const Numbers one(left, type), two(right, type);
  two.check_count(one.count);
  compare::Found found;
  {
    const Unlocked unlocked;
    found = compare::compare(one.type, one.buffer.data(), two.buffer.data(), one.count, rtol, atol);
  }
  return tuple_of(found);
}

// With the GIL, because each pair takes less time than letting it go.
nb::list compare_pairs(nb::list pairs, double rtol, double atol) {
  nb::list all;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto pair = nb::cast<nb::tuple>(pairs[i]);
    if (pair.size() != 3) throw nb::value_error("a pair is two arrays and the name of their type");
    const auto type = nb::cast<nb::str>(pair[2]);
    const Numbers one(pair[0], type), two(pair[1], type);
    two.check_count(one.count);
    all.append(tuple_of(
        compare::compare(one.type, one.buffer.data(), two.buffer.data(), one.count, rtol, atol)));
  }
  return all;
}

// With the GIL: another thread could otherwise let the strings go.
void measure_strings(nb::list strings, nb::handle lengths, nb::handle hashes) {
  const Numbers sizes(lengths, nb::str("int64"), PyBUF_WRITABLE);
  const Numbers sums(hashes, nb::str("uint64"), PyBUF_WRITABLE);
  const std::vector<Span> spans = spans_of(strings);
  sizes.check_count(spans.size());
  sums.check_count(spans.size());
  static constexpr HighwayKey key = {0x5f3a1c88d7e40b21, 0x90b6f2d51ce83a47, 0x2c74e1a9f05d683b,
                                     0xd81e5b3764af920c};
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const auto size = static_cast<std::int64_t>(spans[i].size);
    const std::uint64_t hash = highway_hash(key, spans[i].data, spans[i].size);
    std::memcpy(sizes.buffer.data() + i * sizeof(size), &size, sizeof(size));
    std::memcpy(sums.buffer.data() + i * sizeof(hash), &hash, sizeof(hash));
  }
}

}  // namespace

void bind_kernels(nb::module_& module) {
  module.def("quantize_ranges", find_ranges, "source"_a, "type"_a, "channels"_a, "inner"_a, "low"_a,
             "high"_a,
             "Widen the range of each channel by the finite numbers of an array: (NaNs, infinities, "
             "0, 0, 0, 0).");
  module.def("quantize_steps", find_steps, "low"_a, "high"_a, "type"_a, "kind"_a, "affine"_a, "scale"_a,
             "zero_point"_a, "Find the scale and the zero point for the range of each channel.");
  module.def("quantize_integers", to_integers, "source"_a, "type"_a, "target"_a, "kind"_a, "whole"_a,
             "channels"_a, "inner"_a, "scale"_a, "zero_point"_a,
             "Make int8 or uint8 of floats: (0, 0, 0, largest magnitude, largest error, sum of errors "
             "as parts of the number of elements). `whole` allows the smallest integer, too.");
  module.def("dequantize_integers", from_integers, "source"_a, "kind"_a, "target"_a, "type"_a,
             "channels"_a, "inner"_a, "scale"_a, "zero_point"_a, "Make floats of int8 or uint8.");
  module.def("quantize_floats", to_floats, "source"_a, "type"_a, "target"_a, "kind"_a, "clip"_a,
             "Make smaller floats: (NaNs, infinities, numbers that have no place, largest magnitude, "
             "largest error, sum of errors as parts of the number of elements).");
  module.def("dequantize_floats", from_floats, "source"_a, "kind"_a, "target"_a, "type"_a,
             "Make floats of smaller ones.");
  module.def("moments_of", moments_of, "source"_a, "type"_a,
             "Statistics of numbers: (zeros, NaNs, infinities, finite ones, lowest, highest, mean, sum "
             "of the squares of the distances from the mean).");
  module.def("count_bins", count_bins, "source"_a, "type"_a, "exponent"_a, "first"_a, "target"_a,
             "Count finite numbers in bins of 2**exponent.");
  module.def("count_magnitudes", count_magnitudes, "source"_a, "type"_a,
             "Counts of finite numbers by magnitude, ten bins a decade from 1e-330 on: 6400 of the "
             "positive ones, then as many of the negative ones, uint64 each.");
  module.def("compare_numbers", compare_numbers, "left"_a, "right"_a, "type"_a, "rtol"_a, "atol"_a,
             "How two arrays differ: (differing, of these not finite, first or None, finite, largest "
             "distance, sum of distances, sum of their squares, (left*right, left*left, right*right)).");
  module.def("compare_pairs", compare_pairs, "pairs"_a, "rtol"_a, "atol"_a,
             "The same for each of many small pairs: (left, right, type).");
  module.def("measure_strings", measure_strings, "strings"_a, "lengths"_a, "hashes"_a,
             "The length and a hash of each bytes object.");
}

}  // namespace ferry::python
