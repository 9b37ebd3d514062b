// Cron expressions in words, and when they tick next in their time zone. What this does not know, such as `L` and `#`,
// it leaves to the server.

export interface Cron {
  second: Set<number>;
  minute: Set<number>;
  hour: Set<number>;
  day: Set<number> | null;
  month: Set<number>;
  weekday: Set<number> | null;
}

const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const DAY_NAMES = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTH_NAMES = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const NICKNAMES: Record<string, string> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};

function numberOf(word: string, names: string[], first: number): number {
  const at = names.indexOf(word.toUpperCase());
  return at >= 0 ? at + first : /^\d+$/.test(word) ? Number(word) : NaN;
}

/** The values of a field, or null if it is none that this knows. */
function field(text: string, low: number, high: number, names: string[] = [], first = 0): Set<number> | null {
  const found = new Set<number>();
  for (const part of text.split(",")) {
    const [range = "", step = "1"] = part.split("/", 2);
    const every = Number(step);
    if (!Number.isInteger(every) || every < 1) return null;
    let [from, until] = [low, high];
    if (range !== "*" && range !== "?") {
      const [a = "", b] = range.split("-", 2);
      from = numberOf(a, names, first);
      until = b === undefined ? (part.includes("/") ? high : from) : numberOf(b, names, first);
    }
    if (Number.isNaN(from) || Number.isNaN(until) || from < low || until > high || until < from) return null;
    for (let value = from; value <= until; value += every) found.add(value);
  }
  return found;
}

export function parse(text: string): Cron | null {
  const expanded = NICKNAMES[text.trim().toLowerCase()] ?? text.trim();
  const parts = expanded.split(/\s+/);
  if (parts.length === 5) parts.unshift("0");
  if (parts.length !== 6) return null;
  const [s, m, h, d, mo, w] = parts as [string, string, string, string, string, string];
  const any = (part: string) => part === "*" || part === "?";
  const [second, minute, hour] = [field(s, 0, 59), field(m, 0, 59), field(h, 0, 23)];
  const [day, month] = [field(d, 1, 31), field(mo, 1, 12, MONTHS, 1)];
  const weekday = field(w, 0, 7, DAYS, 0);
  if (!second || !minute || !hour || !day || !month || !weekday) return null;
  if (weekday.delete(7)) weekday.add(0);
  return { second, minute, hour, day: any(d) ? null : day, month, weekday: any(w) ? null : weekday };
}

function list(words: string[]): string {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** The step of values that run through the whole range evenly, or null. */
function stepOf(values: Set<number>, size: number): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  if (sorted.length < 2 || sorted[0] !== 0) return null;
  const step = sorted[1]! - sorted[0]!;
  const even = sorted.every((value, at) => value === at * step);
  return even && size - sorted.at(-1)! <= step ? step : null;
}

const two = (value: number) => String(value).padStart(2, "0");

function timeWords({ second, minute, hour }: Cron): string {
  const [seconds, minutes, hours] = [second, minute, hour].map((values) => [...values].sort((a, b) => a - b)) as [number[], number[], number[]];
  const tail = seconds.length === 1 && seconds[0] === 0 ? "" : seconds.length === 1 ? `:${two(seconds[0]!)}` : "";
  const [secondStep, minuteStep, hourStep] = [stepOf(second, 60), stepOf(minute, 60), stepOf(hour, 24)];
  if (secondStep !== null) return minutes.length === 60 && hours.length === 24 ? (secondStep === 1 ? "every second" : `every ${secondStep} seconds`) : `every ${secondStep} seconds at times`;
  if (minutes.length * hours.length <= 4) {
    return `at ${list(hours.flatMap((hour) => minutes.map((minute) => `${two(hour)}:${two(minute)}${tail}`)))}`;
  }
  const between = hourStep === 1 ? "" : hourStep !== null ? ` of every ${hourStep}${hourStep === 2 ? "nd" : hourStep === 3 ? "rd" : "th"} hour` : ` in the hours ${list(ranges(hours))}`;
  if (minuteStep !== null) return `${minuteStep === 1 ? "every minute" : `every ${minuteStep} minutes`}${between}`;
  const past = list(minutes.map((minute) => two(minute)));
  return hourStep === 1 ? `every hour at :${past}` : `at :${past}${between}`;
}

