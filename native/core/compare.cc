#include "compare.h"

#include "parallel.h"

namespace ferry::compare {

namespace {

#define FERRY_KERNELS "compare_kernels.h"
#include "widths.h"

}  // namespace

Found compare(Type type, const std::uint8_t* left, const std::uint8_t* right, std::size_t count,
              double rtol, double atol) {
  return FERRY_WIDEST(compare, type, left, right, count, rtol, atol);
}

}  // namespace ferry::compare
