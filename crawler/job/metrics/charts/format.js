// Formats numbers for people. Null becomes a dash, because a missing value is not zero.

const DASH = "–";
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

const short = new Intl.NumberFormat("en-US", { notation: "compact" });

const given = (write) => (value) => (value === null || value === undefined ? DASH : write(value));

export const count = given((value) => whole.format(value));
// The whole number if it is short enough, otherwise as in 987.65M.
const brief = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 2 });
const upTo = (most) => given((value) => (value < most ? whole : brief).format(value));
export const figure = upTo(1e8);
export const narrow = upTo(1e6);
// As in 20k or 1.5M, for axes.
export const compact = given((value) => short.format(value).replace("K", "k"));
export const text = given(String);
export const perUrl = given((value) => `${rate(value)} bits per URL`);
export const rate = given((value) => (value < 100 ? one : whole).format(value));
export const percent = given((value) => `${one.format(100 * value)}%`);

const LARGE = [[1e12, " trillion"], [1e9, " billion"], [1e6, " million"], [1, ""]];
const twoDigits = (value) => Number(value.toPrecision(2));
const upToOne = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });

// A probability in common words: 2.1%, 1 in 1,800, 1 in 330 million. figures.py has the same for the terminal.
export const probability = given((value) => {
  if (value === 0) return "0";
  if (value < 1e-15) return "practically 0";
  if (value >= 0.01) return value >= 1 ? "100%" : `${Math.min(99, twoDigits(100 * value))}%`;
  const often = twoDigits(1 / value);
  const [unit, name] = LARGE.find(([least]) => often >= least);
  return `1 in ${upToOne.format(often / unit)}${name}`;
});
// The same for an axis of powers of ten.
export const power = (value) => (value >= 0.01 ? `${Number((100 * value).toPrecision(1))}%` : `1 in ${compact(1 / value)}`);

// An expected count, which may be less than one.
export const expected = given((value) => (value === 0 ? "0" : value < 0.001 ? "less than 0.001" : value < 0.1 ? String(twoDigits(value)) : value < 10 ? one.format(value) : narrow(value)));

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

const inBytes = (digits) => (value) => {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit ? digits.format(value) : whole.format(value)} ${UNITS[unit]}`;
};
export const bytes = given(inBytes(one));
// For an axis whose steps are powers of two; there may be half units between them.
export const wholeBytes = given(inBytes(new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 })));

// A share of a whole. It is 100% only if nothing is missing.
export const share = given((value) => (value >= 1 ? "100%" : value > 0 && value < 0.01 ? "< 1%" : `${Math.min(99, Math.floor(100 * value))}%`));

// 1 page, 2 pages.
export const counted = (value, singular, plural = `${singular}s`) => `${count(value)} ${value === 1 ? singular : plural}`;

export const seconds = given((value) => (value < 1 ? `${whole.format(1000 * value)} ms` : `${one.format(value)} s`));

export const duration = given((value) => {
  const total = Math.round(value);
  if (total >= 2 * 86400) return `${whole.format(Math.floor(total / 86400))} days`;
  const [h, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  if (h) return `${whole.format(h)} h ${m} min`;
  return m ? `${m} min ${s} s` : `${s} s`;
});

// The number of a partition, as in its directory name.
export const partition = (number) => String(number).padStart(2, "0");
export const ago = given((value) => `${duration(Math.floor(value))} ago`);

// A remaining time, in the two largest units.
export const span = given((value) => (value < 10 ? `${one.format(value)} s` : duration(value)));
export const left = given((value) => {
  if (value < 60) return `${whole.format(Math.max(1, value))} s`;
  if (value < 600) return `${Math.floor(value / 60)} min ${10 * Math.floor((value % 60) / 10)} s`;
  if (value < 3600) return `${whole.format(value / 60)} min`;
  if (value < 2 * 86400) return `${Math.floor(value / 3600)} h ${5 * Math.floor((value % 3600) / 300)} min`;
  return `${whole.format(value / 86400)} days`;
});

// The same in a single unit, for a column: 87 s, 95 min, 31 h.
export const near = given((value) => {
  if (value < 120) return value < 10 ? `${one.format(value)} s` : `${whole.format(value)} s`;
  if (value < 7_200) return `${whole.format(value / 60)} min`;
  return value < 172_800 ? `${whole.format(value / 3_600)} h` : `${whole.format(value / 86_400)} days`;
});

export const moment = (time) => new Date(1000 * time).toLocaleString("en-GB");

// Today: the time. Other days: the date and the time.
export function stamp(time, withSeconds = true) {
  const [then, now] = [new Date(1000 * time), new Date()];
  return then.toDateString() === now.toDateString() ? clock(time, withSeconds) : `${day(time)} ${clock(time, withSeconds)}`;
}

export const day = (time) => new Date(1000 * time).toLocaleDateString("en-GB", { day: "numeric", month: "short" });

export const clock = (time, withSeconds = true) =>
  new Date(1000 * time).toLocaleTimeString("en-GB", {
    hour: "2-digit",
    minute: "2-digit",
    second: withSeconds ? "2-digit" : undefined,
  });
