// Numbers, sizes and shapes as people read them.

export function count(number) {
  if (number === null || number === undefined) return "–";
  return typeof number === "string" ? number : Number(number).toLocaleString("en-US");
}

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  let amount = Number(bytes);
  if (amount < 1000) return `${amount} B`;
  for (const unit of ["kB", "MB", "GB", "TB", "PB"]) {
    amount /= 1000;
    if (amount < 999.5 || unit === "PB") return `${Number(amount.toPrecision(3))} ${unit}`;
  }
  return "";
}

export function shape(sizes) {
  if (!sizes) return "?";
  return sizes.length ? sizes.map((each) => (each === null ? "?" : count(each))).join(" × ") : "scalar";
}

export function number(value, digits = 5) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "bigint" || typeof value === "string") return String(value);
  if (value === 0) return "0";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return count(value);
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e6)
    return Number(value.toPrecision(digits)).toLocaleString("en-US", {
      maximumFractionDigits: 20,
      useGrouping: size >= 1e4,
    });
  const [mantissa, exponent] = value.toExponential(Math.max(digits - 2, 0)).split("e");
  return `${Number(mantissa)}e${exponent.replace("+", "")}`;
}

/** A number with as many digits as tell it from its neighbours. */
export function exact(value, kind) {
  if (typeof value !== "number" || kind !== "f4" || !Number.isFinite(value)) return String(value);
  for (let digits = 6; digits <= 9; digits += 1) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return String(Number(text));
  }
  return String(value);
}

export function percent(part, whole) {
  if (!whole || !part) return "0%";
  const found = (100 * part) / whole;
  if (found < 0.1) return "<0.1%";
  return found > 99.9 && found < 100 ? ">99.9%" : `${Number(found.toPrecision(3))}%`;
}

export function plural(number, noun) {
  const several = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${count(number)} ${number === 1 ? noun : several}`;
}
