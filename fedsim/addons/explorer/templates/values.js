// Values: constants as texts, and as positions of a slider.

const DIGITS = 3; // significant digits of a moved constant, so that its text is exactly its value
const STEPS = 400; // of a slider
const SNAP = 3; // steps: as near to the value as written, a slider takes that value
const PREFIXES = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "u"], [1e-9, "n"]];
const SPANS = [[31557600, "years"], [86400, "days"], [3600, "h"], [60, "min"]]; // long times
const SEVERAL = 3; // a time is in a longer unit from this many of it on
const UNSCALED = new Set(["", "%", "g/kWh", "B"]);

// Numbers as texts, and texts that a scenario takes.

/** Return a number rounded to so many digits as its shortest decimal reads, halves away from zero. */
function rounded(value, most) {
  const [shortest, power] = Math.abs(value).toExponential().split("e");
  const all = shortest.replace(".", "");
  if (all.length <= most) return value;
  const kept = Number(all.slice(0, most)) + (all[most] >= "5" ? 1 : 0);
  return Math.sign(value) * Number(`${kept}e${Number(power) - most + 1}`);
}

/** Return a number with few digits, without an exponent where it is of a usual size. */
function digits(value, most = DIGITS) {
  if (!Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  return size && (size < 1e-4 || size >= 1e7)
    ? String(rounded(value, most))
    : rounded(value, most).toLocaleString("en", { maximumFractionDigits: 12 });
}

/** Return the prefix of a quantity, and its size. */
function prefixOf(value, unit) {
  if (UNSCALED.has(unit) || !value) return [1, ""];
  return PREFIXES.find(([size]) => Math.abs(value) >= size * 0.9995) ?? PREFIXES.at(-1);
}

/** Return a quantity to be read, such as "70.5 ms"; a share is in per cent. */
function quantity(value, unit, most = DIGITS) {
  if (!Number.isFinite(value)) return "-";
  if (unit === "%") return `${digits(100 * value, most)} %`;
  const span = unit === "s" && SPANS.find(([size]) => rounded(Math.abs(value), most) >= SEVERAL * size);
  if (span) return `${digits(value / span[0], most)} ${span[1]}`;
  const [size, prefix] = prefixOf(value, unit);
  return `${digits(value / size, most)} ${prefix}${unit}`.trim();
}

/** Return a constant as a scenario has it: a decimal that is read as exactly this number. */
function override(value, unit) {
  const [size, prefix] = unit === "%" ? [0.01, ""] : prefixOf(value, unit);
  // A value that was set by hand may have more digits than a moved one.
  const shortest = String(value).replace(/e.*|[.-]/g, "").replace(/^0+/, "").length;
  const text = Number((value / size).toPrecision(Math.min(15, Math.max(DIGITS, shortest))));
  return `${text} ${prefix}${unit}`.trim();
}

// Sliders: between a position and a value.

/** Return the value at a share of the range of a slider; a range above 0 is logarithmic. */
function valueAt(slider, share) {
  const { low, high } = slider;
  const exact = low > 0 ? low * (high / low) ** share : low + share * (high - low);
  const short = slider.whole ? Math.round(exact) : Number(exact.toPrecision(DIGITS));
  return Math.min(Math.max(short, low), high);
}

/** Return the share of the range at which a slider has a value. */
function shareOf({ low, high }, value) {
  const share = low > 0 ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.min(Math.max(share, 0), 1);
}

/** Return the value of a position; near the value as written it is that value. */
function valueOf(slider, position) {
  const near = Math.abs(position - STEPS * shareOf(slider, slider.value)) <= SNAP / 2;
  return near ? slider.value : valueAt(slider, position / STEPS);
}

// Ticks: round values of a slider's range.

const MOST_TICKS = 4;
const WIDE = 30; // from this ratio of its ends on, a logarithmic range has ticks at 1, 2 and 5 times powers of ten

/** Return at most four round values within the range of a slider, in the unit of its upper end. */
function ticksOf(slider) {
  const size = unitOf(slider.high, slider.unit);
  const [low, high] = [slider.low / size, slider.high / size];
  const inside = (values) => values.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
  const thin = (values) => values.filter((_, n) => n % Math.ceil(values.length / MOST_TICKS) === 0);
  if (low > 0 && high / low >= WIDE) {
    const powers = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) powers.push(power);
    const tens = inside(powers.map((power) => Number(`1e${power}`)));
    const all = powers.flatMap((power) => [1, 2, 5].map((times) => Number(`${times}e${power}`)));
    return thin(tens.length > 1 ? tens : inside(all)).map((value) => value * size);
  }
  for (let power = Math.floor(Math.log10((high - low) / 10)); ; power++)
    for (const times of [1, 2, 5]) {
      const step = Number(`${times}e${power}`);
      const first = Math.ceil(low / step - 1e-9);
      const count = Math.floor(high / step + 1e-9) - first + 1;
      if (count <= MOST_TICKS)
        return Array.from({ length: count }, (_, n) => Number(((first + n) * step).toPrecision(12)) * size);
    }
}

/** Return the size of the unit in which a quantity is read. */
function unitOf(value, unit) {
  if (unit === "%") return 0.01;
  const span = unit === "s" && SPANS.find(([size]) => Math.abs(value) >= SEVERAL * size);
  return span ? span[0] : prefixOf(value, unit)[0];
}