/** 9, 10, 11, 14 as 9–11, 14. */
function ranges(values: number[], name: (value: number) => string = String): string[] {
  const found: string[] = [];
  for (let at = 0; at < values.length; at++) {
    const start = at;
    while (values[at + 1] === values[at]! + 1) at++;
    found.push(at - start > 1 ? `${name(values[start]!)}–${name(values[at]!)}` : values.slice(start, at + 1).map(name).join(", "));
  }
  return found;
}

/** The expression in words, or null where it is not one of the usual. */
export function words(text: string): string | null {
  const cron = parse(text);
  if (!cron) return null;
  const sorted = (values: Set<number>) => [...values].sort((a, b) => a - b);
  const parts = [timeWords(cron)];
  const days: string[] = [];
  if (cron.weekday) days.push(`on ${list(ranges(sorted(cron.weekday), (day) => DAY_NAMES[day]!)).replaceAll("–", " to ")}`);
  if (cron.day) days.push(`on day ${list(ranges(sorted(cron.day)))} of the month`);
  if (days.length > 0) parts.push(days.join(" or "));
  else if (parts[0]!.startsWith("at ")) parts.push("every day");
  if (cron.month.size < 12) parts.push(`in ${list(ranges(sorted(cron.month), (month) => MONTH_NAMES[month - 1]!))}`);
  const sentence = parts.join(", ");
  return sentence[0]!.toUpperCase() + sentence.slice(1);
}

function wall(instant: number, timeZone: string): number {
  const format = new Intl.DateTimeFormat("en-US", { timeZone, year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric", hourCycle: "h23" });
  const part = Object.fromEntries(format.formatToParts(instant).map(({ type, value }) => [type, Number(value)]));
  return Date.UTC(part.year!, part.month! - 1, part.day, part.hour, part.minute, part.second);
}

/** The instant at which clocks of this zone show this time, or null in the hour that summer time leaves out. */
function instantOf(local: number, timeZone: string): number | null {
  for (const guess of [local - (wall(local, timeZone) - local), local]) {
    const instant = guess - (wall(guess, timeZone) - local);
    if (wall(instant, timeZone) === local) return instant;
  }
  return null;
}

/** The next ticks after this instant; empty where the expression or the zone is not known here. */
export function ticks(text: string, timeZone: string, after: number, number: number): number[] {
  const cron = parse(text);
  if (!cron) return [];
  const found: number[] = [];
  try {
    const start = wall(after, timeZone);
    const midnight = start - (start % 86_400_000);
    for (let day = 0; day < 366 * 5 && found.length < number; day++) {
      const date = new Date(midnight + day * 86_400_000);
      const inDay = cron.day?.has(date.getUTCDate()) ?? false;
      const inWeek = cron.weekday?.has(date.getUTCDay()) ?? false;
      // Where both are given, either is enough.
      const isDay = cron.day && cron.weekday ? inDay || inWeek : cron.day ? inDay : cron.weekday ? inWeek : true;
      if (!isDay || !cron.month.has(date.getUTCMonth() + 1)) continue;
      for (const hour of [...cron.hour].sort((a, b) => a - b)) {
        for (const minute of [...cron.minute].sort((a, b) => a - b)) {
          const local = date.getTime() + hour * 3_600_000 + minute * 60_000;
          // Most of a day is over already, and asking for its zone is slow.
          if (local + 60_000 <= start) continue;
          for (const second of [...cron.second].sort((a, b) => a - b)) {
            const instant = instantOf(local + second * 1000, timeZone);
            if (instant !== null && instant > after) found.push(instant);
            if (found.length >= number) return found;
          }
        }
      }
    }
  } catch {
    // A zone that this browser does not know.
  }
  return found;
}
