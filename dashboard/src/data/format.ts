/** Numbers, sizes and times as people read them. Pure. */

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

// Making a formatter costs more than a hundred uses of it.
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** How long ago, or until: `now`, `5 s ago`, `3 min ago`, `2 h ago`, `4 d ago`, `in 3 min`. */
export function relativeTime(iso: string | undefined, now: number): string {
  const at = iso === undefined ? Number.NaN : Date.parse(iso);
  if (Number.isNaN(at)) return "never";
  const seconds = Math.round((now - at) / 1000);
  if (Math.abs(seconds) < 2) return "now";
  const size = shortDuration(Math.abs(seconds));
  return seconds < 0 ? `in ${size}` : `${size} ago`;
}

/** The largest unit only: `45 s`, `3 min`, `2 h`, `4 d`, `5 mo`. */
export function shortDuration(seconds: number): string {
  if (seconds < MINUTE) return `${Math.floor(seconds)} s`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)} h`;
  if (seconds < 60 * DAY) return `${Math.floor(seconds / DAY)} d`;
  if (seconds < 730 * DAY) return `${Math.floor(seconds / (30 * DAY))} mo`;
  return `${Math.floor(seconds / (365 * DAY))} y`;
}

/** Two units: `1 h 5 min`, `2 d 3 h`, `12 s`. */
export function duration(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < MINUTE) return `${whole} s`;
  const units: [string, number][] = [
    ["d", DAY],
    ["h", HOUR],
    ["min", MINUTE],
    ["s", 1],
  ];
  const first = units.findIndex(([, size]) => whole >= size);
  const parts: string[] = [];
  let left = whole;
  for (const [unit, size] of units.slice(first, first + 2)) {
    const count = Math.floor(left / size);
    if (count > 0) parts.push(`${count} ${unit}`);
    left -= count * size;
  }
  return parts.join(" ");
}

/** The exact time in the reader's zone, for a tooltip. */
export function exactTime(iso: string | undefined): string {
  const at = iso === undefined ? Number.NaN : Date.parse(iso);
  if (Number.isNaN(at)) return "";
  return EXACT.format(at);
}

/** Milliseconds: `8 ms`, `0.9 ms`, `1.25 s`. */
export function millis(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return "–";
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  return value < 10 && value % 1 !== 0 ? `${value.toFixed(1)} ms` : `${Math.round(value)} ms`;
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Bytes: `512 B`, `1.5 KiB`, `20 GiB`. */
export function bytes(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return "–";
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 1024 && unit < BYTE_UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || size >= 100 || Number.isInteger(size) ? 0 : 1;
  return `${value < 0 ? "-" : ""}${size.toFixed(digits)} ${BYTE_UNITS[unit]}`;
}

/** A share in percent, with a decimal if it is small. */
export function percent(value: number): string {
  return `${Number(value.toFixed(value < 10 ? 1 : 0))} %`;
}

/** Mebibytes. */
export function megabytes(value: number | undefined): string {
  return value === undefined ? "–" : bytes(value * 1024 * 1024);
}

/** A price: two digits, more for small ones. */
export function usd(value: number | undefined): string {
  if (value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const digits = size === 0 || size >= 0.1 ? 2 : size >= 0.01 ? 3 : 5;
  return `${value < 0 ? "-" : ""}$${size.toFixed(digits)}`;
}

/** A count with separators, the same in every browser: `10,000`. */
export function count(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** `1 sandbox`, `2 sandboxes`. */
export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Seconds of CPU or GiB as hours: `1.25 h`. */
export function hours(seconds: number): string {
  const value = seconds / HOUR;
  return `${value === 0 || value >= 100 ? Math.round(value) : value.toFixed(value < 1 ? 3 : 2)} h`;
}

/** The first part of an id, enough to tell it from others. */
export function shortId(id: string): string {
  return id.length <= 13 ? id : id.slice(0, 8);
}

/** A text of the server as a sentence: with a capital letter and a full stop. */
export function sentence(text: string): string {
  const whole = text.trim();
  if (whole === "") return "";
  return `${whole.charAt(0).toUpperCase()}${whole.slice(1)}${/[.!?]$/.test(whole) ? "" : "."}`;
}
